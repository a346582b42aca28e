"""The inner loop of the search for an order: which down-sets can be reached within a threshold of live bytes.

The search goes depth first through all down-sets that can be reached while no step holds more than the threshold. A
step that would hold more is put aside. Once nothing is left within the threshold, no order keeps within it: the
cheapest step put aside is a lower bound on the peak, and the threshold rises beyond it.

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
from respect_core.memory.steps import Steps, can_run, step_of
from respect_core.solve.downset_table import find_set
from respect_core.solve.downsets import Int, lowest_bit

REACHED, EXHAUSTED, PAUSED, FULL = 0, 1, 2, 3
"""How `explore` ended: all ops have run; nothing is left; the slice is used up; there is no room for more sets."""

COUNT, DEPTH, HEAP, THRESHOLD, BOUND, GOAL, LIMIT = 0, 1, 2, 3, 4, 5, 6
"""Places in the counters: sets found, entries on the stack and in the heap, the threshold, what every order needs at
least, the row of the set of all ops, and what is too much: steps from there on are dropped."""

Found = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]
"""Bitsets of the sets found, shape (rows, words); live bytes; the row each was reached from; the op it was reached by;
the table of `find_set`; rows still to be looked at (a stack); rows put aside and the bytes they wait for (a heap)."""

MAX_CHAIN = 32
"""Longest chain that is tried, in links."""

RISE = 2
"""The threshold rises by this part of the distance to the limit: small steps look at the same sets again and again,
large ones at many that a smaller threshold would have left out."""


@compiled
def _push_aside(row: Int, needs: Int, found: Found, counters: IntArray) -> None:
    """Put a set aside until the threshold allows so many bytes."""
    rows, keys = found[6], found[7]
    at = counters[HEAP]
    counters[HEAP] += 1
    while at > 0 and keys[(at - 1) >> 1] > needs:
        rows[at], keys[at] = rows[(at - 1) >> 1], keys[(at - 1) >> 1]
        at = (at - 1) >> 1
    rows[at], keys[at] = row, needs


@compiled
def _take_back(found: Found, counters: IntArray) -> Int:
    """Return the set that waits for the fewest bytes."""
    rows, keys = found[6], found[7]
    first = rows[0]
    counters[HEAP] -= 1
    size = counters[HEAP]
    row, needs = rows[size], keys[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= needs:
            break
        rows[at], keys[at] = rows[child], keys[child]
        at = child
    rows[at], keys[at] = row, needs
    return first


@compiled
def _enter(done: IntArray, live: Int, parent: Int, op: Int, found: Found, counters: IntArray) -> tuple[Int, bool]:
    """Return the row of a set, and whether it is new."""
    sets, lives, parents, ops, table = found[0], found[1], found[2], found[3], found[4]
    slot = find_set(table, sets, done)
    if table[slot] != 0:
        return table[slot] - 1, False
    row = counters[COUNT]
    counters[COUNT] += 1
    table[slot] = row + 1
    for w in range(done.size):
        sets[row, w] = done[w]
    lives[row], parents[row], ops[row] = live, parent, op
    return row, True


@compiled
def _run_chain(
    first: Int, start: IntArray, live: Int, threshold: Int, steps: Steps, chain: IntArray, done: IntArray
) -> Int:
    """Try the chain that begins with an op; return how many ops of it lead to no more live bytes, 0 if it does not.

    Args:
        first: The first op, which can run and adds to the live bytes.
        start: The set S. Shape (words,).
        live: Its live bytes.
        threshold: Most bytes of a step.
        steps: The problem.
        chain: Written to: the ops.
        done: Written to: the set S'.
    """
    before, children = steps[0], steps[1]
    words = start.size
    for w in range(words):
        done[w] = start[w]
    now = live
    length = 0
    link = first
    for _ in range(MAX_CHAIN):
        cost, change = step_of(done, link, steps)
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
                rest = children[u, w] & ~done[w]
                while rest != 0:
                    v = 64 * w + lowest_bit(rest)
                    rest &= rest - 1
                    if not can_run(done, v, before):
                        continue
                    cost, change = step_of(done, v, steps)
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
def _least_after(done: IntArray, steps: Steps, held: IntArray) -> Int:
    """Return a lower bound on what the ops that have not run yet need. ``held`` is written to, shape (n,)."""
    least, more = steps[10], steps[11]
    n = held.size
    for v in range(n):
        held[v] = least[v]
    for w in range(done.size if more.shape[0] > 0 else 0):
        rest = done[w]
        while rest != 0:
            u = 64 * w + lowest_bit(rest)
            rest &= rest - 1
            for v in range(n):
                held[v] += more[u, v]
    most = np.int64(0)
    for v in range(n):
        if held[v] > most and (done[v >> 6] >> (v & 63)) & 1 == 0:
            most = held[v]
    return most


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
    before = steps[0]
    n, words = before.shape
    sets, lives, stack = found[0], found[1], found[5]
    all_bits = n
    here, done = np.empty(words, np.int64), np.empty(words, np.int64)
    ready, costs, changes = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    chain = np.empty(n + 1, np.int64)
    more = np.empty(n, np.int64)
    looked = 0
    while True:
        if counters[DEPTH] == 0:
            if counters[HEAP] == 0 or found[7][0] >= counters[LIMIT]:
                return EXHAUSTED
            counters[BOUND] = max(counters[BOUND], found[7][0])
            counters[THRESHOLD] = counters[BOUND] + (counters[LIMIT] - 1 - counters[BOUND]) // RISE
            while counters[HEAP] > 0 and found[7][0] <= counters[THRESHOLD]:
                stack[counters[DEPTH]] = _take_back(found, counters)
                counters[DEPTH] += 1
        if looked >= max_rows:
            return PAUSED
        if counters[COUNT] + n + 1 > sets.shape[0]:
            return FULL
        looked += 1
        threshold = counters[THRESHOLD]
        counters[DEPTH] -= 1
        row = stack[counters[DEPTH]]
        live = lives[row]
        for w in range(words):
            here[w] = sets[row, w]
        num_ready, num_done, at_once = 0, 0, -1
        for v in range(n):
            if (here[v >> 6] >> (v & 63)) & 1:
                num_done += 1
            elif can_run(here, v, before):
                cost, change = step_of(here, v, steps)
                ready[num_ready], costs[num_ready], changes[num_ready] = v, live + cost, change
                if change <= 0 and live + cost <= threshold:
                    at_once = num_ready
                    break
                num_ready += 1
        if num_done == all_bits:
            counters[GOAL] = row
            return REACHED
        if at_once >= 0:
            v = ready[at_once]
            for w in range(words):
                done[w] = here[w]
            done[v >> 6] |= np.int64(1) << (v & 63)
            new_row, is_new = _enter(done, live + changes[at_once], row, v, found, counters)
            if is_new:
                stack[counters[DEPTH]] = new_row
                counters[DEPTH] += 1
            continue
        needs = _least_after(here, steps, more)
        if needs > threshold:
            if needs < counters[LIMIT]:
                _push_aside(row, needs, found, counters)
            continue
        is_settled = False
        for i in range(num_ready):
            if costs[i] > threshold:
                continue
            length = _run_chain(ready[i], here, live, threshold, steps, chain, done)
            if length == 0:
                continue
            for w in range(words):
                done[w] = here[w]
            at, now, is_new = row, live, False
            for c in range(length):
                v = chain[c]
                _, change = step_of(done, v, steps)
                now += change
                done[v >> 6] |= np.int64(1) << (v & 63)
                at, is_new = _enter(done, now, at, v, found, counters)
            if is_new:
                stack[counters[DEPTH]] = at
                counters[DEPTH] += 1
            is_settled = True
            break
        if is_settled:
            continue
        # The op that leaves the fewest live bytes comes on top of the stack.
        for i in range(1, num_ready):
            v, cost, change = ready[i], costs[i], changes[i]
            at = i
            while at > 0 and changes[at - 1] < change:
                ready[at], costs[at], changes[at] = ready[at - 1], costs[at - 1], changes[at - 1]
                at -= 1
            ready[at], costs[at], changes[at] = v, cost, change
        needs = np.int64(-1)
        for i in range(num_ready):
            if costs[i] > threshold:
                if needs < 0 or costs[i] < needs:
                    needs = costs[i]
                continue
            v = ready[i]
            for w in range(words):
                done[w] = here[w]
            done[v >> 6] |= np.int64(1) << (v & 63)
            new_row, is_new = _enter(done, live + changes[i], row, v, found, counters)
            if is_new:
                stack[counters[DEPTH]] = new_row
                counters[DEPTH] += 1
        if needs >= 0 and needs < counters[LIMIT]:
            _push_aside(row, needs, found, counters)
