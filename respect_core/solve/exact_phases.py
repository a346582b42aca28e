"""The phases of the exact search on listed levels: first component, then second, then the canonical schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from respect_core.graph import BoolArray, IntArray
from respect_core.solve.exact_chains import NONE, Rules, States, relax
from respect_core.solve.exact_levels import Levels, LimitError
from respect_core.solve.exact_model import Model
from respect_core.solve.exact_steps import smallest_vectors, tight_steps

MAX_STEPS = 4_000_000
"""Most steps between states that the canonical schedule is chosen from."""

MAX_VECTOR_CELLS = 64_000_000
"""Most stages that the vectors of one level may hold."""

FIRST_WANTED = 64
"""Sets a level that the least sum is first looked for among."""

_NEVER = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """An optimal schedule: the value of its second component and the stage of every node."""

    value: int
    stage_of_node: IntArray
    canonical: bool


class Phases:
    """One model on listed levels; values of states are kept level by level."""

    def __init__(self, model: Model, levels: Levels, stop: IntArray) -> None:
        self.model, self.levels, self.stop = model, levels, stop
        self._clock = np.array(model.clock, dtype=np.int64)
        self._rules = _rules_of(model, levels)
        filled = np.zeros(model.num_stages, dtype=np.bool_)
        filled[levels.fixed[levels.fixed >= 0]] = True
        filled |= model.may_be_empty
        self._filled = filled.tolist()

    def smallest_peak(self, budget: int, bound: int) -> int | None:
        """Return the smallest first component, None if it is above the budget; sets without such a chain are dropped.

        Args:
            budget: The budget the levels were listed for.
            bound: A proven lower bound: anything below it need not be told apart.

        Raises:
            LimitError: Stopped.
        """
        states = self._forward(summing=False, budget=budget, most=budget, start=bound)
        if states is None:
            return None
        best = int(states[-1][2].min())
        levels = self.levels
        for k in range(1, self.model.num_stages):
            kept = np.unique(states[k][0][states[k][2] <= best])
            if kept.size < levels.bits[k].shape[0]:
                levels.keep(k, kept)
        return best

    def any_chain(self, budget: int) -> IntArray | None:
        """Return the stage of every node in some schedule within the budget."""
        states = self._forward(summing=False, budget=budget, most=budget)
        return None if states is None else self._some_chain(states, budget, summing=False)

    def least_sum(self, budget: int, most: int) -> list[States] | None:
        """Return the states of all levels with their least sums of second components, None if they are above ``most``.

        Only states that matter for schedules within the budget and of a sum of at most some number, not below the
        least, are returned.

        Raises:
            LimitError: Stopped.
        """
        if self.model.timed:
            return self._forward(summing=True, budget=budget, most=most)
        # Tried with a small surplus over the sum of each level's smallest weight first: few sets are within.
        levels, wanted = self.levels, FIRST_WANTED
        smallest = sum(int(weights.min()) for weights in levels.weights)
        surplus = -1
        while True:
            ranked = [np.partition(w, wanted - 1)[wanted - 1] - w.min() for w in levels.weights if w.size > wanted]
            surplus = max(2 * surplus + 1, int(max(ranked, default=NONE)))
            states = self._forward(summing=True, budget=budget, most=min(most, smallest + surplus))
            if states is not None or smallest + surplus >= most or not ranked:
                return states
            wanted *= 8

    def canonical_chain(self, states: list[States], budget: int) -> Chain:
        """Choose the lexicographically smallest schedule of least sum; some other one if that is too much."""
        value = int(states[-1][2].min())
        steps = self._all_steps(states, budget)
        if steps is None:
            return Chain(value=value, stage_of_node=self._some_chain(states, budget, summing=True), canonical=False)
        levels, K = self.levels, self.model.num_stages
        first_op = np.full(self.model.num_nodes, self.model.node_of.size, dtype=np.int64)
        np.minimum.at(first_op, self.model.node_of, np.arange(self.model.node_of.size))
        bit_order = np.argsort(first_op[levels.universe])
        vectors = np.full((1, levels.universe.size), K, dtype=np.int64)
        for stage in range(K):
            vectors, _ = smallest_vectors(
                stage,
                K,
                steps[stage],
                vectors,
                states[stage + 1][0].size,
                states[stage + 1][0],
                levels.bits[stage + 1],
                bit_order,
            )
        best = int(np.argmin(states[-1][2]))
        return Chain(value=value, stage_of_node=self._placed(bit_order, vectors[best]), canonical=True)

    def least_peak_of_sum(self, states: list[States], budget: int) -> int:
        """Return the smallest first component among the schedules of least sum (untimed models only).

        Raises:
            LimitError: Too many steps, or stopped.
        """
        steps = self._all_steps(states, budget)
        if steps is None:
            raise LimitError(out_of_time=bool(self.stop[0]))
        levels = self.levels
        peaks = np.zeros(1, dtype=np.int64)
        for stage in range(self.model.num_stages):
            s, target = steps[stage][:, 0], steps[stage][:, 1]
            loads = levels.sums[stage + 1][states[stage + 1][0][target], 0] - levels.sums[stage][states[stage][0][s], 0]
            following = np.full(states[stage + 1][0].size, NONE, dtype=np.int64)
            np.minimum.at(following, target, np.maximum(peaks[s], loads))
            peaks = following
        return int(peaks.min())

    def _rest(self) -> list[IntArray]:
        """Return at least what a chain adds to the sum after each set of each level."""
        levels = self.levels
        if self.model.timed:
            return levels.later
        out = [np.zeros_like(levels.weights[-1])]
        later = 0
        for weights in levels.weights[:0:-1]:
            later += int(weights.min())
            out.append(np.full(1, later))
        return [np.broadcast_to(x, w.shape).copy() for x, w in zip(out[::-1], levels.weights, strict=True)]

    # -- parts -------------------------------------------------------------------------------------------------------

    def _forward(self, *, summing: bool, budget: int, most: int, start: int = 0) -> list[States] | None:
        zero = np.zeros(1, dtype=np.int64)
        states: list[States] = [(zero, zero, zero + start)]
        levels = self.levels
        rest = self._rest() if summing else [np.zeros_like(weights) for weights in levels.weights]
        for stage in range(self.model.num_stages):
            found = relax(
                stage,
                summing,
                budget,
                most,
                levels.side(stage),
                states[-1],
                levels.side(stage + 1),
                rest[stage + 1],
                self._filled[stage],
                levels.tensors,
                levels.fixed_reads,
                levels.constants,
                self._clock,
                self._rules,
                self.stop,
            )
            if found[0].size == 0:
                if self.stop[0]:
                    raise LimitError(out_of_time=True)
                return None
            states.append(found)
        return states

    def _steps(
        self, stage: int, states: list[States], marked: BoolArray, budget: int, *, summing: bool, max_steps: int
    ) -> tuple[bool, IntArray, BoolArray]:
        levels = self.levels
        listed, steps, reaches = tight_steps(
            stage,
            summing,
            budget,
            levels.side(stage),
            states[stage],
            levels.side(stage + 1),
            states[stage + 1],
            marked,
            self._filled[stage],
            levels.tensors,
            levels.fixed_reads,
            levels.constants,
            self._clock,
            self._rules,
            max_steps,
            self.stop if summing and max_steps > 1 else _NEVER,
        )
        return listed, steps, reaches

    def _all_steps(self, states: list[States], budget: int) -> list[IntArray] | None:
        """Return the steps of every stage that lie on a chain of least sum, None where they are too many."""
        out: list[IntArray] = []
        marked = states[-1][2] == states[-1][2].min()
        for stage in range(self.model.num_stages - 1, -1, -1):
            if marked.size * self.levels.universe.size > MAX_VECTOR_CELLS:
                return None
            listed, steps, marked = self._steps(stage, states, marked, budget, summing=True, max_steps=MAX_STEPS)
            if not listed:
                return None
            out.append(steps)
        return out[::-1]

    def _some_chain(self, states: list[States], budget: int, *, summing: bool) -> IntArray:
        """Return the stage of every node in any one schedule of the smallest value."""
        levels, K = self.levels, self.model.num_stages
        stage_of_bit = np.zeros(levels.universe.size, dtype=np.int64)
        at = int(np.argmin(states[-1][2]))
        for stage in range(K - 1, -1, -1):
            marked = np.zeros(states[stage + 1][0].size, dtype=np.bool_)
            marked[at] = True
            now = levels.bits[stage + 1][states[stage + 1][0][at]]
            _, steps, _ = self._steps(stage, states, marked, budget, summing=summing, max_steps=1)
            at = int(steps[0, 0])
            added = now & ~levels.bits[stage][states[stage][0][at]]
            bits = np.arange(levels.universe.size)
            stage_of_bit[(added[bits >> 6] >> (bits & 63)) & 1 == 1] = stage
        return self._placed(bits, stage_of_bit)

    def _placed(self, bits: IntArray, stages: IntArray) -> IntArray:
        out = self.levels.fixed.copy()
        out[self.levels.universe[bits]] = stages
        return out


def _rules_of(model: Model, levels: Levels) -> Rules:
    bit_of = np.full(model.num_nodes, -1, dtype=np.int64)
    bit_of[levels.universe] = np.arange(levels.universe.size)
    apart, implied = model.apart, model.rules
    if implied.shape[0] > 62:
        raise LimitError(out_of_time=False)
    a, b = apart[:, 0], apart[:, 1]
    pairs = np.stack([bit_of[a], levels.fixed[a], bit_of[b], levels.fixed[b]], axis=1)
    a, b = implied[:, 0], implied[:, 2]
    rules = np.stack([bit_of[a], levels.fixed[a], implied[:, 1], bit_of[b], levels.fixed[b], implied[:, 3]], axis=1)
    return np.ascontiguousarray(pairs), np.ascontiguousarray(rules)
