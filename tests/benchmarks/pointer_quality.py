"""What the pointer network's greedy orders are worth, and how long they take, beside its baselines in one run.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.pointer_quality [--pointer CHECKPOINT] [--graphs 1000] [--out docs]

Gaps are those of an order's optimal split to the proven optimum of the peak memory. The ten ImageNet layer graphs
without top, where RESPECT's released schedules are known (`pointer_quality_released.json`), and fresh `local` graphs
with 30 ops, for K = 4, 5, 6 each. The untrained networks, three of each kind, have the sizes of the trained one: with
its budgets, and as published, without any. There are as many random orders as the pointer may decode. Times are the
processor's, of one thread from a fresh graph object, code loaded.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.graph import DnnGraph, IntArray
from respect_core.policy.checkpoint import Checkpoint
from respect_core.policy.config import PointerConfig
from respect_core.policy.decode import Budgets, PointerDecoder, weight_shapes
from respect_core.policy.solver import PointerSolver, pointer_path
from respect_core.solve.exact import ExactSolver
from respect_core.solve.orders import SIMPLE_ORDERS, random_order
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.split_loops import smallest_peak
from respect_core.sources.catalog import IMAGENET_MODELS, load_model
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.benchmarks.where_it_pays_statistics import Mean, mean_of, percent, renew, table, write

NAME = "pointer_quality"
STAGES = (4, 5, 6)
MIB = 2**20
FRESH_SEED = 7_310_000
LARGEST = ("InceptionResNetV2-notop", "InceptionResNetV2")
UNTRAINED = 3
Orders = Callable[[DnnGraph, int], Sequence[IntArray]]


def main() -> None:
    args = _arguments()
    trained = PointerSolver.from_checkpoint(args.pointer).checkpoint
    methods = _methods(trained, args.seed)
    results: dict[str, Any] = {"checkpoint": trained.version, "seed": args.seed}
    models = [load_model(f"{name}-notop") for name in IMAGENET_MODELS]
    fresh = [
        generate_graph(SyntheticSpec(family="local", num_ops=30, seed=FRESH_SEED + args.seed), i)
        for i in range(args.graphs)
    ]
    for title, graphs in (("models", models), ("local", fresh)):
        optima = _optima(graphs)
        gaps = {name: np.stack([_gaps(graphs, one, optima) for one in some]) for name, some in methods.items()}
        if title == "models":
            gaps |= _released(optima)
        results[title] = _summary(gaps)
        print(f"\n{title}: {len(graphs)} graphs x K = 4, 5, 6")
        print("\n".join(_lines(results[title])), flush=True)
    results["times"] = [_times(name, trained, methods, args.repeats) for name in LARGEST]
    print("\n" + "\n".join(_time_lines(results["times"])))
    if args.out:
        rounded = json.loads(json.dumps(results), parse_float=lambda text: float(f"{float(text):.5g}"))
        write(args.out / f"{NAME}.json", json.dumps(rounded, indent=1) + "\n")
        tables = {name: _lines(results[name]) for name in ("models", "local")}
        renew(args.out / "pointer.md", tables | {"times": _time_lines(results["times"])})


def _methods(trained: Checkpoint, seed: int) -> dict[str, list[Orders]]:
    """Return what makes the orders of a graph for K, by name; several where it takes an average."""
    assert isinstance(trained.config, PointerConfig)
    config, plain = trained.config, replace(trained.config, slacks=())
    rng = np.random.default_rng(seed)

    def as_many_random(graph: DnnGraph, num_stages: int) -> list[IntArray]:
        most = Budgets(graph.param_bytes, num_stages, config.slacks).most if config.knows_budget else 1
        return [random_order(graph, rng) for _ in range(most)]

    seeds = range(seed, seed + UNTRAINED)
    return {
        "pointer": [PointerDecoder(config, trained.weights).orders],
        "pointer, untrained": [PointerDecoder(config, _untrained(config, s)).orders for s in seeds],
        "as published, untrained": [PointerDecoder(plain, _untrained(plain, s)).orders for s in seeds],
        "Kahn": [lambda graph, _: [SIMPLE_ORDERS["order-kahn"](graph)]],
        "best of 3 simple orders": [lambda graph, _: [order(graph) for order in SIMPLE_ORDERS.values()]],
        "best of as many random orders": [as_many_random],
    }


def _untrained(config: PointerConfig, seed: int) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Return random weights as torch would begin with: evenly in 1 / sqrt(width), norms that change nothing."""
    rng, weights = np.random.default_rng(seed), {}
    for name, shape in weight_shapes(config).items():
        width = config.hidden_size if name.startswith(("encoder.", "decoder.")) else shape[-1]
        values = rng.uniform(-(width**-0.5), width**-0.5, shape)
        if "norm" in name:
            values = np.full(shape, float(name.endswith("weight")))
        weights[name] = values.astype(np.float32)
    return weights


def _optima(graphs: Sequence[DnnGraph]) -> IntArray:
    """Return the proven smallest peaks. Shape (G, 3)."""
    peaks = np.empty((len(graphs), len(STAGES)), dtype=np.int64)
    for g, graph in enumerate(graphs):
        for j, num_stages in enumerate(STAGES):
            found = ExactSolver().solve(Problem.of(graph, num_stages, "peak-memory"), SolveOptions())
            assert found.status == "optimal" and found.value is not None
            peaks[g, j] = found.value[0]
    return peaks


def _gaps(graphs: Sequence[DnnGraph], orders: Orders, optima: IntArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the gap of the best order's optimal split. Shape (G, 3)."""
    gaps = np.empty(optima.shape)
    for g, graph in enumerate(graphs):
        for j, num_stages in enumerate(STAGES):
            peaks = []
            for order in orders(graph, num_stages):
                prefix = np.concatenate([[0], np.cumsum(graph.param_bytes[order])]).astype(np.int64)
                peaks.append(int(smallest_peak(prefix, num_stages)))
            gaps[g, j] = min(peaks) / optima[g, j] - 1
    return gaps


def _released(optima: IntArray) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the gaps of the published schedules of the models, in their order. Shapes (1, 10, 3)."""
    facts = json.loads(Path(__file__).with_name(f"{NAME}_released.json").read_text(encoding="utf-8"))
    assert tuple(facts["num_stages"]) == STAGES
    names = {"RESPECT, released": "released_mib", "parameter-count rule": "parameter_count_rule_mib"}
    return {
        name: np.array([facts[key][model] for model in IMAGENET_MODELS]) * MIB / optima[None] - 1
        for name, key in names.items()
    }


def _summary(gaps: Mapping[str, np.ndarray[Any, np.dtype[np.float64]]]) -> dict[str, Any]:
    """Return the mean with its interval over the graphs, the worst case and the share of optimal ones."""
    out = {}
    for name, each in gaps.items():  # (tries, G, 3)
        mean = mean_of(each.mean(axis=(0, 2)))
        optimal = float((each < 1e-4).mean())  # the published figures have four digits
        out[name] = {**asdict(mean), "worst": float(each.max()), "optimal": optimal}
    return out


def _lines(results: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = [
        [
            name,
            percent(Mean(mean=r["mean"], low=r["low"], high=r["high"])),
            f"{100 * r['worst']:.1f}",
            f"{100 * r['optimal']:.0f}",
        ]
        for name, r in results.items()
    ]
    return table(["orders", "mean gap, % (95 % confidence)", "worst, %", "optimal, %"], rows)


def _times(name: str, trained: Checkpoint, methods: Mapping[str, Sequence[Orders]], repeats: int) -> dict[str, Any]:
    """Return milliseconds of one thread for K = 4: all orders, and features to schedule."""
    solver, graph = PointerSolver(trained), load_model(name)

    def median(run: Callable[[DnnGraph], object]) -> float:
        run(replace(graph))
        taken = []
        for _ in range(repeats):
            fresh = replace(graph)
            began = time.process_time()
            run(fresh)
            taken.append(1000 * (time.process_time() - began))
        return statistics.median(taken)

    return {
        "model": name,
        "num_ops": graph.num_ops,
        "orders_ms": median(lambda fresh: methods["pointer"][0](fresh, 4)),
        "published_form_ms": median(lambda fresh: methods["as published, untrained"][0](fresh, 4)),
        "schedule_ms": median(lambda fresh: solver.solve(Problem.of(fresh, 4, "peak-memory"), SolveOptions())),
    }


def _time_lines(times: Sequence[Mapping[str, Any]]) -> list[str]:
    heads = ["graph", "ops", "greedy orders, ms", "features to schedule, ms", "one order as published, float32, ms"]
    return table(
        heads,
        [
            [t["model"], str(t["num_ops"]), *(f"{t[key]:.1f}" for key in ("orders_ms", "schedule_ms", "published_form_ms"))]  # noqa: E501
            for t in times
        ],
    )  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pointer", type=Path, default=pointer_path(), help="other than the shipped checkpoint")
    parser.add_argument("--graphs", type=int, default=1000, help="fresh local graphs")
    parser.add_argument("--seed", type=int, default=0, help="of the fresh graphs and random orders")
    parser.add_argument("--repeats", type=int, default=9, help="timed runs; their median counts")
    parser.add_argument("--out", type=Path, help="folder of pointer_quality.json and pointer.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
