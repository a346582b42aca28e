"""One step of an order, seen from a down-set: what running an op next costs, and what it leaves behind.

A down-set's live bytes do not depend on how it was reached, so that they and the cost of a step are functions of the
set and the op alone. Both have the property that the searches rest on: the more ops have run already, the less an op
adds (its inputs die rather than live on), which is to say that live bytes are a submodular function of the down-set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import UNKNOWN, IntArray
from respect_core.memory.bounds import last_readings, least_held
from respect_core.memory.live import LiveTensors, rows
from respect_core.memory.peak import taken_over
from respect_core.memory.twins import with_twins_in_order
from respect_core.solve.downsets import Int, bitsets, closures, num_words

Steps = tuple[
    IntArray,
    IntArray,
    IntArray,
    IntArray,
    IntArray,
    IntArray,
    IntArray,
    IntArray,
    IntArray,
    IntArray,
    IntArray,
    IntArray,
]
"""What must have run before each op, bitsets (n, words); what can run only after it, likewise; start of each op's
inputs; the inputs; readers of each tensor, bitsets (m, words), with the bit n set if it stays; bytes of each tensor;
bytes made, bytes of these that live on after the op, number of outputs, and where it writes: of every op; what is held
at least while each op runs, shape (n,); and by how much that grows if another op has run before, shape (n, n): [other,
op]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StepModel:
    """A problem of ordering n local ops, as arrays for compiled loops."""

    steps: Steps
    num_ops: int
    at_start: int
    """Bytes that are live before the first op."""
    bound: int
    """A lower bound on the peak: what some op needs at least while it runs, or what is live at the start or end."""


def step_model(live: LiveTensors) -> StepModel:
    """Build the arrays; ops keep their numbers, which must be in topological order."""
    n = live.num_ops
    words = num_words(n + 1)
    size, waits, in_start, inputs, out_start, _, writes = live.loops
    made, kept = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    is_made = live.maker != UNKNOWN
    np.add.at(made, live.maker[is_made], size[is_made])
    is_kept = is_made & (waits > 0)
    np.add.at(kept, live.maker[is_kept], size[is_kept])
    parents = with_twins_in_order(live)
    children: list[list[int]] = [[] for _ in range(n)]
    for v, earlier in enumerate(parents):
        for u in earlier:
            children[u].append(v)
    waiting = [(*readers, n) if stays else readers for readers, stays in zip(live.readers, live.stays, strict=True)]
    before = bitsets(parents, words)
    waiting_bits = bitsets(waiting, words)
    size = np.ascontiguousarray(size)
    reach = closures(*rows(parents), words)
    readers = rows(waiting)
    least, more = least_held(reach, readers, size, live.maker, made, kept, writes)
    fans = last_readings(reach, readers, size, live.maker, made, writes)
    steps = (
        before,
        bitsets(children, words),
        in_start,
        inputs,
        waiting_bits,
        size,
        made,
        kept,
        np.diff(out_start),
        writes,
        least,
        more,
    )
    bound = max(live.at_start, int(size[live.stays > 0].sum()), int(least.max()), fans)
    return StepModel(steps=steps, num_ops=n, at_start=live.at_start, bound=bound)


@compiled
def can_run(done: IntArray, v: Int, before: IntArray) -> bool:
    """Tell whether all that must run before an op has run."""
    w = 0
    while w < done.size and before[v, w] & ~done[w] == 0:
        w += 1
    return bool(w == done.size)


@compiled
def step_of(done: IntArray, v: Int, steps: Steps) -> tuple[Int, Int]:
    """Return what an op needs beyond the live bytes while it runs next, and by how much they change with it.

    Args:
        done: The ops that have run, not v. Shape (words,).
        v: The op.
        steps: The problem.
    """
    _, _, in_start, inputs, readers, size, made, kept, num_outputs, writes, _, _ = steps
    word, bit = v >> 6, np.int64(1) << (v & 63)
    dying = np.int64(0)
    has_equal = False
    for p in range(in_start[v], in_start[v + 1]):
        t = inputs[p]
        dies = True
        for w in range(done.size):
            rest = readers[t, w] & ~done[w]
            if w == word:
                rest &= ~bit
            if rest != 0:
                dies = False
                break
        if dies:
            dying += size[t]
            has_equal = has_equal or size[t] == made[v]
    return made[v] - taken_over(writes[v], made[v], dying, has_equal, num_outputs[v]), kept[v] - dying
