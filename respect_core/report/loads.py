"""Stage loads: the schedules whose bars the page can draw, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from respect_core.device import MIB
from respect_core.report.data import POLICY, RULE, Setting
from respect_core.report.palette import Style
from respect_core.report.pipelines import OPTIMUM, PEAK


def load_choices(settings: Sequence[Setting], styles: Mapping[str, Style]) -> list[dict[str, Any]]:
    """Return, for every setting and case with a schedule, the loads of all solvers.

    Returns:
        One object a case: ``label``, ``first`` and ``second`` (the solvers shown at first: a proof or the policy,
        against the compiler's rule) and ``solvers``, each with its memory in MiB and time in ms a stage.
    """
    out = []
    for setting in settings:
        for case in setting.cases:
            solvers = [
                {
                    "solver": solver,
                    "colour": styles[solver].colour,
                    "memory_mib": [round(size / MIB, 4) for size in row["param_bytes"]],
                    "time_ms": [round(time / 1000, 4) for time in row["time_us"] or []],
                }
                for solver in setting.solvers
                if (row := setting.rows.get((case, solver))) is not None and row["param_bytes"] is not None
            ]
            if not solvers:
                continue
            names = [entry["solver"] for entry in solvers]
            where = f" · {setting.objective}, {setting.device}" if len(settings) > 1 else ""
            first = next((name for name in (setting.prover, POLICY) if name in names), names[0])
            second = next((name for name in (RULE, *reversed(names)) if name in names and name != first), first)
            out.append({"label": f"{case}{where}", "first": first, "second": second, "solvers": solvers})
    return out


def pipeline_loads(settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings for throughput, the peak-memory optimum of the same cases among their solvers."""
    out = []
    for setting in settings:
        if setting.objective != "throughput":
            continue
        peak = {
            (case, PEAK): row
            for other in settings
            if (other.objective, other.device) == ("peak-memory", setting.device)
            for (case, solver), row in other.rows.items()
            if solver == OPTIMUM
        }
        solvers = (*setting.solvers, PEAK) if peak else setting.solvers
        out.append(replace(setting, rows=setting.rows | peak, solvers=solvers))
    return out
