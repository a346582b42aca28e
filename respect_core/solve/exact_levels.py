"""The levels of the exact search: for each boundary of the pipeline, the down-sets that can lie before it.

Boundary k separates stages 0..k-1 from the rest. If every stage stays within a budget, the first k stages hold at most
k budgets of any measure, and the others at most K - k: nodes whose ancestors weigh more cannot lie before the boundary,
nodes without whose descendants too little is left must. What remains free at some boundary is the *universe* that
down-sets are compared on; all other nodes have one stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import LISTED, STOPPED, Int, bitset, list_window, moved_bits, num_words, restricted
from respect_core.solve.exact_model import Model
from respect_core.solve.exact_tensors import NO_CAP, VaryingTensors, crossing_sums, cuts_at, split_tensors
from respect_core.solve.exact_windows import FREE, INSIDE, find_windows

MAXFREE = 4096
"""More free nodes than this at one boundary are not enumerated."""


class LimitError(Exception):
    """Too many down-sets, or out of time; never leaves the solver.

    Attributes:
        out_of_time: Whether the deadline was the reason.
    """

    def __init__(self, *, out_of_time: bool) -> None:
        self.out_of_time = out_of_time
        super().__init__()


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Down-sets at every boundary 0..K, by ascending first sum; boundaries 0 and K have one each."""

    universe: IntArray
    """The nodes that bits stand for, ascending. Shape (u,)."""
    fixed: IntArray
    """Stage of every node, -1 in the universe. Shape (nodes,)."""
    bits: list[IntArray]
    """Shapes (sets, words)."""
    sums: list[IntArray]
    """The model's sums over each set. Shapes (sets, columns)."""
    weights: list[IntArray]
    """What crosses each set: weight, or ns to send if timed. Shapes (sets,)."""
    received: list[IntArray]
    """If timed, ns to receive what crosses each set. Shapes (sets,)."""
    later: list[IntArray]
    """If timed, at least the time of all stages after each set. Shapes (sets,)."""
    tensors: VaryingTensors
    constants: IntArray
    """What the other tensors add: crossing weight at boundary k, or received, sent, occupied at stage k. (K + 1, 3)."""
    fixed_reads: tuple[IntArray, IntArray]
    """Stages of the fixed readers of each varying tensor, in compressed rows."""

    @property
    def num_sets(self) -> int:
        """Number of down-sets on all levels."""
        return sum(x.shape[0] for x in self.bits)

    def keep(self, boundary: int, chosen: IntArray) -> None:
        """Keep the chosen sets of a boundary, in this order."""
        for columns in (self.bits, self.sums, self.weights, self.received, self.later):
            columns[boundary] = np.ascontiguousarray(columns[boundary][chosen])

    def side(self, boundary: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return bits, sums, weights and received of a boundary."""
        return self.bits[boundary], self.sums[boundary], self.weights[boundary], self.received[boundary]


class LevelBuilder:
    """Lists the down-sets of one model under one budget, boundary by boundary.

    Args:
        model: The problem.
        budget: Largest first component of a stage.
        stop: Listing gives up once ``stop[0]`` is not 0.
    """

    def __init__(self, model: Model, budget: int, stop: IntArray) -> None:
        self.model, self.budget, self.stop = model, budget, stop
        K, columns = model.num_stages, model.measures.shape[0]
        most = np.array(
            [min(max(budget + shift, -1), int(all_)) for shift, all_ in zip(model.shifts, model.totals, strict=False)],
            dtype=np.int64,
        )
        self._lowest = np.empty((K + 1, columns), dtype=np.int64)
        self._highest = np.empty((K + 1, columns), dtype=np.int64)
        self._status = np.empty((K + 1, model.num_nodes), dtype=np.int64)
        self.is_possible = find_windows(
            model.reach, model.totals, most, model.first, model.last, K, self._lowest, self._highest, self._status
        ) and not (model.timed and budget < model.clock[0])
        if not self.is_possible:
            return
        in_universe = (self._status == FREE).any(axis=0)
        self.universe = np.flatnonzero(in_universe)
        self.fixed = np.where(in_universe, -1, (self._status[1:K] != INSIDE).sum(axis=0))
        self._bit_of = np.full(model.num_nodes, -1, dtype=np.int64)
        self._bit_of[self.universe] = np.arange(self.universe.size)
        self._words = num_words(self.universe.size)

    @cached_property
    def _tensors(self) -> tuple[VaryingTensors, tuple[IntArray, IntArray], IntArray]:
        """What depends on the sets, the stages of its fixed readers, and what all other tensors add."""
        tensors = self.model.tensors
        return split_tensors(
            tensors.maker,
            tensors.read_start,
            tensors.reader,
            tensors.columns,
            self._bit_of,
            self.fixed,
            self.model.num_stages,
            self._words,
            self.model.timed,
        )

    def list_boundary(self, k: int, room: int, cap: int = NO_CAP) -> IntArray:
        """List the down-sets of boundary k, 0 < k < K, over the universe.

        Args:
            k: The boundary.
            room: Most sets.
            cap: Only those that at most this much crosses; for timed models what is sent is limited anyway.

        Returns:
            Shape (sets, words).

        Raises:
            LimitError: Too many, or stopped.
        """
        model, status = self.model, self._status[k]
        chosen = np.flatnonzero(status == FREE)
        inside = status == INSIDE
        if chosen.size > MAXFREE or self.stop[0]:
            raise LimitError(out_of_time=bool(self.stop[0]))
        base = model.measures[:, inside].sum(axis=1)
        limits = np.full(base.size + 1, NO_CAP)
        limits[-1] = cap
        if model.timed:
            for c, shift in enumerate(model.shifts):
                limits[c] = k * (self.budget + shift) - int(base[c])
        tensors = model.tensors
        found, sets, order = _list_boundary(
            model.before,
            model.after,
            chosen,
            model.measures,
            self._lowest[k] - base,
            self._highest[k] - base,
            (tensors.maker, tensors.read_start, tensors.reader, tensors.columns[1 if model.timed else 0]),
            status,
            limits,
            room,
            self.stop,
        )
        if found != LISTED:
            raise LimitError(out_of_time=found == STOPPED)
        out = moved_bits(sets, self._bit_of[chosen[order]], self._words)
        out |= bitset(self._bit_of[np.flatnonzero(inside & (self.fixed < 0))], self._words)
        if k == 1 and model.early_groups:
            out = _with_early_groups(model, out, self._bit_of, inside)
        return out

    def weigh(self, sets: IntArray, k: int) -> IntArray:
        """Return what crosses boundary k after each set, for untimed models. Shape (sets,)."""
        return np.asarray(crossing_sums(sets, self._tensors[0], k, 0, False) + self._tensors[2][k, 0])

    def finish(self, inner: list[IntArray]) -> Levels | None:
        """Build the levels from the sets of boundaries 1..K-1; None if some boundary has none.

        Raises:
            LimitError: Stopped.
        """
        model, K, universe = self.model, self.model.num_stages, self.universe
        varying, fixed_reads, constants = self._tensors
        nothing = np.zeros((1, self._words), dtype=np.int64)
        bits = [nothing, *inner, bitset(np.arange(universe.size), self._words)[None, :]]
        levels = Levels(
            universe=universe,
            fixed=self.fixed,
            bits=bits,
            sums=[_sums_of(level, model.sums, universe, self.fixed, k) for k, level in enumerate(bits)],
            weights=[
                crossing_sums(level, varying, k, 1, False) if model.timed else self.weigh(level, k)
                for k, level in enumerate(bits)
            ],
            received=[np.zeros(level.shape[0], dtype=np.int64) for level in bits],
            later=[np.zeros(level.shape[0], dtype=np.int64) for level in bits],
            tensors=varying,
            constants=constants,
            fixed_reads=fixed_reads,
        )
        for k in range(K + 1):
            if self.stop[0]:
                raise LimitError(out_of_time=True)
            kept = np.arange(bits[k].shape[0])
            if model.timed:
                kept = _within_times(model, levels, k, self.budget)
            if kept.size == 0:
                return None
            levels.keep(k, kept[np.argsort(levels.sums[k][kept, 0], kind="stable")])
        return levels


def build_levels(model: Model, budget: int, max_sets: int, stop: IntArray) -> Levels | None:
    """List the down-sets of all boundaries; None if some has none, so that no schedule stays within the budget.

    Raises:
        LimitError: More than ``max_sets``, or stopped.
    """
    builder = LevelBuilder(model, budget, stop)
    if not builder.is_possible:
        return None
    inner: list[IntArray] = []
    room = max_sets
    for k in range(1, model.num_stages):
        inner.append(builder.list_boundary(k, room))
        room -= inner[-1].shape[0]
        if inner[-1].shape[0] == 0:
            return None
    return builder.finish(inner)


def _within_times(model: Model, levels: Levels, boundary: int, budget: int) -> IntArray:
    """Fill in what follows each set at least, and return the sets before and after which time enough is left.

    What crosses a boundary is sent by some stage before it and received by some stage after it.
    """
    K, sets = model.num_stages, levels.bits[boundary]
    constants = levels.constants[:K, 0] + levels.constants[:K, 1]
    moved_before, moved_after = int(constants[:boundary].sum()), int(constants[boundary:].sum())
    sent = levels.weights[boundary] + moved_before
    levels.received[boundary] = crossing_sums(sets, levels.tensors, boundary, 0, True)
    received = levels.received[boundary] + moved_after
    measures = _sums_of(sets, model.measures, levels.universe, levels.fixed, boundary)
    fits = np.ones(sets.shape[0], dtype=np.bool_)
    for c, shift in enumerate(model.shifts):
        before = measures[:, c] + sent
        after = int(model.measures[c].sum()) - measures[:, c] + received
        fits &= (before <= boundary * (budget + shift)) & (after <= (K - boundary) * (budget + shift))
        levels.later[boundary] = np.maximum(levels.later[boundary], after - (K - boundary) * shift)
    return np.flatnonzero(fits)


@compiled
def _list_boundary(
    before: IntArray,
    after: IntArray,
    chosen: IntArray,
    measures: IntArray,
    lowest: IntArray,
    highest: IntArray,
    tensors: tuple[IntArray, IntArray, IntArray, IntArray],
    status: IntArray,
    limits: IntArray,
    max_sets: Int,
    stop: IntArray,
) -> tuple[Int, IntArray, IntArray]:
    """List one boundary's down-sets, numbering its free nodes by how much load they decide; see `list_window`."""
    down, up = restricted(before, after, chosen)
    u = chosen.size
    values = np.empty((measures.shape[0], u), np.int64)
    for c in range(measures.shape[0]):
        for i in range(u):
            values[c, i] = measures[c, chosen[i]]
    score = np.zeros(u, np.int64)
    for i in range(u):
        for j in range(u):
            if (down[i, j >> 6] >> (j & 63)) & 1:
                score[i] -= values[0, j]
                score[j] -= values[0, i]
    order = np.argsort(score, kind="mergesort")
    down, up = restricted(before, after, chosen[order])
    ordered = values.copy()
    for c in range(measures.shape[0]):
        ordered[c] = values[c][order]
    cuts = cuts_at(chosen[order], tensors, status, limits)
    found, sets = list_window(down, up, ordered, lowest, highest, cuts, max_sets, stop)
    return found, sets, order


def _with_early_groups(model: Model, sets: IntArray, bit_of: IntArray, inside: IntArray) -> IntArray:
    """Keep the sets that hold a node of each early group."""
    for group in model.early_groups:
        if any(inside[v] for v in group):
            continue
        wanted = bitset(np.array([bit_of[v] for v in group if bit_of[v] >= 0], dtype=np.int64), sets.shape[1])
        sets = sets[np.any(sets & wanted != 0, axis=1)]
    return np.ascontiguousarray(sets)


@compiled
def _sums_of(sets: IntArray, values: IntArray, universe: IntArray, fixed: IntArray, boundary: Int) -> IntArray:
    """Sum every column of values over the fixed nodes before the boundary and those in each set. (sets, columns)."""
    count = sets.shape[0]
    columns = values.shape[0]
    out = np.empty((count, columns), np.int64)
    base = np.zeros(columns, np.int64)
    for v in range(fixed.size):
        if 0 <= fixed[v] < boundary:
            for c in range(columns):
                base[c] += values[c, v]
    num_bytes = (universe.size + 7) // 8
    table = np.zeros((num_bytes, 256, columns), np.int64)
    for byte in range(num_bytes):
        for bit in range(min(8, universe.size - 8 * byte)):
            half = 1 << bit
            for pattern in range(half):
                for c in range(columns):
                    table[byte, half + pattern, c] = table[byte, pattern, c] + values[c, universe[8 * byte + bit]]
    for i in range(count):
        for c in range(columns):
            out[i, c] = base[c]
        for byte in range(num_bytes):
            pattern = (sets[i, byte >> 3] >> (8 * (byte & 7))) & 255
            if pattern != 0:
                for c in range(columns):
                    out[i, c] += table[byte, pattern, c]
    return out
