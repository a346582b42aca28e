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
from respect_core.report.data import POLICY, ReportInput, settings_of, solver_order, throughputs_of
from respect_core.report.dots import label
from respect_core.report.figures import load_layouts
from respect_core.report.generalisation import add_generalisation
from respect_core.report.headline import headline_cards
from respect_core.report.html_parts import esc
from respect_core.report.loads import load_choices, pipeline_loads
from respect_core.report.measured import measured_section
from respect_core.report.memory import memory_section
from respect_core.report.palette import styles_for
from respect_core.report.pipelines import pipelines_of
from respect_core.report.sections import Page, add_loads, add_pipelines, add_setting, add_throughputs, add_training
from respect_core.report.segments import segments_section
from respect_core.report.tables import facts_lists

_POLICY_OF_THE_PAGE = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
"""Content security policy: whatever a name in the data says, the browser fetches nothing."""


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
    cut = settings_of(report.pipeline_schedules)
    pipelines = pipelines_of(report.pipeline_schedules, report.pipeline_benchmarks, report.robustness)
    solvers = solver_order({solver for setting in (*settings, *cut) for solver in setting.solvers})
    contenders = [name for throughput in throughputs for name in throughput.contenders]
    loaded = pipeline_loads(cut)
    contenders += [name for found in pipelines for name in found.names]
    contenders += [name for setting in loaded for name in setting.solvers]
    contenders = [name for name in dict.fromkeys(contenders) if name not in solvers]
    page = Page(styles_for([*solvers, *contenders]))
    for found in pipelines:
        add_pipelines(page, found, [one for one in cut if one.device == found.device])
    page.add(measured_section(report.measured))
    for setting in settings:
        add_setting(page, setting)
    if not any(POLICY in setting.solvers for setting in settings):
        page.add('<p class="absent">No schedules of a learned policy are in this run.</p>')
    add_throughputs(page, throughputs, settings)
    loads = load_choices([*settings, *loaded], page.styles)
    add_loads(page, loads)
    page.add(segments_section(report.segments), memory_section(report.memory))
    add_training(page, report)
    add_generalisation(page, report.generalisation)
    return _document(report, page, headline_cards(settings, throughputs, pipelines), list(page.styles), loads)


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


# -- the document -----------------------------------------------------------------------------------------------------


def _document(
    report: ReportInput, page: Page, cards: str, names: Sequence[str], loads: Sequence[dict[str, Any]]
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
