"""Compiled dynamic programmes that cut one topological order into K contiguous segments.

Positions run from 0 to n; a segment [i, j) holds the ops at positions i..j-1. ``cuttable[p]`` says whether a boundary
may lie before position p; ``reach[k, i]`` is the largest end j that stage k may have when it starts at i.
"""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, IntArray

INFINITE = np.int64(2**62)


@compiled
def crossing_weights(
    position: IntArray,
    tensor_producer: IntArray,
    tensor_weight: IntArray,
    read_tensor: IntArray,
    read_op: IntArray,
    edges: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the bytes and the edges that cross each boundary, (n + 1,) each, and each tensor's last read, (m,)."""
    n, m = position.size, tensor_producer.size
    last = np.full(m, -1, np.int64)
    for r in range(read_tensor.size):
        last[read_tensor[r]] = max(last[read_tensor[r]], position[read_op[r]])
    cut_bytes = np.zeros(n + 2, np.int64)
    for t in range(m):
        if tensor_producer[t] >= 0 and last[t] >= 0:
            cut_bytes[position[tensor_producer[t]] + 1] += tensor_weight[t]
            cut_bytes[last[t] + 1] -= tensor_weight[t]
    cut_edges = np.zeros(n + 2, np.int64)
    for e in range(edges.shape[0]):
        cut_edges[position[edges[e, 0]] + 1] += 1
        cut_edges[position[edges[e, 1]] + 1] -= 1
    return np.cumsum(cut_bytes)[: n + 1], np.cumsum(cut_edges)[: n + 1], last


@compiled
def smallest_peak(prefix: IntArray, num_stages: int) -> int:
    """Return the smallest largest load of K non-empty segments, without constraints, by bisection.

    ``prefix[p]`` is the load of the first p ops, shape (n + 1,).
    """
    n = prefix.size - 1
    total = prefix[n]
    low = np.int64(0)
    for p in range(n):
        low = max(low, prefix[p + 1] - prefix[p])
    low = max(low, (total + num_stages - 1) // num_stages)
    high = max(low, total)
    while low < high:
        budget = low + (high - low) // 2
        start, used = 0, 0
        while start < n and used < num_stages:
            start = np.searchsorted(prefix, prefix[start] + budget, side="right") - 1
            used += 1
        if start >= n:
            high = budget
        else:
            low = budget + 1
    return int(low)


@compiled
def smallest_peak_constrained(prefix: IntArray, cuttable: BoolArray, reach: IntArray, num_stages: int) -> int:
    """Return the smallest largest load of K segments that obey the constraints, `INFINITE` if there are none."""
    n = prefix.size - 1
    best = np.full((num_stages + 1, n + 1), INFINITE, np.int64)
    best[0, 0] = 0
    for k in range(num_stages):
        for i in range(k, n):
            if best[k, i] == INFINITE:
                continue
            for j in range(i + 1, reach[k, i] + 1):
                if not cuttable[j]:
                    continue
                peak = max(best[k, i], prefix[j] - prefix[i])
                best[k + 1, j] = min(best[k + 1, j], peak)
    return int(best[num_stages, n])


@compiled
def cheapest_within(
    prefix: IntArray, weight: IntArray, cuttable: BoolArray, reach: IntArray, num_stages: int, budget: int
) -> tuple[int, IntArray]:
    """Minimise the sum of ``weight`` over the boundaries with every load at most ``budget``.

    Returns:
        The sum and the K + 1 bounds (0 and n included); `INFINITE` and bounds of no meaning where nothing fits.
    """
    n = prefix.size - 1
    best = np.full((num_stages + 1, n + 1), INFINITE, np.int64)
    start_of = np.zeros((num_stages + 1, n + 1), np.int64)
    best[0, 0] = 0
    for k in range(num_stages):
        remaining = num_stages - k - 1
        # What is left after this stage must fit into the remaining ones.
        needed = prefix[n] - remaining * budget if remaining * 1.0 * budget < 2.0**62 else np.int64(0)
        for i in range(k, n):
            if best[k, i] == INFINITE:
                continue
            for j in range(i + 1, min(reach[k, i], n - remaining) + 1):
                if prefix[j] - prefix[i] > budget:
                    break
                if prefix[j] < needed or not cuttable[j] or (remaining == 0 and j < n):
                    continue
                cost = best[k, i] + (weight[j] if j < n else 0)
                if cost < best[k + 1, j]:
                    best[k + 1, j] = cost
                    start_of[k + 1, j] = i
    return best[num_stages, n], _bounds(start_of, num_stages, n)


@compiled
def _bounds(start_of: IntArray, num_stages: int, n: int) -> IntArray:
    bounds = np.zeros(num_stages + 1, np.int64)
    bounds[num_stages] = n
    for k in range(num_stages, 0, -1):
        bounds[k - 1] = start_of[k, bounds[k]]
    return bounds


@compiled
def fastest_split(
    order: IntArray,
    position: IntArray,
    last: IntArray,
    tensor_producer: IntArray,
    tensor_is_output: BoolArray,
    read_start: IntArray,
    read: IntArray,
    made_start: IntArray,
    made: IntArray,
    is_input_op: IntArray,
    op_ns: IntArray,
    tensor_ns: IntArray,
    scalars: IntArray,
    cuttable: BoolArray,
    reach: IntArray,
    num_stages: int,
    limit: int,
    want_latency: bool,
) -> tuple[int, IntArray]:
    """Minimise the largest stage time, or the sum of stage times with none above ``limit``.

    Args:
        order: The topological order, and ``position`` its inverse. Shapes (n,).
        position: See ``order``.
        last: Position of each tensor's last reader, -1 where nobody reads it. Shape (m,).
        tensor_producer: Shape (m,); -1 for a graph input.
        tensor_is_output: Shape (m,).
        read_start: With ``read``: tensors that each op reads.
        read: See ``read_start``.
        made_start: With ``made``: tensors that each op makes.
        made: See ``made_start``.
        is_input_op: 1 where an op receives its output from the host. Shape (n,).
        op_ns: Compute, streaming and always-streamed time of each op. Shape (3, n).
        tensor_ns: Input, output and occupied time of each tensor. Shape (3, m).
        scalars: overhead, capacity, shared capacity, overlap numerator, overlap denominator.
        cuttable: Shape (n + 1,).
        reach: Shape (K, n).
        num_stages: K.
        limit: No stage may take longer.
        want_latency: Minimise the sum instead of the largest.

    Returns:
        The minimum and the K + 1 bounds; `INFINITE` where nothing fits.
    """
    n, m = order.size, last.size
    overhead, capacity, shared, overlap_num, overlap_den = scalars
    best = np.full((num_stages + 1, n + 1), INFINITE, np.int64)
    start_of = np.zeros((num_stages + 1, n + 1), np.int64)
    best[0, 0] = 0
    seen = np.full(m, -1, np.int64)
    for i in range(n):
        farthest = 0
        for k in range(num_stages):
            if best[k, i] != INFINITE:
                farthest = max(farthest, reach[k, i])
        compute = streaming = always = inputs = outputs = occupied = np.int64(0)
        for j in range(i + 1, farthest + 1):
            v = order[j - 1]
            compute += op_ns[0, v]
            streaming += op_ns[1, v]
            always += op_ns[2, v]
            # Compute, and streaming with all memory free, only grow with j: nothing longer can fit either.
            if overhead + max(compute, max(np.int64(0), streaming - capacity) + always) > limit:
                break
            for r in range(read_start[v], read_start[v + 1]):
                t = read[r]
                outside = tensor_producer[t] < 0 or position[tensor_producer[t]] < i
                if outside and seen[t] != i:
                    seen[t] = i
                    inputs += tensor_ns[0, t]
                    occupied += tensor_ns[2, t]
                elif not outside and last[t] == j - 1 and not tensor_is_output[t]:
                    outputs -= tensor_ns[1, t]
            for r in range(made_start[v], made_start[v + 1]):
                t = made[r]
                if is_input_op[v]:
                    inputs += tensor_ns[0, t]
                    occupied += tensor_ns[2, t]
                if tensor_is_output[t] or last[t] >= j:
                    outputs += tensor_ns[1, t]
            if not cuttable[j]:
                continue
            room = max(np.int64(0), min(capacity, shared - occupied))
            spilled = max(np.int64(0), streaming - room) + always
            hidden = np.int64(min(compute, spilled) * overlap_num // overlap_den)
            time = overhead + inputs + outputs + compute + spilled - hidden
            if time > limit:
                continue
            for k in range(num_stages):
                if best[k, i] == INFINITE or j > reach[k, i]:
                    continue
                cost = best[k, i] + time if want_latency else max(best[k, i], time)
                if cost < best[k + 1, j]:
                    best[k + 1, j] = cost
                    start_of[k + 1, j] = i
    return best[num_stages, n], _bounds(start_of, num_stages, n)
