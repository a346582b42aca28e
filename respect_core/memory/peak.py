"""The peak model: bytes of live activations step by step for an order of the ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from respect_core.compiled import compiled
from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph, IntArray
from respect_core.memory.live import LiveTensors, Loops, live_tensors
from respect_core.memory.rules import DEFAULT_RULES, MemoryRules
from respect_core.solve.downsets import Int


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryProfile:
    """Live bytes over one order of a graph's ops."""

    order: tuple[int, ...]
    """Ops in the order in which they run."""
    start_bytes: int
    """Live before the first op: the graph inputs, if they count."""
    step_bytes: IntArray
    """Held while the op at each position runs. Shape (n,)."""
    after_bytes: IntArray
    """Live between the op at each position and the next one. Shape (n,)."""

    @property
    def peak_bytes(self) -> int:
        """The most that is held at any time."""
        return int(self.step_bytes.max())

    @property
    def peak_position(self) -> int:
        """The first position at which the peak is held."""
        return int(self.step_bytes.argmax())


def memory_profile(
    graph: DnnGraph, order: Sequence[int] | IntArray | None = None, rules: MemoryRules = DEFAULT_RULES
) -> MemoryProfile:
    """Compute the live bytes of every step.

    Args:
        graph: The network, or a part of one (`part.subgraph`).
        order: A topological order of the ops; None for the order of their indices, as in a file.
        rules: What counts.

    Returns:
        The profile; no step holds less than what is live before or after it.

    Raises:
        BadInputError: The order does not hold every op once, parents first.
    """
    checked = checked_order(graph, order)
    live = live_tensors(graph, rules)
    step, after = profile_of(checked, live.loops, live.at_start)
    return MemoryProfile(order=tuple(checked.tolist()), start_bytes=live.at_start, step_bytes=step, after_bytes=after)


def peak_bytes(
    graph: DnnGraph, order: Sequence[int] | IntArray | None = None, rules: MemoryRules = DEFAULT_RULES
) -> int:
    """Return the peak of `memory_profile`."""
    return memory_profile(graph, order, rules).peak_bytes


def checked_order(graph: DnnGraph, order: Sequence[int] | IntArray | None) -> IntArray:
    """Return an order as an array; None stands for the order of the indices, or of the levels if that is not legal.

    Raises:
        BadInputError: The order does not hold every op once, parents first; the first offender is named.
    """
    if order is None:
        is_legal = bool((graph.edges[:, 0] < graph.edges[:, 1]).all())
        return np.arange(graph.num_ops) if is_legal else graph.topological_order.copy()
    given = np.array(order, dtype=np.int64)
    if given.ndim != 1 or not np.array_equal(np.sort(given), np.arange(graph.num_ops)):
        raise BadInputError(
            f"graph {graph.name!r}: an order of its ops holds each of 0..{graph.num_ops - 1} once, "
            f"this one has {given.size} entries, {np.unique(given).size} of them distinct"
        )
    position = np.empty(given.size, dtype=np.int64)
    position[given] = np.arange(given.size)
    for u, v in graph.edges.tolist():
        if position[u] >= position[v]:
            raise BadInputError(
                f"graph {graph.name!r}: the order runs op {graph.op_names[v]!r} before {graph.op_names[u]!r}, "
                "whose output it reads"
            )
    return given


def peak_of(order: IntArray, live: LiveTensors) -> int:
    """Return the peak of a legal order of local ops."""
    return int(_peak_of(order, live.loops, live.at_start))


@compiled
def taken_over(writes: Int, made: Int, dying: Int, has_equal: bool, num_outputs: Int) -> Int:
    """Return how many of the bytes made lie where inputs that die were.

    Args:
        writes: `SEPARATE` (0), `OVER_ALL` (1) or `OVER_ONE` (2).
        made: Bytes of all outputs.
        dying: Bytes of all inputs that die.
        has_equal: Whether an input of ``made`` bytes dies.
        num_outputs: Number of outputs.
    """
    if writes == 1:
        return min(made, dying)
    if writes == 2 and has_equal and num_outputs == 1:
        return made
    return 0


@compiled
def profile_of(order: IntArray, loops: Loops, at_start: Int) -> tuple[IntArray, IntArray]:
    """Return the bytes held while each op of a legal order runs, and after it. Shapes (n,)."""
    size, waits, in_start, inputs, out_start, outputs, writes = loops
    waiting = waits.copy()
    step = np.empty(order.size, np.int64)
    after = np.empty(order.size, np.int64)
    live = np.int64(at_start)
    for i in range(order.size):
        v = order[i]
        made, kept, dying = np.int64(0), np.int64(0), np.int64(0)
        for p in range(out_start[v], out_start[v + 1]):
            made += size[outputs[p]]
            if waits[outputs[p]] > 0:
                kept += size[outputs[p]]
        has_equal = False
        for p in range(in_start[v], in_start[v + 1]):
            t = inputs[p]
            waiting[t] -= 1
            if waiting[t] == 0:
                dying += size[t]
                has_equal = has_equal or size[t] == made
        step[i] = live + made - taken_over(writes[v], made, dying, has_equal, out_start[v + 1] - out_start[v])
        live += kept - dying
        after[i] = live
    return step, after


@compiled
def _peak_of(order: IntArray, loops: Loops, at_start: Int) -> Int:
    step, _ = profile_of(order, loops, at_start)
    peak = np.int64(0)
    for held in step:
        peak = max(peak, held)
    return peak
