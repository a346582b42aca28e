"""Scores of a problem's ops under a budget, and the policy's greedy orders: what solving and validating share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph, FloatArray, IntArray
from respect_core.policy.config import NetworkConfig
from respect_core.policy.features import NUM_FEATURES, Float32Array, fill_features, problem_globals
from respect_core.policy.forward import Forward
from respect_core.solve.local_search_graph import SearchGraph

GREEDY_BUDGETS: Final = 8
"""Budgets of the greedy decodes; each needs a pass of the network."""

FIRST_SLACKS: Final = (0.04, 0.05)
"""How far above the lower bound the first budgets lie, as a share of it: one a direction."""

_PLACES: Final = (0.9, 0.88, 0.7, 0.68, 0.95, 0.94)
"""Where the next budgets lie between the bound and the incumbent: two in turn, one a direction."""


class Scorer:
    """A network that scores ops."""

    def __init__(self, config: NetworkConfig, weights: Mapping[str, Float32Array]) -> None:
        """Take weights as named and shaped by `respect_core.policy.forward.weight_shapes`."""
        self._forward = Forward(config, weights)

    def scores(
        self, arrays: SearchGraph, made_bytes: IntArray, num_stages: int, budget: int, shares: FloatArray
    ) -> FloatArray:
        """Return the coefficients of every op's score; see `respect_core.solve.local_search_orders.draw_order`.

        Args:
            arrays: The graph; its weights are what the stages share out.
            made_bytes: Bytes of the tensors that each op makes. Shape (n,).
            num_stages: K.
            budget: What a stage may hold.
            shares: See `problem_globals`. Shape (4,).

        Returns:
            Shape (n, 6).
        """
        n = arrays.weight.size
        features = np.empty((n, NUM_FEATURES), dtype=np.float32)
        numbers = problem_globals(n, num_stages, arrays.weight, max(1, budget), shares)
        fill_features(
            arrays.weight, arrays.first, arrays.near, made_bytes, num_stages, max(1, budget), numbers, features
        )
        return self._forward.coefficients(features, arrays.first, arrays.near).astype(np.float64)


class BudgetPath:
    """The budgets of one problem, one after the other: each depends on the best peak so far."""

    def __init__(self, bound: int) -> None:
        self._bound = bound

    def next(self, step: int, peak: int | None) -> int:
        """Return the budget of step ``step``, in the upper half of [bound, ``peak`` - 1]."""
        if peak is None:
            return int(self._bound * (1 + FIRST_SLACKS[0]))
        return max(self._bound, self._bound + int((peak - 1 - self._bound) * _PLACES[step % len(_PLACES)]))

    def next_greedy(self, step: int, peak: int | None) -> int:
        """Return the budget of a greedy order: without set moves, the first peak of either direction says little."""
        if step < len(FIRST_SLACKS):
            return int(self._bound * (1 + FIRST_SLACKS[step]))
        return self.next(step - len(FIRST_SLACKS), peak)


def made_bytes_of(graph: DnnGraph) -> IntArray:
    """Return the bytes of the tensors that each op makes. Shape (n,)."""
    made = np.zeros(graph.num_ops, dtype=np.int64)
    known = graph.tensor_producer != UNKNOWN
    np.add.at(made, graph.tensor_producer[known], graph.tensor_bytes[known])
    return made


def shared_out(count: int, parts: int) -> Iterator[int]:
    """Share ``count`` out over ``parts`` as evenly as can be, larger shares first."""
    for part in range(parts):
        yield count // parts + (part < count % parts)
