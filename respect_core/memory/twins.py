"""Twins: ops that any order can exchange without changing a byte, so that one order of theirs is enough."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.memory.live import Arrays, Loops, Rows
from respect_core.solve.downsets import Int


@compiled
def with_twins_in_order(arrays: Arrays, loops: Loops) -> Rows:
    """Return what must run before each op, if in addition twins run in the order of their numbers.

    Twins read the same tensors, come after the same ops, write in the same way, and make tensors of the same bytes for
    the same readers. Exchanging them turns any order into one of the same peak, so that some best order obeys the
    addition.

    Args:
        arrays: The tensors.
        loops: Their uses.
    """
    start, parent = arrays[5]
    in_start, inputs = loops[2], loops[3]
    reader_start, reader = arrays[3]
    n = start.size - 1
    new_start = np.empty(n + 1, np.int64)
    new_parent = np.empty(parent.size + n, np.int64)
    new_start[0] = 0
    last_without_input: Int = np.int64(-1)
    previous = np.empty(n, np.int64)  # of ops that read nothing: the one before
    count = 0
    for v in range(n):
        for p in range(start[v], start[v + 1]):
            new_parent[count] = parent[p]
            count += 1
        twin = np.int64(-1)
        if in_start[v] == in_start[v + 1]:
            previous[v], u = last_without_input, last_without_input
            last_without_input = v
            while u >= 0 and twin < 0:
                if _are_twins(u, v, arrays, loops):
                    twin = u
                u = previous[u]
        else:  # a twin reads the first input too
            first = inputs[in_start[v]]
            for p in range(reader_start[first + 1] - 1, reader_start[first] - 1, -1):
                if reader[p] < v and _are_twins(reader[p], v, arrays, loops):
                    twin = reader[p]
                    break
        if twin >= 0:
            new_parent[count] = twin
            count += 1
        new_start[v + 1] = count
    return new_start, new_parent[:count].copy()


@compiled
def _are_twins(u: Int, v: Int, arrays: Arrays, loops: Loops) -> bool:
    size, _, stays, (reader_start, reader), writes, (parent_start, parent) = arrays
    _, _, in_start, inputs, out_start, outputs, _ = loops
    if writes[u] != writes[v] or out_start[u + 1] - out_start[u] != out_start[v + 1] - out_start[v]:
        return False
    for i in range(out_start[u + 1] - out_start[u]):
        s, t = outputs[out_start[u] + i], outputs[out_start[v] + i]
        if size[s] != size[t] or stays[s] != stays[t] or not _are_equal(s, t, reader_start, reader):
            return False
    return _are_equal(u, v, in_start, inputs) and _are_equal(u, v, parent_start, parent)


@compiled
def _are_equal(a: Int, b: Int, start: IntArray, numbers: IntArray) -> bool:
    """Tell whether two lists are equal."""
    length = start[a + 1] - start[a]
    if start[b + 1] - start[b] != length:
        return False
    i = 0
    while i < length and numbers[start[a] + i] == numbers[start[b] + i]:
        i += 1
    return bool(i == length)
