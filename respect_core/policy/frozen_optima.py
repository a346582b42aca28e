"""Proving the optimal peaks of the frozen validation sets, once.

    python -m respect_core.policy.frozen_optima --out datasets/validation/optima.json [--time-limit 60]

It takes some minutes. What the exact solver does not prove within its time is kept as null and is not judged by.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from respect_core.graph import DnnGraph
from respect_core.policy.frozen import FORMAT, STAGES, frozen_tables, graphs_digest
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.registry import get_solver
from respect_core.tables.files import write_atomically
from respect_core.tables.graph_rows import tables_to_graphs


def prove_peaks(graphs: Iterable[DnnGraph], time_limit_s: float) -> dict[str, list[int | None]]:
    """Return for each graph's id its optimal peaks for `STAGES`, None where the time was not enough for a proof."""
    return {graph.name: [_proven(graph, num_stages, time_limit_s) for num_stages in STAGES] for graph in graphs}


def _proven(graph: DnnGraph, num_stages: int, time_limit_s: float) -> int | None:
    found = get_solver("exact").solve(Problem.of(graph, num_stages), SolveOptions(time_limit_s=time_limit_s))
    return None if found.status != "optimal" or found.numbers is None else found.numbers.peak_param_bytes


def main() -> None:
    """Prove and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds a proof may take")
    args = parser.parse_args()
    sets: list[dict[str, Any]] = []
    for name, graphs in frozen_tables().items():
        peaks = prove_peaks(tables_to_graphs(graphs), args.time_limit)
        missing = sum(peak is None for row in peaks.values() for peak in row)
        sys.stderr.write(f"{name}: {len(peaks)} graphs, {missing} of {3 * len(peaks)} peaks are not proven\n")
        sys.stderr.flush()
        sets.append({"name": name, "graphs": graphs_digest(graphs), "peaks": peaks})
    content = {
        "about": "Proven smallest peak memory in bytes of the frozen validation graphs for K = 4, 5, 6.",
        "solver": f"exact {get_solver('exact').version}",
        "format": FORMAT,
        "sets": sets,
    }
    text = json.dumps(content, indent=1).replace("\n     ", " ").replace("\n    ]", " ]")
    write_atomically(args.out, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))


if __name__ == "__main__":
    main()
