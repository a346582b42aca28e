"""The search over down-sets of one section: owns the arrays of `search_loops` and lets them grow."""

from __future__ import annotations

import numpy as np

from respect_core.graph import IntArray
from respect_core.memory.search_loops import (
    BOUND,
    COUNT,
    DEPTH,
    EXHAUSTED,
    FULL,
    GOAL,
    HEAP,
    LIMIT,
    REACHED,
    THRESHOLD,
    Found,
    explore,
)
from respect_core.memory.steps import StepModel, ready_at_start
from respect_core.solve.downset_table import fill_table
from respect_core.solve.protocol import Stopwatch

_FIRST_ROWS = 1 << 12
_SLICE_WORK = 1 << 19
"""Ops times sets looked at between two looks at the clock: milliseconds for small problems."""


class OrderSearch:
    """Finds an order below a limit, or proves that there is none, or a bound until the time or room is used up.

    Attributes:
        is_done: Whether it has come to its end.
        is_full: Whether there is no room for more down-sets.

    Args:
        model: The problem.
        bound: A lower bound on the peak, or a peak that does not matter any more.
        threshold: The first threshold, at least ``bound`` and less than ``limit``.
        limit: Orders of this peak or more are of no use.
        max_bytes: Most memory for the sets found.
    """

    def __init__(self, model: StepModel, *, bound: int, threshold: int, limit: int, max_bytes: int) -> None:
        self.model = model
        words = model.steps[0].shape[2]
        self._max_rows = max(4 * model.num_ops, max_bytes // (8 * (2 * words + 8)))
        rows = min(self._max_rows, max(_FIRST_ROWS, 4 * model.num_ops))
        self._found = self._room(rows, words)
        self.counters = np.zeros(7, dtype=np.int64)
        self.counters[[BOUND, THRESHOLD, LIMIT, GOAL]] = bound, threshold, limit, -1
        sets, table, stack, _ = self._found
        sets[0, :words], sets[0, words : 2 * words] = 0, ready_at_start(model.steps[0])
        sets[0, 2 * words :], stack[0] = (model.at_start, -1, -1), 0
        self.counters[COUNT] = self.counters[DEPTH] = 1
        fill_table(table, sets, words, 1)
        self.is_done = self.is_full = False
        self._slice = max(8, _SLICE_WORK // model.num_ops)

    @property
    def bound(self) -> int:
        """What every order needs at least, or the bound given, if that is more."""
        return int(self.counters[BOUND])

    @property
    def num_sets(self) -> int:
        """Number of down-sets found."""
        return int(self.counters[COUNT])

    def lower_limit(self, limit: int) -> None:
        """Take note of an order whose peak is the limit from now on."""
        self.counters[LIMIT] = min(int(self.counters[LIMIT]), limit)

    def run(self, watch: Stopwatch, max_slices: int) -> int:
        """Search on; return how many slices were used.

        Once `is_done`, `order` gives an order whose peak is at most the threshold reached, or none if each order
        reaches the limit.
        """
        used = 0
        while used < max_slices:
            used += 1
            how = explore(self.model.steps, self._found, self.counters, self._slice)
            self.is_done = how in (REACHED, EXHAUSTED)
            if how == FULL:
                self.is_full = not self._grow()
            if self.is_done or self.is_full or watch.left <= 0:
                break
        return used

    def order(self) -> IntArray | None:
        """Return the order found, None if there is none."""
        row = int(self.counters[GOAL])
        if row < 0:
            return None
        sets, words = self._found[0], self.model.steps[0].shape[2]
        out = []
        while sets[row, 2 * words + 1] >= 0:
            out.append(int(sets[row, 2 * words + 2]))
            row = int(sets[row, 2 * words + 1])
        return np.array(out[::-1], dtype=np.int64)

    @staticmethod
    def _room(rows: int, words: int) -> Found:
        slots = 1 << (2 * rows - 1).bit_length()
        return (
            np.empty((rows, 2 * words + 3), dtype=np.int64),
            np.zeros(slots, dtype=np.int64),
            np.empty(rows, dtype=np.int64),
            np.empty((2, rows), dtype=np.int64),
        )

    def _grow(self) -> bool:
        old, counters = self._found, self.counters
        rows = old[0].shape[0]
        if rows >= self._max_rows:
            return False
        words = self.model.steps[0].shape[2]
        new = self._room(min(4 * rows, self._max_rows), words)
        count, depth, aside = counters[[COUNT, DEPTH, HEAP]].tolist()
        new[0][:count], new[2][:depth], new[3][:, :aside] = old[0][:count], old[2][:depth], old[3][:, :aside]
        fill_table(new[1], new[0], words, count)
        self._found = new
        return True
