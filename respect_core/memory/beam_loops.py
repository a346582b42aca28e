"""A beam search for a good order: it keeps the down-sets with the smallest peak so far, then the fewest live bytes."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.memory.steps import Steps, flip, ready_at_start, set_free, step_of
from respect_core.solve.downset_table import find_set
from respect_core.solve.downsets import Int, lowest_bit

PEAK, LIVE, PARENT, OP = 0, 1, 2, 3
"""Rows of the array of what can follow the sets of a step: the peak so far, live bytes, the set, and the op."""


@compiled
def beam_order(steps: Steps, at_start: Int, bound: Int, width: Int, stop: IntArray) -> IntArray:
    """Return a topological order.

    Args:
        steps: The problem.
        at_start: Live bytes before the first op.
        bound: A lower bound on the peak: peaks below it are no better than it.
        width: Down-sets kept at each step, at least 1.
        stop: Only one set is kept once ``stop[0]`` is not 0.
    """
    links, facts, inputs, tensors = steps[:4]
    _, n, words = links.shape
    done = np.empty(words, np.int64)
    parent, op = np.zeros((n, width), np.int64), np.zeros((n, width), np.int64)
    sets, next_sets = np.zeros((width, words), np.int64), np.empty((width, words), np.int64)
    ready, next_ready = np.empty((width, words), np.int64), np.empty((width, words), np.int64)
    peaks, next_peaks = np.empty(width, np.int64), np.empty(width, np.int64)
    lives, next_lives = np.empty(width, np.int64), np.empty(width, np.int64)
    can_follow = ready_at_start(links)
    for w in range(words):
        ready[0, w] = can_follow[w]
    peaks[0], lives[0] = bound, at_start
    count = 1
    root = np.int64(0)  # a variable, for literal arguments are compiled anew
    table = np.empty(4, np.int64)
    follow, heap = np.empty((4, 64), np.int64), np.empty(64, np.int64)
    for step in range(n):
        total = root
        for i in range(count if stop[0] == 0 else 1):
            if total + n > heap.size:
                larger, heap = np.empty((4, 2 * (total + n)), np.int64), np.empty(2 * (total + n), np.int64)
                for column in range(4):
                    for j in range(total):
                        larger[column, j] = follow[column, j]
                follow = larger
            for w in range(words):
                done[w], can_follow[w] = sets[i, w], ready[i, w]
            total = _list_following(i, done, can_follow, peaks[i], lives[i], facts, inputs, tensors, follow, total)
        while table.size < 4 * min(width, total):
            table = np.empty(2 * table.size, np.int64)
        for slot in range(table.size):
            table[slot] = 0
        for i in range(total):
            heap[i] = i
        for i in range(total // 2 - 1, -1, -1):
            _sift_down(heap, i, total, follow)
        count = 0
        while total > 0 and count < width:
            best = heap[0]
            total -= 1
            heap[0] = heap[total]
            _sift_down(heap, root, total, follow)
            i, v = follow[PARENT, best], follow[OP, best]
            for w in range(words):
                done[w], can_follow[w] = sets[i, w], ready[i, w]
            flip(done, v)
            slot = find_set(table, next_sets, done)
            if table[slot] == 0:
                table[slot] = count + 1
                flip(can_follow, v)
                set_free(done, v, links, next_ready, count)
                for w in range(words):
                    next_sets[count, w] = done[w]
                    next_ready[count, w] |= can_follow[w]
                next_peaks[count], next_lives[count] = follow[PEAK, best], follow[LIVE, best]
                parent[step, count], op[step, count] = i, v
                count += 1
        sets, next_sets = next_sets, sets
        ready, next_ready = next_ready, ready
        peaks, next_peaks = next_peaks, peaks
        lives, next_lives = next_lives, lives
    order = np.empty(n, np.int64)
    at = 0
    for step in range(n - 1, -1, -1):
        order[step] = op[step, at]
        at = parent[step, at]
    return order


@compiled
def _list_following(
    i: Int,
    done: IntArray,
    ready: IntArray,
    peak: Int,
    live: Int,
    facts: IntArray,
    inputs: IntArray,
    tensors: IntArray,
    follow: IntArray,
    total: Int,
) -> Int:
    """List what can follow set ``i``; return the new length of the list."""
    first = total
    for w in range(ready.size):
        rest = ready[w]
        while rest != 0:
            v = 64 * w + lowest_bit(rest)
            rest &= rest - 1
            cost, change = step_of(done, v, facts, inputs, tensors)
            can_run_at_once = change <= 0 and live + cost <= peak
            at = first if can_run_at_once else total
            follow[PEAK, at], follow[LIVE, at] = max(peak, live + cost), live + change
            follow[PARENT, at], follow[OP, at] = i, v
            if can_run_at_once:
                return first + 1
            total += 1
    return total


@compiled
def _sift_down(heap: IntArray, at: Int, size: Int, follow: IntArray) -> None:
    """Move a heap's entry down to where it belongs: smaller peaks, fewer live bytes and earlier entries come first."""
    moved = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _is_before(heap[child + 1], heap[child], follow):
            child += 1
        if not _is_before(heap[child], moved, follow):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@compiled
def _is_before(a: Int, b: Int, follow: IntArray) -> bool:
    if follow[PEAK, a] != follow[PEAK, b]:
        return bool(follow[PEAK, a] < follow[PEAK, b])
    if follow[LIVE, a] != follow[LIVE, b]:
        return bool(follow[LIVE, a] < follow[LIVE, b])
    return bool(a < b)
