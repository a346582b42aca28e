"""A graph as flat arrays for the compiled loops over live tensors: who makes a tensor, who reads it, when it dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph, IntArray
from respect_core.kinds import INPUT
from respect_core.memory.rules import ACCUMULATING_CONVOLUTION, CONCATENATIONS, DEFAULT_RULES, ELEMENTWISE, MemoryRules

SEPARATE, OVER_ALL, OVER_ONE = 0, 1, 2
"""Where an op writes: to new memory; over all inputs that die there; over one input of equal bytes that dies there."""

NEVER_DIES: Final = 1 << 30
"""Added to the readers that a tensor waits for if it stays to the end."""

Loops = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]
"""What compiled loops take: bytes of every tensor; readers it waits for; start of each op's inputs, the inputs; start
of each op's outputs, the outputs; and where each op writes."""


@dataclass(frozen=True, kw_only=True)
class LiveTensors:
    """The tensors of some ops, numbered locally, as a counting rule sees them."""

    size: IntArray
    """Bytes. Shape (m,)."""
    maker: IntArray
    """Op that makes it, `UNKNOWN` if it is there from the start. Shape (m,)."""
    stays: IntArray
    """1 where a tensor lives to the end. Shape (m,)."""
    readers: tuple[tuple[int, ...], ...]
    """Distinct ops that read each tensor."""
    writes: IntArray
    """`SEPARATE`, `OVER_ALL` or `OVER_ONE`. Shape (n,)."""
    parents: tuple[tuple[int, ...], ...]
    """Distinct ops that must run before each op; n tuples."""

    @property
    def num_ops(self) -> int:
        """Number of ops n."""
        return int(self.writes.size)

    @cached_property
    def at_start(self) -> int:
        """Bytes that are live before the first op."""
        held = [
            int(size)
            for size, maker, readers, stays in zip(self.size, self.maker, self.readers, self.stays, strict=True)
            if maker == UNKNOWN and (readers or stays)
        ]
        return sum(held)

    @cached_property
    def loops(self) -> Loops:
        """The arrays of the compiled loops."""
        inputs: list[list[int]] = [[] for _ in range(self.num_ops)]
        outputs: list[list[int]] = [[] for _ in range(self.num_ops)]
        for t, readers in enumerate(self.readers):
            if self.maker[t] != UNKNOWN:
                outputs[int(self.maker[t])].append(t)
            for v in readers:
                inputs[v].append(t)
        waits = np.array([len(r) for r in self.readers], dtype=np.int64) + NEVER_DIES * self.stays
        return (self.size, waits, *rows(inputs), *rows(outputs), self.writes)


def rows(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return lists of numbers as compressed rows: where each starts, shape (n + 1,), and all numbers."""
    start = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in lists], out=start[1:])
    return start, np.array([x for row in lists for x in row], dtype=np.int64)


def live_tensors(graph: DnnGraph, rules: MemoryRules = DEFAULT_RULES) -> LiveTensors:
    """Describe a graph's tensors under a counting rule; tensor t is the graph's tensor t."""
    in_place = {
        ACCUMULATING_CONVOLUTION: OVER_ONE,
        **dict.fromkeys(CONCATENATIONS if rules.concat == "in-place" else (), OVER_ALL),
        **dict.fromkeys(ELEMENTWISE if rules.elementwise == "in-place" else (), OVER_ONE),
    }
    from_host = np.array([kind == INPUT for kind in graph.op_kinds])
    maker = graph.tensor_producer.copy()
    maker[(maker != UNKNOWN) & from_host[maker]] = UNKNOWN
    size = graph.tensor_bytes.copy()
    if not rules.count_inputs:
        size[maker == UNKNOWN] = 0
    return LiveTensors(
        size=size,
        maker=maker,
        stays=graph.tensor_is_output.astype(np.int64),
        readers=graph.tensor_consumers,
        writes=np.array([in_place.get(kind, SEPARATE) for kind in graph.op_kinds], dtype=np.int64),
        parents=graph.parents,
    )
