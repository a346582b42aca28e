"""One step of an order, seen from a down-set: what running an op next costs, and what it leaves behind.

A down-set's live bytes do not depend on how it was reached, so that they and the cost of a step are functions of the
set and the op alone. Both have the property that the searches rest on: the more ops have run already, the less an op
adds (its inputs die rather than live on), which is to say that live bytes are a submodular function of the down-set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.memory.bounds import closings, last_readings, least_held
from respect_core.memory.live import Arrays, LiveTensors, Loops, Rows
from respect_core.memory.peak import taken_over
from respect_core.memory.twins import with_twins_in_order
from respect_core.solve.downsets import Int, closures, lowest_bit

FIRST_INPUT, END_OF_INPUTS, MADE, KEPT, NUM_OUTPUTS, WRITES = range(6)
"""Columns of the facts about ops: where an op's inputs begin and end, the bytes it makes, the bytes of these that live
on after it, how many outputs it has, and where it writes."""

BEFORE, CHILDREN = 0, 1
"""Rows of the links: what must have run before an op, and what can run only after it."""

Steps = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]
"""Links, bitsets of shape (2, n, words); facts, shape (n, 6); inputs of all ops; bytes of each tensor and a bitset of
its readers, with the bit n set if it stays, shape (m, 1 + words); what is held at least while each op runs, shape (n,);
by how much that grows if another op has run before, shape (n, n): [other, op]; the readers of all outputs of each op,
bitsets (n, words); and two arrays of `bounds.closings`. Loops take arrays, not this tuple: taking it apart costs more
than a step."""


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
    steps, bound = _step_arrays(live.arrays, live.loops)
    return StepModel(steps=steps, num_ops=live.num_ops, at_start=live.at_start, bound=max(bound, live.at_start))


@compiled
def _step_arrays(arrays: Arrays, loops: Loops) -> tuple[Steps, Int]:
    size, maker, stays, readers, writes, _ = arrays
    _, waits, in_start, inputs, out_start, _, _ = loops
    m, n = size.size, writes.size
    words = (n >> 6) + 1  # one bit more than ops
    parent_start, parent = with_twins_in_order(arrays, loops)
    waiting = _with_the_end(readers, stays, n)
    facts = np.zeros((n, 6), np.int64)
    tensors, later = np.zeros((m, 1 + words), np.int64), np.zeros((n, words), np.int64)
    at_end = np.int64(0)
    for t in range(m):
        tensors[t, 0] = size[t]
        at_end += size[t] if stays[t] else 0
        _set_bits(tensors[t, 1:], waiting, t)
        v = maker[t]
        if v >= 0:
            facts[v, MADE] += size[t]
            facts[v, KEPT] += size[t] if waits[t] > 0 else 0
            _set_bits(later[v], waiting, t)
    links = np.zeros((2, n, words), np.int64)
    for v in range(n):
        facts[v, FIRST_INPUT], facts[v, END_OF_INPUTS] = in_start[v], in_start[v + 1]
        facts[v, NUM_OUTPUTS], facts[v, WRITES] = out_start[v + 1] - out_start[v], writes[v]
        _set_bits(links[BEFORE, v], (parent_start, parent), v)
        for p in range(parent_start[v], parent_start[v + 1]):
            links[CHILDREN, parent[p], v >> 6] |= np.int64(1) << (v & 63)
    made, kept = facts[:, MADE].copy(), facts[:, KEPT].copy()
    reach = closures(parent_start, parent, words)
    least, more = least_held(reach, waiting, size, maker, made, kept, writes)
    run, spared = closings(reach, waiting, size, kept, writes)
    bound = max(at_end, last_readings(reach, waiting, size, maker, made, writes))
    for v in range(n):
        bound = max(bound, least[v])
    return (links, facts, inputs, tensors, least, more, later, run, spared), bound


@compiled
def _with_the_end(readers: Rows, stays: IntArray, end: Int) -> Rows:
    """Return the readers of each tensor, with ``end`` added where it stays."""
    start, reader = readers
    new_start, new_reader = np.empty(start.size, np.int64), np.empty(reader.size + stays.size, np.int64)
    new_start[0] = 0
    count = 0
    for t in range(stays.size):
        for p in range(start[t], start[t + 1]):
            new_reader[count] = reader[p]
            count += 1
        if stays[t]:
            new_reader[count] = end
            count += 1
        new_start[t + 1] = count
    return new_start, new_reader[:count]


@compiled
def _set_bits(bits: IntArray, rows: Rows, i: Int) -> None:
    """Add the numbers of a list to a bitset of shape (words,)."""
    start, numbers = rows
    for p in range(start[i], start[i + 1]):
        bits[numbers[p] >> 6] |= np.int64(1) << (numbers[p] & 63)


@compiled
def can_run(done: IntArray, v: Int, links: IntArray) -> bool:
    """Tell whether all that must run before an op has run."""
    w = 0
    while w < done.size and links[BEFORE, v, w] & ~done[w] == 0:
        w += 1
    return bool(w == done.size)


@compiled
def set_free(done: IntArray, v: Int, links: IntArray, freed: IntArray, i: Int) -> bool:
    """Find the ops that can run because an op has run; tell whether there are any.

    Args:
        done: The ops that have run, v the last of them. Shape (words,).
        v: The op.
        links: See `Steps`.
        freed: Bitsets of shape (rows, words), of which row i is written to.
        i: The row.
    """
    frees_any = False
    for w in range(done.size):
        bits = np.int64(0)
        rest = links[CHILDREN, v, w]
        while rest != 0:
            if can_run(done, 64 * w + lowest_bit(rest), links):
                bits |= rest & -rest
                frees_any = True
            rest &= rest - 1
        freed[i, w] = bits
    return frees_any


@compiled
def flip(ops: IntArray, v: Int) -> None:
    """Put an op into a bitset, or take it out if it is there."""
    ops[v >> 6] ^= np.int64(1) << (v & 63)


@compiled
def ready_at_start(links: IntArray) -> IntArray:
    """Return the ops that nothing must run before. Shape (words,)."""
    _, n, words = links.shape
    nothing, ready = np.zeros(words, np.int64), np.zeros(words, np.int64)
    for v in range(n):
        if can_run(nothing, v, links):
            ready[v >> 6] |= np.int64(1) << (v & 63)
    return ready


@compiled
def step_of(done: IntArray, v: Int, facts: IntArray, inputs: IntArray, tensors: IntArray) -> tuple[Int, Int]:
    """Return what an op needs beyond the live bytes while it runs next, and by how much they change with it.

    Args:
        done: The ops that have run, not v. Shape (words,).
        v: The op.
        facts: See `Steps`.
        inputs: Inputs of all ops.
        tensors: See `Steps`.
    """
    words = done.size
    made = facts[v, MADE]
    dying = np.int64(0)
    has_equal = False
    for p in range(facts[v, FIRST_INPUT], facts[v, END_OF_INPUTS]):
        t = inputs[p]
        w = 0
        while w < words:
            rest = tensors[t, 1 + w] & ~done[w]
            if w == v >> 6:
                rest &= ~(np.int64(1) << (v & 63))
            w = w + 1 if rest == 0 else words + 1
        if w == words:
            dying += tensors[t, 0]
            has_equal = has_equal or tensors[t, 0] == made
    cost = made - taken_over(facts[v, WRITES], made, dying, has_equal, facts[v, NUM_OUTPUTS])
    return cost, facts[v, KEPT] - dying
