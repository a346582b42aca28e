"""Who schedules best in equal time: learned, random, fit and simple orders, set moves, exact search, compiler's rule.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.where_it_pays [--families local-30 ...] [--objectives ...] [--out docs]

Time is processor time of one thread, which a busy machine does not stretch, from a graph whose arrays are built to the
schedule, with compiled code loaded. A method that has no schedule yet counts as if it gave back the compiler's rule's.
Gaps are of the objective's first component to the proven optimum, or to the best schedule that any method found.
`--out` keeps results of families and objectives that are not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.graph import BoolArray, DnnGraph, FloatArray
from respect_core.objective import OBJECTIVES, Objective
from respect_core.solve.protocol import Problem
from respect_core.sources.catalog import IMAGENET_MODELS, NOTOP, load_model
from respect_core.sources.randwire import RandWireSpec, randwire_graph
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.benchmarks.where_it_pays_methods import LEARNED, METHODS, Study
from tests.benchmarks.where_it_pays_report import NAME, print_cell, write_report
from tests.benchmarks.where_it_pays_statistics import mean_of

BUDGETS_MS = (1.0, 3.0, 10.0, 30.0, 100.0)
STAGES = (4, 5, 6)
LATE_SHARE = 0.5
"""A method without a schedule on more of the problems than this is not among the best."""
FAMILIES = ("ImageNet", "NASNetMobile", "RandWire", "local-30", "wide-30", "local-200", "wide-100")
"""Ten layer graphs, K = 4, 5, 6, with and without top in turn; NASNetMobile with and without top, K = 3..8; RandWire
graphs of random weights; synthetic families with their number of ops; K of these goes round 4, 5, 6."""


def main() -> None:
    args = _arguments()
    study = Study([ms / 1000 for ms in args.budgets_ms])
    cells = _earlier(args.out)
    for objective in args.objectives:
        for family in args.families:
            cell = _cell(study, family, objective, args)
            print_cell(cell)
            cells = [c for c in cells if (c["family"], c["objective"]) != (family, objective)] + [cell]
            if args.out:
                write_report(args.out, sorted(cells, key=_place))


def _place(cell: dict[str, Any]) -> tuple[int, int]:
    return OBJECTIVES.index(cell["objective"]), FAMILIES.index(cell["family"])


def _earlier(folder: Path | None) -> list[dict[str, Any]]:
    path = folder / f"{NAME}.json" if folder else None
    return json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else []


def _cell(study: Study, family: str, objective: Objective, args: argparse.Namespace) -> dict[str, Any]:
    """Run all methods on a family under an objective and sum up."""
    values, missing = [], []  # of every problem: methods x budgets
    proofs, first_proven, proven = [], 0, 0
    for number, (graph, num_stages) in enumerate(_problems(family, args.graphs, args.seed)):
        problem = Problem.of(graph, num_stages, objective)
        if number == 0:
            study.traces(problem, args.seed, args.reference_s)  # loads all compiled code
        traces, reference = study.traces(problem, args.seed + number, args.reference_s)
        rule = traces["rule"].points[0][1]
        found = [[traces[m].at(s) for s in study.budgets_s] for m in METHODS]
        known = min(value for trace in traces.values() for _, value in trace.points)
        missing.append([[v is None for v in row] for row in found])
        values.append([[((rule if v is None else v) - known) / max(1, known) for v in row] for row in found])
        proofs.append(traces["exact"].proof_s)
        proven += reference.status == "optimal"
        first_proven += reference.lower_bound == known
    gaps = np.array(values)  # (problems, methods, budgets)
    is_late = np.array(missing).mean(axis=0) > LATE_SHARE  # (methods, budgets)
    return {
        "family": family,
        "objective": objective,
        "problems": len(gaps),
        "proven": proven,
        "first_component_proven": first_proven,
        "budgets_ms": [1000 * s for s in study.budgets_s],
        "reference_s": args.reference_s,
        "seed": args.seed,
        "policy": study.version,
        "proven_in_time": [
            sum(p is not None and p <= s for p in proofs) / len(proofs) for s in study.budgets_s
        ],
        "gaps": {m: [vars(mean_of(gaps[:, i, b])) for b in range(gaps.shape[2])] for i, m in enumerate(METHODS)},
        "best": [_best(gaps[:, :, b], is_late[:, b]) for b in range(gaps.shape[2])],
        "learning": [_learning(gaps[:, :, b]) for b in range(gaps.shape[2])],
    }  # fmt: skip


def _best(gaps: FloatArray, is_late: BoolArray) -> list[str]:
    """Return the methods that are not significantly worse than the one with the smallest mean, without late ones.

    Args:
        gaps: Shape (problems, methods).
        is_late: Whether a method has no schedule yet on many problems. Shape (methods,).
    """
    means = np.where(is_late, np.inf, gaps.mean(axis=0))
    first = int(means.argmin())
    return [m for i, m in enumerate(METHODS) if not is_late[i] and mean_of(gaps[:, i] - gaps[:, first]).low <= 0]


def _learning(gaps: FloatArray) -> dict[str, Any]:
    """Compare the better learned method with the best other one, problem by problem."""
    names = list(METHODS)
    means = gaps.mean(axis=0)
    learned = min((i for i, m in enumerate(names) if m in LEARNED), key=lambda i: means[i])
    other = min((i for i, m in enumerate(names) if m not in LEARNED), key=lambda i: means[i])
    difference = mean_of(gaps[:, learned] - gaps[:, other])
    return {"learned": names[learned], "other": names[other], **vars(difference)}


def _problems(family: str, num_graphs: int, seed: int) -> Iterator[tuple[DnnGraph, int]]:
    if family == "ImageNet":
        for number, name in enumerate(IMAGENET_MODELS):
            for num_stages in STAGES:
                yield load_model(name + ("", NOTOP)[(number + num_stages) % 2]), num_stages
    elif family == "NASNetMobile":
        for ending in ("", NOTOP):
            for num_stages in range(3, 9):
                yield load_model(family + ending), num_stages
    else:
        for index in range(num_graphs):
            yield _random_graph(family, index, seed), STAGES[index % len(STAGES)]


def _random_graph(family: str, index: int, seed: int) -> DnnGraph:
    if family == "RandWire":
        return randwire_graph(RandWireSpec(random_bytes=True, seed=seed + index))
    name, num_ops = family.split("-")
    return generate_graph(SyntheticSpec(family=name, num_ops=int(num_ops), seed=seed), index)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--budgets-ms", nargs="+", type=float, default=list(BUDGETS_MS), help="processor time")
    parser.add_argument("--graphs", type=int, default=24, help="graphs of each random family")
    parser.add_argument("--reference-s", type=float, default=2.0, help="limit of the exact search for the optimum")
    parser.add_argument("--seed", type=int, default=20_000, help="of graphs and searches")
    parser.add_argument("--out", type=Path, help="folder whose where_it_pays.json, .svg and .md are renewed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
