"""What to expect of a schedule: ranges of its stage times over plausible devices, and whether fewer TPUs do as well."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from respect_core.device_constants import KnownProfile
from respect_core.device_scenarios import draw_scenarios
from respect_core.errors import BadInputError
from respect_core.graph import FloatArray, IntArray
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.robust_scenarios import Scenarios, stage_times

MARGIN: Final = 0.05
"""A pipeline whose throughput is not better by this fraction does not beat a smaller one."""

MOST_OPS: Final = 4000
"""Largest graph for which smaller pipelines are cut too: that takes time that grows with the square."""

PERCENTILES: Final = (5, 95)
"""Ends of a range over the scenarios."""

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Smaller:
    """A pipeline of fewer stages, cut as well as contiguous cuts of a few orders allow."""

    num_stages: int
    bottleneck_ms: float
    """Under the nominal profile."""
    as_good: float
    """Fraction of the scenarios in which it is at least as fast, up to `MARGIN`."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Uncertainty of a schedule's times, in milliseconds, and what fewer TPUs would do."""

    num_scenarios: int
    seed: int
    stage_ms: tuple[Range, ...]
    bottleneck_ms: Range
    latency_ms: Range
    smaller: tuple[Smaller, ...]
    """K = 1 and up to K - 1, without those that have no legal cut; none for graphs beyond `MOST_OPS`."""
    host_threads_ms: float
    """Least time between two items where Python threads drive the stages."""
    advice: str
    """Why fewer TPUs would do, empty where they would not."""


def outlook(problem: Problem, stage_of: IntArray, known: KnownProfile, num_scenarios: int, seed: int) -> Outlook:
    """Look at a schedule in scenarios drawn from the plausible ranges of the profile's constants.

    Args:
        problem: The problem.
        stage_of: A legal schedule. Shape (n,).
        known: The problem's profile with its ranges.
        num_scenarios: Scenarios to draw.
        seed: Their seed.
    """
    scenarios = Scenarios.of(draw_scenarios(known, num_scenarios, seed))
    times = stage_times(problem, stage_of, scenarios)
    bottleneck = times.max(axis=1)
    nominal_ms = problem.evaluate(stage_of).bottleneck_ns / 1e6
    smaller = tuple(
        found
        for k in range(1, problem.num_stages if problem.graph.num_ops <= MOST_OPS else 1)
        if (found := _smaller(problem, k, scenarios, bottleneck)) is not None
    )
    return Outlook(
        num_scenarios=num_scenarios,
        seed=seed,
        stage_ms=tuple(_range(times[:, k]) for k in range(problem.num_stages)),
        bottleneck_ms=_range(bottleneck),
        latency_ms=_range(times.sum(axis=1)),
        smaller=smaller,
        host_threads_ms=known["host_thread_ms"].value * problem.num_stages if problem.num_stages > 1 else 0.0,
        advice=_advice(problem.num_stages, nominal_ms, smaller),
    )


def _range(values: FloatArray) -> Range:
    low, high = np.percentile(values, PERCENTILES).tolist()
    return float(low), float(high)


def _smaller(problem: Problem, num_stages: int, scenarios: Scenarios, bottleneck: FloatArray) -> Smaller | None:
    try:
        fewer = replace(problem, num_stages=num_stages, objective="throughput")
    except BadInputError:
        return None  # a constraint names a stage that it would not have
    found = BestOrderSolver().solve(fewer, SolveOptions())
    if found.stage_of is None or found.numbers is None:
        return None
    its = stage_times(fewer, found.stage_of, scenarios).max(axis=1)
    return Smaller(
        num_stages=num_stages,
        bottleneck_ms=found.numbers.bottleneck_ns / 1e6,
        as_good=float(np.mean(its <= bottleneck * (1 + MARGIN))),
    )


def _advice(num_stages: int, bottleneck_ms: float, smaller: tuple[Smaller, ...]) -> str:
    """Name the fewest TPUs that are as fast up to `MARGIN`, a single one above all (libcoral#20)."""
    for other in smaller:
        if other.bottleneck_ms <= bottleneck_ms * (1 + MARGIN):
            who = "a single TPU" if other.num_stages == 1 else f"a pipeline of {other.num_stages} TPUs"
            gain = other.bottleneck_ms / bottleneck_ms - 1
            verb = f"is only {gain:.1%} faster than" if gain > 0 else "will not beat"
            return (
                f"the pipeline of {num_stages} TPUs {verb} {who}: {bottleneck_ms:.2f} ms against "
                f"{other.bottleneck_ms:.2f} ms an item ({who} is as good in {other.as_good:.0%} of the scenarios)"
            )
    return ""


def outlook_row(found: Outlook) -> dict[str, Any]:
    """Return an outlook as plain JSON values, in microseconds."""
    return {
        "scenarios": found.num_scenarios,
        "scenario_seed": found.seed,
        "time_us_range": [_us(limits) for limits in found.stage_ms],
        "bottleneck_us_range": _us(found.bottleneck_ms),
        "latency_us_range": _us(found.latency_ms),
        "smaller": [
            {
                "num_stages": other.num_stages,
                "bottleneck_us": round(other.bottleneck_ms * 1000, 3),
                "as_good_in": other.as_good,
            }
            for other in found.smaller
        ],
        "host_threads_us": round(found.host_threads_ms * 1000, 3),
        "advice": found.advice,
    }


def _us(limits: Range) -> list[float]:
    return [round(limit * 1000, 3) for limit in limits]
