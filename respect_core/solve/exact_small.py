"""Exact `peak-memory` schedules of graphs of up to 64 ops without constraints, in one compiled call a graph.

The prefix of a schedule, i.e. the ops of its first k stages, is a down-set; here it is one 64-bit word. Under a budget
P for the memory of a stage, the k-th prefix holds between ``total - (K - k) P`` and ``k P`` bytes; for P near the
optimum these windows are narrow. For the smallest peak, down-sets of the ops that have parameters are enough (see
`exact_loads`), and of those only the ones that no reachable superset dominates. The communication of a schedule is the
sum of what crosses each prefix, so within the optimal peak its minimum is a shortest path over **all** down-sets of the
windows (`exact_small_path`).
"""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import Int, byte_table, closures_of_word, lowest_bit, word_sum

MAX_SMALL_OPS = 64

FRONT_FROM = 24
"""Below this many sets in a level, scanning them all is cheaper than finding those that none dominates."""

Level = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]
"""Columns over the down-sets of all levels: bits, load, smallest peak that reaches it, and for `exact_small_path` the
bytes that cross it and the least communication that reaches it."""

Crossing = tuple[IntArray, IntArray, IntArray]
"""Maker (0 for a graph input) and readers, as words, and bytes of every tensor. Shape (m,)."""

Poset = tuple[IntArray, IntArray, IntArray, IntArray]
"""Ancestors and descendants of every op (words, its own bit included), shape (n,); the loads of both, shape (2, n); and
the `byte_table` of loads."""


@compiled
def by_influence(before: IntArray, after: IntArray, load: IntArray, table: IntArray, bit_of: IntArray) -> None:
    """Fill in ``bit_of``, shape (n,): a numbering where deciding the lowest undecided op settles most load."""
    n = load.size
    num_bytes = (n + 7) // 8
    byte_table(load, table)
    score = np.empty(n, np.int64)
    order = np.empty(n, np.int64)
    for v in range(n):
        mine = word_sum(before[v], table, 0, num_bytes) + word_sum(after[v], table, 0, num_bytes)
        at = v
        while at > 0 and score[at - 1] < mine:
            score[at] = score[at - 1]
            order[at] = order[at - 1]
            at -= 1
        score[at] = mine
        order[at] = v
    for at in range(n):
        bit_of[order[at]] = at


@compiled
def renumbered(word: Int, bit_of: IntArray) -> Int:
    """Move bit v of a word to ``bit_of[v]`` for every set bit."""
    out = np.int64(0)
    while word != 0:
        out |= np.int64(1) << bit_of[lowest_bit(word)]
        word &= word - 1
    return out


@compiled
def full_word(n: Int) -> Int:
    """Return the word with the lowest n bits set."""
    return np.int64(-1) if n == 64 else (np.int64(1) << n) - 1


@compiled
def _reach_word(word: Int, load: Int, sources: IntArray, num_sources: Int, budget: Int, level: Level) -> Int:
    """Smallest peak with which one of the listed sources becomes this down-set; above the budget if none does.

    The sources are ordered by descending load.
    """
    bits, loads, peaks = level[0], level[1], level[2]
    best = budget + 1
    for at in range(num_sources):
        i = sources[at]
        step = load - loads[i]
        if step >= best:
            break
        if bits[i] & ~word == 0:
            best = min(best, max(step, peaks[i]))
    return best


@compiled
def list_level(
    poset: Poset,
    window: tuple[Int, Int, Int],
    stack: IntArray,
    level: Level,
    sources: IntArray,
    num_sources: Int,
    start: Int,
) -> Int:
    """List the down-sets within a window of loads that some set of the level before reaches, each once.

    Args:
        poset: The order.
        window: Lowest and highest load, budget.
        stack: Scratch of shape (65, 4).
        level: Bits, loads and peaks are written to its columns from ``start`` on.
        sources: Sets of the level before, by descending load.
        num_sources: Number of sources.
        start: Where to write.

    Returns:
        The end; -1 where the columns are too short.
    """
    before, after, reach, table = poset
    lowest, highest, budget = window
    bits, loads, peaks = level[0], level[1], level[2]
    n = before.size
    num_bytes = (n + 7) // 8
    chosen, barred = np.int64(0), np.int64(0)
    total = word_sum(full_word(n), table, 0, num_bytes)
    for v in range(n):
        if total - reach[1, v] < lowest:
            chosen |= np.int64(1) << v
        if reach[0, v] > highest:
            barred |= np.int64(1) << v
    free = full_word(n) & ~chosen & ~barred
    load = word_sum(chosen, table, 0, num_bytes)
    left = word_sum(free, table, 0, num_bytes)
    if chosen & barred != 0 or load > highest or load + left < lowest:
        return start
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = chosen, free, load, left
    depth = 1
    end = start
    while depth > 0:
        depth -= 1
        chosen, free, load, left = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        while free != 0:
            v = lowest_bit(free)
            down, up = before[v] & free, after[v] & free
            added = word_sum(down, table, 0, num_bytes)
            dropped = word_sum(up, table, 0, num_bytes)
            can_drop = load + left - dropped >= lowest
            if load + added <= highest:
                if can_drop:
                    stack[depth, 0], stack[depth, 1] = chosen, free & ~up
                    stack[depth, 2], stack[depth, 3] = load, left - dropped
                    depth += 1
                chosen |= down
                free &= ~down
                load += added
                left -= added
            elif can_drop:
                free &= ~up
                left -= dropped
            else:
                break
        if free != 0:
            continue
        best = _reach_word(chosen, load, sources, num_sources, budget, level)
        if best <= budget:
            if end >= bits.size:
                return -1
            bits[end], loads[end], peaks[end] = chosen, load, best
            end += 1
    return end


@compiled
def sort_part(keys: IntArray, first: Int, last: Int, level: Level) -> None:
    """Sort the entries ``first..last`` of all columns by ascending ``keys``, an array of ``last - first`` numbers."""
    order = np.argsort(keys)
    for column in level:
        part = column[first:last].copy()
        for i in range(order.size):
            column[first + i] = part[order[i]]


@compiled
def _front(level: Level, first: Int, last: Int, sources: IntArray) -> Int:
    """List the sets of a level (by descending load) that no superset with a peak at most as high dominates.

    Whatever a dominated set becomes, its superset can become that and more: enough for the smallest peak.
    """
    bits, peaks = level[0], level[2]
    count = 0
    for i in range(first, last):
        dominated = False
        if last - first > FRONT_FROM:
            for at in range(count):
                s = sources[at]
                if bits[i] & ~bits[s] == 0 and peaks[s] <= peaks[i]:
                    dominated = True
                    break
        if not dominated:
            sources[count] = i
            count += 1
    return count


@compiled
def smallest_peak_within(
    poset: Poset, budget: Int, num_stages: Int, stack: IntArray, level: Level, sources: IntArray
) -> tuple[Int, Int]:
    """Return the smallest peak where stages may be empty.

    Args:
        poset: The order, of ops with parameters only.
        budget: Largest peak of interest.
        num_stages: K.
        stack: Scratch, see `list_level`.
        level: Scratch.
        sources: Scratch as long as the columns of ``level``.

    Returns:
        The peak, ``budget + 1`` if it is above the budget, -1 if the scratch is too short; and how many sets were kept.
    """
    n = poset[0].size
    bits, loads, peaks = level[0], level[1], level[2]
    total = word_sum(full_word(n), poset[3], 0, (n + 7) // 8)
    bits[0] = loads[0] = peaks[0] = sources[0] = 0
    num_sources = 1
    highest = 0
    first = 1
    for k in range(1, num_stages):
        window = (total - (num_stages - k) * budget, highest + budget, budget)
        end = list_level(poset, window, stack, level, sources, num_sources, first)
        if end <= first:
            return -1 if end < 0 else budget + 1, first
        sort_part(-loads[first:end], first, end, level)
        num_sources = _front(level, first, end, sources)
        highest = loads[first]
        first = end
    return _reach_word(full_word(n), total, sources, num_sources, budget, level), first


@compiled
def list_useful(
    poset: Poset, budget: Int, num_stages: Int, stack: IntArray, level: Level, sources: IntArray, ends: IntArray
) -> bool:
    """List the down-sets of every level that lie on a chain within the budget, stages may be empty.

    Level k lies in ``ends[k]..ends[k + 1]``; arguments are those of `smallest_peak_within`, whose peak is the budget.

    Returns:
        False if the scratch is too short.
    """
    n = poset[0].size
    bits, loads, peaks = level[0], level[1], level[2]
    total = word_sum(full_word(n), poset[3], 0, (n + 7) // 8)
    bits[0] = loads[0] = peaks[0] = 0
    ends[0], ends[1] = 0, 1
    for k in range(1, num_stages):
        first = ends[k]
        for at in range(first - ends[k - 1]):
            sources[at] = ends[k - 1] + at
        window = (total - (num_stages - k) * budget, min(k * budget, total), budget)
        end = list_level(poset, window, stack, level, sources, first - ends[k - 1], first)
        if end < 0:
            return False
        sort_part(-loads[first:end], first, end, level)
        ends[k + 1] = end
    for k in range(num_stages - 2, 0, -1):  # a set is useless if it becomes nothing useful; marked by its peak
        for i in range(ends[k], ends[k + 1]):
            useful = False
            for j in range(ends[k + 1], ends[k + 2]):
                if peaks[j] <= budget and loads[j] - loads[i] <= budget and bits[i] & ~bits[j] == 0:
                    useful = True
                    break
            if not useful:
                peaks[i] = budget + 1
    return True


@compiled
def loaded_poset(poset: Poset, load: IntArray) -> tuple[Poset, IntArray]:
    """Return the order among the ops with parameters, numbered without gaps, and the former number of each."""
    before, after, reach, _ = poset
    chosen = np.flatnonzero(load)
    place = np.zeros(load.size, np.int64)
    mask = np.int64(0)
    for i in range(chosen.size):
        place[chosen[i]] = i
        mask |= np.int64(1) << chosen[i]
    down, up = np.empty(chosen.size, np.int64), np.empty(chosen.size, np.int64)
    sums = np.empty((2, chosen.size), np.int64)
    for i in range(chosen.size):
        v = chosen[i]
        down[i], up[i] = renumbered(before[v] & mask, place), renumbered(after[v] & mask, place)
        sums[0, i], sums[1, i] = reach[0, v], reach[1, v]
    table = np.zeros((8, 256), np.int64)
    byte_table(load[chosen], table)
    return (down, up, sums, table), chosen


@compiled
def prepare_small(parents: IntArray, load: IntArray, bit_of: IntArray) -> tuple[Poset, IntArray]:
    """Renumber the ops by influence (written to ``bit_of``); return the order and the loads in the new numbers."""
    n = load.size
    old_before, old_after = np.empty(n, np.int64), np.empty(n, np.int64)
    table = np.zeros((8, 256), np.int64)
    closures_of_word(parents, old_before, old_after)
    by_influence(old_before, old_after, load, table, bit_of)
    before, after, new_load = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for v in range(n):
        before[bit_of[v]] = renumbered(old_before[v], bit_of)
        after[bit_of[v]] = renumbered(old_after[v], bit_of)
        new_load[bit_of[v]] = load[v]
    byte_table(new_load, table)
    num_bytes = (n + 7) // 8
    reach = np.empty((2, n), np.int64)
    for v in range(n):
        reach[0, v] = word_sum(before[v], table, 0, num_bytes)
        reach[1, v] = word_sum(after[v], table, 0, num_bytes)
    return (before, after, reach, table), new_load
