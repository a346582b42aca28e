"""What a user gets by default: a proven optimum where the time limit allows, else the best schedule with its gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from respect_core.solve.protocol import Problem, SolveOptions, Solver, SolveResult, Stopwatch, gap_of

FALL_BACK_S = 1.0
"""What the solvers that prove nothing may take together, after the exact search gave up."""


class AutoSolver:
    """The exact search; where it does not finish in time, the best of its incumbent, orders and the policy.

    Args:
        policy: Opens the learned solver, or returns None where there is none; called only if the proof fails.
    """

    name = "auto"
    version = "2"

    def __init__(self, policy: Callable[[], Solver | None] | None = None) -> None:
        self._policy = policy

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return a schedule with the bound that the exact search proved; the version says who found it."""
        from respect_core.solve.exact import ExactSolver

        watch = Stopwatch(options.time_limit_s)
        found = ExactSolver().solve(problem, options)
        best = found
        if found.status not in ("optimal", "infeasible"):
            for solver in self._others():
                other = solver.solve(problem, replace(options, time_limit_s=FALL_BACK_S))
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

    def _others(self) -> list[Solver]:
        from respect_core.solve.orders import BestOrderSolver, RandomOrdersSolver

        policy = self._policy() if self._policy else None
        return [BestOrderSolver(), RandomOrdersSolver(), *([policy] if policy else [])]
