"""A graph as flat arrays for the compiled loops over live tensors: who makes a tensor, who reads it, when it dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Final

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import UNKNOWN, DnnGraph, IntArray
from respect_core.kinds import INPUT
from respect_core.memory.rules import ACCUMULATING_CONVOLUTION, CONCATENATIONS, DEFAULT_RULES, ELEMENTWISE, MemoryRules
from respect_core.solve.downsets import Int

SEPARATE, OVER_ALL, OVER_ONE = 0, 1, 2
"""Where an op writes: to new memory; over all inputs that die there; over one input of equal bytes that dies there."""

NEVER_DIES: Final = 1 << 30
"""Added to the readers that a tensor waits for if it stays to the end."""

Rows = tuple[IntArray, IntArray]
"""Lists of numbers: where each starts, shape (lists + 1,), and all numbers one list after the other."""

Arrays = tuple[IntArray, IntArray, IntArray, Rows, IntArray, Rows]
"""The fields of `LiveTensors` in their order, for compiled loops."""

Loops = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]
"""What compiled loops take: bytes of every tensor; readers it waits for; start of each op's inputs, the inputs; start
of each op's outputs, the outputs; and where each op writes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LiveTensors:
    """The tensors of some ops, numbered locally, as a counting rule sees them."""

    size: IntArray
    """Bytes. Shape (m,)."""
    maker: IntArray
    """Op that makes it, `UNKNOWN` if it is there from the start. Shape (m,)."""
    stays: IntArray
    """1 where a tensor lives to the end. Shape (m,)."""
    readers: Rows
    """Distinct ops that read each tensor, ascending; m lists."""
    writes: IntArray
    """`SEPARATE`, `OVER_ALL` or `OVER_ONE`. Shape (n,)."""
    parents: Rows
    """Distinct ops that must run before each op, ascending; n lists."""

    @property
    def num_ops(self) -> int:
        """Number of ops n."""
        return int(self.writes.size)

    @property
    def arrays(self) -> Arrays:
        """The fields, for compiled loops."""
        return (self.size, self.maker, self.stays, self.readers, self.writes, self.parents)

    @cached_property
    def _uses(self) -> tuple[Loops, int]:
        return _uses(self.arrays)

    @property
    def loops(self) -> Loops:
        """The arrays of the compiled loops over an order."""
        return self._uses[0]

    @property
    def at_start(self) -> int:
        """Bytes that are live before the first op."""
        return self._uses[1]


def rows(lists: Sequence[Sequence[int]]) -> Rows:
    """Return lists of numbers as arrays."""
    start = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), out=start[1:])
    return start, np.fromiter(chain.from_iterable(lists), np.int64, int(start[-1]))


def lists(rows: Rows) -> list[list[int]]:
    """Return the lists again."""
    start, numbers = rows[0].tolist(), rows[1].tolist()
    return [numbers[a:b] for a, b in pairwise(start)]


@compiled
def grouped(owner: IntArray, number: IntArray, num_owners: Int) -> Rows:
    """Return a list for each owner: the numbers of its places, in their order.

    Args:
        owner: Owner of each place; places of an owner below 0 are left out. Shape (places,).
        number: Shape (places,).
        num_owners: Number of lists.
    """
    start = np.zeros(num_owners + 1, np.int64)
    for o in owner:
        if o >= 0:
            start[o + 1] += 1
    for o in range(num_owners):
        start[o + 1] += start[o]
    end = start.copy()
    numbers = np.empty(start[num_owners], np.int64)
    for at in range(owner.size):
        o = owner[at]
        if o >= 0:
            numbers[end[o]] = number[at]
            end[o] += 1
    return start, numbers


@compiled
def _uses(arrays: Arrays) -> tuple[Loops, Int]:
    """Return what an order is judged with, and the bytes that are live at its start."""
    size, maker, stays, (start, reader), writes, _ = arrays
    m, n = size.size, writes.size
    waits = np.empty(m, np.int64)
    tensor = np.empty(reader.size, np.int64)
    at_start = np.int64(0)
    for t in range(m):
        waits[t] = start[t + 1] - start[t] + NEVER_DIES * stays[t]
        for p in range(start[t], start[t + 1]):
            tensor[p] = t
        if maker[t] < 0 and waits[t] > 0:
            at_start += size[t]
    in_start, inputs = grouped(reader, tensor, n)
    out_start, outputs = grouped(maker, np.arange(m), n)
    return (size, waits, in_start, inputs, out_start, outputs, writes), at_start


def live_tensors(graph: DnnGraph, rules: MemoryRules = DEFAULT_RULES) -> LiveTensors:
    """Describe a graph's tensors under a counting rule; tensor t is the graph's tensor t."""
    in_place = {
        ACCUMULATING_CONVOLUTION: OVER_ONE,
        **dict.fromkeys(CONCATENATIONS if rules.concat == "in-place" else (), OVER_ALL),
        **dict.fromkeys(ELEMENTWISE if rules.elementwise == "in-place" else (), OVER_ONE),
    }
    maker = graph.tensor_producer.copy()
    if INPUT in graph.op_kinds:
        from_host = np.array([kind == INPUT for kind in graph.op_kinds])
        maker[(maker != UNKNOWN) & from_host[maker]] = UNKNOWN
    size = graph.tensor_bytes.copy()
    if not rules.count_inputs:
        size[maker == UNKNOWN] = 0
    parent, child = np.array(graph.edges.T, order="C")
    return LiveTensors(
        size=size,
        maker=maker,
        stays=graph.tensor_is_output.astype(np.int64),
        readers=rows(graph.tensor_consumers),
        writes=np.array([in_place.get(kind, SEPARATE) for kind in graph.op_kinds], dtype=np.int64),
        parents=grouped(child, parent, graph.num_ops),
    )
