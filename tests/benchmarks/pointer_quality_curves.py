"""Training curves of the pointer network: the published way, and ours.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.pointer_quality_curves [--hidden 64] [--out docs] [--folder STATE]
    OMP_NUM_THREADS=1 python -m tests.benchmarks.pointer_quality_curves --long [--hidden 64] [--epochs 40]

Both begin with networks of the same size, learn from `local` graphs with 30 ops and their exact labels, in steps of 128
orders, and are judged after every epoch by the same held-out graphs. The published way masks visited ops only, so its
own orders are not legal: its cost is that of its own orders, its gap that of the orders that the same network points at
with the mask. An epoch has 20 steps of the published way, and of ours 15 of imitation or 40 of REINFORCE.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.policy.config import PointerConfig, TrainConfig
from respect_core.policy.pointer_orders import DrawnGraphs
from respect_core.policy.pretrain_pointer import FIRST_SEED, OURS, PUBLISHED, SLACKS, draw, held_out
from respect_core.policy.train import train
from respect_core.sources.synthetic import SyntheticSpec
from tests.benchmarks.where_it_pays_statistics import renew, table, write

NAME = "pointer_training"
PUBLISHED_GRAPHS, OUR_GRAPHS = 2560, 640
LONG_GRAPHS = 12_800
CHUNKS = 8
"""Sets of 2560 graphs that the epochs take in turn."""


def main() -> None:
    args = _arguments()
    if args.long:
        _long(args)
        return
    curves = []
    with nullcontext(args.folder) if args.folder else tempfile.TemporaryDirectory() as scratch:
        for name, (config, slacks, graphs) in _ways(args).items():
            folder = Path(scratch) / name.replace(" ", "-")
            folder.mkdir(parents=True, exist_ok=True)
            curves.append(_curve(name, config, slacks, graphs, folder, args))
            if args.out:
                _write(args.out, curves)
    print("\n".join(_lines(curves)))


class PlainGraphs:
    """`local` graphs with 30 ops, drawn once for all trainings."""

    def __init__(self, each: int) -> None:
        self._each = each
        self.digest = f"{NAME} {FIRST_SEED} {CHUNKS} {each}"

    def graphs(self, epoch: int) -> DrawnGraphs:
        """Return the graphs of an epoch; where it needs fewer, the chunk is shared out over the next epochs."""
        parts = PUBLISHED_GRAPHS // self._each
        chunk, part = divmod((epoch - 1) % (CHUNKS * parts), parts)
        return _chunk(chunk).pick(np.arange(part * self._each, (part + 1) * self._each))


class FreshGraphs:
    """`local` graphs with 30 ops, others in each epoch."""

    digest = f"{NAME} {FIRST_SEED} long {LONG_GRAPHS}"

    def graphs(self, epoch: int) -> DrawnGraphs:
        """Draw the graphs of an epoch."""
        return draw(SyntheticSpec(family="local", num_ops=30, seed=FIRST_SEED + 6000 + epoch), LONG_GRAPHS)


def _long(args: argparse.Namespace) -> None:
    """Train the published way alone, in epochs of 100 steps; their results are printed."""
    with nullcontext(args.folder) if args.folder else tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "long"
        folder.mkdir(parents=True, exist_ok=True)
        config = replace(PUBLISHED, epochs=args.epochs)
        _curve("published, long", config, (), LONG_GRAPHS, folder, args, FreshGraphs())


@cache
def _chunk(index: int) -> DrawnGraphs:
    return draw(SyntheticSpec(family="local", num_ops=30, seed=FIRST_SEED + 5000 + index), PUBLISHED_GRAPHS)


def _ways(args: argparse.Namespace) -> dict[str, tuple[TrainConfig, tuple[float, ...], int]]:
    """Return the settings, the budgets and the graphs of an epoch by name."""
    published = replace(PUBLISHED, epochs=args.epochs)
    mine = 6 * args.epochs // 10
    ours = replace(OURS, epochs=mine, imitation_epochs=4 * mine // 10)
    return {
        "published": (published, (), PUBLISHED_GRAPHS),
        "ours": (ours, SLACKS, OUR_GRAPHS),
    }


def _curve(
    name: str,
    config: TrainConfig,
    slacks: tuple[float, ...],
    graphs: int,
    folder: Path,
    args: argparse.Namespace,
    source: PlainGraphs | FreshGraphs | None = None,
) -> dict[str, Any]:
    outcome = train(
        source or PlainGraphs(graphs),
        held_out(args.held),
        folder=folder,
        config=config,
        pointer=PointerConfig(embed_size=args.hidden, hidden_size=args.hidden, slacks=slacks),
        on_epoch=lambda r: print(
            f"{name}: epoch {r.epoch}, cost {r.validation_cost:.4f}, gap {r.validation_gap:.3%}, learned from "
            f"{r.train_cost:.4f}, {r.epoch_seconds:.0f} s{', baseline replaced' if r.baseline_replaced else ''}",
            flush=True,
        ),
    )
    return {
        "name": name,
        "hidden_size": args.hidden,
        "slacks": list(slacks),
        "graphs_an_epoch": graphs,
        "steps": _steps(config, graphs),
        "held_out_graphs": args.held,
        "config": asdict(config),
        "untrained": {"validation_cost": outcome.untrained_cost, "validation_gap": outcome.untrained_gap},
        "epochs": [
            {key: value for key, value in result.numbers.items() if key != "epoch_seconds"} for result in outcome.epochs
        ],
    }


def _steps(config: TrainConfig, graphs: int) -> list[int]:
    """Return the optimiser steps taken before the first and after each epoch."""
    steps = [0]
    for epoch in range(1, config.epochs + 1):
        each = 3 if epoch <= config.imitation_epochs else config.samples
        steps.append(steps[-1] + graphs // (config.batch_size // each))
    return steps


def _write(folder: Path, curves: list[dict[str, Any]]) -> None:
    rounded = json.loads(json.dumps(curves), parse_float=lambda text: float(f"{float(text):.4g}"))
    write(folder / f"{NAME}.json", "[\n" + ",\n".join(json.dumps(curve) for curve in rounded) + "\n]\n")
    _plot(curves, folder / f"{NAME}.svg")
    renew(folder / "pointer.md", {"curves": _lines(curves)})


def _lines(curves: list[dict[str, Any]]) -> list[str]:
    rows = []
    for curve in curves:
        costs = [curve["untrained"]["validation_cost"], *(e["validation_cost"] for e in curve["epochs"])]
        gaps = [curve["untrained"]["validation_gap"], *(e["validation_gap"] for e in curve["epochs"])]
        best_cost, best_gap = costs.index(min(costs)), gaps.index(min(gaps))
        replaced = sum(e["baseline_replaced"] for e in curve["epochs"])
        rows.append(
            [
                curve["name"], f"{costs[0]:.3f}", f"{costs[best_cost]:.3f} ({best_cost})", f"{costs[-1]:.3f}",
                f"{100 * gaps[0]:.2f}", f"{100 * gaps[best_gap]:.2f} ({best_gap})", f"{100 * gaps[-1]:.2f}",
                str(replaced) if curve["config"]["samples"] == 1 else "-",
            ]
        )  # fmt: skip
    heads = [
        "training", "cost untrained", "best (epoch)", "last", "gap untrained, %", "best (epoch)", "last",
        "baselines frozen",
    ]  # fmt: skip
    return table(heads, rows)


def _plot(curves: list[dict[str, Any]], path: Path) -> None:
    """Draw cost and gap of the held-out graphs after each epoch."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"], mpl.rcParams["svg.fonttype"] = NAME, "none"
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    for number, curve in enumerate(curves):
        steps = curve["steps"][: len(curve["epochs"]) + 1]
        for axes, key, factor in ((left, "validation_cost", 1), (right, "validation_gap", 100)):
            values = [factor * point[key] for point in (curve["untrained"], *curve["epochs"])]
            axes.plot(steps, values, color=f"C{number}", lw=1.2, label=curve["name"])
            for point in curve["epochs"]:
                if point["baseline_replaced"]:
                    axes.plot(steps[point["epoch"]], factor * point[key], "o", ms=3, color=f"C{number}")
    left.set_ylabel("1 - cosine of the greedy orders")
    right.set_ylabel("mean gap of the peak memory, %")
    left.set_yscale("log")
    for axes in (left, right):
        axes.set_xlabel("steps of 128 orders (a dot: the baseline was replaced)")
        axes.grid(alpha=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    temporary = path.with_name(f".{path.name}")
    figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)
    temporary.replace(path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=64, help="width of the networks")
    parser.add_argument("--epochs", type=int, default=50, help="of the published way, ours takes six tenths")
    parser.add_argument("--long", action="store_true", help="the published way alone, in epochs of 100 steps")
    parser.add_argument("--held", type=int, default=100, help="graphs to judge by")
    parser.add_argument("--folder", type=Path, help="keeps the states to go on from after a kill")
    parser.add_argument("--out", type=Path, help="folder of pointer_training.json, its plot and pointer.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
