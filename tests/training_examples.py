"""Small labelled graphs to train and judge policies with; the labels are proven by brute force or CP-SAT."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from respect_core.graph import DnnGraph, IntArray
from respect_core.solve.ilp import IlpSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.synthetic import SyntheticSpec, generate_graph


class Labelled(NamedTuple):
    graph: DnnGraph
    num_stages: int
    stage_of: IntArray
    optimal_peak_bytes: int


@cache
def labelled(num_ops: int, count: int, stages: tuple[int, ...] = (3,), seed: int = 5) -> tuple[Labelled, ...]:
    """Return ``count`` synthetic graphs with an optimal label for every K."""
    spec = SyntheticSpec(family="local", num_ops=num_ops, seed=seed)
    examples = []
    for index in range(count):
        graph = generate_graph(spec, index)
        for num_stages in stages:
            found = IlpSolver().solve(Problem.of(graph, num_stages), SolveOptions())
            assert found.status == "optimal" and found.value is not None
            examples.append(
                Labelled(
                    graph=graph,
                    num_stages=num_stages,
                    stage_of=np.array(found.stage_of),
                    optimal_peak_bytes=found.value[0],
                )
            )
    return tuple(examples)
