"""How far the policy's schedules are above the proven optimal peak, beside random and fit orders with the same moves.

    python -m tests.benchmarks.policy_quality [--graphs 1000] [--large 60] [--seeds 10] [--json quality.json]

Every method runs in this process on one thread, on graphs drawn from a seed that no training used. `policy 64` makes
64 starts that follow the network and 8 fit ones, each improved by set moves; `policy` makes as many as it does by
default; `network` is the best of 8 greedy orders of the network alone; `random` and `fit` make as many starts as
`policy 64`, `random =` and `fit =` as many as take the time of `policy`. Milliseconds an instance are CPU time of the
thread, from the graph's arrays to the schedule; the wall's median is beside. At the end, every limit stands beside
what was seen.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.graph import DnnGraph, IntArray
from respect_core.policy.checkpoint import read_checkpoint
from respect_core.policy.solver import NUM_PLAIN, PolicySolver, pretrained_path
from respect_core.solve.exact import ExactSolver
from respect_core.solve.label_batches import label_small_graphs
from respect_core.solve.local_search import default_starts
from respect_core.solve.local_search_graph import search_graph
from respect_core.solve.local_search_run import LocalSearch, Starts
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions, Stopwatch
from respect_core.sources.catalog import IMAGENET_MODELS, load_model
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from respect_core.sources.synthetic_batch import generate_tables

STAGES = (4, 5, 6)
NUM_SAMPLES = 64
LIMIT = SolveOptions(time_limit_s=60.0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A problem and its optimal peak."""

    problem: Problem
    optimum: int
    proven: bool


Method = Callable[[Problem, int], IntArray]


def main() -> None:
    args = _arguments()
    checkpoint = read_checkpoint(args.checkpoint or pretrained_path())
    policy = PolicySolver(checkpoint)
    print(f"policy {policy.version}; {args.graphs} graphs of 30 ops a family, seed {args.seed}")
    rows: list[dict[str, Any]] = []
    for title, cases in _sets(args):
        proven = sum(case.proven for case in cases)
        print(f"\n{title}: {len(cases)} problems, {proven} optima proven (the others against the best lower bound)")
        rows += _compare(title, cases, policy)
    if args.models:
        rows += _models(policy, args.seeds)
    _print_musts(rows)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Must:
    """What a row of the benchmark must not exceed."""

    set: str
    method: str
    what: str
    limit: float
    unit: str = "%"

    def seen(self, row: dict[str, Any]) -> float:
        """Return what the row shows, in the unit of the limit."""
        return float(row[self.what]) * (100 if self.unit == "%" else 1)

    def holds(self, seen: float) -> bool:
        """Tell whether that is good enough; a number of problems solved optimally must not be smaller."""
        return seen >= self.limit if self.unit == "of 30" else seen <= self.limit


def musts() -> list[Must]:
    """Return every limit, in the order of the benchmark's sets."""
    out = []
    for family, gap in (("local", 0.02), ("wide", 0.10)):
        title = f"{family}, 30 ops"
        out.append(Must(set=title, method=f"policy {NUM_SAMPLES}", what="mean_gap", limit=gap))
        out.append(Must(set=title, method=f"policy {NUM_SAMPLES}", what="cpu_ms", limit=2.0, unit="ms"))
        out.append(Must(set=title, method="network", what="mean_gap", limit=1.3))
    for size, gap in ((100, 0.05), (200, 0.015)):
        title = f"local, {size} ops"
        out.append(Must(set=title, method=f"policy {NUM_SAMPLES}", what="mean_gap", limit=gap))
        out.append(Must(set=title, method=f"policy {NUM_SAMPLES}", what="cpu_ms", limit=10.0, unit="ms"))
    for top in ("with top", "without top"):
        out.append(Must(set=f"models {top}", method="policy", what="optimal_least", limit=30, unit="of 30"))
        out.append(Must(set=f"models {top}", method="policy", what="cpu_ms_longest", limit=10.0, unit="ms"))
    return out


def _print_musts(rows: Sequence[dict[str, Any]]) -> None:
    """Print every limit beside what was seen; what this run left out is missing."""
    found = {(row["set"], row["method"]): row for row in rows}
    print(f"\n{'must':<22} {'method':<10} {'what':<15} {'limit':>14} {'seen':>14}")
    for must in musts():
        row = found.get((must.set, must.method))
        if row is None:
            continue
        sign, seen = (">=" if must.unit == "of 30" else "<="), must.seen(row)
        limit = f"{sign} {must.limit:g} {must.unit}"
        print(
            f"{must.set:<22} {must.method:<10} {must.what:<15} {limit:>14} {seen:>8.4g} {must.unit:<5} "
            f"{'yes' if must.holds(seen) else 'NO'}{_unproven(row)}"
        )


def _unproven(row: dict[str, Any]) -> str:
    total = row.get("problems", row.get("of"))
    missing = total - row["proven"]
    return f" ({missing} of {total} optima not proven: against their lower bounds)" if missing else ""


def _sets(args: argparse.Namespace) -> list[tuple[str, list[Case]]]:
    out = [(f"{family}, 30 ops", _small(family, args.graphs, args.seed)) for family in ("local", "wide")]
    sizes = (100, 200) if args.large else ()
    return out + [(f"local, {size} ops", _large(size, args.large, args.seed)) for size in sizes]


def _small(family: str, count: int, seed: int) -> list[Case]:
    """One K a graph, in turn; graphs that the compiled batches leave go to the general search."""
    spec = SyntheticSpec(family=family, seed=seed)
    labels = label_small_graphs(generate_tables(spec, range(count)), STAGES, "1", time_limit_s=60).labels
    peaks = {(row["graph_id"], row["num_stages"]): row["peak_param_bytes"] for row in labels.to_pylist()}
    cases = []
    for i in range(count):
        problem = Problem.of(generate_graph(spec, i), STAGES[i % 3])
        peak = peaks.get((problem.graph.name, problem.num_stages))
        cases.append(_proven(problem) if peak is None else Case(problem=problem, optimum=peak, proven=True))
    return cases


def _large(size: int, count: int, seed: int) -> list[Case]:
    spec = SyntheticSpec(family="local", num_ops=size, seed=seed)
    return [_proven(Problem.of(generate_graph(spec, i), STAGES[i % 3])) for i in range(count)]


def _proven(problem: Problem, limit_s: float = 20.0) -> Case:
    found = ExactSolver().solve(problem, SolveOptions(time_limit_s=limit_s))
    assert found.lower_bound is not None
    return Case(problem=problem, optimum=found.lower_bound, proven=found.gap == 0)


def _compare(title: str, cases: Sequence[Case], policy: PolicySolver) -> list[dict[str, Any]]:
    starts = NUM_SAMPLES + NUM_PLAIN
    rows = [
        _measure(title, "best simple order", cases, _solver(BestOrderSolver())),
        _measure(title, "network", cases, _solver(policy.bare())),
    ]
    for name, more in (("random", Starts(random=starts)), ("fit", Starts(fit=starts))):
        rows.append(_measure(title, name, cases, _search(more)))
    sampled = PolicySolver(policy.checkpoint, num_samples=NUM_SAMPLES)
    rows.append(_measure(title, f"policy {NUM_SAMPLES}", cases, _solver(sampled)))
    rows.append(_measure(title, "policy", cases, _solver(policy)))
    for at, name in ((2, "random"), (3, "fit")):
        count = max(1, round(starts * rows[5]["cpu_ms"] / rows[at]["cpu_ms"]))
        more = Starts(random=count) if name == "random" else Starts(fit=count)
        rows.append(_measure(title, f"{name} = ({count})", cases, _search(more)))
    return rows


def _solver(solver: Any) -> Method:
    def method(problem: Problem, seed: int) -> IntArray:
        return np.array(solver.solve(problem, replace(LIMIT, seed=seed)).stage_of)

    return method


def _search(starts: Starts) -> Method:
    def method(problem: Problem, seed: int) -> IntArray:
        found = LocalSearch(problem, seed).run(starts, Stopwatch(60.0))
        assert found is not None
        return found

    return method


def _measure(title: str, name: str, cases: Sequence[Case], method: Method) -> dict[str, Any]:
    method(cases[0].problem, 0)
    gaps, cpu, wall = [], [], []
    for seed, case in enumerate(cases):
        # Parts of the problem, kept with it: the arrays of the graph, and the times that a result is checked with.
        search_graph(case.problem.graph)
        _ = case.problem.terms
        method_seconds, method_cpu = time.perf_counter(), time.thread_time()
        stage_of = method(case.problem, seed)
        cpu.append(time.thread_time() - method_cpu)
        wall.append(time.perf_counter() - method_seconds)
        peak = case.problem.evaluate(stage_of).peak_param_bytes
        assert peak >= case.optimum or not case.proven
        gaps.append(peak / case.optimum - 1 if case.optimum else 0.0)
    gap = np.array(gaps)
    row = {
        "set": title,
        "method": name,
        "mean_gap": float(gap.mean()),
        "half_width_95": float(1.96 * gap.std() / np.sqrt(gap.size)),
        "worst_gap": float(gap.max()),
        "optimal": float((gap == 0).mean()),
        "cpu_ms": 1e3 * statistics.mean(cpu),
        "wall_ms_median": 1e3 * statistics.median(wall),
        "problems": len(cases),
        "proven": sum(case.proven for case in cases),
    }
    print(
        f"{name:>20}: mean gap {row['mean_gap']:8.4%} ± {row['half_width_95']:.4%}, worst {row['worst_gap']:7.2%}, "
        f"optimal {row['optimal']:6.1%}, {row['cpu_ms']:7.3f} ms CPU ({row['wall_ms_median']:.3f} wall)",
        flush=True,
    )
    return row


def _models(policy: PolicySolver, seeds: int) -> list[dict[str, Any]]:
    """Ten models, with and without top, K = 4, 5, 6, several seeds: optimal or not, and the longest time."""
    rows = []
    print(f"\nTen models x K = 4, 5, 6, {seeds} seeds: problems solved optimally, of 30 (least over the seeds)")
    for title, suffix in (("with top", ""), ("without top", "-notop")):
        cases = [
            _proven(Problem.of(graph, K))
            for graph in map(_model, (n + suffix for n in IMAGENET_MODELS))
            for K in STAGES
        ]
        for name, method in (
            ("best simple order", _solver(BestOrderSolver())),
            ("random", _default_search("random")),
            ("fit", _default_search("fit")),
            ("policy", _solver(policy)),
        ):
            rows.append(_model_row(title, name, cases, method, seeds))
    return rows


def _default_search(kind: str) -> Method:
    def method(problem: Problem, seed: int) -> IntArray:
        count = min(default_starts(problem), NUM_SAMPLES + NUM_PLAIN)
        return _search(Starts(random=count) if kind == "random" else Starts(fit=count))(problem, seed)

    return method


def _model(name: str) -> DnnGraph:
    return load_model(name)


def _model_row(title: str, name: str, cases: Sequence[Case], method: Method, seeds: int) -> dict[str, Any]:
    hits = np.zeros((seeds, len(cases)), dtype=bool)
    cpu = np.zeros((seeds, len(cases)))
    for i, case in enumerate(cases):
        method(case.problem, 0)  # also makes the arrays and terms that are kept with the graph and the problem
        for seed in range(seeds):
            began = time.thread_time()
            stage_of = method(case.problem, seed)
            cpu[seed, i] = time.thread_time() - began
            hits[seed, i] = case.problem.evaluate(stage_of).peak_param_bytes == case.optimum
    missed = sorted({cases[i].problem.graph.name for i in np.flatnonzero(~hits.all(axis=0)).tolist()})
    slowest = cases[int(cpu.max(axis=0).argmax())].problem.graph
    row = {
        "set": f"models {title}",
        "method": name,
        "optimal_least": int(hits.sum(axis=1).min()),
        "optimal_mean": float(hits.sum(axis=1).mean()),
        "of": len(cases),
        "proven": sum(case.proven for case in cases),
        "cpu_ms_median": 1e3 * float(np.median(cpu)),
        "cpu_ms_longest": 1e3 * float(np.median(cpu, axis=0).max()),
    }
    print(
        f"{title:>12} {name:>18}: {row['optimal_least']} of {row['of']} (mean {row['optimal_mean']:.1f}; "
        f"{row['proven']} proven), {row['cpu_ms_median']:.2f} ms median, {row['cpu_ms_longest']:.2f} ms on "
        f"{slowest.name} ({slowest.num_ops} ops){' missed: ' + ', '.join(missed) if missed else ''}",
        flush=True,
    )
    return row


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=1000, help="graphs of 30 ops a family")
    parser.add_argument("--large", type=int, default=60, help="graphs of 100 and of 200 ops")
    parser.add_argument("--models", action=argparse.BooleanOptionalAction, default=True, help="the ten models too")
    parser.add_argument("--seeds", type=int, default=10, help="seeds on the ten models")
    parser.add_argument("--seed", type=int, default=20_261_129, help="seed of the graphs; trainings use others")
    parser.add_argument("--checkpoint", type=Path, help="other weights than those that come with the program")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
