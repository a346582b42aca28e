"""Orders for least activation memory: ours beside SERENITY's plain algorithm and the order of the file, in one run.

    python -m tests.benchmarks.memory_order [--serenity-limit 20] [--json memory.json]

Four tables: the networks on which SERENITY reports (peaks, with rewriting, and off-chip traffic at 256 KB, beside the
published figures, in decimal KB), then more counts of ops against time. `serenity` is its algorithm in plain Python as
`respect_core.memory.serenity` keeps it, with the same counting rules; a run that its limit ends is marked with a >.
Both are timed from the same graph object to the order, so that turning it into arrays counts; of each the best of
several runs counts (of one where it takes long), ours without loading compiled code.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from respect_core.graph import DnnGraph
from respect_core.memory.order import OrderResult, order_memory
from respect_core.memory.rewrite_search import RewriteOptions, rewrite_memory
from respect_core.memory.rules import PLACEMENTS, MemoryRules
from respect_core.memory.serenity import SerenitySolver
from respect_core.memory.traffic import off_chip_traffic
from respect_core.report.memory import PUBLISHED_KB
from respect_core.solve.protocol import SolveOptions
from respect_core.sources.catalog import load_model
from respect_core.sources.memory_networks import load_memory_network, memory_networks
from respect_core.sources.randwire import RandWireSpec, randwire_graph
from tests.memory_graphs import random_graph, read_on

ON_CHIP_BYTES = 256_000

_TENSOR = 28 * 28 * 48 * 4
"""Bytes of a state of the DARTS cell."""


def main() -> None:
    args = _arguments()
    rows = [{**_row(name, load_memory_network(name), args), **_rewritten(name, args)} for name in memory_networks()]
    _print_peaks(rows)
    _print_rewritten(rows)
    _print_traffic(rows)
    more = [_row(name, graph, args) for name, graph in _more_graphs()]
    _print_times(rows + more)
    if args.json:
        args.json.write_text(json.dumps(rows + more, indent=1) + "\n", encoding="utf-8")


def _row(name: str, graph: DnnGraph, args: argparse.Namespace) -> dict[str, Any]:
    """Solve one network with both solvers."""
    rules = MemoryRules(concat=args.concat)
    found = order_memory(graph, rules, SolveOptions(time_limit_s=args.time_limit))
    repeats = args.repeats if found.solve_seconds < 1 else 1
    options = SolveOptions(time_limit_s=args.time_limit)
    seconds = min(order_memory(graph, rules, options).solve_seconds for _ in range(repeats))
    options = SolveOptions(time_limit_s=args.serenity_limit)
    baseline = SerenitySolver().solve(graph, rules, options)
    slow = [baseline.solve_seconds]
    while len(slow) < 5 and sum(slow) < 3:
        slow.append(SerenitySolver().solve(graph, rules, options).solve_seconds)
    if baseline.status == found.status == "optimal" and baseline.peak_bytes != found.peak_bytes:
        raise SystemExit(f"{name}: {found.peak_bytes} and {baseline.peak_bytes} bytes are both called optimal")
    return {
        "network": name,
        "num_ops": graph.num_ops,
        "status": found.status,
        "peak_bytes": found.peak_bytes,
        "file_order_peak_bytes": found.file_order_peak_bytes,
        "gap": found.gap,
        "solve_seconds": seconds,
        "serenity_seconds": min(slow),
        "serenity_status": baseline.status,
        "traffic_bytes": _traffic(graph, rules, found),
        "file_order_traffic_bytes": off_chip_traffic(graph, ON_CHIP_BYTES, None, rules).total_bytes,
    }


def _rewritten(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Rewrite one network and order it: with sums in place, and with an `add` for each, which may be in place too."""
    graph, options = load_memory_network(name), SolveOptions(time_limit_s=args.time_limit)
    rules = MemoryRules(concat=args.concat)
    fused = rewrite_memory(graph, rules, options)
    added = rewrite_memory(
        graph, MemoryRules(concat=args.concat, elementwise="in-place"), options, RewriteOptions(accumulation="add")
    )
    return {
        "rewritten_concats": len(fused.rewritten.sites) if fused.rewritten is not None else 0,
        "possible_concats": fused.num_possible,
        "rewritten_peak_bytes": fused.best.peak_bytes,
        "rewritten_in_file_peak_bytes": added.best.peak_bytes,
        "rewritten_seconds": fused.best.solve_seconds,
    }


def _traffic(graph: DnnGraph, rules: MemoryRules, found: OrderResult) -> int:
    return off_chip_traffic(graph, ON_CHIP_BYTES, found.order, rules).total_bytes


def _print_peaks(rows: list[dict[str, Any]]) -> None:
    print(f"{'network':22} {'ops':>4} {'file KB':>9} {'ours KB':>9} {'':8} {'less':>6}   published: TFLite, DP, less")
    for row in rows:
        before, after = row["file_order_peak_bytes"], row["peak_bytes"]
        told = PUBLISHED_KB.get(row["network"])
        beside = f"{told[0]:8} {told[1]:5} {told[0] / told[1]:6.2f}x" if told else ""
        print(
            f"{row['network']:22} {row['num_ops']:4} {before / 1000:9.1f} {after / 1000:9.1f} {row['status']:8} "
            f"{before / after:5.2f}x   {beside}"
        )
    ours = [r["file_order_peak_bytes"] / r["peak_bytes"] for r in rows if r["network"] in PUBLISHED_KB]
    theirs = [before / after for before, after, _ in PUBLISHED_KB.values()]
    print(f"geometric mean of the {len(ours)} published ones: {_mean(ours):.2f}x, published {_mean(theirs):.2f}x\n")


def _print_rewritten(rows: list[dict[str, Any]]) -> None:
    print("rewritten: sums in place (`fused`), or an ADD for each, in place too, as in a file")
    print(f"{'network':22} {'kept':>6} {'fused KB':>9} {'less':>6} {'ADD KB':>9} {'s':>6}   published: rewritten, less")
    for row in rows:
        before, after = row["file_order_peak_bytes"], row["rewritten_peak_bytes"]
        told = PUBLISHED_KB.get(row["network"])
        beside = f"{told[2]:10} {told[0] / told[2]:9.2f}x" if told else ""
        print(
            f"{row['network']:22} {row['rewritten_concats']:3}/{row['possible_concats']:<2} {after / 1000:9.1f} "
            f"{before / after:5.2f}x {row['rewritten_in_file_peak_bytes'] / 1000:9.1f} {row['rewritten_seconds']:6.2f} "
            f"{beside}"
        )
    reader = rewrite_memory(read_on(load_memory_network("DARTS-normal"), _TENSOR), MemoryRules())
    print(
        f"DARTS-normal with a convolution that reads the cell: {reader.base.peak_bytes / 1000:.1f} KB, "
        f"rewritten {reader.best.peak_bytes / 1000:.1f} KB"
    )
    known = [(row, PUBLISHED_KB[row["network"]]) for row in rows if row["network"] in PUBLISHED_KB]
    cells = [(row, told) for row, told in known if row["network"].startswith("SwiftNet")]
    for what, chosen in ((f"the {len(known)} published ones", known), ("SwiftNet's cells", cells)):
        ours = _mean([row["file_order_peak_bytes"] / row["rewritten_peak_bytes"] for row, _ in chosen])
        crossed = _mean([1000 * before / row["rewritten_peak_bytes"] for row, (before, *_) in chosen])
        theirs = _mean([before / after for _, (before, _, after) in chosen])
        print(
            f"geometric mean of {what}: {ours:.2f}x against our file order, {crossed:.2f}x against the published one; "
            f"published {theirs:.2f}x"
        )
    print()


def _print_traffic(rows: list[dict[str, Any]]) -> None:
    print(f"off-chip traffic with {ON_CHIP_BYTES / 1000:g} KB on chip, reads and writes")
    print(f"{'network':22} {'file KB':>9} {'ours KB':>9} {'less':>6}")
    for row in rows:
        before, after = row["file_order_traffic_bytes"], row["traffic_bytes"]
        less = f"{before / after:5.2f}x" if after else "     all" if before else "    none"
        print(f"{row['network']:22} {before / 1000:9.1f} {after / 1000:9.1f} {less}")
    both = [row["file_order_traffic_bytes"] / row["traffic_bytes"] for row in rows if row["traffic_bytes"]]
    before, after = (sum(r[key] for r in rows) for key in ("file_order_traffic_bytes", "traffic_bytes"))
    gone = sum(1 for row in rows if row["file_order_traffic_bytes"] and not row["traffic_bytes"])
    mean = f"{_mean(both):.2f}x" if both else "-"
    print(
        f"geometric mean where some is left: {mean} ({len(both)} networks), published 1.76x; all gone in {gone}; "
        f"sum of all: {before / after if after else math.inf:.2f}x\n"
    )


def _print_times(rows: list[dict[str, Any]]) -> None:
    print(f"{'network':26} {'ops':>5} {'status':>9} {'gap':>7} {'ours ms':>10} {'serenity ms':>12} {'ratio':>10}")
    ratios = []
    for row in sorted(rows, key=lambda r: r["num_ops"]):
        ratio = row["serenity_seconds"] / row["solve_seconds"]
        ended = row["serenity_status"] == "optimal"
        if row["status"] == "optimal":
            ratios.append(ratio)
        gap = 0.0 if row["gap"] is None else row["gap"]
        print(
            f"{row['network']:26} {row['num_ops']:5} {row['status']:>9} {gap:7.4f} {1e3 * row['solve_seconds']:10.2f} "
            f"{'' if ended else '>':>2}{1e3 * row['serenity_seconds']:10.1f} {'' if ended else '>':>1}{ratio:8.0f}x"
        )
    paper = [row["serenity_seconds"] / row["solve_seconds"] for row in rows if row["network"] in memory_networks()]
    print(f"ratio on the networks above: geometric mean {_mean(paper):.0f}x, smallest {min(paper):.0f}x")
    print(f"ratio on all that ours proves: geometric mean {_mean(ratios):.0f}x, smallest {min(ratios):.0f}x")


def _more_graphs() -> Iterator[tuple[str, DnnGraph]]:
    """Yield larger and wider graphs."""
    for nodes in (16, 32, 48):
        for is_random in (False, True):
            spec = RandWireSpec(num_nodes=nodes, num_stages=1, random_bytes=is_random)
            yield f"randwire {nodes}{' random bytes' if is_random else ''}", randwire_graph(spec)
    yield "randwire 3 x 32", randwire_graph(RandWireSpec())
    for num_ops in (30, 60, 120, 250, 500):
        yield f"random {num_ops}, window 8", random_graph(num_ops, 8, 3, 0)
    for num_ops in (30, 40):
        yield f"random {num_ops}, wide", random_graph(num_ops, 0, 2, 0)
    for name in ("Xception", "DenseNet121", "InceptionV3", "NASNetMobile", "InceptionResNetV2"):
        yield name, load_model(name)


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concat", choices=PLACEMENTS, default="in-place")
    parser.add_argument("--repeats", type=int, default=20, help="runs of ours")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds for each run of ours")
    parser.add_argument("--serenity-limit", type=float, default=20.0, help="seconds for each run of serenity")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
