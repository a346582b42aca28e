"""`local-search`: random and fit orders, split optimally and improved by set moves."""

from __future__ import annotations

from respect_core.errors import BadInputError
from respect_core.solve.local_search_run import LocalSearch, Starts
from respect_core.solve.orders import NO_SPLIT
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of


def default_starts(problem: Problem) -> int:
    """Return how many starts are made unless a number is given: fewer of `throughput`, as they take longer."""
    per_op = 8_000 if problem.objective == "throughput" else 32_000
    return min(1024, max(32, per_op // problem.graph.num_ops))


class LocalSearchSolver:
    """The best of N starts, half of them from random orders and half from orders that fill the stages up.

    Args:
        num_starts: N, beside the three simple orders; if None, about a thousand for a graph of 30 ops and fewer for
            larger graphs (`default_starts`).
    """

    name = "local-search"
    version = "1"

    def __init__(self, num_starts: int | None = None) -> None:
        if num_starts is not None and num_starts < 1:
            raise BadInputError(f"{num_starts} starts were asked for, at least 1 is needed")
        self.num_starts = num_starts

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the best schedule found; it never is worse than the best split of any order it started from.

        The search stops early at the time limit, and where the peak memory has reached its lower bound.
        """
        if problem.objective == "throughput":
            _ = problem.terms  # a part of the problem, not of solving it
        watch = Stopwatch(options.time_limit_s)
        num_starts = self.num_starts or default_starts(problem)
        search = LocalSearch(problem, options.seed)
        stage_of = search.run(Starts(fit=num_starts // 2, random=num_starts - num_starts // 2), watch)
        return result_of(
            self,
            problem,
            stage_of,
            status="timeout" if stage_of is None else "feasible",
            solve_seconds=watch.seconds,
            message=NO_SPLIT if stage_of is None else "",
        )
