"""Divide and conquer: where every order passes through the same set of ops, what comes before and after are separate.

A down-set is passed by every order exactly if each of its ops comes before each other op. Cut nodes, which all paths
pass through, give such sets (the ops up to one of them); so does any place where all open ends feed all that follows.
Tensors may live across such a place and are then held throughout the sections that they skip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.memory.live import Arrays, LiveTensors, Rows, grouped
from respect_core.solve.downsets import Int, closures, lowest_bit


@dataclass(frozen=True, eq=False, kw_only=True)
class Section:
    """Ops that are ordered among themselves, whatever the order of the others."""

    ops: IntArray
    """Ascending positions in the topological order that the sections were found in. Shape (n,)."""
    live: LiveTensors
    """Its tensors; op i is ``ops[i]``."""
    across: int
    """Bytes of tensors that live through the whole section without being read or made in it."""


@compiled
def forced_sizes(parents: Rows, order: IntArray) -> IntArray:
    """Return the sizes of all sets that every order passes through, 0 and n included, ascending.

    Args:
        parents: What each op must come after.
        order: Any topological order; the sets are its prefixes.
    """
    start, parent = parents
    n = order.size
    position = np.empty(n, np.int64)
    for i in range(n):
        position[order[i]] = i
    own_start, own_parent = np.empty(n + 1, np.int64), np.empty(parent.size, np.int64)
    own_start[0] = 0
    count = 0
    for i in range(n):
        for p in range(start[order[i]], start[order[i] + 1]):
            own_parent[count] = position[parent[p]]
            count += 1
        own_start[i + 1] = count
    before, _ = closures(own_start, own_parent, max(1, (n + 63) >> 6))
    forced = np.empty(n + 1, np.int64)
    forced[n] = n
    first = n
    smallest = np.int64(n)  # leading ops that all ops from here on come after
    for v in range(n - 1, -1, -1):
        leading: Int = np.int64(0)
        for w in range(before.shape[1]):
            missing = ~before[v, w]
            if missing != 0:
                leading = 64 * w + lowest_bit(missing)
                break
            leading = 64 * (w + 1)
        smallest = min(smallest, leading)
        if smallest >= v:
            first -= 1
            forced[first] = v
    return forced[first:].copy()


class Division:
    """The ops divided where every order passes; a section is cut out when it is asked for.

    Args:
        live: All tensors.
        order: The topological order that ``sizes`` were found with.
        sizes: From `forced_sizes`, or some of them with 0 and n.
    """

    def __init__(self, live: LiveTensors, order: IntArray, sizes: IntArray) -> None:
        self.live, self.order, self.sizes = live, order, sizes
        self._position, self._held, (self._start, self._tensors) = _divide(live.arrays, order, sizes)

    def section(self, s: int) -> Section:
        """Return the section between two neighbouring sizes, ``sizes[s]`` and ``sizes[s + 1]``."""
        first, end = int(self.sizes[s]), int(self.sizes[s + 1])
        tensors = self._tensors[self._start[s] : self._start[s + 1]]
        arrays, own = _cut_out(self.live.arrays, self.order, self._position, first, end, tensors)
        size, maker, stays, readers, writes, parents = arrays
        live = LiveTensors(size=size, maker=maker, stays=stays, readers=readers, writes=writes, parents=parents)
        return Section(ops=np.arange(first, end), live=live, across=int(self._held[s]) - own)


def sections(live: LiveTensors, order: IntArray, sizes: IntArray) -> list[Section]:
    """Return the sections of a `Division` that have more than one op."""
    division = Division(live, order, sizes)
    return [division.section(int(s)) for s in np.flatnonzero(np.diff(sizes) > 1)]


@compiled
def _divide(arrays: Arrays, order: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray, Rows]:
    """Return each op's position, the bytes of all tensors live in each section, and those it reads or makes."""
    size, maker, stays, (start, reader), writes, _ = arrays
    n, num_sections = writes.size, sizes.size - 1
    position, section_of = np.empty(n, np.int64), np.empty(n, np.int64)
    for s in range(num_sections):
        for i in range(sizes[s], sizes[s + 1]):
            position[order[i]], section_of[order[i]] = i, s
    held = np.zeros(num_sections + 1, np.int64)
    seen = np.zeros(num_sections, np.int64)  # last tensor that was noted for a section, plus 1
    section, tensor = np.empty(reader.size + size.size, np.int64), np.empty(reader.size + size.size, np.int64)
    count = 0
    for t in range(size.size):
        first, last = np.int64(num_sections), np.int64(-1)
        for p in range(start[t] - 1, start[t + 1]):
            v = reader[p] if p >= start[t] else maker[t]
            if v < 0:
                continue
            s = section_of[v]
            first, last = min(first, s), max(last, s)
            if seen[s] != t + 1:
                seen[s] = t + 1
                section[count], tensor[count] = s, t
                count += 1
        if last < 0 and stays[t] == 0:
            continue
        held[0 if maker[t] < 0 else first] += size[t]
        held[num_sections if stays[t] else last + 1] -= size[t]
    for s in range(num_sections):
        held[s + 1] += held[s]
    return position, held[:num_sections], grouped(section[:count], tensor[:count], num_sections)


@compiled
def _cut_out(
    arrays: Arrays, order: IntArray, position: IntArray, first: Int, end: Int, tensors: IntArray
) -> tuple[Arrays, Int]:
    """Return the ops at the positions from ``first`` to before ``end`` with their tensors, and these tensors' bytes."""
    size, maker, stays, (start, reader), writes, (parent_start, parent) = arrays
    m = tensors.size
    own_size, own_maker, own_stays = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    total = np.int64(0)
    for i in range(m):
        t = tensors[i]
        total += size[t]
        own_size[i], own_maker[i], own_stays[i] = size[t], -1, stays[t]
        if maker[t] >= 0 and first <= position[maker[t]] < end:
            own_maker[i] = position[maker[t]] - first
        for p in range(start[t], start[t + 1]):
            if position[reader[p]] >= end:
                own_stays[i] = 1
    own_readers = _within(start, reader, tensors, position, first, end)
    own_parents = _within(parent_start, parent, order[first:end], position, first, end)
    own_writes = np.empty(end - first, np.int64)
    for i in range(first, end):
        own_writes[i - first] = writes[order[i]]
    return (own_size, own_maker, own_stays, own_readers, own_writes, own_parents), total


@compiled
def _within(start: IntArray, ops: IntArray, chosen: IntArray, position: IntArray, first: Int, end: Int) -> Rows:
    """Return the chosen lists of ops as far as they lie at these positions, numbered from 0, ascending."""
    room = 0
    for c in chosen:
        room += start[c + 1] - start[c]
    own_start, own = np.empty(chosen.size + 1, np.int64), np.empty(room, np.int64)
    own_start[0] = 0
    count = 0
    for i in range(chosen.size):
        for p in range(start[chosen[i]], start[chosen[i] + 1]):
            here = position[ops[p]] - first
            if here < 0 or here >= end - first:
                continue
            at = count
            while at > own_start[i] and own[at - 1] > here:
                own[at] = own[at - 1]
                at -= 1
            own[at] = here
            count += 1
        own_start[i + 1] = count
    return own_start, own[:count].copy()
