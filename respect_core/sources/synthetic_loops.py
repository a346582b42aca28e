"""The compiled loop that turns uniform numbers into the parents, levels and bytes of one synthetic graph."""

from __future__ import annotations

from typing import Final

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import FloatArray, IntArray

FEWEST_LARGEST_IN_DEGREE: Final = 2
MAX_IN_DEGREE: Final = 6
LARGEST_BYTES: Final = 5000

NUMBERS_PER_GRAPH: Final = 1
NUMBERS_PER_OP: Final = 4 + MAX_IN_DEGREE
"""How many in-degrees, `MAX_IN_DEGREE` parents, whether there are parameters, how many, and the tensor's bytes."""


@compiled
def draw(uniform: FloatArray, window: int, parents: IntArray, numbers: IntArray) -> int:
    """Fill in one graph.

    A number u in [0, 1) chooses ``floor(u * count)`` out of ``count``. The j-th parent is chosen among the candidates
    that are not taken yet: its rank among those becomes an op by stepping over the parents already there.

    Args:
        uniform: Independent numbers in [0, 1). Shape (1 + 10 n,).
        window: How many of the previous ops may be parents; n or more for all of them.
        parents: Filled with ascending parents of every op, -1 beyond them. Shape (n, 6).
        numbers: Filled with level, parameter bytes and tensor bytes of every op. Shape (3, n).

    Returns:
        The number of levels: ops on the longest path.
    """
    n = parents.shape[0]
    choices = MAX_IN_DEGREE - FEWEST_LARGEST_IN_DEGREE + 1
    largest_in_degree = FEWEST_LARGEST_IN_DEGREE + int(uniform[0] * choices)
    deepest = 0
    for v in range(n):
        at = NUMBERS_PER_GRAPH + v * NUMBERS_PER_OP
        candidates = min(v, window)
        wanted = min(1 + int(uniform[at] * largest_in_degree), candidates)
        level = 1
        for j in range(MAX_IN_DEGREE):
            parents[v, j] = -1
        for j in range(wanted):
            parent = v - candidates + int(uniform[at + 1 + j] * (candidates - j))
            place = 0
            while place < j and parents[v, place] <= parent:
                parent += 1
                place += 1
            for moved in range(j, place, -1):
                parents[v, moved] = parents[v, moved - 1]
            parents[v, place] = parent
            level = max(level, numbers[0, parent] + 1)
        at += 1 + MAX_IN_DEGREE
        has_parameters = uniform[at] >= 1 / 3
        numbers[0, v] = level
        numbers[1, v] = 1 + int(uniform[at + 1] * LARGEST_BYTES) if has_parameters else 0
        numbers[2, v] = 1 + int(uniform[at + 2] * LARGEST_BYTES)
        deepest = max(deepest, level)
    return int(deepest)


def empty_arrays(num_ops: int) -> tuple[IntArray, IntArray]:
    """Return the arrays that `draw` fills: parents (n, 6) and numbers (3, n)."""
    return np.empty((num_ops, MAX_IN_DEGREE), dtype=np.int64), np.empty((3, num_ops), dtype=np.int64)
