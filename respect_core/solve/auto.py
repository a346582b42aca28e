"""What a user gets by default: the fastest way to a proven optimum, else the best found with its gap."""

from __future__ import annotations

from dataclasses import replace

from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch


class AutoSolver:
    """Integer programming started from the best simple order; the result says who found it."""

    name = "auto"
    version = "1"

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return a proven optimum where the time limit allows, else the best schedule with its proven gap."""
        from respect_core.solve.ilp import IlpSolver

        watch = Stopwatch(options.time_limit_s)
        result = IlpSolver().solve(problem, options)
        return replace(
            result,
            solver=self.name,
            version=f"{self.version} ({result.solver} {result.version})",
            solve_seconds=min(watch.seconds, result.solve_seconds),
        )
