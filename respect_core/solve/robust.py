"""Schedules that stay good when the device's constants are not what the profile says.

The regret of a schedule in a scenario is its bottleneck over the smallest bottleneck in that scenario. The reference is
the best contiguous cut of several orders (file, Kahn, depth first, the commercial compiler's, one around the nominal
optimum), found for every scenario by itself. For a given order the cut with the smallest largest regret is found
exactly, because a segment's cost is then one number: its largest time over the reference. For a percentile this is
repeated on the scenarios that the schedule at hand serves best. Orders redrawn around the best schedule then move ops
between stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from respect_core.device_constants import KnownProfile, load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.errors import BadInputError, UnknownNameError
from respect_core.graph import FloatArray, IntArray
from respect_core.solve.orders import NO_SPLIT
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of
from respect_core.solve.robust_scenarios import Scenarios
from respect_core.solve.robust_search import MEASURES, Measure, Reference, RobustSearch, check_measure, regret_of

__all__ = ["MEASURES", "NUM_SCENARIOS", "Regrets", "RobustSolver", "check_measure", "judge", "known_profile_of"]

NUM_SCENARIOS: Final = 200

MOST_OPS: Final = 4000
"""Largest graph that is searched: the costs of all segments of an order are kept."""

_UNLIMITED_S: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class Regrets:
    """How a schedule fares in scenarios that it was not chosen by: bottleneck over the smallest one, minus 1."""

    largest: float
    percentile90: float
    median: float
    bottleneck_ms: tuple[float, float]
    """5th and 95th percentile of the bottleneck itself."""


class RobustSolver:
    """Minimises the largest or the 90th-percentile regret over scenarios drawn from the profile's plausible ranges.

    Args:
        measure: `max` or `p90`.
        known: The profile with its ranges; None takes the built-in profile of the problem's name.
        num_scenarios: Scenarios to draw with the options' seed; the nominal profile is looked at besides.
    """

    version = "1"

    def __init__(self, measure: Measure, known: KnownProfile | None = None, num_scenarios: int = NUM_SCENARIOS) -> None:
        self.name, self.measure = f"robust-{measure}", measure
        self.known, self.num_scenarios = known, num_scenarios

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return a robust schedule; `feasible`, for nothing proves that no order allows a better one.

        Raises:
            BadInputError: The ranges of the problem's profile are not known.
        """
        watch = Stopwatch(options.time_limit_s)
        known = self.known or known_profile_of(problem)
        if problem.graph.num_ops > MOST_OPS:
            why = f"robust schedules are searched for up to {MOST_OPS} ops, the graph has {problem.graph.num_ops}"
            return result_of(self, problem, None, status="timeout", solve_seconds=watch.seconds, message=why)
        scenarios = Scenarios.of([problem.profile, *draw_scenarios(known, self.num_scenarios, options.seed)])
        timed = problem if problem.objective == "throughput" else replace(problem, objective="throughput")
        nominal = nominal_schedule(timed, watch.left / 4)
        if nominal is None:
            return result_of(self, problem, None, status="timeout", solve_seconds=watch.seconds, message=NO_SPLIT)
        reference = Reference(timed, scenarios, [nominal], watch)
        found = RobustSearch(reference=reference, start=nominal, watch=watch, seed=options.seed).find(self.measure)
        seconds = watch.seconds
        mine, its = (regret_of(reference.regrets(x), self.measure) - 1 for x in (found, nominal))
        what = "largest regret" if self.measure == "max" else "90th percentile of the regret"
        return result_of(
            self,
            problem,
            found,
            status="feasible",
            solve_seconds=seconds,
            message=(
                f"{what} {mine:.1%} over {self.num_scenarios} scenarios (seed {options.seed}), "
                f"{its:.1%} for the nominal optimum"
            ),
        )


def nominal_schedule(problem: Problem, time_limit_s: float) -> IntArray | None:
    """Return the best schedule under the problem's own profile: the proven optimum or the best cut found in time."""
    from respect_core.solve.exact import ExactSolver
    from respect_core.solve.orders import BestOrderSolver

    options = SolveOptions(time_limit_s=time_limit_s)
    best: SolveResult | None = None
    for solver in (BestOrderSolver(), ExactSolver()):
        found = solver.solve(problem, options)
        if found.value is not None and (best is None or best.value is None or found.value < best.value):
            best = found
    return None if best is None or best.stage_of is None else np.array(best.stage_of, dtype=np.int64)


def judge(
    problem: Problem,
    known: KnownProfile,
    schedules: Mapping[str, IntArray],
    *,
    num_scenarios: int = NUM_SCENARIOS,
    seed: int,
) -> dict[str, Regrets]:
    """Compare schedules in scenarios of their own.

    Args:
        problem: Its profile plays no part.
        known: The profile's ranges.
        schedules: Legal schedules by name, at least one; all of them are part of the reference.
        num_scenarios: Scenarios to draw.
        seed: Their seed; take another than the schedules were chosen by.

    Returns:
        For every name its regrets.
    """
    scenarios = Scenarios.of(draw_scenarios(known, num_scenarios, seed))
    timed = problem if problem.objective == "throughput" else replace(problem, objective="throughput")
    reference = Reference(timed, scenarios, list(schedules.values()), Stopwatch(_UNLIMITED_S))
    return {name: _summary(reference, stage_of) for name, stage_of in schedules.items()}


def _summary(reference: Reference, stage_of: IntArray) -> Regrets:
    regrets = reference.regrets(stage_of)
    times: FloatArray = regrets * reference.bottleneck_ms
    low, high = np.quantile(times, [0.05, 0.95]).tolist()
    return Regrets(
        largest=regret_of(regrets, "max") - 1,
        percentile90=regret_of(regrets, "p90") - 1,
        median=float(np.median(regrets)) - 1,
        bottleneck_ms=(low, high),
    )


def known_profile_of(problem: Problem) -> KnownProfile:
    """Return the built-in profile of the problem's profile's name, with the problem's values.

    Raises:
        BadInputError: There is none: the ranges are not known.
    """
    try:
        known = load_known_profile(problem.profile.name)
    except UnknownNameError as error:
        raise BadInputError(
            f"the plausible ranges of profile {problem.profile.name!r} are not known, only those of a built-in profile "
            "or of one that --device reads from a file"
        ) from error
    return replace(known, profile=problem.profile)
