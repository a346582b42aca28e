"""The report: one HTML file that needs no network, its tables readable without scripts."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from respect_core.errors import UnwritableError
from respect_core.report.data import (
    POLICY,
    ReportInput,
    Setting,
    Throughput,
    plain_rows,
    settings_of,
    solver_order,
    throughputs_of,
)
from respect_core.report.dots import label
from respect_core.report.figures import (
    Chart,
    gap_charts,
    load_layouts,
    memory_charts,
    speedup_charts,
    time_chart,
    training_charts,
)
from respect_core.report.headline import headline_cards
from respect_core.report.html_parts import esc
from respect_core.report.loads import load_choices
from respect_core.report.palette import Style, styles_for
from respect_core.report.tables import case_tables, facts_lists, gap_note, solver_table, speedup_table

_POLICY_OF_THE_PAGE = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
"""Content security policy: whatever a name in the data says, the browser fetches nothing."""


class _Page:
    """Collects sections and the charts that they hold."""

    def __init__(self, styles: dict[str, Style]) -> None:
        self.styles = styles
        self.sections: list[str] = []
        self.charts: dict[str, Any] = {}
        self.filtered: list[str] = []

    def add(self, *parts: str) -> None:
        self.sections.extend(parts)

    def panels(self, charts: Sequence[Chart], *, filtered: bool = True) -> str:
        """Return figures side by side where there is room, and remember what to draw into them."""
        figures = []
        for chart in charts:
            name = f"chart-{len(self.charts)}"
            self.charts[name] = chart.spec
            if filtered:
                self.filtered.append(name)
            figures.append(
                f'<figure><figcaption>{esc(chart.title)}</figcaption><div class="chart" id="{name}" role="img" '
                f'aria-label="{esc(chart.description)}" style="height:{chart.height_px}px"></div></figure>'
            )
        return f'<div class="panels">{"".join(figures)}</div>'


def build_report(report: ReportInput) -> str:
    """Build the report as one HTML document.

    Args:
        report: Everything it shows. Missing parts (no training, no policy, no benchmarks, solvers without a result)
            are said to be missing.

    Returns:
        The document; plotly.js is in it once and nothing is fetched from anywhere.
    """
    settings = settings_of(report.schedules)
    throughputs = throughputs_of(report.benchmarks)
    solvers = solver_order({solver for setting in settings for solver in setting.solvers})
    contenders = [name for throughput in throughputs for name in throughput.contenders if name not in solvers]
    page = _Page(styles_for([*solvers, *dict.fromkeys(contenders)]))
    for setting in settings:
        _add_setting(page, setting)
    if not any(POLICY in setting.solvers for setting in settings):
        page.add('<p class="absent">No schedules of a learned policy are in this run.</p>')
    _add_throughputs(page, throughputs, settings)
    loads = load_choices(settings, page.styles)
    _add_loads(page, loads)
    _add_training(page, report)
    return _document(report, page, headline_cards(settings, throughputs), list(page.styles), loads)


def write_report(path: str | Path, report: ReportInput) -> Path:
    """Write `build_report` to a file, whole or not at all.

    Returns:
        The path.

    Raises:
        UnwritableError: The file cannot be written.
    """
    path = Path(path)
    staging = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    text = build_report(report)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging.write_text(text, encoding="utf-8", errors="backslashreplace")
        staging.replace(path)
    except OSError as error:
        raise UnwritableError(f"the report {path} cannot be written ({error.strerror})") from error
    finally:
        with contextlib.suppress(OSError):
            staging.unlink()
    return path


# -- sections ---------------------------------------------------------------------------------------------------------


def _add_setting(page: _Page, setting: Setting) -> None:
    page.add(
        f"<section><h2>Objective {esc(setting.objective)}, device {esc(setting.device)}</h2>",
        solver_table(setting, page.styles),
        gap_note(setting),
        "<h3>Gap by model and solver</h3>",
        page.panels(gap_charts(setting, page.styles)),
        "<h3>Peak memory against the 8 MiB of an Edge TPU</h3>",
        page.panels(memory_charts(setting, page.styles)),
        "<h3>Solving time</h3>",
        '<p class="note">Seconds of the solver alone, on the machine of this run, without start-up and reading.</p>',
        page.panels([time_chart(setting, page.styles)]),
        "<h3>Every case in numbers</h3>",
        *(f"<details><summary>{esc(title)}</summary>{table}</details>" for title, table in case_tables(setting)),
        "</section>",
    )


def _add_throughputs(page: _Page, throughputs: Sequence[Throughput], settings: Sequence[Setting]) -> None:
    num_ops = {model: n for setting in settings for model, n in setting.num_ops.items()}
    shown = [throughput for throughput in throughputs if throughput.speedup]
    if not shown:
        page.add(
            "<section><h2>Throughput</h2>",
            '<p class="absent">No pipelined benchmarks beside the compiler’s rule are in this run.</p></section>',
        )
    for throughput in shown:
        how = "Simulated" if throughput.is_simulated else "Measured"
        note = (
            "Simulated: no device was involved; stage times come from the device model."
            if throughput.is_simulated
            else "Measured on devices."
        )
        page.add(
            f"<section><h2>{how} throughput, {esc(throughput.device)}</h2>",
            f'<p class="note">{note} Speed-up: time between items under the compiler’s parameter-count rule over '
            "that of the solver. Intervals: 95 %, bootstrap over models.</p>",
            speedup_table(throughput, page.styles),
            page.panels(speedup_charts(throughput, page.styles, num_ops)),
            "</section>",
        )


def _add_loads(page: _Page, loads: Sequence[dict[str, Any]]) -> None:
    page.add("<section><h2>Stage loads</h2>")
    if not loads:
        page.add('<p class="absent">No schedule was found.</p></section>')
        return
    largest = max(range(len(loads)), key=lambda i: (sum(loads[i]["solvers"][0]["memory_mib"]), i))
    options = "".join(
        f'<option value="{i}"{" selected" if i == largest else ""}>{esc(entry["label"])}</option>'
        for i, entry in enumerate(loads)
    )
    figures = "".join(
        f'<figure><figcaption>{title}</figcaption><div class="chart" id="{name}" role="img" '
        'aria-label="Bars of the chosen schedules" style="height:340px"></div></figure>'
        for name, title in (
            ("load-memory", "Parameters of every stage (dashed: 8 MiB on chip)"),
            ("load-time", "Modelled time of every stage"),
        )
    )
    page.add(
        '<p class="note">Choose a case and two schedules; the largest bar of each is what its objective minimises.</p>',
        f'<div class="choices"><label>Case <select id="load-case">{options}</select></label>'
        '<label>Schedule <select id="load-first"></select></label>'
        '<label>beside <select id="load-second"></select></label></div>',
        f'<div class="panels">{figures}</div></section>',
    )


def _add_training(page: _Page, report: ReportInput) -> None:
    charts = training_charts(plain_rows(report.training))
    page.add("<section><h2>Training of the policy</h2>")
    if charts:
        page.add(page.panels(charts, filtered=False), "</section>")
    else:
        page.add('<p class="absent">No training is in this run.</p></section>')


# -- the document -----------------------------------------------------------------------------------------------------


def _document(
    report: ReportInput, page: _Page, cards: str, names: Sequence[str], loads: Sequence[dict[str, Any]]
) -> str:
    from plotly.offline import get_plotlyjs

    layouts = load_layouts()
    data = {
        "charts": page.charts,
        "filtered": page.filtered,
        "solver_of": {label(name): name for name in names},
        "label_of": {name: label(name) for name in names},
        "loads": loads,
        "load_layouts": {"load-memory": layouts["memory"], "load-time": layouts["time"]},
    }
    buttons = "".join(
        f'<button type="button" aria-pressed="true" data-solver="{esc(name)}">{page.styles[name].swatch}'
        f"{esc(name)}</button>"
        for name in names
    )
    created = f" · {esc(report.created)}" if report.created else ""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY_OF_THE_PAGE}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{esc(report.title)}</title>",
            f"<style>{_asset('page.css')}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#content">To the content</a>',
            f'<header class="top"><h1>{esc(report.title)}</h1>',
            f'<p class="lead">Exact, heuristic and learned schedules compared{created}</p>',
            f"{cards}</header>",
            '<nav class="filter" aria-label="Solvers shown in the plots"><div><span class="hint">Show in plots</span>'
            f"{buttons}</div></nav>",
            '<main id="content">',
            '<noscript><p class="absent">The plots need JavaScript; all tables are readable without it.</p></noscript>',
            *page.sections,
            "</main>",
            f'<footer class="facts"><h2>How this was made</h2><div>{facts_lists(report.facts)}</div></footer>',
            f'<script type="application/json" id="report-data">{_json(data)}</script>',
            f"<script>{get_plotlyjs()}</script>",
            f"<script>{_asset('page.js')}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _asset(name: str) -> str:
    return (resources.files("respect_core.report") / name).read_text(encoding="utf-8")


def _json(data: object) -> str:
    """Write JSON that cannot end the script element that holds it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
