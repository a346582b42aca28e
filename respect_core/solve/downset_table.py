"""The down-sets that a search has found, each once: open addressing over the bitsets of `downsets`."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import Int

_SPREAD = 0x9E3779B97F4A7C1  # a large odd number: consecutive words land far apart


@compiled
def find_set(table: IntArray, sets: IntArray, wanted: IntArray) -> Int:
    """Return the slot of a bitset: ``table[slot]`` is its row in ``sets`` plus 1, or 0 where it is to be put.

    Args:
        table: A power of two of slots, some of them empty.
        sets: A bitset at the start of each row, shape (rows, words or more).
        wanted: Shape (words,).
    """
    words = wanted.size
    mask = table.size - 1
    mixed = np.int64(0)
    for w in range(words):
        mixed = (mixed ^ (mixed >> 29) ^ wanted[w]) * _SPREAD
    slot = (mixed ^ (mixed >> 32)) & mask
    while True:
        row = table[slot] - 1
        w = 0
        while row >= 0 and w < words and sets[row, w] == wanted[w]:
            w += 1
        if row < 0 or w == words:
            return slot
        slot = (slot + 1) & mask


@compiled
def fill_table(table: IntArray, sets: IntArray, words: Int, count: Int) -> None:
    """Enter the first ``count`` distinct bitsets, of so many words, into an empty table of more slots than that."""
    for row in range(count):
        table[find_set(table, sets, sets[row, :words])] = row + 1
