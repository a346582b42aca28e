"""Tables and figures of the section on pipelines; each of them says that it is simulated."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from respect_core.report.data import RULE, Case
from respect_core.report.dots import dot_panel, panel_height
from respect_core.report.figures import Chart
from respect_core.report.html_parts import MISSING, Cell, TableRow, esc, percent_text, table
from respect_core.report.palette import Style
from respect_core.report.pipelines import OPTIMUM, PEAK, Pipelines, SpeedUp


def pipeline_note(pipelines: Pipelines) -> str:
    """Say what the figures are, what the brackets mean and where the devices come from."""
    stages = ", ".join(map(str, sorted({case.num_stages for case in pipelines.cases})))
    seeds = ", ".join(map(str, pipelines.seeds))
    drawn = (
        f"In brackets: 5th to 95th percentile over {pipelines.num_scenarios} devices drawn from the plausible ranges "
        f"of the profile's constants (seed {esc(seeds)}), both schedules on the same device; no schedule was chosen by "
        "these. "
        if pipelines.num_scenarios
        else ""
    )
    return (
        '<p class="note">Simulated: no device was involved. The op graphs of the int8 models are cut as pycoral’s '
        f"pipeline needs it ({len(pipelines.models)} models × K = {stages}). Speed-up: time between items under the "
        "compiler’s parameter-count rule over that of the schedule, by the nominal profile. "
        f"{drawn}The solver <i>{OPTIMUM}</i> is the throughput optimum of the nominal profile, <i>robust-…</i> "
        f"minimise a regret, and <i>{PEAK}</i> minimises memory as the papers do.</p>"
    )


def speedup_summary(pipelines: Pipelines, styles: Mapping[str, Style]) -> str:
    """One row a contender: geometric mean over all cases with its range, smallest, largest, where it is slower."""
    rows = []
    for name in pipelines.contenders:
        found = {case: speedup for case in pipelines.cases if (speedup := pipelines.speedup(case, name)) is not None}
        nominal = {case: speedup.nominal for case, speedup in found.items() if speedup.nominal is not None}
        least, most = (pick(nominal, key=lambda case: nominal[case], default=None) for pick in (min, max))
        over_peak = pipelines.mean_speedup(name, PEAK) if name != PEAK else None
        cells = [
            Cell(text=str(len(found))),
            Cell(text=speedup_text(pipelines.mean_speedup(name)), is_strong=name == OPTIMUM),
            Cell(text=MISSING if least is None else f"{nominal[least]:.2f}×", title=str(least or "")),
            Cell(text=MISSING if most is None else f"{nominal[most]:.2f}×", title=str(most or "")),
            Cell(text=percent_text(pipelines.slower_share(name)), title="of all cases and devices"),
            Cell(text=speedup_text(over_peak)),
        ]
        rows.append(TableRow(head=name, cells=cells, mark=styles[name].swatch))
    return table(
        f"Simulated speed-up over the compiler's rule, device {pipelines.device}: geometric means over all cases",
        "Solver",
        [
            "cases",
            "geometric mean [5 %, 95 %]",
            "smallest",
            "largest",
            "slower in",
            f"over {PEAK}",
        ],
        rows,
    )


def speedup_cases(pipelines: Pipelines) -> str:
    """One row a model and K: the speed-up of every contender with its range, and the optimum's over the other one."""
    beside_peak = {OPTIMUM, PEAK} <= set(pipelines.names)
    rows = []
    for case in pipelines.cases:
        rule = pipelines.period_us.get((case, RULE))
        cells = [Cell(text=str(case.num_stages)), Cell(text=MISSING if rule is None else f"{rule / 1000:.2f}")]
        cells += [Cell(text=speedup_text(pipelines.speedup(case, name))) for name in pipelines.contenders]
        if beside_peak:
            cells.append(Cell(text=speedup_text(pipelines.speedup(case, OPTIMUM, PEAK))))
        rows.append(TableRow(head=case.model, cells=cells))
    heads = ["K", "rule, ms an item", *pipelines.contenders]
    heads += [f"{OPTIMUM} over {PEAK}"] if beside_peak else []
    return table(
        f"Simulated speed-up over the compiler's rule of every case, device {pipelines.device} [5 %, 95 %]",
        "Model",
        heads,
        rows,
    )


def regret_summary(pipelines: Pipelines, styles: Mapping[str, Style]) -> str:
    """One row a solver: median, 90th percentile and largest regret on devices that no schedule was chosen by."""
    rows = []
    for name in pipelines.names:
        found = {case: pipelines.regrets[case, name] for case in pipelines.cases if (case, name) in pipelines.regrets}
        if not found:
            continue
        worst = max(found, key=lambda case: (found[case].largest, case))
        means = [
            statistics.fmean(getattr(regret, measure) for regret in found.values())
            for measure in ("median", "percentile90", "largest")
        ]
        cells = [Cell(text=str(len(found))), *(Cell(text=percent_text(mean)) for mean in means)]
        cells.append(Cell(text=percent_text(found[worst].largest), title=str(worst)))
        rows.append(TableRow(head=name, cells=cells, mark=styles[name].swatch))
    return table(
        f"Simulated regret on plausible devices, device {pipelines.device}: means over all cases",
        "Solver",
        ["cases", "median", "90th percentile", "largest", "worst case"],
        rows,
    )


def regret_cases(pipelines: Pipelines) -> str:
    """One row a model and K: 90th percentile and largest regret of every solver side by side."""

    def text(case: Case, name: str) -> str:
        regret = pipelines.regrets.get((case, name))
        return MISSING if regret is None else f"{100 * regret.percentile90:.1f} / {100 * regret.largest:.1f}"

    return table(
        f"Simulated regret of every case in %, device {pipelines.device}: 90th percentile / largest",
        "Model",
        ["K", *pipelines.names],
        [
            TableRow(
                head=case.model,
                cells=[
                    Cell(text=str(case.num_stages)),
                    *(Cell(text=text(case, name)) for name in pipelines.names),
                ],
            )
            for case in pipelines.cases
        ],
    )


def speedup_panels(pipelines: Pipelines, styles: Mapping[str, Style]) -> list[Chart]:
    """One panel a number of stages: nominal speed-ups as dots, their ranges as lines."""

    def nominal(case: Case, name: str) -> float | None:
        found = pipelines.speedup(case, name)
        return None if found is None else found.nominal

    def spread(case: Case, name: str) -> tuple[float, float] | None:
        found = pipelines.speedup(case, name)
        return None if found is None or found.low is None or found.high is None else (found.low, found.high)

    return [
        Chart(
            title=f"Simulated speed-up over the compiler’s rule, K = {k}",
            description=f"Simulated speed-ups of every model and solver for {k} stages; the tables have the numbers.",
            spec=dot_panel(
                pipelines.models,
                k,
                pipelines.contenders,
                styles,
                nominal,
                axis="simulated speed-up, 5 to 95 %",
                shown="%{x:.2f}×",
                line=1.0,
                line_text="the rule",
                from_zero=False,
                spread=spread,
            ),
            height_px=panel_height(len(pipelines.models)),
        )
        for k in sorted({case.num_stages for case in pipelines.cases})
    ]


def speedup_text(speedup: SpeedUp | None) -> str:
    """Write a speed-up with its range."""
    if speedup is None:
        return MISSING
    nominal = MISSING if speedup.nominal is None else f"{speedup.nominal:.2f}×"
    if speedup.low is None or speedup.high is None:
        return nominal
    return f"{nominal} [{speedup.low:.2f}, {speedup.high:.2f}]"
