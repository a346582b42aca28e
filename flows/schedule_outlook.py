"""What `respect schedule` says about uncertainty: ranges of times, regrets on other scenarios, and fewer TPUs."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
import typer

from flows.options import printable
from respect_core.device_constants import KnownProfile
from respect_core.graph import IntArray
from respect_core.schedule import first_violation
from respect_core.solve.protocol import Problem, SolveResult

OTHER_SEED: Final = 1
"""Added to the seed for the scenarios by which schedules are judged, not chosen."""


def uncertainty(
    problem: Problem, result: SolveResult, known: KnownProfile, num_scenarios: int, seed: int, robust: str | None
) -> dict[str, Any]:
    """Return the keys that ``respect schedule --json`` adds about uncertainty; empty where there is no schedule.

    Args:
        problem: The problem.
        result: Its solution.
        known: The problem's profile with its ranges.
        num_scenarios: Scenarios to draw.
        seed: The seed that robust schedules were chosen by; all here are judged by the next one.
        robust: What a robust schedule minimised: then the nominal optimum and the compiler's rule are judged too.
    """
    if result.stage_of is None:
        return {}
    from respect_core.solve.robust_report import outlook, outlook_row

    stage_of = np.array(result.stage_of, dtype=np.int64)
    row = outlook_row(outlook(problem, stage_of, known, num_scenarios, seed + OTHER_SEED))
    if robust is not None:
        row["robust"] = {"measure": robust} | _judged(problem, stage_of, known, num_scenarios, seed + OTHER_SEED)
    return row


def _judged(problem: Problem, stage_of: IntArray, known: KnownProfile, num_scenarios: int, seed: int) -> dict[str, Any]:
    """Return the regrets of a robust schedule, the nominal optimum and the compiler's rule, by name."""
    from respect_core.solve.compiler_rule import compiler_segments
    from respect_core.solve.robust import judge, nominal_schedule

    schedules = {"robust": stage_of}
    nominal = nominal_schedule(replace(problem, objective="throughput"), 1.0)
    if nominal is not None:
        schedules["nominal"] = nominal
    rule = compiler_segments(problem.graph, problem.num_stages)
    if first_violation(problem.graph, rule, problem.num_stages, problem.constraints) is None:
        schedules["compiler-rule"] = rule
    found = judge(problem, known, schedules, num_scenarios=num_scenarios, seed=seed)
    return {name: asdict(regrets) for name, regrets in found.items()}


def print_uncertainty(row: dict[str, Any]) -> None:
    """Print the advice, the range of the bottleneck, and the regrets where there are some."""
    if "bottleneck_us_range" not in row:
        return
    low, high = (us / 1000 for us in row["bottleneck_us_range"])
    typer.echo(
        f"bottleneck {low:.2f} to {high:.2f} ms in 90 % of {row['scenarios']} devices drawn from the plausible ranges"
    )
    if row["host_threads_us"] > row["bottleneck_us_range"][0]:
        typer.echo(f"driven from Python threads, an item takes at least {row['host_threads_us'] / 1000:.2f} ms")
    for name, regrets in row.get("robust", {}).items():
        if name != "measure":
            typer.echo(
                f"regret of {name:13} on other scenarios: largest {regrets['largest']:.1%}, "
                f"90th percentile {regrets['percentile90']:.1%}, median {regrets['median']:.1%} (simulated)"
            )
    if row["advice"]:
        typer.echo(f"advice: {printable(row['advice'])}")


def range_text(row: dict[str, Any], stage: int) -> str:
    """Return the range of one stage's time for the table, empty where none is known."""
    if "time_us_range" not in row:
        return ""
    low, high = row["time_us_range"][stage]
    return f"{low / 1000:.2f} .. {high / 1000:.2f} ms"
