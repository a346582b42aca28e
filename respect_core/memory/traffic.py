"""Off-chip traffic: what moves between a small on-chip memory and the memory outside while a network runs in an order.

SERENITY's figure of off-chip communication counts what optimal replacement moves for a given on-chip size; so does
this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, DnnGraph, IntArray
from respect_core.memory.live import LiveTensors, lists, live_tensors
from respect_core.memory.peak import checked_order, taken_over
from respect_core.memory.rules import DEFAULT_RULES, MemoryRules

_AT_THE_END: Final = 1 << 60


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes of activations that cross the chip's border during one inference."""

    read_bytes: int
    written_bytes: int
    streamed_ops: int
    """Ops whose own tensors do not fit on chip together."""

    @property
    def total_bytes(self) -> int:
        """Both directions."""
        return self.read_bytes + self.written_bytes


def off_chip_traffic(
    graph: DnnGraph,
    on_chip_bytes: int,
    order: Sequence[int] | IntArray | None = None,
    rules: MemoryRules = DEFAULT_RULES,
) -> Traffic:
    """Count the traffic of an order under replacement by the farthest next use (Belady's rule).

    What is counted: an op's inputs and outputs are on chip while it runs. Where room lacks, the whole tensor whose next
    reader is farthest away moves out; a graph output that nobody reads any more is the farthest, and among equals those
    go that lie outside already, then the largest. Moving out writes a tensor's bytes unless it was written before, and
    its next reader reads them back. Graph inputs come onto the chip as far as they fit, in the order of their first
    readers, and lie outside too; neither this nor handing over the graph outputs counts, because both are equal in all
    orders. If an op's tensors do not fit together, it streams the largest of them, outputs written and inputs read,
    until the rest fits. Constants are not counted. So there is no traffic where the order's peak fits. The rule is
    optimal for tensors of equal bytes and the usual yardstick for others.

    Args:
        graph: The network, or a part of one.
        on_chip_bytes: Room for activations.
        order: A topological order; None for the order of the indices.
        rules: What takes room, as in the peak model.

    Raises:
        BadInputError: Negative room, or an order that is not topological.
    """
    if on_chip_bytes < 0:
        raise BadInputError(f"on-chip memory has {on_chip_bytes} bytes, at least 0 are needed")
    return _Chip(live_tensors(graph, rules), on_chip_bytes, checked_order(graph, order).tolist()).run()


class _Chip:
    """What lies on chip while the ops run one after the other."""

    def __init__(self, live: LiveTensors, room: int, order: list[int]) -> None:
        self.live, self.room, self.order = live, room, order
        self.size: list[int] = live.size.tolist()
        position = {v: at for at, v in enumerate(order)}
        all_readers = lists(live.readers)
        self.uses = [sorted((position[v] for v in readers), reverse=True) for readers in all_readers]
        self.inputs: list[list[int]] = [[] for _ in order]
        self.outputs: list[list[int]] = [[] for _ in order]
        for t, readers in enumerate(all_readers):
            if live.maker[t] != UNKNOWN:
                self.outputs[int(live.maker[t])].append(t)
            for v in readers:
                self.inputs[v].append(t)
        self.here: set[int] = set()
        self.used = self.read = self.written = self.streamed = 0
        self.outside = {t for t, maker in enumerate(live.maker.tolist()) if maker == UNKNOWN}

    def run(self) -> Traffic:
        for t in sorted(self.outside, key=self._next_use):
            if (self.uses[t] or self.live.stays[t]) and self.used + self.size[t] <= self.room:
                self._place(t)
        for at, v in enumerate(self.order):
            self._step(at, v)
        return Traffic(read_bytes=self.read, written_bytes=self.written, streamed_ops=self.streamed)

    def _next_use(self, tensor: int) -> int:
        return self.uses[tensor][-1] if self.uses[tensor] else _AT_THE_END

    def _place(self, tensor: int) -> None:
        self.here.add(tensor)
        self.used += self.size[tensor]

    def _drop(self, tensor: int) -> None:
        self.here.discard(tensor)
        self.used -= self.size[tensor]

    def _move_out(self, tensor: int) -> None:
        self._drop(tensor)
        if tensor not in self.outside:
            self.written += self.size[tensor]
            self.outside.add(tensor)

    def _step(self, at: int, op: int) -> None:
        """Run one op."""
        inputs, outputs = self.inputs[op], self.outputs[op]
        for t in inputs:
            self.uses[t].pop()
        dying = [t for t in inputs if not self.uses[t] and not self.live.stays[t]]
        own = sorted([*inputs, *outputs], key=lambda t: (self.size[t], t))
        streamed: list[int] = []
        while own and self._needed(op, own, dying) > self.room:
            streamed.append(own.pop())
        self.streamed += bool(streamed)
        others = sorted(
            self.here - set(own) - set(streamed),
            key=lambda t: (self._next_use(t), t not in self.outside, self.size[t], t),
        )
        for t in streamed:
            if t in self.here:
                self._move_out(t)
            if t in outputs:
                self.outside.add(t)
                self.written += self.size[t]
            else:
                self.read += self.size[t]
        coming = [t for t in own if t not in self.here]
        spare = self._needed(op, own, dying) - sum(self.size[t] for t in own if t in self.here)
        while others and self.used + spare > self.room:
            self._move_out(others.pop())
        for t in coming:
            if t in inputs:
                self.read += self.size[t]
            self._place(t)
        for t in [*dying, *(t for t in outputs if not self.uses[t] and not self.live.stays[t])]:
            if t in self.here:
                self._drop(t)

    def _needed(self, op: int, own: list[int], dying: list[int]) -> int:
        """Room for these tensors of an op, those of its outputs that lie where inputs were counted once."""
        made = sum(self.size[t] for t in own if t in self.outputs[op])
        ended = [self.size[t] for t in own if t in dying]
        shared = taken_over(self.live.writes[op], made, sum(ended), made in ended, len(self.outputs[op]))
        return sum(self.size[t] for t in own) - int(shared)
