"""How long `exact` takes as graphs grow and widen: one row a family, size and in-degree, medians over several graphs.

    python -m tests.benchmarks.exact_scaling [--objective peak-memory] [--sizes 30 60 120 ...] [--json scaling.json]

`layers`: parents among the previous 8 ops; `far`: among all earlier ops (sparse ones are the hard case); `randwire`:
Watts-Strogatz stages of 32 nodes. Where a limit of time does not allow a proof, the gap of the first component counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.objective import OBJECTIVES
from respect_core.solve.exact import ExactSolver
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult
from respect_core.solve.warm_up import warm_up
from respect_core.sources.randwire import RandWireSpec, randwire_graph


def main() -> None:
    args = _arguments()
    solver, options = ExactSolver(), SolveOptions(time_limit_s=args.time_limit)
    rows: list[dict[str, Any]] = []
    print(f"{args.objective}, K = {args.num_stages}, {args.graphs} graphs a row, at most {args.time_limit:g} s each")
    print(f"{'graphs':>14} {'ops':>6} {'proven':>7} {'first proven':>12} {'median s':>9} {'longest s':>9} {'gap':>8}")
    for label, make in _families(args):
        results: list[SolveResult] = []
        for seed in range(args.graphs):
            problem = Problem.of(make(seed), args.num_stages, args.objective)
            if not rows and not results:
                warm_up(solver, problem)
                solver.solve(problem, options)
            results.append(solver.solve(problem, options))
        seconds = [result.solve_seconds for result in results]
        gaps = [np.inf if result.gap is None else result.gap for result in results]
        rows.append(
            {
                "graphs": label,
                "num_ops": problem.graph.num_ops,
                "proven": sum(result.status == "optimal" for result in results),
                "first_proven": sum(gap == 0 for gap in gaps),
                "of": args.graphs,
                "median_s": statistics.median(seconds),
                "longest_s": max(seconds),
                "worst_gap": max(gaps),
            }
        )
        row = rows[-1]
        print(
            f"{label:>14} {row['num_ops']:6} {row['proven']:4}/{args.graphs:<2} "
            f"{row['first_proven']:9}/{args.graphs:<2} "
            f"{row['median_s']:9.4f} {row['longest_s']:9.4f} {row['worst_gap']:8.5f}",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if args.plot:
        _plot(rows, args)


def _plot(rows: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Draw median seconds against ops, a line a family; hollow where not everything was proven."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "scaling"
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for number, label in enumerate(dict.fromkeys(row["graphs"] for row in rows)):
        mine = [row for row in rows if row["graphs"] == label]
        colour = f"C{number % 10}"
        axes.plot([r["num_ops"] for r in mine], [r["median_s"] for r in mine], color=colour, label=label, lw=1)
        for row in mine:
            whole = row["proven"] == row["of"]
            axes.plot(row["num_ops"], row["median_s"], "o", color=colour, mfc=colour if whole else "white")
    proof = f"filled where all {args.graphs} graphs are proven in {args.time_limit:g} s"
    title = f"exact, {args.objective}, K = {args.num_stages}: {proof}"
    axes.set(xscale="log", yscale="log", xlabel="ops", ylabel="median seconds", title=title)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", ncols=2)
    figure.savefig(args.plot, metadata={"Date": None})


def _families(args: argparse.Namespace) -> list[tuple[str, Callable[[int], DnnGraph]]]:
    out: list[tuple[str, Callable[[int], DnnGraph]]] = []
    for family, window in (("layers", 8), ("far", 0)):
        for degree in args.degrees:
            for size in args.sizes:
                out.append((f"{family} d={degree}", partial(_random, size, window, degree)))  # noqa: PERF401
    for stages in (1, 3, 6):
        for is_random in (False, True):
            name = "randwire rnd" if is_random else "randwire"
            out.append((name, partial(_randwire, stages, is_random)))
    return out


def _randwire(num_stages: int, is_random: bool, seed: int) -> DnnGraph:
    return randwire_graph(RandWireSpec(num_stages=num_stages, random_bytes=is_random, seed=seed))


def _random(num_ops: int, window: int, degree: int, seed: int) -> DnnGraph:
    """Draw bytes like the synthetic families; an op has up to ``degree`` parents in the window (0: all earlier ops)."""
    rng = np.random.default_rng([num_ops, window, degree, seed])
    consumers: list[list[int]] = [[] for _ in range(num_ops)]
    for v in range(1, num_ops):
        lowest = max(0, v - window) if window else 0
        for u in rng.choice(np.arange(lowest, v), min(int(rng.integers(1, degree + 1)), v - lowest), replace=False):
            consumers[u].append(v)
    return DnnGraph(
        name=f"random-{num_ops}-{window}-{degree}-{seed}", source="synthetic",
        op_names=tuple(f"op{v}" for v in range(num_ops)), op_kinds=("conv2d",) * num_ops,
        param_bytes=np.where(rng.random(num_ops) < 1 / 3, 0, rng.integers(1, 5001, num_ops)),
        macs=rng.integers(1, 10**6, num_ops), compiled_bytes=np.full(num_ops, UNKNOWN),
        always_streamed_bytes=np.zeros(num_ops, dtype=np.int64), op_time_us=np.full(num_ops, np.nan),
        tensor_names=tuple(f"t{v}" for v in range(num_ops)), tensor_bytes=rng.integers(1, 5001, num_ops),
        tensor_producer=np.arange(num_ops), tensor_consumers=tuple(map(tuple, consumers)),
        tensor_is_output=np.array([not readers for readers in consumers]),
    )  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objective", choices=OBJECTIVES, default="peak-memory")
    parser.add_argument("--sizes", nargs="+", type=int, default=[30, 60, 120, 250, 500, 1000])
    parser.add_argument("--degrees", nargs="+", type=int, default=[2, 4, 6])
    parser.add_argument("--num-stages", type=int, default=4)
    parser.add_argument("--graphs", type=int, default=3, help="graphs a row")
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds a graph")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument("--plot", type=Path, help="also draw them into this SVG file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
