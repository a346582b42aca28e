"""The best schedule that the exact search knows, and ways to good ones that prove nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from respect_core.graph import IntArray
from respect_core.solve.exact_balance import even_out
from respect_core.solve.exact_model import Model
from respect_core.solve.protocol import Problem, SolveOptions, Stopwatch
from respect_core.solve.split import Splitter

LARGE_OPS: Final = 1500
"""Splitting orders of more ops than this by time takes too long to start with."""

NUM_RANDOM: Final = 32
"""Random orders that are split at the end."""


class Incumbent:
    """The best schedule so far.

    Args:
        problem: The problem.
        options: How long and from which seed to solve.
        watch: The time left.
        stop: Evening out ends soon once ``stop[0]`` is not 0. Shape (1,).
    """

    def __init__(self, problem: Problem, options: SolveOptions, watch: Stopwatch, stop: IntArray) -> None:
        self.problem, self.options, self.watch, self.stop = problem, options, watch, stop
        self.stage_of: IntArray | None = None
        """Shape (n,); None where none is known."""
        self.value: tuple[int, ...] = ()
        """Components of the objective."""
        self._splitter: Splitter | None = None

    @property
    def worst_first(self) -> int:
        """The first component of the best schedule known, for `weighted` its peak."""
        if self.problem.objective == "weighted" and self.stage_of is not None:
            return self.problem.evaluate(self.stage_of).peak_param_bytes
        return self.value[0]

    def keep(self, stage_of: Sequence[int] | IntArray | None) -> None:
        """Take a legal schedule if it is better."""
        if stage_of is None:
            return
        value = self.problem.value(self.problem.evaluate(stage_of))
        if self.stage_of is None or value < self.value:
            self.stage_of, self.value = np.array(stage_of, dtype=np.int64), value

    def try_orders(self) -> None:
        """Split the simple orders."""
        from respect_core.solve.orders import BestOrderSolver

        problem = self.problem
        if problem.graph.num_ops > LARGE_OPS and problem.objective == "throughput":
            problem = replace(problem, objective="peak-memory")
        self.keep(BestOrderSolver().solve(problem, replace(self.options, time_limit_s=self.watch.left)).stage_of)

    def try_random_orders(self) -> None:
        """Split random orders, but for graphs where that takes too long."""
        from respect_core.solve.orders import RandomOrdersSolver

        if self.watch.left > 0 and self.problem.graph.num_ops <= LARGE_OPS:
            options = replace(self.options, time_limit_s=self.watch.left)
            self.keep(RandomOrdersSolver(NUM_RANDOM).solve(self.problem, options).stage_of)

    def even_out_orders(self) -> None:
        """Split the simple orders, bring the loads of each split closer together, and cut the order that this suggests.

        The better split does not always lead to the better schedule: another one may cross far less once the loads of
        both are even. The first order is looked at in any case, and first, so that more time never ends worse.
        """
        from respect_core.solve.orders import SIMPLE_ORDERS

        for number, order in enumerate(SIMPLE_ORDERS.values()):
            if number and self.watch.left == 0:
                return
            stage_of = self._split(order(self.problem.graph))
            if stage_of is not None:
                self.keep(stage_of)
                self._even_out(stage_of)

    def _even_out(self, stage_of: IntArray) -> None:
        graph = self.problem.graph
        edges = graph.edges[np.argsort(graph.edges[:, 1], kind="stable")]
        parent_start = np.zeros(graph.num_ops + 1, dtype=np.int64)
        np.cumsum(np.bincount(edges[:, 1], minlength=graph.num_ops), out=parent_start[1:])
        parents, evened = np.ascontiguousarray(edges[:, 0]), stage_of.copy()
        even_out(parent_start, parents, graph.param_bytes, self.problem.num_stages, evened, self.stop)
        self.keep(evened)
        self._split_by(evened)

    def lift(self, model: Model, stage_of_loaded: IntArray) -> None:
        """Build a schedule from stages of the nodes with parameters, by splitting the order that they suggest.

        Args:
            model: The model that the nodes belong to.
            stage_of_loaded: Stages of its nodes with parameters, in their order.
        """
        graph = self.problem.graph
        stage_of = np.zeros(graph.num_ops, dtype=np.int64)
        loaded = model.sums[0][model.node_of] > 0
        stage_of[loaded] = stage_of_loaded[np.cumsum(model.sums[0] > 0)[model.node_of[loaded]] - 1]
        for v in graph.topological_order.tolist():
            for u in graph.parents[v]:
                stage_of[v] = max(stage_of[v], stage_of[u])
        self._split_by(stage_of)

    def _split_by(self, stage_of: IntArray) -> None:
        """Split the order that a schedule suggests."""
        order = self.problem.graph.topological_order
        self.keep(self._split(order[np.argsort(stage_of[order], kind="stable")]))

    def _split(self, order: IntArray) -> IntArray | None:
        if self._splitter is None:
            self._splitter = Splitter(self.problem)
        return self._splitter.split(order)
