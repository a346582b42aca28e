"""The search for robust schedules: per-scenario optima over several orders, exact minimax cuts, redrawn orders."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from respect_core.errors import UnknownNameError
from respect_core.graph import FloatArray, IntArray
from respect_core.schedule import first_violation
from respect_core.solve.compiler_rule import compiler_order
from respect_core.solve.order_arrays import order_arrays
from respect_core.solve.orders import SIMPLE_ORDERS
from respect_core.solve.protocol import Problem, Stopwatch
from respect_core.solve.robust_loops import NEVER, fastest_in_each, segment_costs, smallest_largest
from respect_core.solve.robust_scenarios import Scenarios, bottlenecks, op_sums
from respect_core.solve.split import Splitter, _Cut

Measure = Literal["max", "p90"]
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)

REDRAWN: Final = 6
"""Orders redrawn around the best schedule without a better one until the search ends."""

_LIMIT: Final = 4.0
"""Segments whose regret alone is above this are never looked at, unless nothing else is legal."""


_LEAST_MS: Final = 1e-9
"""Stands for a time of nothing, by which a regret cannot be divided."""


def check_measure(name: str) -> Measure:
    """Return ``name`` as a measure of regret or raise `UnknownNameError`."""
    for measure in MEASURES:
        if name == measure:
            return measure
    raise UnknownNameError("measure of regret", name, MEASURES)


def regret_of(regrets: FloatArray, measure: Measure) -> float:
    """Return the largest of the regrets, or the smallest that at least 90 % of them do not exceed."""
    return float(np.sort(regrets)[-1 if measure == "max" else _kept(regrets.size) - 1])


def _kept(count: int) -> int:
    return math.ceil(0.9 * count)


class _Order:
    """One order of one problem, with the arguments that the compiled loops share."""

    def __init__(self, splitter: Splitter, order: IntArray, op: FloatArray) -> None:
        problem = splitter.problem
        graph, rows = problem.graph, order_arrays(problem.graph)
        cut = _Cut(splitter, np.array(order, dtype=np.int64))
        self.num_stages, self.order, self.cuttable = problem.num_stages, cut.order, cut.cuttable
        self.reach = cut._reach(splitter._allowed)
        self.arguments = (
            cut.order, cut.position, cut.last, graph.tensor_producer, graph.tensor_is_output,
            rows.read_start, rows.read, rows.made_start, rows.made, rows.is_input_op, op, graph.tensor_bytes / 2**20,
        )  # fmt: skip

    def optima(self, scenarios: Scenarios, known: FloatArray) -> FloatArray:
        """Return the smallest bottleneck of every scenario, at most ``known``. Shape (S,)."""
        return fastest_in_each(*self.arguments, scenarios.constants, known, self.cuttable, self.reach, self.num_stages)

    def best_cut(self, constants: FloatArray, reference: FloatArray) -> IntArray | None:
        """Return the schedule whose largest regret is smallest; of those, the fastest in the first scenario."""
        for limit in (_LIMIT, NEVER):
            ratio, first = segment_costs(*self.arguments, constants, reference, limit)
            worst, _ = smallest_largest(ratio, self.cuttable, self.reach, self.num_stages)
            if worst < NEVER:
                break
        else:
            return None
        within = np.where(ratio <= worst, first, NEVER)
        _, bounds = smallest_largest(within, self.cuttable, self.reach, self.num_stages)
        stage_of = np.empty(self.order.size, dtype=np.int64)
        stage_of[self.order] = np.repeat(np.arange(self.num_stages), np.diff(bounds))
        return stage_of


class Reference:
    """The smallest bottleneck of every scenario: over the contiguous cuts of several orders and some schedules.

    Args:
        problem: The problem; its own profile plays no part.
        scenarios: Devices as they might be.
        schedules: At least one legal schedule; the orders are those of `SIMPLE_ORDERS`, the commercial compiler's, and
            one around each schedule.
        watch: No further order is looked at after this deadline.
    """

    def __init__(self, problem: Problem, scenarios: Scenarios, schedules: Sequence[IntArray], watch: Stopwatch) -> None:
        self.problem, self.scenarios = problem, scenarios
        self._splitter, self._op = Splitter(problem), op_sums(problem.graph)
        self.bottleneck_ms: FloatArray = np.min([bottlenecks(problem, s, scenarios) for s in schedules], axis=0)
        self.bottleneck_ms = np.maximum(self.bottleneck_ms, _LEAST_MS)
        self.orders: list[_Order] = []
        graph = problem.graph
        orders = [make(graph) for make in SIMPLE_ORDERS.values()] + [compiler_order(graph)]
        orders += [order_around(problem, schedule) for schedule in schedules]
        for order in {order.tobytes(): order for order in orders}.values():
            self.orders.append(self.order(order))
            self.bottleneck_ms = np.maximum(self.orders[-1].optima(scenarios, self.bottleneck_ms), _LEAST_MS)
            if watch.left == 0:
                break

    def order(self, order: IntArray) -> _Order:
        """Prepare an order for cutting."""
        return _Order(self._splitter, order, self._op)

    def regrets(self, stage_of: Sequence[int] | IntArray) -> FloatArray:
        """Return a schedule's bottleneck over the smallest one, in every scenario. Shape (S,)."""
        times = np.maximum(bottlenecks(self.problem, stage_of, self.scenarios), _LEAST_MS)
        out: FloatArray = times / self.bottleneck_ms
        return out


@dataclass(frozen=True, kw_only=True)
class RobustSearch:
    """Finds robust schedules of one problem."""

    reference: Reference
    start: IntArray
    """A legal schedule, the best under the nominal profile. Shape (n,)."""
    watch: Stopwatch
    seed: int = 0

    def find(self, measure: Measure) -> IntArray:
        """Return the schedule with the smallest regret that was found. Shape (n,)."""
        best, regret = self.start, regret_of(self.reference.regrets(self.start), measure)
        for order in self.reference.orders:
            best, regret = self._improved(order, measure, best, regret)
            if self.watch.left == 0:
                return best
        rng = np.random.default_rng(self.seed)
        failed = 0
        while failed < REDRAWN and self.watch.left > 0:
            before = regret
            order = self.reference.order(order_around(self.reference.problem, best, rng))
            best, regret = self._improved(order, measure, best, regret)
            failed = failed + 1 if regret == before else 0
        return best

    def _improved(self, order: _Order, measure: Measure, best: IntArray, regret: float) -> tuple[IntArray, float]:
        """Cut one order; for a percentile again and again, on the scenarios that the best schedule serves best."""
        problem, scenarios = self.reference.problem, self.reference.scenarios
        while True:
            kept = np.arange(scenarios.count)
            if measure == "p90":
                served = np.argsort(self.reference.regrets(best), kind="stable")
                kept = np.union1d([0], served[: _kept(kept.size)])
            constants = np.ascontiguousarray(scenarios.constants[:, kept])
            found = order.best_cut(constants, self.reference.bottleneck_ms[kept])
            if found is None or first_violation(problem.graph, found, problem.num_stages, problem.constraints):
                return best, regret
            new = regret_of(self.reference.regrets(found), measure)
            if new >= regret - 1e-12:
                return best, regret
            best, regret = found, new
            if measure == "max" or self.watch.left == 0:
                return best, regret


def order_around(
    problem: Problem, stage_of: Sequence[int] | IntArray, rng: np.random.Generator | None = None
) -> IntArray:
    """Return a topological order in which every stage is in one piece. Shape (n,).

    Args:
        problem: The problem.
        stage_of: A legal schedule.
        rng: Draws among the ready ops of a stage; None takes the one that comes first in the file's order.
    """
    graph = problem.graph
    rank = np.empty(graph.num_ops)
    rank[graph.topological_order] = np.arange(graph.num_ops)
    if rng is not None:
        rank = rng.random(graph.num_ops)
    waiting = [len(parents) for parents in graph.parents]
    ready = [(int(stage_of[v]), float(rank[v]), v) for v, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    out = []
    while ready:
        _, _, v = heapq.heappop(ready)
        out.append(v)
        for child in graph.children[v]:
            waiting[child] -= 1
            if not waiting[child]:
                heapq.heappush(ready, (int(stage_of[child]), float(rank[child]), child))
    return np.array(out, dtype=np.int64)
