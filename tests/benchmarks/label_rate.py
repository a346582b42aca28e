"""Labels a second and core: proven optimal `peak-memory` schedules of 30-op graphs, against CP-SAT in the same run.

    python -m tests.benchmarks.label_rate [--families paper wide] [--graphs 2000] [--repeats 3]

Generating and packing graphs is not timed. A problem with more down-sets than the batch's limit goes to `exact` alone
and its time counts too.
"""

from __future__ import annotations

import argparse
import statistics
import time

from respect_core.graph import DnnGraph
from respect_core.solve.exact import ExactSolver
from respect_core.solve.exact_pack import BatchLabels, PackedGraphs, label_packed, pack_graphs
from respect_core.solve.ilp import IlpSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.synthetic import FAMILIES, SyntheticSpec, generate_graph

STAGES = (4, 5, 6)


def main() -> None:
    args = _arguments()
    label_packed(pack_graphs([generate_graph(SyntheticSpec(family="local"), 0)]), STAGES)
    ExactSolver().solve(Problem.of(generate_graph(SyntheticSpec(family="local"), 0), 4), SolveOptions())
    for family in args.families:
        graphs = [generate_graph(SyntheticSpec(family=family, seed=args.seed), i) for i in range(args.graphs)]
        packed = pack_graphs(graphs)
        runs = [_timed(packed, graphs) for _ in range(args.repeats)]
        labels, _ = runs[0]
        seconds = statistics.median(run[1] for run in runs)
        rate = len(graphs) * len(STAGES) / seconds
        ilp_seconds = _ilp_seconds(graphs[: args.ilp_graphs], labels)
        ilp_rate = len(STAGES) * args.ilp_graphs / ilp_seconds
        alone = int((~labels.is_solved).sum())
        print(
            f"{family:6} {len(graphs)} graphs x K = 4, 5, 6: exact {rate:9.0f} labels/s (median of {args.repeats}), "
            f"CP-SAT {ilp_rate:6.1f} labels/s on {args.ilp_graphs} of them, {rate / ilp_rate:7.0f}x; "
            f"{alone} solved alone; values equal",
            flush=True,
        )


def _timed(packed: PackedGraphs, graphs: list[DnnGraph]) -> tuple[BatchLabels, float]:
    start = time.perf_counter()
    labels = label_packed(packed, STAGES)
    for row, num_stages in enumerate(STAGES):
        for g in (~labels.is_solved[row]).nonzero()[0]:
            result = ExactSolver().solve(Problem.of(graphs[g], num_stages), SolveOptions(time_limit_s=60))
            if result.status != "optimal":
                raise SystemExit(f"graph {graphs[g].name} was not proven in 60 s")
    return labels, time.perf_counter() - start


def _ilp_seconds(graphs: list[DnnGraph], labels: BatchLabels) -> float:
    """Solve with CP-SAT (one worker, both components), check the values and return the seconds of its searches."""
    total = 0.0
    for g, graph in enumerate(graphs):
        for row, num_stages in enumerate(STAGES):
            result = IlpSolver().solve(Problem.of(graph, num_stages), SolveOptions(time_limit_s=60))
            total += result.solve_seconds
            wanted = (int(labels.peak_bytes[row, g]), int(labels.communication_bytes[row, g]))
            if result.status == "optimal" and labels.is_solved[row, g] and result.value != wanted:
                raise SystemExit(f"graph {graph.name}, K = {num_stages}: {result.value} is not {wanted}")
    return total


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--ilp-graphs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
