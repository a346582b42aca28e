"""The report's tables: solvers at a glance, every case, speed-ups; all readable without scripts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from respect_core.report.data import ON_CHIP_BYTES, Case, Row, Setting, Throughput
from respect_core.report.html_parts import (
    MISSING,
    Cell,
    TableRow,
    esc,
    interval_text,
    mib_text,
    percent_text,
    seconds_text,
    table,
)
from respect_core.report.palette import Style
from respect_core.report.statistics import bootstrap_mean


def solver_table(setting: Setting, styles: Mapping[str, Style]) -> str:
    """One row a solver: cases, proofs, mean and worst gap to the best proven bound, seconds."""
    rows = []
    for solver in setting.solvers:
        cases = setting.of_solver(solver)
        gaps = [(float(row["gap_to_best"]), case) for case, row in cases if row["gap_to_best"] is not None]
        worst = max(gaps, key=lambda entry: entry[0], default=None)
        seconds = [float(row["solve_seconds"]) for _, row in cases]
        estimate = bootstrap_mean(setting.by_model(solver, "gap_to_best"))
        cells = [
            Cell(text=str(len(cases))),
            Cell(text=str(sum(row["stage_of"] is not None for _, row in cases))),
            Cell(text=str(sum(row["status"] == "optimal" for _, row in cases))),
            Cell(text=interval_text(estimate, percent=True), title=f"n = {len(gaps)}"),
            Cell(text=percent_text(worst[0]) if worst else MISSING, title=str(worst[1]) if worst else ""),
            Cell(text=seconds_text(statistics.median(seconds))),
            Cell(text=seconds_text(max(seconds))),
        ]
        rows.append(TableRow(head=solver, cells=cells, mark=styles[solver].swatch))
    return table(
        f"Solvers at a glance: {_what(setting)}",
        "Solver",
        ["cases", "solved", "proven optimal", "mean gap [95 % CI]", "worst gap", "median s", "longest s"],
        rows,
    )


def _what(setting: Setting) -> str:
    simulated = " (simulated)" if setting.objective == "throughput" else ""
    return f"objective {setting.objective}{simulated}, device {setting.device}"


def gap_note(setting: Setting) -> str:
    """Say in one sentence what the gaps of a setting are measured against, with sample sizes."""
    proven = sum(
        any(setting.rows.get((case, s), {}).get("status") == "optimal" for s in setting.solvers)
        for case in setting.cases
    )
    return (
        f'<p class="note">Gap: (value − bound) / bound against the best bound that any solver proved for the case. '
        f"n = {len(setting.cases)} cases ({len(setting.models)} models × K = "
        f"{esc(', '.join(map(str, setting.stage_counts)))}), {proven} of them proven optimal by some solver. "
        "Intervals: 95 %, bootstrap over models.</p>"
    )


def case_tables(setting: Setting) -> list[tuple[str, str]]:
    """Return a title and a table of every case and solver for gaps, solving times and peak memory."""

    def gap(row: Row) -> Cell:
        value = row["gap_to_best"]
        return Cell(text=percent_text(value), title=str(row["status"]), is_strong=value == 0)

    def seconds(row: Row) -> Cell:
        return Cell(text=seconds_text(row["solve_seconds"]), title=str(row["status"]))

    def memory(row: Row) -> Cell:
        size = row["peak_param_bytes"]
        over = size is not None and size > ON_CHIP_BYTES
        title = f"{size:,} bytes{', more than 8 MiB' if over else ''}" if size is not None else str(row["status"])
        return Cell(text=mib_text(size) + (" ▲" if over else ""), title=title)

    what = _what(setting)
    return [
        ("Gaps of every case", _case_table(setting, f"Gap to the best proven bound (bold: none); {what}", gap)),
        ("Solving times of every case", _case_table(setting, f"Solving time in seconds; {what}", seconds)),
        (
            "Peak memory of every case",
            _case_table(setting, f"Peak parameter memory of a stage in MiB (▲: more than 8 MiB); {what}", memory),
        ),
    ]


def _case_table(setting: Setting, caption: str, cell: Callable[[Row], Cell]) -> str:
    def of(case: Case, solver: str) -> Cell:
        row = setting.rows.get((case, solver))
        if row is None:
            return Cell(text=MISSING, title="not asked")
        made = cell(row)
        if made.text == MISSING and row["status"] in ("timeout", "infeasible"):
            return Cell(text=str(row["status"]), title=str(row.get("message") or row["status"]))
        return made

    rows = [
        TableRow(
            head=case.model,
            cells=[
                Cell(text=str(setting.num_ops[case.model])),
                Cell(text=str(case.num_stages)),
                *(of(case, solver) for solver in setting.solvers),
            ],
        )
        for case in setting.cases
    ]
    return table(caption, "Model", ["ops", "K", *setting.solvers], rows)


def speedup_table(throughput: Throughput, styles: Mapping[str, Style]) -> str:
    """One row a contender: geometric mean of its speed-up over the compiler's rule, smallest and largest."""
    rows = []
    for name in throughput.contenders:
        found = {case: value for (case, contender), value in throughput.speedup.items() if contender == name}
        slowest, fastest = min(found, key=lambda c: (found[c], c)), max(found, key=lambda c: (found[c], c))
        cells = [
            Cell(text=str(len(found))),
            Cell(text=interval_text(bootstrap_mean(throughput.by_model(name), geometric=True), percent=False)),
            Cell(text=f"{found[slowest]:.2f}×", title=str(slowest)),
            Cell(text=f"{found[fastest]:.2f}×", title=str(fastest)),
            Cell(text=str(sum(value < 1 for value in found.values()))),
        ]
        rows.append(TableRow(head=name, cells=cells, mark=styles[name].swatch))
    how = "Simulated" if throughput.is_simulated else "Measured"
    return table(
        f"{how} throughput over the compiler's rule: runner {throughput.runner}, device {throughput.device}",
        "Solver",
        ["cases", "geometric mean [95 % CI]", "smallest", "largest", "slower in"],
        rows,
    )


def facts_lists(facts: Mapping[str, Mapping[str, object]]) -> str:
    """Return the footer's facts, one list a heading."""
    parts = []
    for heading, entries in facts.items():
        items = "".join(f"<dt>{esc(name)}</dt><dd>{esc(_text(value))}</dd>" for name, value in entries.items())
        parts.append(f"<section><h3>{esc(heading)}</h3><dl>{items}</dl></section>")
    return "\n".join(parts)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
