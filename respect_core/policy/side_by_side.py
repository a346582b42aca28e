"""Several weights on the frozen validation sets: how good each network is alone, and with samples and set moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import FloatArray
from respect_core.policy.checkpoint import Checkpoint
from respect_core.policy.config import NetworkConfig
from respect_core.policy.frozen import ValidationSet, frozen_tables, load_frozen_sets
from respect_core.policy.scoring import Scorer
from respect_core.policy.solver import PolicySolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.tables.graph_rows import GraphTables, tables_to_graphs

NUM_SAMPLES: Final = 64
SEEDS: Final = 3
"""The search is run from so many seeds: its gaps are small and there are few problems."""


class SetGaps(NamedTuple):
    """Mean gaps to the optimal peak on one validation set, as fractions."""

    alone: float
    """Best of eight greedy orders of the network."""
    searched: float
    """`NUM_SAMPLES` samples with set moves."""
    problems: int


def set_gaps(checkpoint: Checkpoint) -> dict[str, SetGaps]:
    """Return the gaps of a message-passing network on every frozen set by its name.

    Raises:
        BadInputError: The checkpoint is of another architecture.
    """
    if not isinstance(checkpoint.config, NetworkConfig):
        raise BadInputError(
            f"checkpoint {checkpoint.version} is of another architecture, a message-passing one is needed"
        )
    scorer = Scorer(checkpoint.config, checkpoint.weights)
    solver, tables = PolicySolver(checkpoint, num_samples=NUM_SAMPLES), frozen_tables()
    out = {}
    for one in load_frozen_sets().sets:
        searched = _searched(one, tables[one.name], solver)
        out[one.name] = SetGaps(float(one.gaps(scorer).mean()), float(searched.mean()), len(one))
    return out


def _searched(one: ValidationSet, tables: GraphTables, solver: PolicySolver) -> FloatArray:
    """Return the gaps of the solver from every seed. Shape (SEEDS, L)."""
    graphs = {graph.name: graph for graph in tables_to_graphs(tables)}
    chunk, gaps = one.chunk, np.zeros((SEEDS, len(one)))
    for label in range(len(one)):
        problem = Problem.of(graphs[chunk.ids[int(chunk.graph_of[label])]], int(chunk.num_stages[label]))
        optimum = int(chunk.peaks[label])
        for seed in range(SEEDS):
            found = solver.solve(problem, SolveOptions(seed=seed)).value
            gaps[seed, label] = found[0] / optimum - 1 if found is not None and optimum else 0.0
    return gaps


def table_of(results: Mapping[str, Mapping[str, SetGaps]]) -> str:
    """Return results by name of the weights as lines of text."""
    lines = [
        f"{'mean gap to the optimal peak':<32}" + "".join(f"{name + ', alone':>16}{'searched':>11}" for name in results)
    ]
    for name, first in next(iter(results.values())).items():
        columns = (result[name] for result in results.values())
        cells = "".join(f"{gaps.alone:>16.3%}{gaps.searched:>11.4%}" for gaps in columns)
        lines.append(f"{f'{name} ({first.problems} problems)':<32}{cells}")
    return "\n".join(lines) + "\n"
