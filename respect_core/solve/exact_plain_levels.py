"""The down-sets of `exact_plain`: what can lie before each boundary if no stage's load is above a budget.

Boundary k separates stages 0..k-1 from the rest. A node whose ancestors weigh more than k budgets cannot lie before it,
one whose descendants weigh more than K - k budgets must; the others are free there. Loops instead of array expressions
and numpy's sorting keep the time down that compiling takes.
"""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import Int, byte_table, lowest_bit, word_sum

MAX_PLAIN_SETS = 8192
"""Most down-sets of all boundaries together."""

MAX_PLAIN_FREE = 1024
"""Most free nodes at one boundary."""

Poset = tuple[IntArray, IntArray, IntArray, IntArray]
"""Ancestors and descendants of every node, shape (n, words); loads of both, shape (2, n); loads, shape (n,)."""

Levels = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]
"""Bits over the free nodes, shape (at least sets, words); loads, by ascending load on each level; where each boundary's
sets start, shape (K + 2,); bit of every node, -1 where its stage is fixed; and shape (2, n): a node is free at the
boundaries from row 0 up to, not including, row 1, and fixed to stage "row 0, less 1" where both are equal."""


@compiled
def sort_by(keys: IntArray, entries: IntArray, count: Int) -> None:
    """Sort the first ``count`` entries by ascending ``keys[entry]`` (Shell's sort with the gaps of Ciura)."""
    for gap in (1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, count):
            entry = entries[i]
            at = i
            while at >= gap and keys[entries[at - gap]] > keys[entry]:
                entries[at] = entries[at - gap]
                at -= gap
            entries[at] = entry


@compiled
def _longer(rows: IntArray) -> IntArray:
    out = np.empty((2 * rows.shape[0], rows.shape[1]), np.int64)
    for i in range(rows.shape[0]):
        for w in range(rows.shape[1]):
            out[i, w] = rows[i, w]
    return out


@compiled
def _list_sets(
    down: IntArray, up: IntArray, values: IntArray, lowest: Int, highest: Int, max_sets: Int, work: IntArray
) -> tuple[Int, IntArray]:
    """List all down-sets whose load lies within a window, each once; `list_window` for a single column of values.

    Args:
        down: Ancestors within the u elements, own bit included. Shape (u, words).
        up: Descendants, likewise.
        values: Loads. Shape (u,).
        lowest: Smallest load allowed.
        highest: Largest load allowed.
        max_sets: Give up beyond this many.
        work: Steps left, counted down; give up at 0. Shape (1,).

    Returns:
        How many, -1 if given up; and the sets with their loads in a last column, shape (at least sets, words + 1).
    """
    u, words = down.shape
    found = np.empty((32, words + 1), np.int64)
    table = np.empty((8 * words, 256), np.int64)
    byte_table(values, table)
    chosen, free = np.zeros((u + 2, words), np.int64), np.zeros((u + 2, words), np.int64)
    taken, left = np.zeros(u + 2, np.int64), np.zeros(u + 2, np.int64)
    for v in range(u):
        free[0, v >> 6] |= np.int64(1) << (v & 63)
        left[0] += values[v]
    if left[0] < lowest or highest < 0:
        return 0, found
    count = 0
    depth = 1
    while depth > 0:
        d = depth - 1
        v = -1
        for w in range(words):
            if free[d, w] != 0:
                v = 64 * w + lowest_bit(free[d, w])
                break
        if v < 0:
            if count == found.shape[0]:
                found = _longer(found)
            for w in range(words):
                found[count, w] = chosen[d, w]
            found[count, words] = taken[d]
            count += 1
            depth -= 1
            if count > max_sets:
                return -1, found
            continue
        work[0] -= 1
        if work[0] < 0:
            return -1, found
        added, dropped = np.int64(0), np.int64(0)
        for w in range(words):
            num_bytes = min(8, (u + 7) // 8 - 8 * w)
            added += word_sum(down[v, w] & free[d, w], table, 8 * w, num_bytes)
            dropped += word_sum(up[v, w] & free[d, w], table, 8 * w, num_bytes)
        can_take = taken[d] + added <= highest
        can_drop = taken[d] + left[d] - dropped >= lowest
        if not can_take and not can_drop:
            depth -= 1
            continue
        target = d
        if can_take and can_drop:  # the branch without the element stays below the one with it
            target = depth
            depth += 1
        for w in range(words):
            inside, beyond = chosen[d, w], free[d, w]
            if can_take and can_drop:
                free[d, w] = beyond & ~up[v, w]
            if can_take:
                chosen[target, w] = inside | (down[v, w] & beyond)
                free[target, w] = beyond & ~down[v, w]
            else:
                free[d, w] = beyond & ~up[v, w]
        if can_take:
            before, rest = taken[d], left[d]
            if can_drop:
                left[d] = rest - dropped
            taken[target], left[target] = before + added, rest - added
        else:
            left[d] -= dropped
    return count, found


@compiled
def _limits_of(
    poset: Poset, members: IntArray, num_stages: Int, budget: Int, limits: IntArray, bit_of: IntArray
) -> Int:
    """Fill in between which boundaries each member is free, and a bit for those that are; return their number.

    Returns -1 if some member fits nowhere.
    """
    reach = poset[2]
    u = 0
    for v in members:
        earliest, latest = 1, num_stages
        if budget > 0:
            earliest = max(1, (reach[0, v] + budget - 1) // budget)
            latest = min(num_stages, num_stages + 1 - (reach[1, v] + budget - 1) // budget)
        if earliest > latest:
            return -1
        limits[0, v], limits[1, v] = earliest, latest
        if earliest < latest:
            bit_of[v] = u
            u += 1
    return u


@compiled
def list_plain_levels(
    poset: Poset, members: IntArray, num_stages: Int, budget: Int, total: Int, work: IntArray
) -> tuple[bool, Int, Levels]:
    """List the down-sets among the members before every boundary if no stage's load is above the budget.

    Args:
        poset: The order of all nodes.
        members: The nodes that count, ascending; all with a load are among them.
        num_stages: K.
        budget: Largest load of a stage.
        total: Sum of all loads.
        work: Steps left, counted down. Shape (1,).

    Returns:
        Whether that was possible within the limits; how many were listed, 0 where some boundary has none; and the sets.
    """
    before, _, reach, load = poset
    n = load.size
    limits, bit_of = np.empty((2, n), np.int64), np.full(n, -1, np.int64)
    u = -1
    if budget * num_stages >= total:
        u = _limits_of(poset, members, num_stages, budget, limits, bit_of)
    words = max(1, (u + 63) // 64)
    bits = np.zeros((64, words + 1), np.int64)  # the last column is the load
    ends = np.zeros(num_stages + 2, np.int64)
    nothing = (bits, ends, ends, bit_of, limits)
    if u < 0:
        return True, 0, nothing
    score = np.empty(n, np.int64)
    for v in members:
        score[v] = -reach[0, v] - reach[1, v]
    chosen, order = np.empty(members.size, np.int64), np.empty(MAX_PLAIN_SETS, np.int64)
    inside, own = np.empty(words, np.int64), np.empty(MAX_PLAIN_SETS, np.int64)
    end = ends[1] = 1
    for k in range(1, num_stages):
        count, base = 0, np.int64(0)
        for w in range(words):
            inside[w] = 0
        for v in members:
            if limits[1, v] <= k:
                base += load[v]
                if bit_of[v] >= 0:
                    inside[bit_of[v] >> 6] |= np.int64(1) << (bit_of[v] & 63)
            elif limits[0, v] <= k:
                chosen[count] = v
                count += 1
        if count > MAX_PLAIN_FREE:
            return False, 0, nothing
        sort_by(score, chosen, count)  # those that decide much first
        own_words = max(1, (count + 63) // 64)
        down, up = np.zeros((count, own_words), np.int64), np.zeros((count, own_words), np.int64)
        values = np.empty(count, np.int64)
        for i in range(count):
            v = chosen[i]
            values[i] = load[v]
            for j in range(count):
                x = chosen[j]
                if x <= v and (before[v, x >> 6] >> (x & 63)) & 1:
                    down[i, j >> 6] |= np.int64(1) << (j & 63)
                    up[j, i >> 6] |= np.int64(1) << (i & 63)
        lowest, highest = total - (num_stages - k) * budget - base, k * budget - base
        size, found = _list_sets(down, up, values, lowest, highest, MAX_PLAIN_SETS - end - 1, work)
        if size <= 0:
            return size == 0, 0, nothing
        for i in range(size):
            own[i], order[i] = found[i, own_words], i
        sort_by(own, order, size)
        while end + size + 1 > bits.shape[0]:
            bits = _longer(bits)
        for at in range(size):
            i = order[at]
            for w in range(words):
                bits[end, w] = inside[w]
            for w in range(own_words):
                rest = found[i, w]
                while rest != 0:
                    bit = bit_of[chosen[64 * w + lowest_bit(rest)]]
                    bits[end, bit >> 6] |= np.int64(1) << (bit & 63)
                    rest &= rest - 1
            bits[end, words] = base + own[i]
            end += 1
        ends[k + 1] = end
    for w in range(words):
        bits[end, w] = 0
    for bit in range(u):
        bits[end, bit >> 6] |= np.int64(1) << (bit & 63)
    bits[end, words] = total
    ends[num_stages + 1] = end + 1
    sets, loads = np.empty((end + 1, words), np.int64), np.empty(end + 1, np.int64)
    for i in range(end + 1):
        loads[i] = bits[i, words]
        for w in range(words):
            sets[i, w] = bits[i, w]
    return True, end + 1, (sets, loads, ends, bit_of, limits)
