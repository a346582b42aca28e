"""What a user gets by default: a proven optimum where the time limit allows, else the best schedule with its gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar, Final

from respect_core.constraints import NO_CONSTRAINTS
from respect_core.objective import Objective
from respect_core.solve.protocol import Problem, SolveOptions, Solver, SolveResult, Stopwatch, gap_of
from respect_core.solve.warm_up import warm_up

RESERVED_PART: Final = 0.2
"""Part of the time limit that is kept for schedules without a proof: where the search has none by then, the learned
orders and set moves find better schedules than its own in a fraction of this (`docs/where_it_pays.md`)."""

MOST_RESERVED_S: Final = 10.0
"""No longer is kept, however long the time limit."""

MOST_STARTS: Final = 20_000
"""The local search goes on until the time limit, or so many starts."""


class AutoSolver:
    """The exact search; where it does not finish in time, the best of its incumbent, the policy and local search.

    Args:
        policy: Opens the learned solver, or returns None where there is none; called only if the proof fails. By
            default, the weights that come with the program.
    """

    name = "auto"
    version = "3"
    loaded: ClassVar[set[tuple[Objective, bool]]] = set()
    """Objectives, with and without constraints, whose code this process has loaded for want of a proof."""

    def __init__(self, policy: Callable[[], Solver | None] | None = None) -> None:
        self._policy = policy or _pretrained

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return a schedule with the bound that the exact search proved; the version says who found it."""
        from respect_core.solve.exact import ExactSolver

        watch = Stopwatch(options.time_limit_s)
        reserved_s = min(RESERVED_PART * options.time_limit_s, MOST_RESERVED_S)
        found = ExactSolver().solve(problem, replace(options, time_limit_s=options.time_limit_s - reserved_s))
        watch.exclude(watch.seconds - found.solve_seconds)  # it leaves loading its code off the clock
        best = found
        if found.status not in ("optimal", "infeasible"):
            for solver in self._others(problem, watch):
                other = solver.solve(problem, replace(options, time_limit_s=watch.left))
                if other.value is not None and (best.value is None or other.value < best.value):
                    best = other
        status = best.status
        if best.value is not None and status != "optimal":
            status = "feasible"
        return replace(
            best,
            solver=self.name,
            version=f"{self.version} ({best.solver} {best.version})",
            status=status,
            lower_bound=found.lower_bound,
            gap=None if best.value is None else gap_of(best.value[0], found.lower_bound),
            solve_seconds=watch.seconds,
        )

    def _others(self, problem: Problem, watch: Stopwatch) -> Iterator[Solver]:
        """Open the solvers that prove nothing, one after the other; opening and loading is off the clock."""
        from respect_core.solve.local_search import LocalSearchSolver

        began = watch.seconds
        policy = self._policy()
        kind = (problem.objective, problem.constraints == NO_CONSTRAINTS)
        if kind not in self.loaded:
            for solver in (policy, LocalSearchSolver(1)):
                if solver is not None:
                    warm_up(solver, problem)
            self.loaded.add(kind)
        watch.exclude(watch.seconds - began)
        if policy is not None:
            yield policy
        if policy is None or watch.left > 0:
            yield LocalSearchSolver(MOST_STARTS)


def _pretrained() -> Solver:
    from respect_core.policy.solver import PolicySolver

    return PolicySolver.pretrained()
