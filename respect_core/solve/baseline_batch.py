"""The best simple order's optimal split for many small graphs in one compiled call: the baseline beside each label."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import UNKNOWN, IntArray
from respect_core.solve.downsets import lowest_bit
from respect_core.solve.split_loops import cheapest_within, crossing_weights, smallest_peak


@compiled
def baseline_batch(
    op_start: IntArray,
    param_bytes: IntArray,
    tensor_start: IntArray,
    tensor_bytes: IntArray,
    tensor_producer: IntArray,
    read_start: IntArray,
    reader: IntArray,
    stage_counts: IntArray,
    peaks: IntArray,
    communication: IntArray,
) -> None:
    """Split the three simple orders of many graphs of up to 64 ops optimally for `peak-memory` and keep the best.

    The values equal those of `respect_core.solve.orders.BestOrderSolver`. Arguments are those of
    `respect_core.solve.exact_batch.label_batch`; ``peaks`` and ``communication`` are written to.
    """
    no_edges = np.empty((0, 2), np.int64)
    for g in range(op_start.size - 1):
        load = param_bytes[op_start[g] : op_start[g + 1]]
        low, high = tensor_start[g], tensor_start[g + 1]
        n = load.size
        producer = tensor_producer[low:high]
        first, last = read_start[low], read_start[high]
        read_tensor = np.empty(last - first, np.int64)
        children = np.zeros(n, np.int64)
        for t in range(low, high):
            for r in range(read_start[t], read_start[t + 1]):
                read_tensor[r - first] = t - low
                if tensor_producer[t] != UNKNOWN:
                    children[tensor_producer[t]] |= np.int64(1) << reader[r]
        num_parents = np.zeros(n, np.int64)
        for v in range(n):
            rest = children[v]
            while rest != 0:
                num_parents[lowest_bit(rest)] += 1
                rest &= rest - 1
        orders = np.empty((3, n), np.int64)
        _smallest_first(children, num_parents.copy(), orders[0])
        _first_in_first_out(children, num_parents.copy(), orders[1])
        _depth_first(children, num_parents, orders[2])
        for c in range(stage_counts.size):
            peaks[c, g] = -1
        position = np.empty(n, np.int64)
        prefix = np.zeros(n + 1, np.int64)
        cuttable = np.ones(n + 1, np.bool_)
        for o in range(3):
            for p in range(n):
                position[orders[o, p]] = p
                prefix[p + 1] = prefix[p] + load[orders[o, p]]
            cut_bytes = crossing_weights(
                position, producer, tensor_bytes[low:high], read_tensor, reader[first:last], no_edges
            )[0]
            for c in range(stage_counts.size):
                num_stages = stage_counts[c]
                peak = smallest_peak(prefix, num_stages)
                if peaks[c, g] >= 0 and peak > peaks[c, g]:
                    continue
                reach = np.full((num_stages, n), n, np.int64)
                cost = cheapest_within(prefix, cut_bytes, cuttable, reach, num_stages, peak)[0]
                if peaks[c, g] < 0 or peak < peaks[c, g] or cost < communication[c, g]:
                    peaks[c, g], communication[c, g] = peak, cost


@compiled
def _smallest_first(children: IntArray, waiting: IntArray, order: IntArray) -> None:
    """Take the smallest op whose parents are done; ``waiting`` holds the numbers of parents and is used up."""
    ready = np.int64(0)
    for v in range(order.size):
        if waiting[v] == 0:
            ready |= np.int64(1) << v
    for step in range(order.size):
        v = lowest_bit(ready)
        ready &= ready - 1
        order[step] = v
        rest = children[v]
        while rest != 0:
            c = lowest_bit(rest)
            rest &= rest - 1
            waiting[c] -= 1
            if waiting[c] == 0:
                ready |= np.int64(1) << c


@compiled
def _first_in_first_out(children: IntArray, waiting: IntArray, order: IntArray) -> None:
    """Kahn's order; ``order`` itself is the queue."""
    end = 0
    for v in range(order.size):
        if waiting[v] == 0:
            order[end] = v
            end += 1
    for step in range(order.size):
        rest = children[order[step]]
        while rest != 0:
            c = lowest_bit(rest)
            rest &= rest - 1
            waiting[c] -= 1
            if waiting[c] == 0:
                order[end] = c
                end += 1


@compiled
def _depth_first(children: IntArray, num_parents: IntArray, order: IntArray) -> None:
    """Reverse the post-order of a depth-first search from the ops without parents."""
    n = order.size
    stack = np.empty(n, np.int64)
    done = np.int64(0)
    at = n
    for root in range(n):
        if num_parents[root] != 0:
            continue
        stack[0] = root
        done |= np.int64(1) << root
        depth = 1
        while depth > 0:
            left = children[stack[depth - 1]] & ~done
            if left == 0:
                depth -= 1
                at -= 1
                order[at] = stack[depth]
            else:
                c = lowest_bit(left)
                done |= np.int64(1) << c
                stack[depth] = c
                depth += 1
