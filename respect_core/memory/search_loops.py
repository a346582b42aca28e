"""The inner loop of the search for an order: which down-sets can be reached within a threshold of live bytes.

The search goes depth first through all down-sets that can be reached while no step holds more than the threshold. A
step that would hold more is put aside, and so is a set after which some step must (`set_bounds`). Once nothing is left
within the threshold, no order keeps within it: the least that was put aside is a lower bound on the peak, and the
threshold rises beyond it.

Two rules keep the optimum and cut most of the search. Let a run of steps from a set S to a larger one S' stay within
the threshold, with no more live bytes after it, and with no set between S and S' that has fewer live bytes than S'.
Then S' is all that needs to be looked at after S: live bytes are submodular, so whatever set T the best order passes
through later, joining S' to T leaves at most the live bytes of T, and each later step costs at most what it did. The
rules:
- An op that leaves no more than before runs at once. (There is no set between.)
- A chain of ops, each made possible by the one before it, runs at once as far as the first point with no more live
  bytes than before; ops that leave no more than before and are made possible by an op of the chain follow it directly.
  (A set between holds a prefix of the chain and some of these followers; the live bytes at the end of that prefix are
  no more.)
"""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.memory.set_bounds import least_after, least_until_a_death
from respect_core.memory.steps import CHILDREN, Steps, can_run, flip, set_free, step_of
from respect_core.solve.downset_table import find_set
from respect_core.solve.downsets import Int, lowest_bit

REACHED, EXHAUSTED, PAUSED, FULL = 0, 1, 2, 3
"""How `explore` ended: all ops have run; nothing is left; the slice is used up; there is no room for more sets."""

COUNT, DEPTH, HEAP, THRESHOLD, BOUND, GOAL, LIMIT = 0, 1, 2, 3, 4, 5, 6
"""Places in the counters: sets found, entries on the stack and in the heap, the threshold, what every order needs at
least, the row of the set of all ops, and what is too much: steps from there on are dropped."""

Found = tuple[IntArray, IntArray, IntArray, IntArray]
"""The sets found, shape (rows, 2 words + 3): the bitset of a set, that of the ops that can run next, its live bytes,
the row it was reached from, and the op it was reached by; the table of `find_set`; rows still to be looked at (a
stack), shape (rows,); rows put aside and the bytes they wait for (a heap), shape (2, rows)."""

MAX_CHAIN = 32
"""Longest chain that is tried, in links."""

RISE = 2
"""The threshold rises by this part of the distance to the limit: small steps look at the same sets again and again,
large ones at many that a smaller threshold would have left out."""


@compiled
def _push_aside(row: Int, needs: Int, heap: IntArray, counters: IntArray) -> None:
    """Put a set aside until the threshold allows so many bytes."""
    at = counters[HEAP]
    counters[HEAP] += 1
    while at > 0 and heap[1, (at - 1) >> 1] > needs:
        heap[0, at], heap[1, at] = heap[0, (at - 1) >> 1], heap[1, (at - 1) >> 1]
        at = (at - 1) >> 1
    heap[0, at], heap[1, at] = row, needs


@compiled
def _take_back(heap: IntArray, counters: IntArray) -> Int:
    """Return the set that waits for the fewest bytes."""
    first = heap[0, 0]
    counters[HEAP] -= 1
    size = counters[HEAP]
    row, needs = heap[0, size], heap[1, size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[1, child + 1] < heap[1, child]:
            child += 1
        if heap[1, child] >= needs:
            break
        heap[0, at], heap[1, at] = heap[0, child], heap[1, child]
        at = child
    heap[0, at], heap[1, at] = row, needs
    return first


@compiled
def _raise_threshold(stack: IntArray, heap: IntArray, counters: IntArray) -> bool:
    """Take back sets put aside, the stack being empty; tell whether there are any below the limit."""
    if counters[HEAP] == 0 or heap[1, 0] >= counters[LIMIT]:
        return False
    counters[BOUND] = max(counters[BOUND], heap[1, 0])
    counters[THRESHOLD] = counters[BOUND] + (counters[LIMIT] - 1 - counters[BOUND]) // RISE
    while counters[HEAP] > 0 and heap[1, 0] <= counters[THRESHOLD]:
        stack[counters[DEPTH]] = _take_back(heap, counters)
        counters[DEPTH] += 1
    return True


@compiled
def _add(
    done: IntArray,
    ready: IntArray,
    freed: IntArray,
    i: Int,
    live: Int,
    parent: Int,
    op: Int,
    sets: IntArray,
    counters: IntArray,
) -> Int:
    """Write down a set that has not been found before, with the ops that can run next; return its row."""
    row, words = counters[COUNT], done.size
    counters[COUNT] += 1
    for w in range(words):
        sets[row, w] = done[w]
        sets[row, words + w] = ready[w] | freed[i, w]
    sets[row, 2 * words], sets[row, 2 * words + 1], sets[row, 2 * words + 2] = live, parent, op
    return row


@compiled
def _run_chain(
    first: Int,
    start: IntArray,
    live: Int,
    threshold: Int,
    links: IntArray,
    facts: IntArray,
    inputs: IntArray,
    tensors: IntArray,
    chain: IntArray,
    done: IntArray,
) -> Int:
    """Try the chain that begins with an op; return how many ops of it lead to no more live bytes, 0 if it does not.

    Args:
        first: The first op, which can run and adds to the live bytes.
        start: The set S. Shape (words,).
        live: Its live bytes.
        threshold: Most bytes of a step.
        links: See `Steps`.
        facts: See `Steps`.
        inputs: Inputs of all ops.
        tensors: See `Steps`.
        chain: Written to: the ops.
        done: Written to: the set S'.
    """
    words = start.size
    for w in range(words):
        done[w] = start[w]
    now = live
    length = 0
    link = first
    for _ in range(MAX_CHAIN):
        cost, change = step_of(done, link, facts, inputs, tensors)
        if now + cost > threshold:
            return 0
        last = length  # the block of this link: the ops from here on
        chain[length] = link
        length += 1
        done[link >> 6] |= np.int64(1) << (link & 63)
        now += change
        if now <= live:
            return length
        # What the block made possible: those that leave no more than before follow; the best other is the next link.
        link = -1
        best = np.int64(0)
        at = last
        while at < length:
            u = chain[at]
            at += 1
            for w in range(words):
                rest = links[CHILDREN, u, w] & ~done[w]
                while rest != 0:
                    v = 64 * w + lowest_bit(rest)
                    rest &= rest - 1
                    if not can_run(done, v, links):
                        continue
                    cost, change = step_of(done, v, facts, inputs, tensors)
                    if now + cost > threshold:
                        continue
                    if change <= 0:
                        chain[length] = v
                        length += 1
                        done[v >> 6] |= np.int64(1) << (v & 63)
                        now += change
                        if now <= live:
                            return length
                    elif link < 0 or change < best:
                        link, best = v, change
        if link < 0 or (done[link >> 6] >> (link & 63)) & 1:
            return 0
    return 0


@compiled
def explore(steps: Steps, found: Found, counters: IntArray, max_rows: Int) -> Int:
    """Look at sets from the stack until all ops have run, nothing is left, or ``max_rows`` sets were looked at.

    Args:
        steps: The problem.
        found: What was found so far; the stack holds the sets to look at.
        counters: See `COUNT` and the following.
        max_rows: Length of the slice.

    Returns:
        `REACHED`, `EXHAUSTED`, `PAUSED` or `FULL`.
    """
    links, facts, inputs, tensors, least, more, later, run, spared = steps
    sets, table, stack, heap = found
    _, n, words = links.shape
    here, ready = np.empty(words, np.int64), np.empty(words, np.int64)
    ops, changes, rank = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    freed, chain, done = np.empty((n, words), np.int64), np.empty(n + 1, np.int64), np.empty(words, np.int64)
    held = np.empty(n, np.int64)
    looked = 0
    while True:
        if counters[DEPTH] == 0 and not _raise_threshold(stack, heap, counters):
            return EXHAUSTED
        if looked >= max_rows:
            return PAUSED
        if counters[COUNT] + n + 1 > sets.shape[0]:
            return FULL
        looked += 1
        threshold = counters[THRESHOLD]
        counters[DEPTH] -= 1
        row = stack[counters[DEPTH]]
        live = sets[row, 2 * words]
        for w in range(words):
            here[w], ready[w] = sets[row, w], sets[row, words + w]
        num_ready, num_within, at_once = 0, 0, -1
        cheapest = np.int64(-1)  # of the steps above the threshold
        for w in range(words):
            rest = ready[w]
            while rest != 0 and at_once < 0:
                v = 64 * w + lowest_bit(rest)
                rest &= rest - 1
                cost, change = step_of(here, v, facts, inputs, tensors)
                num_ready += 1
                if live + cost > threshold:
                    cheapest = live + cost if cheapest < 0 else min(cheapest, live + cost)
                else:
                    if change <= 0:
                        at_once = v
                    ops[num_within], changes[num_within] = v, change
                    num_within += 1
        if num_ready == 0:
            counters[GOAL] = row
            return REACHED
        length = 0
        if at_once >= 0:
            chain[0], length, num_within = at_once, 1, 0
        if num_within > 0:
            needs = least_until_a_death(here, live, threshold, facts, run, spared)
            if needs <= threshold:
                needs = least_after(here, least, more, later, held)
            if needs > threshold:
                cheapest, num_within = needs, 0
        for i in range(num_within):
            flip(here, ops[i])
            frees_any = set_free(here, ops[i], links, freed, i)
            flip(here, ops[i])
            if frees_any:
                length = _run_chain(ops[i], here, live, threshold, links, facts, inputs, tensors, chain, done)
                if length > 0:
                    break
        if length > 0:
            is_new = False
            for c in range(length):
                v = chain[c]
                _, change = step_of(here, v, facts, inputs, tensors)
                live += change
                flip(here, v)
                flip(ready, v)
                set_free(here, v, links, freed, c)
                slot = find_set(table, sets, here)
                is_new = table[slot] == 0
                if is_new:
                    table[slot] = _add(here, ready, freed, c, live, row, v, sets, counters) + 1
                row = table[slot] - 1
                for w in range(words):
                    ready[w] |= freed[c, w]
            if is_new:
                stack[counters[DEPTH]] = row
                counters[DEPTH] += 1
            continue
        # The op that leaves the fewest live bytes comes on top of the stack.
        for i in range(num_within):
            at = i
            while at > 0 and changes[rank[at - 1]] < changes[i]:
                rank[at] = rank[at - 1]
                at -= 1
            rank[at] = i
        for r in range(num_within):
            i = rank[r]
            flip(here, ops[i])
            flip(ready, ops[i])
            slot = find_set(table, sets, here)
            if table[slot] == 0:
                at = _add(here, ready, freed, i, live + changes[i], row, ops[i], sets, counters)
                table[slot] = at + 1
                stack[counters[DEPTH]] = at
                counters[DEPTH] += 1
            flip(here, ops[i])
            flip(ready, ops[i])
        if 0 <= cheapest < counters[LIMIT]:
            _push_aside(row, cheapest, heap, counters)
