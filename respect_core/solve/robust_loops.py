"""Compiled loops over the contiguous segments of one order, under many scenarios at once, in floating-point ms.

Scenarios are the columns of ``constants``, shape (11, S), rows in the order of `robust_scenarios.ROWS`: overhead,
input, output, compute, mul and concat, depthwise, add pad and pool, streaming, capacity, shared capacity, overlap. Sums
over the ops of a segment are the rows of ``op``, shape (7, n): GMAC, MiB made by the three sorts of kinds, measured ms,
compiled MiB, MiB that always stream.
"""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, FloatArray, IntArray

NEVER = 1e300


@compiled
def _times(
    sums: FloatArray, received: float, sent: float, constants: FloatArray, out: FloatArray, low: FloatArray
) -> None:
    """Write a stage's time in every scenario, and a bound on it that only grows with the segment. Shapes (S,)."""
    for s in range(out.size):
        compute = (
            constants[3, s] * sums[0]
            + constants[4, s] * sums[1]
            + constants[5, s] * sums[2]
            + constants[6, s] * sums[3]
            + sums[4]
        )
        room = max(0.0, min(constants[8, s], constants[9, s] - received))
        spilled = constants[7, s] * (max(0.0, sums[5] - room) + sums[6])
        least = constants[7, s] * (max(0.0, sums[5] - constants[8, s]) + sums[6])
        hidden = constants[10, s] * min(compute, spilled)
        out[s] = constants[0, s] + constants[1, s] * received + constants[2, s] * sent + compute + spilled - hidden
        low[s] = constants[0, s] + max(compute, least)


@compiled
def segment_costs(
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
    op: FloatArray,
    tensor_mib: FloatArray,
    constants: FloatArray,
    reference: FloatArray,
    limit: float,
) -> tuple[FloatArray, FloatArray]:
    """Return each segment's largest time over ``reference`` among the scenarios, and its time in the first scenario.

    Args:
        order: A topological order and (``position``) its inverse. Shapes (n,).
        position: See ``order``.
        last: Position of each tensor's last reader, -1 where nobody reads it. Shape (m,).
        tensor_producer: Shape (m,); -1 for a graph input.
        tensor_is_output: Shape (m,).
        read_start: With ``read``: tensors that each op reads.
        read: See ``read_start``.
        made_start: With ``made``: tensors that each op makes.
        made: See ``made_start``.
        is_input_op: 1 where an op receives its output from the host. Shape (n,).
        op: Shape (7, n).
        tensor_mib: Shape (m,).
        constants: Shape (11, S).
        reference: What times are divided by in every scenario. Shape (S,).
        limit: Segments beyond it are of no interest.

    Returns:
        Two arrays of shape (n, n + 1): entry [i, j] is of the ops at positions i to j - 1; `NEVER` beyond the limit.
    """
    n, m, num_scenarios = order.size, last.size, reference.size
    ratio, first = np.full((n, n + 1), NEVER), np.full((n, n + 1), NEVER)
    times, low = np.empty(num_scenarios), np.empty(num_scenarios)
    seen = np.full(m, -1, np.int64)
    for i in range(n):
        sums = np.zeros(7)
        received = sent = 0.0
        for j in range(i + 1, n + 1):
            v = order[j - 1]
            for row in range(7):
                sums[row] += op[row, v]
            for r in range(read_start[v], read_start[v + 1]):
                t = read[r]
                outside = tensor_producer[t] < 0 or position[tensor_producer[t]] < i
                if outside and seen[t] != i:
                    seen[t] = i
                    received += tensor_mib[t]
                elif not outside and last[t] == j - 1 and not tensor_is_output[t]:
                    sent -= tensor_mib[t]
            for r in range(made_start[v], made_start[v + 1]):
                t = made[r]
                if is_input_op[v]:
                    received += tensor_mib[t]
                if tensor_is_output[t] or last[t] >= j:
                    sent += tensor_mib[t]
            _times(sums, received, sent, constants, times, low)
            largest = bound = 0.0
            for s in range(num_scenarios):
                largest = max(largest, times[s] / reference[s])
                bound = max(bound, low[s] / reference[s])
            if bound > limit:
                break
            ratio[i, j], first[i, j] = largest, times[0]
    return ratio, first


@compiled
def smallest_largest(cost: FloatArray, cuttable: BoolArray, reach: IntArray, num_stages: int) -> tuple[float, IntArray]:
    """Cut into K segments so that the largest cost is smallest.

    Args:
        cost: Cost of every segment, shape (n, n + 1).
        cuttable: Whether a boundary may lie before a position. Shape (n + 1,).
        reach: Largest end of stage k that starts at i. Shape (K, n).
        num_stages: K.

    Returns:
        The largest cost and the K + 1 bounds; `NEVER` where nothing is legal.
    """
    n = cost.shape[0]
    best = np.full((num_stages + 1, n + 1), NEVER)
    start_of = np.zeros((num_stages + 1, n + 1), np.int64)
    best[0, 0] = 0.0
    for k in range(num_stages):
        for i in range(k, n):
            if best[k, i] >= NEVER:
                continue
            for j in range(i + 1, min(reach[k, i], n - (num_stages - k - 1)) + 1):
                if cost[i, j] >= NEVER or not cuttable[j]:
                    continue
                value = max(best[k, i], cost[i, j])
                if value < best[k + 1, j]:
                    best[k + 1, j] = value
                    start_of[k + 1, j] = i
    bounds = np.zeros(num_stages + 1, np.int64)
    bounds[num_stages] = n
    for k in range(num_stages, 0, -1):
        bounds[k - 1] = start_of[k, bounds[k]]
    return best[num_stages, n], bounds


@compiled
def fastest_in_each(
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
    op: FloatArray,
    tensor_mib: FloatArray,
    constants: FloatArray,
    known: FloatArray,
    cuttable: BoolArray,
    reach: IntArray,
    num_stages: int,
) -> FloatArray:
    """Return the smallest bottleneck of every scenario among the contiguous cuts of one order. Shape (S,).

    Args as `segment_costs`; ``known`` is a bottleneck of every scenario that is possible anyway, and the answer is
    never above it.
    """
    n, m, num_scenarios = order.size, last.size, known.size
    best = np.full((num_stages + 1, n + 1, num_scenarios), NEVER)
    best[0, 0] = 0.0
    times, low = np.empty(num_scenarios), np.empty(num_scenarios)
    seen = np.full(m, -1, np.int64)
    for i in range(n):
        sums = np.zeros(7)
        received = sent = 0.0
        for j in range(i + 1, n + 1):
            v = order[j - 1]
            for row in range(7):
                sums[row] += op[row, v]
            for r in range(read_start[v], read_start[v + 1]):
                t = read[r]
                outside = tensor_producer[t] < 0 or position[tensor_producer[t]] < i
                if outside and seen[t] != i:
                    seen[t] = i
                    received += tensor_mib[t]
                elif not outside and last[t] == j - 1 and not tensor_is_output[t]:
                    sent -= tensor_mib[t]
            for r in range(made_start[v], made_start[v + 1]):
                t = made[r]
                if is_input_op[v]:
                    received += tensor_mib[t]
                if tensor_is_output[t] or last[t] >= j:
                    sent += tensor_mib[t]
            _times(sums, received, sent, constants, times, low)
            useful = False
            for s in range(num_scenarios):
                useful = useful or low[s] <= known[s]
            if not useful:
                break
            if not cuttable[j]:
                continue
            for k in range(min(i + 1, num_stages)):
                if j > reach[k, i] or n - j < num_stages - k - 1:
                    continue
                for s in range(num_scenarios):
                    value = max(best[k, i, s], times[s])
                    best[k + 1, j, s] = min(best[k + 1, j, s], value)
    out = known.copy()
    for s in range(num_scenarios):
        out[s] = min(out[s], best[num_stages, n, s])
    return out
