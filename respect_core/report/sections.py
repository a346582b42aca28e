"""The sections of the report that hold figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from respect_core.report.data import ReportInput, Setting, Throughput, plain_rows
from respect_core.report.figures import Chart, gap_charts, memory_charts, speedup_charts, time_chart, training_charts
from respect_core.report.html_parts import esc
from respect_core.report.palette import Style
from respect_core.report.pipeline_tables import (
    pipeline_note,
    regret_cases,
    regret_summary,
    speedup_cases,
    speedup_panels,
    speedup_summary,
)
from respect_core.report.pipelines import Pipelines
from respect_core.report.tables import case_tables, gap_note, solver_table, speedup_table


class Page:
    """Collects sections and the charts that they hold."""

    def __init__(self, styles: dict[str, Style]) -> None:
        self.styles = styles
        self.sections: list[str] = []
        self.charts: dict[str, Any] = {}
        self.filtered: list[str] = []

    def add(self, *parts: str) -> None:
        """Put pieces of HTML at the end."""
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


def add_pipelines(page: Page, pipelines: Pipelines, settings: Sequence[Setting]) -> None:
    """Add speed-ups and regrets of the schedules for a pipeline; ``settings`` are those schedules."""
    page.add(
        f"<section><h2>Throughput on a pipeline, {esc(pipelines.device)} (simulated)</h2>",
        pipeline_note(pipelines),
        speedup_summary(pipelines, page.styles),
        page.panels(speedup_panels(pipelines, page.styles)),
        "<h3>Speed-up of every model and K (simulated)</h3>",
        speedup_cases(pipelines),
    )
    if pipelines.regrets:
        page.add(
            "<h3>Robust beside nominal (simulated)</h3>",
            '<p class="note">Regret: the bottleneck over the best one known on the same device, minus 1. All are '
            "judged on the same devices, by which none was chosen.</p>",
            regret_summary(pipelines, page.styles),
            f"<details><summary>Regrets of every case</summary>{regret_cases(pipelines)}</details>",
        )
    for setting in settings:
        if setting.objective == "throughput":
            page.add(
                "<h3>Solvers for throughput, by the nominal profile (simulated)</h3>",
                solver_table(setting, page.styles),
                gap_note(setting),
                *(
                    f"<details><summary>{esc(title)}</summary>{table}</details>"
                    for title, table in case_tables(setting)
                ),
            )
    page.add("</section>")


def add_setting(page: Page, setting: Setting) -> None:
    """Add gaps, memory and solving times of the schedules for one objective and device."""
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


def add_throughputs(page: Page, throughputs: Sequence[Throughput], settings: Sequence[Setting]) -> None:
    """Add the speed-ups of pipelines that were timed beside the compiler's rule, or say that there are none."""
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
            f"<section><h2>{how} throughput of these schedules, {esc(throughput.device)}</h2>",
            f'<p class="note">{note} Speed-up: time between items under the compiler’s parameter-count rule over '
            "that of the solver. Intervals: 95 %, bootstrap over models.</p>",
            speedup_table(throughput, page.styles),
            page.panels(speedup_charts(throughput, page.styles, num_ops)),
            "</section>",
        )


def add_loads(page: Page, loads: Sequence[dict[str, Any]]) -> None:
    """Add the choice of two schedules whose stage loads are drawn; ``loads`` are those of `load_choices`."""
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


def add_training(page: Page, report: ReportInput) -> None:
    """Add the curves of the policy's training."""
    charts = training_charts(plain_rows(report.training))
    page.add("<section><h2>Training of the policy</h2>")
    if charts:
        page.add(page.panels(charts, filtered=False), "</section>")
    else:
        page.add('<p class="absent">No training is in this run.</p></section>')
