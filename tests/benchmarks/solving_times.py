"""Solving times per model in one run: policy, pointer, exact search, CP-SAT to the proof, profiling partitioner.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.solving_times [--pointer CHECKPOINT] [--models ...] [--out docs]

Peak memory; every solve gets a graph object of its own, so that nothing is kept from the one before; code is loaded.
Seconds are those that a solver states, without building models, times the share of the processor that the process had
(one thread each). The profiling partitioner runs against the device model; its cost is what compiling and timing its
candidates would take on a device by published times: stated, not measured. The table in `where_it_pays.md` is renewed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.policy.solver import PointerSolver, PolicySolver
from respect_core.solve.compiler_rule import compiler_order, compiler_segments
from respect_core.solve.exact import ExactSolver
from respect_core.solve.ilp import IlpSolver
from respect_core.solve.profiling import CREATE_S, Profiler, modelled_latency, partition_by_profiling
from respect_core.solve.protocol import Problem, SolveOptions, Solver, SolveResult
from respect_core.solve.warm_up import warm_up
from respect_core.sources.catalog import IMAGENET_MODELS, load_model
from tests.benchmarks.where_it_pays_statistics import renew, table, write

NAME = "solving_times"
POLICY, POINTER, PROFILING = "policy", "pointer", "profiling"


def main() -> None:
    args = _arguments()
    solvers = _solvers(args.pointer)
    rows = []
    for name in args.models:
        for num_stages in args.stages:
            rows.append(_row(name, num_stages, solvers, args))
            print(_text(rows[-1]), flush=True)
    lines = summary(rows)
    print("\n".join(lines))
    if args.out:
        rounded = json.loads(json.dumps(rows), parse_float=lambda text: float(f"{float(text):.4g}"))
        write(args.out / f"{NAME}.json", "[\n" + ",\n".join(json.dumps(row) for row in rounded) + "\n]\n")
        renew(args.out / "where_it_pays.md", {"times": lines})


def _solvers(pointer: Path | None) -> dict[str, tuple[Solver, bool]]:
    """Return the solvers by name, and whether each is fast enough to be run several times."""
    network = PointerSolver.pretrained() if pointer is None else PointerSolver.from_checkpoint(pointer)
    solvers: dict[str, tuple[Solver, bool]] = {POLICY: (PolicySolver.pretrained(), True), POINTER: (network, True)}
    solvers["exact"] = ExactSolver(), True
    solvers["CP-SAT, shipped"] = IlpSolver(), False
    solvers["CP-SAT, plain"] = IlpSolver(hint=False, load_windows=False), False
    return solvers


def _row(
    name: str, num_stages: int, solvers: dict[str, tuple[Solver, bool]], args: argparse.Namespace
) -> dict[str, Any]:
    def problem() -> Problem:
        return Problem.of(replace(load_model(name)), num_stages, "peak-memory", device=args.device)

    seconds, gaps, proven = {}, {}, {}
    optimum = ExactSolver().solve(problem(), SolveOptions()).value
    assert optimum is not None
    for label, (solver, is_fast) in solvers.items():
        warm_up(solver, problem())
        found, seconds[label] = _median(solver, problem, args.repeats if is_fast else 1, args.time_limit)
        gaps[label] = None if found.value is None else found.value[0] / optimum[0] - 1
        proven[label] = found.status == "optimal"
    seconds[PROFILING], candidates, gaps[PROFILING] = _profiling(problem(), optimum[0], CREATE_S[args.device])
    return {
        "model": name, "num_stages": num_stages, "device": args.device, "seconds": seconds, "gaps": gaps,
        "proven": proven, "profiled_candidates": candidates,
    }  # fmt: skip


def _median(
    solver: Solver, problem: Callable[[], Problem], repeats: int, time_limit_s: float
) -> tuple[SolveResult, float]:
    """Return the last result and the median seconds of the processor."""
    seconds = []
    for _ in range(repeats + (repeats > 1)):  # the first of several runs may load code
        fresh = problem()
        wall, cpu = time.perf_counter(), time.process_time()
        found = solver.solve(fresh, SolveOptions(time_limit_s=time_limit_s))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        seconds.append(found.solve_seconds * min(1.0, cpu / wall))
    return found, statistics.median(seconds[1:] or seconds)


def _profiling(problem: Problem, optimum: int, create_s: float) -> tuple[float, int, float]:
    """Return the seconds that the partitioner's candidates cost on a device, their number, and its schedule's gap."""
    order = compiler_order(problem.graph)
    rule = np.bincount(compiler_segments(problem.graph, problem.num_stages), minlength=problem.num_stages)
    profiler = Profiler(modelled_latency(problem, order))
    found = partition_by_profiling(rule.tolist(), profiler)
    stage_of = np.empty(problem.graph.num_ops, dtype=np.int64)
    stage_of[order] = np.repeat(np.arange(problem.num_stages), found.lengths)
    gap = problem.evaluate(stage_of).peak_param_bytes / optimum - 1
    return profiler.device_seconds(create_s), profiler.num_candidates, gap


def _text(row: dict[str, Any]) -> str:
    cells = []
    for label, seconds in row["seconds"].items():
        gap = "no schedule" if row["gaps"][label] is None else f"{row['gaps'][label]:.3%}"
        mark = "" if row["proven"].get(label, True) or label in (POLICY, POINTER) else " UNPROVEN"
        cells.append(f"{label} {1000 * seconds:.2f} ms ({gap}{mark})")
    return f"{row['model']} x{row['num_stages']}: " + ", ".join(cells)


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table: milliseconds of the policy and ratios to it, geometric means over K; last, over all models."""
    labels = [label for label in rows[0]["seconds"] if label != POLICY]
    heads = ["model", "policy, ms", *(f"{label} / policy" for label in labels)]
    heads += ["gap of policy", "of pointer", "of profiling"]
    lines = []
    models = list(dict.fromkeys(row["model"] for row in rows))
    for model in [*models, None]:
        mine = [row for row in rows if model in (row["model"], None)]
        ratios = [[row["seconds"][label] / row["seconds"][POLICY] for row in mine] for label in labels]
        cells = [model or "all", f"{1000 * _geometric([row['seconds'][POLICY] for row in mine]):.2f}"]
        cells += [_ratio(_geometric(r), max(r), show_most=model is None) for r in ratios]
        shown = (POLICY, POINTER, PROFILING)
        cells += [f"{100 * statistics.fmean(row['gaps'][label] for row in mine):.2f} %" for label in shown]
        lines.append(cells)
    return table(heads, lines)


def _ratio(mean: float, most: float, *, show_most: bool) -> str:
    text, largest = (f"{x:.3g}" if x < 1000 else f"{x:.0f}" for x in (mean, most))
    return f"{text} (at most {largest})" if show_most else text


def _geometric(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(IMAGENET_MODELS), metavar="MODEL")
    parser.add_argument("--stages", nargs="+", type=int, default=[4, 5, 6], metavar="K")
    parser.add_argument("--device", choices=list(CREATE_S), default="usb3", help="link that the profiling pays for")
    parser.add_argument(
        "--pointer", type=Path, help="another checkpoint of the pointer network than the one that comes along"
    )
    parser.add_argument("--repeats", type=int, default=9, help="runs of policy, pointer and exact; their median counts")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds a solver")
    parser.add_argument("--out", type=Path, help="folder of solving_times.json and where_it_pays.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
