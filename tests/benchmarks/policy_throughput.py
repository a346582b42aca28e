"""Whether the policy's network helps `throughput`: weights side by side, and random and fit orders with the same moves.

    python -m tests.benchmarks.policy_throughput [--graphs 60] [--checkpoints NEW.safetensors ...] [--json FILE]

Gaps are of the longest stage time to the best schedule that any method here found. `network` is the best of 8 greedy
orders of the network alone, `policy` 64 starts that follow it and 8 fit ones, each improved by set moves; `random` and
`fit` make as many starts, `random =` and `fit =` as many as take the time of the first `policy`. Graphs are drawn from
seeds that no training used; the profiles take turns. Milliseconds are CPU time of one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.graph import FloatArray
from respect_core.policy.solver import NUM_PLAIN, PolicySolver, pretrained_path
from respect_core.solve.local_search_run import LocalSearch, Starts
from respect_core.solve.protocol import Problem, SolveOptions, Stopwatch
from respect_core.sources.catalog import NOTOP, load_model
from respect_core.sources.randwire import RandWireSpec, randwire_graph
from respect_core.sources.synthetic import SyntheticSpec, generate_graph

NUM_SAMPLES = 64
NUM_STARTS = NUM_SAMPLES + NUM_PLAIN
DEVICES = ("usb3", "pcie")
STAGES = (4, 5, 6)
COMPUTE = 2**12
"""What the compute of `local` and `wide` graphs is multiplied by in the sets where it outweighs the transfers."""

Method = Callable[[Problem, int], Any]


def main() -> None:
    args = _arguments()
    paths = [pretrained_path(), *args.checkpoints]
    policies = [PolicySolver.from_checkpoint(path) for path in paths]
    for number, policy in enumerate(policies):
        print(f"weights {number}: {policy.version}")
    rows = []
    for title, problems in _sets(args.graphs, args.seed):
        if any(title.startswith(wanted) for wanted in args.sets or [""]):
            rows += _compare(title, problems, policies)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _sets(count: int, seed: int) -> list[tuple[str, list[Problem]]]:
    sets = [("NASNetMobile", [load_model("NASNetMobile" + end) for end in ("", NOTOP) for _ in range(6)])]
    drawn = [randwire_graph(RandWireSpec(random_bytes=True, seed=seed + i)) for i in range(count)]
    sets.append(("RandWire, random weights", drawn))
    small = [
        randwire_graph(RandWireSpec(num_nodes=8, num_stages=3, resolution=56, random_bytes=True, seed=seed + i))
        for i in range(count)
    ]
    sets.append(("RandWire, 8 nodes x 3", small))
    for family, size in (("local", 30), ("local", 60), ("wide", 30), ("wide", 60)):
        spec = SyntheticSpec(family=family, num_ops=size, seed=seed)
        graphs = [generate_graph(spec, i) for i in range(count)]
        sets.append((f"{family}, {size} ops", graphs))
        sets.append((f"{family}, {size} ops, more compute", [replace(g, macs=g.macs * COMPUTE) for g in graphs]))
    return [(title, [_problem(title, graph, i) for i, graph in enumerate(graphs)]) for title, graphs in sets]


def _problem(title: str, graph: Any, number: int) -> Problem:
    num_stages = 3 + number % 6 if title == "NASNetMobile" else STAGES[number % 3]
    device = DEVICES[0] if title == "NASNetMobile" else DEVICES[number % 2]
    return Problem.of(graph, num_stages, "throughput", device=device)


def _compare(title: str, problems: Sequence[Problem], policies: Sequence[PolicySolver]) -> list[dict[str, Any]]:
    methods: dict[str, Method] = {}
    for number, policy in enumerate(policies):
        methods[f"network, weights {number}"] = _solver(policy.bare())
        methods[f"policy, weights {number}"] = _solver(PolicySolver(policy.checkpoint, num_samples=NUM_SAMPLES))
    methods |= {"random": _search("random", NUM_STARTS), "fit": _search("fit", NUM_STARTS)}
    found = {name: _measure(problems, method) for name, method in methods.items()}
    for kind in ("random", "fit"):
        count = max(1, round(NUM_STARTS * found["policy, weights 0"][1] / found[kind][1]))
        found[f"{kind} = ({count})"] = _measure(problems, _search(kind, count))
    best = np.min([values for values, _ in found.values()], axis=0)
    print(f"\n{title}: {len(problems)} problems")
    rows = []
    for name, (values, cpu_s) in found.items():
        gaps = values / best - 1
        row = {
            "set": title,
            "method": name,
            "mean_gap": float(gaps.mean()),
            "half_width_95": float(1.96 * gaps.std() / np.sqrt(gaps.size)),
            "best": float((gaps == 0).mean()),
            "cpu_ms": 1e3 * cpu_s,
            "problems": len(problems),
        }
        rows.append(row)
        print(
            f"{name:>20}: mean gap {row['mean_gap']:8.4%} ± {row['half_width_95']:.4%}, best {row['best']:6.1%}, "
            f"{row['cpu_ms']:8.3f} ms CPU",
            flush=True,
        )
    return rows


def _measure(problems: Sequence[Problem], method: Method) -> tuple[FloatArray, float]:
    """Return the longest stage time of every problem in ns, and the mean CPU seconds."""
    method(problems[0], 0)
    values, cpu = [], []
    for seed, problem in enumerate(problems):
        _ = problem.terms
        LocalSearch(problem, seed)  # the arrays of a graph are kept with it
        began = time.thread_time()
        stage_of = method(problem, seed)
        cpu.append(time.thread_time() - began)
        values.append(problem.evaluate(stage_of).bottleneck_ns)
    return np.array(values, dtype=np.float64), float(np.mean(cpu))


def _solver(solver: PolicySolver) -> Method:
    return lambda problem, seed: solver.solve(problem, SolveOptions(seed=seed)).stage_of


def _search(kind: str, count: int) -> Method:
    starts = Starts(random=count) if kind == "random" else Starts(fit=count)
    return lambda problem, seed: LocalSearch(problem, seed).run(starts, Stopwatch(60.0))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=60, help="graphs of each drawn set")
    parser.add_argument("--sets", nargs="*", help="only sets whose titles begin so, such as RandWire")
    parser.add_argument("--seed", type=int, default=31_000, help="of graphs; trainings use others")
    parser.add_argument("--checkpoints", type=Path, nargs="*", default=[], help="other weights to set beside")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
