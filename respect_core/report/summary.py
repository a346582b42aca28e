"""The results table in Markdown: one row a model, for a README or a run's artifact."""

from __future__ import annotations

import statistics
from typing import Literal

from respect_core.errors import BadInputError
from respect_core.report.data import BASELINE, POLICY, RULE, Case, Rows, Setting, settings_of
from respect_core.report.html_parts import MISSING, bytes_text, mib_text, percent_text, seconds_text


def summary_markdown(
    schedules: Rows, *, objective: str | None = None, device: str | None = None, unit: Literal["MiB", "byte"] = "MiB"
) -> str:
    """Write one row a model: peak memory for every K by proof, policy, random orders, compiler's rule, gaps, seconds.

    Args:
        schedules: Rows of the table `schedules`.
        objective: Objective to show; the first there is (`peak-memory` if present) if None.
        device: Profile to show, likewise.
        unit: Unit of the peak memory.

    Returns:
        A Markdown table with a line of explanation; a note instead where there are no such rows.

    Raises:
        BadInputError: An unknown unit.
    """
    if unit not in ("MiB", "byte"):
        raise BadInputError(f"unit is {unit!r}, allowed are 'MiB' and 'byte'")
    fitting = [
        setting
        for setting in settings_of(schedules)
        if objective in (None, setting.objective) and device in (None, setting.device)
    ]
    if not fitting:
        return "No schedules to show.\n"
    setting = fitting[0]
    solvers = [
        solver
        for solver in (setting.prover, POLICY, BASELINE, RULE)
        if solver in setting.solvers and solver is not None
    ]
    solvers = solvers or list(setting.solvers[:4])
    head = ["model", "ops"]
    head += [f"K = {k}: {' / '.join(solvers)}" for k in setting.stage_counts]
    head += [f"mean gap, {solver}" for solver in solvers] + [f"median s, {solver}" for solver in solvers]
    lines = [_line(head), _line(["---"] + ["---:"] * (len(head) - 1))]
    lines += [_line(_model_cells(setting, model, solvers, unit)) for model in setting.models]
    proven = sum(row["status"] == "optimal" for (_, solver), row in setting.rows.items() if solver == solvers[0])
    note = (
        f"Objective {setting.objective}, device {setting.device}. Peak parameter memory of a stage in "
        f"{'MiB' if unit == 'MiB' else 'bytes'}, * proven optimal ({solvers[0]}: {proven} of "
        f"{len(setting.of_solver(solvers[0]))} cases). Gaps against the best proven bound."
    )
    return "\n".join([*lines, "", _safe(note), ""])


def _model_cells(setting: Setting, model: str, solvers: list[str], unit: str) -> list[str]:
    cells = [model, str(setting.num_ops[model])]
    for k in setting.stage_counts:
        case = Case(model=model, num_stages=k)
        cells.append(" / ".join(_peak(setting, case, solver, unit) for solver in solvers))
    for column, text in (("gap_to_best", percent_text), ("solve_seconds", seconds_text)):
        for solver in solvers:
            values = setting.by_model(solver, column).get(model, [])
            mean = statistics.fmean if column == "gap_to_best" else statistics.median
            cells.append(text(mean(values)) if values else MISSING)
    return cells


def _peak(setting: Setting, case: Case, solver: str, unit: str) -> str:
    row = setting.rows.get((case, solver))
    if row is None or row["peak_param_bytes"] is None:
        return MISSING if row is None else str(row["status"])
    text = mib_text(row["peak_param_bytes"]) if unit == "MiB" else bytes_text(row["peak_param_bytes"])
    return text + (r"\*" if row["status"] == "optimal" else "")


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(_safe(cell) for cell in cells) + " |"


def _safe(text: str) -> str:
    """Keep a name from breaking out of its cell or being read as HTML."""
    return text.replace("|", r"\|").replace("<", "&lt;").replace("\n", " ").replace("\r", " ")
