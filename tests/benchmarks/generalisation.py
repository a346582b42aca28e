"""How far from the optimal peak memory the policy stays on graphs unlike those it was trained on.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.generalisation [--graphs 60] [--sweeps ...] [--out docs]

Sizes, in-degrees, widths, K and weights change, one at a time, from those of `local` graphs. The optimum is the exact
search's; where it has no proof in time, gaps count to its lower bound and are too large. Random and fit orders make as
many starts with set moves as the policy. `--out` keeps results of sweeps that are not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.policy.config import NetworkConfig
from respect_core.policy.generalisation import SEED, Point, draw_graph, sweeps
from respect_core.policy.scoring import BudgetPath, Scorer, made_bytes_of
from respect_core.policy.solver import NUM_PLAIN, TEMPERATURE, PolicySolver, passes_for, profile_shares
from respect_core.solve.exact import ExactSolver
from respect_core.solve.local_search_graph import turned_round
from respect_core.solve.local_search_run import LocalSearch, Starts
from respect_core.solve.protocol import Problem, SolveOptions, Stopwatch, gap_of
from tests.benchmarks.generalisation_report import NAME, print_row, write_report
from tests.benchmarks.where_it_pays_statistics import mean_of

NUM_SAMPLES = 64
"""Orders that follow the network's scores."""

NO_LIMIT = SolveOptions(time_limit_s=3600.0)


class Methods:
    """Everything that is compared, by name; each returns a peak in bytes."""

    def __init__(self) -> None:
        self._policy = PolicySolver(PolicySolver.pretrained().checkpoint, num_samples=NUM_SAMPLES)
        self._bare = self._policy.bare()
        self.version = self._policy.checkpoint.version
        config = self._policy.checkpoint.config
        assert isinstance(config, NetworkConfig)
        self._scorer = Scorer(config, self._policy.checkpoint.weights)
        starts = NUM_PLAIN + NUM_SAMPLES
        self.by_name: dict[str, Callable[[Problem], int]] = {
            "policy: 8 greedy": lambda p: _peak(self._bare, p),
            "policy: 64 samples": self._samples,
            "policy: 64 samples, moves": lambda p: _peak(self._policy, p),
            "random orders, moves": lambda p: _searched(p, Starts(random=starts)),
            "fit orders, moves": lambda p: _searched(p, Starts(fit=starts)),
            "best simple order": lambda p: _searched(p, Starts(improve=False)),
        }

    def _samples(self, problem: Problem) -> int:
        """Return the best peak of 64 orders by the network's scores, under the policy's budgets, without set moves."""
        search = LocalSearch(problem, NO_LIMIT.seed)
        made, shares, path = made_bytes_of(problem.graph), profile_shares(search), BudgetPath(search.bound)
        passes = passes_for(problem.graph.num_ops)
        for step in range(passes):
            budget = path.next(step, search.peak)
            backwards = step % 2 == 1
            arrays = turned_round(search.arrays) if backwards else search.arrays
            scores = self._scorer.scores(arrays, made, problem.num_stages, budget, shares)
            starts = Starts(
                greedy=(budget,), scored=NUM_SAMPLES // passes - 1, scores=scores, temperature=TEMPERATURE,
                backwards=backwards, simple=False, improve=False,
            )  # fmt: skip
            search.advance(starts, Stopwatch(NO_LIMIT.time_limit_s))
        assert search.peak is not None
        return search.peak


def _peak(solver: PolicySolver, problem: Problem) -> int:
    value = solver.solve(problem, NO_LIMIT).value
    assert value is not None
    return value[0]


def _searched(problem: Problem, starts: Starts) -> int:
    search = LocalSearch(problem, NO_LIMIT.seed)
    search.run(starts, Stopwatch(NO_LIMIT.time_limit_s))
    assert search.peak is not None
    return search.peak


def main() -> None:
    args = _arguments()
    methods, rows = Methods(), _earlier(args.out)
    for sweep in args.sweeps:
        rows = [row for row in rows if row["sweep"] != sweep]
        for point in sweeps()[sweep]:
            rows.append(_row(methods, sweep, point, args))
            print_row(rows[-1])
        if args.out:
            write_report(args.out, sorted(rows, key=lambda row: list(sweeps()).index(row["sweep"])))


def _earlier(folder: Path | None) -> list[dict[str, Any]]:
    path = folder / f"{NAME}.json" if folder else None
    return json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else []


def _row(methods: Methods, sweep: str, point: Point, args: argparse.Namespace) -> dict[str, Any]:
    """Solve the graphs of one point by every method; large graphs are fewer."""
    count = min(args.graphs, max(args.fewest, 100 * args.graphs // point.kind.num_ops))
    gaps: dict[str, list[float]] = {name: [] for name in methods.by_name}
    ms: dict[str, list[float]] = {name: [] for name in methods.by_name}
    unproven = 0
    for index in range(count):
        graph = draw_graph(point.kind, args.seed, index)
        problem = Problem.of(graph, point.stages[index % len(point.stages)], "peak-memory")
        if index == 0:
            for run in methods.by_name.values():
                run(problem)
        found = ExactSolver().solve(problem, SolveOptions(time_limit_s=args.time_limit))
        peaks = {}
        for name, run in methods.by_name.items():
            began = time.process_time()
            peaks[name] = run(problem)
            ms[name].append(1000 * (time.process_time() - began))
        bound = found.lower_bound
        unproven += found.gap != 0 and bound != min(peaks.values())
        for name, peak in peaks.items():
            gaps[name].append(gap_of(peak, bound) or 0.0)
    return {
        "sweep": sweep,
        "point": point.label,
        "graphs": count,
        "unproven": unproven,
        "seed": args.seed,
        "time_limit_s": args.time_limit,
        "policy": methods.version,
        "gaps": {name: vars(mean_of(np.array(values))) for name, values in gaps.items()},
        "median_ms": {name: statistics.median(values) for name, values in ms.items()},
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", nargs="+", choices=list(sweeps()), default=list(sweeps()))
    parser.add_argument("--graphs", type=int, default=60, help="graphs of each point; fewer of more than 100 ops")
    parser.add_argument("--fewest", type=int, default=10, help="graphs of each point at least")
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds of the exact search for a graph")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, help="folder whose generalisation.json, .svg and .md are renewed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
