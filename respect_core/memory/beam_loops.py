"""A beam search for a good order: it keeps the down-sets with the smallest peak so far, then the fewest live bytes."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.memory.steps import Steps, can_run, step_of
from respect_core.solve.downset_table import find_set
from respect_core.solve.downsets import Int


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
    before = steps[0]
    n, words = before.shape
    parent, op = np.zeros((n, width), np.int64), np.zeros((n, width), np.int64)
    sets, peaks, lives = np.zeros((width, words), np.int64), np.empty(width, np.int64), np.empty(width, np.int64)
    peaks[0], lives[0] = bound, at_start
    count = 1
    room = 64
    made = np.empty((4, room), np.int64)  # of each child: peak, live bytes, parent, op
    for step in range(n):
        children = 0
        for i in range(count):
            if stop[0] != 0 and i > 0:
                break
            first = children
            for v in range(n):
                if (sets[i, v >> 6] >> (v & 63)) & 1 or not can_run(sets[i], v, before):
                    continue
                cost, change = step_of(sets[i], v, steps)
                if change <= 0 and lives[i] + cost <= peaks[i]:
                    children = first  # it can as well run at once
                if children == room:
                    larger = np.empty((4, 2 * room), np.int64)
                    larger[:, :room] = made
                    made, room = larger, 2 * room
                made[0, children], made[1, children] = max(peaks[i], lives[i] + cost), lives[i] + change
                made[2, children], made[3, children] = i, v
                children += 1
                if change <= 0 and lives[i] + cost <= peaks[i]:
                    break
        by_live = np.argsort(made[1, :children], kind="mergesort")
        ranked = by_live[np.argsort(made[0, :children][by_live], kind="mergesort")]
        slots = 4
        while slots < 4 * min(width, children):
            slots *= 2
        table = np.zeros(slots, np.int64)
        next_sets, next_peaks, next_lives = np.zeros_like(sets), np.empty_like(peaks), np.empty_like(lives)
        count = 0
        for i in ranked:
            v = made[3, i]
            for w in range(words):
                next_sets[count, w] = sets[made[2, i], w]
            next_sets[count, v >> 6] |= np.int64(1) << (v & 63)
            slot = find_set(table, next_sets, next_sets[count])
            if table[slot] != 0:
                continue
            table[slot] = count + 1
            next_peaks[count], next_lives[count] = made[0, i], made[1, i]
            parent[step, count], op[step, count] = made[2, i], v
            count += 1
            if count == width:
                break
        sets, peaks, lives = next_sets, next_peaks, next_lives
    order = np.empty(n, np.int64)
    at = 0
    for step in range(n - 1, -1, -1):
        order[step] = op[step, at]
        at = parent[step, at]
    return order
