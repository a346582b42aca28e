"""Starts of the local search, for every objective and under constraints, until their number or the time runs out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np

from respect_core.constraints import NO_CONSTRAINTS
from respect_core.errors import BadInputError
from respect_core.graph import FloatArray, IntArray
from respect_core.solve.local_search_crossings import lower_communication
from respect_core.solve.local_search_graph import SearchGraph, search_graph, work_for
from respect_core.solve.local_search_moves import descend
from respect_core.solve.local_search_orders import (
    FIT,
    RANDOM,
    SCORED,
    dfs_order_into,
    draw_order,
    kahn_order_into,
    order_space,
)
from respect_core.solve.local_search_peak import NOT_FOUND, no_incumbent, search_peak, stage_space
from respect_core.solve.local_search_quick import MOST_SPLIT_OPS, improve_times, search_times
from respect_core.solve.local_search_random import below, gumbel_table, random_state
from respect_core.solve.local_search_time import stage_times, time_model
from respect_core.solve.protocol import Problem, Stopwatch
from respect_core.solve.split import Splitter

ROUND_S: Final = 0.05
"""The clock is looked at about so often."""

SPLIT_S_PER_PAIR: Final = 2e-8
"""A guess at how long cutting an order of n ops by stage times takes, over n²; asked for large graphs only."""

NO_SCORES: Final = np.zeros(0)
_NO_BUDGETS: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Starts:
    """Which orders a search starts from.

    Raises:
        BadInputError: A negative number of starts or temperature, or slacks below 1.
    """

    random: int = 0
    """Starts from random orders."""
    fit: int = 0
    """Starts from random orders that fill the stages up."""
    scored: int = 0
    """Starts from orders that follow the scores with noise; for `throughput` under the last budget of `greedy`, which
    the scores are for, if there is one."""
    greedy: tuple[int, ...] = ()
    """Budgets of greedy starts by the scores."""
    scores: FloatArray | None = field(default=None, repr=False)
    """Coefficients of every op's score; see `draw_order`. Shape (n, 6)."""
    temperature: float = 1.0
    """Weight of the noise in the scores."""
    backwards: bool = False
    """Whether orders are drawn from the end, as of the graph with its edges turned round."""
    simple: bool = True
    """Whether file order, depth first and breadth first are among the starts."""
    improve: bool = True
    """Whether starts are improved by set moves."""

    def __post_init__(self) -> None:
        for name in ("random", "fit", "scored"):
            if getattr(self, name) < 0:
                raise BadInputError(
                    f"{getattr(self, name)} starts from {name} orders were asked for, at least 0 can be"
                )
        if not self.temperature >= 0:
            raise BadInputError(f"the scores' temperature is {self.temperature}, a number of at least 0 is needed")
        if self.scores is None and (self.scored or self.greedy):
            raise BadInputError("starts from scored orders need scores")


@cache
def _gumbel() -> FloatArray:
    return gumbel_table()


def op_loads(problem: Problem) -> IntArray:
    """Return what the stages share out. Shape (n,).

    Parameter bytes; for `throughput` the ops' own times in ns, with the part of their streaming that cannot be avoided
    even if the parameters are spread over all stages' memories.
    """
    if problem.objective != "throughput":
        return problem.graph.param_bytes
    terms = problem.terms
    streaming = int(terms.streaming_ns.sum())
    spilled = max(0, streaming - problem.num_stages * terms.capacity_ns)
    share = spilled / streaming if streaming else 0.0
    loads: IntArray = terms.compute_ns + terms.always_ns + (terms.streaming_ns * share).astype(np.int64)
    return loads


def load_bound(loads: IntArray, num_stages: int) -> int:
    """Return a lower bound on the largest load of a stage: the largest op, or an equal share of all."""
    return max(1, -(-int(loads.sum()) // num_stages), int(loads.max()))


class LocalSearch:
    """The search on one problem; `advance` may be called again and goes on from the best schedule so far."""

    def __init__(self, problem: Problem, seed: int) -> None:
        graph, num_stages = problem.graph, problem.num_stages
        self.problem = problem
        self._state = random_state(seed)
        self._space, self._stages = order_space(graph.num_ops), stage_space(graph.num_ops, num_stages)
        self._best = no_incumbent(graph.num_ops)
        self._timed = problem.objective == "throughput"
        self.loads = op_loads(problem)
        self.arrays: SearchGraph = search_graph(graph, self.loads if self._timed else None)
        self.bound = load_bound(self.loads, num_stages)
        self._work = work_for(self.arrays)
        if self._timed:
            self._model = time_model(graph, problem.terms)
            self._times = stage_times(graph.num_tensors, num_stages)
        self.starts_made = 0
        self._start_s: float | None = None
        self._constrained = None if problem.constraints == NO_CONSTRAINTS else _Constrained(self)

    def run(self, starts: Starts, watch: Stopwatch) -> IntArray | None:
        """Make the starts and return the best schedule; see `advance` and `best`."""
        self.advance(starts, watch)
        return self.best(watch)

    def advance(self, starts: Starts, watch: Stopwatch) -> None:
        """Make the starts, until the deadline of ``watch``; the very first start is always made."""
        if self._constrained is not None:
            self._constrained.advance(starts, watch)
            return
        if starts.simple:
            began = watch.seconds
            self._space.order[:] = self.problem.graph.topological_order
            self._make(RANDOM, starts, 0, from_space=True)
            self._start_s = watch.seconds - began
            if watch.left > self._start_s:
                self._make(RANDOM, starts, 0, simple=True)
        for budget in starts.greedy:
            if watch.left > 0 or not self.starts_made:
                self._make(SCORED, starts, 0, budgets=np.array([budget], dtype=np.int64))
        for how, count in ((SCORED, starts.scored), (FIT, starts.fit), (RANDOM, starts.random)):
            left = count
            while left > 0 and (watch.left > 0 or not self.starts_made):
                began, size = watch.seconds, min(left, self._next_round(watch))
                self._make(how, starts, size)
                left -= size
                self._start_s = (watch.seconds - began) / size

    def _next_round(self, watch: Stopwatch) -> int:
        """Return how many starts to make before the clock is looked at again, from how long the last ones took.

        An even number until the time is up: every other start of `search_times` differs, and where the time suffices,
        the schedule shall not depend on how fast the machine is.
        """
        if self._start_s is None:
            return 2
        fitting = min(ROUND_S, watch.left) / max(1e-6, self._start_s)
        return max(2, 2 * int(fitting / 2)) if watch.left >= 2 * self._start_s else 1

    def best(self, watch: Stopwatch | None = None, *, polish: bool = True) -> IntArray | None:
        """Return the best schedule so far, shape (n,); None where none obeys the constraints.

        It is polished for as long as ``watch`` allows, unless ``polish`` is false.
        """
        if self._constrained is not None:
            return self._constrained.best
        if not polish:
            return self._best.stage_of.copy()
        return self._finished(watch or Stopwatch(math.inf))

    @property
    def peak(self) -> int | None:
        """Largest load of a stage in the best schedule so far, None where there is none."""
        if self._constrained is not None:
            found = self._constrained.best
            return None if found is None else int(self._counted(found)[0].max())
        if self._best.value[0] >= NOT_FOUND:
            return None
        return int(self._counted(self._best.stage_of)[0].max()) if self._timed else int(self._best.value[0])

    def _make(
        self,
        how: int,
        starts: Starts,
        count: int,
        *,
        budgets: IntArray = _NO_BUDGETS,
        simple: bool = False,
        from_space: bool = False,
    ) -> None:
        """Make ``count`` starts in one compiled call; ``from_space`` makes one of the order that is in the space."""
        scores = NO_SCORES if starts.scores is None else np.ascontiguousarray(starts.scores, dtype=np.float64).ravel()
        orders = (
            self.problem.num_stages, self.bound, from_space, simple, how, scores, float(starts.temperature),
            starts.backwards, budgets,
        )  # fmt: skip
        spaces = (count, starts.improve, _gumbel(), self._state, self._space, self._stages)
        if self._timed:
            asked = starts.greedy[-1] if how == SCORED and starts.greedy else 0
            made = search_times(self.arrays, self._model, *orders, asked, *spaces, self._times, self._work, self._best)
        else:
            made = search_peak(self.arrays, *orders, *spaces, self._work, self._best)
        self.starts_made += made

    def _finished(self, watch: Stopwatch) -> IntArray | None:
        """Lower what comes second in the objective, and cut the order of the best schedule as well as can be.

        Then the simple orders, while the time lasts. The first cut is made in any case but for graphs where it takes
        longer than a start.
        """
        problem, stage_of = self.problem, self._best.stage_of.copy()
        if not self._timed:
            loads, counts = self._counted(stage_of)
            lower_communication(self.arrays, stage_of, loads, counts, int(loads.max()), self._work)
        if problem.objective == "peak-memory":
            return stage_of
        n, splitter, candidates = problem.graph.num_ops, Splitter(problem), [stage_of]
        expected_s = SPLIT_S_PER_PAIR * n * n if self._timed and n > MOST_SPLIT_OPS else 0.0
        for order in self._orders_to_cut(stage_of):
            if watch.left < expected_s:
                break
            began = watch.seconds
            found = splitter.split(order)
            expected_s = watch.seconds - began
            if found is not None:
                candidates.append(found)
        return min(candidates, key=self.value)

    def _orders_to_cut(self, stage_of: IntArray) -> Iterator[IntArray]:
        yield order_by_stage(self.problem, stage_of)
        yield self.problem.graph.topological_order
        for into in (dfs_order_into, kahn_order_into):
            into(self.arrays, self._space)
            yield self._space.order

    def value(self, stage_of: IntArray) -> tuple[int, ...]:
        """Return the objective's components."""
        return self.problem.value(self.problem.evaluate(stage_of))

    def _counted(self, stage_of: IntArray) -> tuple[IntArray, IntArray]:
        loads = np.zeros(self.problem.num_stages, dtype=np.int64)
        np.add.at(loads, stage_of, self.arrays.weight)
        return loads, np.bincount(stage_of, minlength=self.problem.num_stages).astype(np.int64)

    def improve(self, arrays: SearchGraph, stage_of: IntArray) -> IntArray:
        """Improve a legal schedule by set moves within the windows of ``arrays``; for `throughput` by stage times."""
        stages = self._stages
        stages.stage_of[:] = stage_of
        stages.load[:], stages.num_ops[:] = self._counted(stage_of)
        if self._timed:
            best = no_incumbent(stage_of.size)
            improve_times(arrays, self._model, stages, self._times, self._work, best)
            return best.stage_of
        descend(
            arrays.weight, arrays.first, arrays.near, arrays.window, arrays.order, stages.stage_of, self._work,
            stages.load, stages.num_ops, stages.closed, self.bound, 2 * int(arrays.weight.max()),
        )  # fmt: skip
        peak = int(stages.load.max())
        lower_communication(arrays, stages.stage_of, stages.load, stages.num_ops, peak, self._work)
        return stages.stage_of.copy()


class _Constrained:
    """The search under constraints: every order is cut legally, and moves keep every op where it may be."""

    def __init__(self, search: LocalSearch) -> None:
        self._search, self._problem = search, search.problem
        self._splitter = Splitter(search.problem)
        constraints, graph = search.problem.constraints, search.problem.graph
        self._movable = not (
            constraints.same_stage_pairs(graph) or constraints.different_stages or constraints.implications
        )
        self._best: tuple[tuple[int, ...], IntArray] | None = None

    @property
    def best(self) -> IntArray | None:
        """The best legal schedule so far."""
        return None if self._best is None else self._best[1]

    def advance(self, starts: Starts, watch: Stopwatch) -> None:
        """Make the starts one by one."""
        search = self._search
        if starts.simple:
            self._offer(self._problem.graph.topological_order, starts)
            for into in (dfs_order_into, kahn_order_into):
                if watch.left > 0 or self._best is None:
                    into(search.arrays, search._space)
                    self._offer(search._space.order, starts)
        greedy = [(SCORED, budget, 0.0) for budget in starts.greedy]
        drawn = [(how, 0, starts.temperature) for how, n in self._kinds(starts) for _ in range(n)]
        scores = NO_SCORES if starts.scores is None else np.ascontiguousarray(starts.scores, dtype=np.float64).ravel()
        for how, given, temperature in [*greedy, *drawn]:
            if watch.left == 0 and search.starts_made:
                break
            budget = given or search.bound + below(search._state, max(1, min(2**30, search.bound // 8)))
            draw_order(
                search.arrays, how, budget, self._problem.num_stages, scores, temperature, _gumbel(), search._state,
                search._space, starts.backwards,
            )  # fmt: skip
            self._offer(search._space.order, starts)

    @staticmethod
    def _kinds(starts: Starts) -> tuple[tuple[int, int], ...]:
        return ((SCORED, starts.scored), (FIT, starts.fit), (RANDOM, starts.random))

    def _offer(self, order: IntArray, starts: Starts) -> None:
        search = self._search
        search.starts_made += 1
        stage_of = self._splitter.split(order)
        if stage_of is None:
            return
        candidates = [stage_of]
        if self._movable and starts.improve:
            candidates.append(search.improve(self._windowed(stage_of), stage_of))
        for candidate in candidates:
            value = search.value(candidate)
            if self._best is None or value < self._best[0]:
                self._best = value, candidate

    def _windowed(self, stage_of: IntArray) -> SearchGraph:
        """Hold ops where the constraints want them, and those that read a graph input in stage 0 where they are."""
        problem, arrays = self._problem, self._search.arrays
        n = problem.graph.num_ops
        window = arrays.window.copy()
        for v in problem.constraints.last_stage_ops(problem.graph):
            window[v] = window[n + v] = problem.num_stages - 1
        for v, k in problem.constraints.pins:
            window[v] = window[n + v] = k
        for group in problem.constraints.first_stage_groups(problem.graph):
            for v in group:
                if stage_of[v] == 0:
                    window[v] = window[n + v] = 0
        return arrays._replace(window=window)


def order_by_stage(problem: Problem, stage_of: IntArray) -> IntArray:
    """Return a topological order that takes the stages one after the other. Shape (n,)."""
    topological = problem.graph.topological_order
    return topological[np.argsort(stage_of[topological], kind="stable")]
