"""How far the policy stays from the optimal peak memory on graphs unlike its training's: rows of `generalisation`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from respect_core.errors import SolverFailedError
from respect_core.policy.generalisation import SEED, Point, draw_graph
from respect_core.policy.solver import NUM_PLAIN, PolicySolver
from respect_core.solve.exact import ExactSolver
from respect_core.solve.local_search_run import LocalSearch, Starts, load_bound
from respect_core.solve.protocol import Problem, SolveOptions, Solver, Stopwatch, gap_of
from respect_core.tables.generalisation import FIT_ORDERS, GREEDY, POLICY, SIMPLE_ORDERS

NUM_SAMPLES: Final = 64
"""Orders that follow the network's scores."""

NO_LIMIT: Final = SolveOptions(time_limit_s=3600.0)
"""For methods whose number of starts ends them."""


def generalisation_rows(
    policy: PolicySolver, changed: str, points: Sequence[Point], *, num_graphs: int, time_limit_s: float
) -> list[dict[str, Any]]:
    """Solve the graphs of every point by every method.

    Args:
        policy: With `NUM_SAMPLES` samples; its network is judged alone, too.
        changed: Name of the sweep.
        points: Its points.
        num_graphs: Graphs of each point.
        time_limit_s: Seconds that the exact search may take to prove the optimum of a graph.

    Returns:
        Rows of the table `generalisation`. Where an optimum is not proven, gaps count to the best lower bound known.

    Raises:
        SolverFailedError: A method found no schedule.
    """
    rows = []
    for place, point in enumerate(points):
        gaps: dict[str, list[float]] = {}
        proven = 0
        for index in range(num_graphs):
            graph = draw_graph(point.kind, SEED, index)
            problem = Problem.of(graph, point.stages[index % len(point.stages)], "peak-memory")
            found, is_proven = _gaps(policy, problem, time_limit_s)
            proven += is_proven
            for name, gap in found.items():
                gaps.setdefault(name, []).append(gap)
        rows += [
            {
                "policy": policy.version,
                "changed": changed,
                "value": point.label,
                "point": place,
                "method": name,
                "num_graphs": num_graphs,
                "num_proven": proven,
                "mean_gap": statistics.fmean(values),
                "worst_gap": max(values),
            }
            for name, values in gaps.items()
        ]
    return rows


def _gaps(policy: PolicySolver, problem: Problem, time_limit_s: float) -> tuple[dict[str, float], bool]:
    """Return the gap of every method on one problem, and whether the optimum is proven."""
    peaks = {name: run(problem) for name, run in _methods(policy).items()}
    found = ExactSolver().solve(problem, SolveOptions(time_limit_s=time_limit_s))
    if problem.graph.param_bytes.sum() == 0:
        return dict.fromkeys(peaks, 0.0), True
    bound = max(found.lower_bound or 0, load_bound(problem.graph.param_bytes, problem.num_stages))
    best = min([*peaks.values(), *([found.value[0]] if found.value is not None else [])])
    return {name: gap_of(peak, bound) or 0.0 for name, peak in peaks.items()}, best == bound


def _methods(policy: PolicySolver) -> Mapping[str, Callable[[Problem], int]]:
    bare = policy.bare()
    return {
        GREEDY: lambda problem: _solved(bare, problem),
        POLICY: lambda problem: _solved(policy, problem),
        FIT_ORDERS: lambda problem: _searched(problem, Starts(fit=NUM_PLAIN + NUM_SAMPLES)),
        SIMPLE_ORDERS: lambda problem: _searched(problem, Starts(improve=False)),
    }


def _solved(solver: Solver, problem: Problem) -> int:
    return _known(solver.name, problem, (solver.solve(problem, NO_LIMIT).value or (None,))[0])


def _searched(problem: Problem, starts: Starts) -> int:
    search = LocalSearch(problem, NO_LIMIT.seed)
    search.run(starts, Stopwatch(NO_LIMIT.time_limit_s))
    return _known("local-search", problem, search.peak)


def _known(name: str, problem: Problem, peak: int | None) -> int:
    if peak is None:
        raise SolverFailedError(f"{name} found no schedule of {problem.graph.name} for K = {problem.num_stages}")
    return peak
