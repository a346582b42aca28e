"""Exact `peak-memory` schedules of graphs of any size without constraints, in one compiled call.

The same search as in `exact_loads` and `exact_phases`, without what only time, rules and pins need: for the few
down-sets of a layer graph, handing arrays over takes longer than the search. What does not fit here (too many
down-sets, a stage that would stay empty) is left to the general search.
"""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import Int, byte_table, closures, word_sum
from respect_core.solve.exact_plain_levels import Levels, Poset, list_plain_levels
from respect_core.solve.exact_plain_path import cheapest_chain, smallest_stages
from respect_core.solve.protocol import Problem

SEARCHED, LEFT_OVER = 0, 1
"""How `plain_schedule` ended: everything is proven, or this search is not made for the problem."""

MAX_WORK = 1 << 19
"""Most steps of a search: branches of the listing, or sixteen pairs of down-sets each."""

MAX_SUM = 2.0**62
"""Larger sums are left to the general search, which minds overflows."""


def solve_plain(problem: Problem, stop: IntArray) -> tuple[IntArray | None, int]:
    """Find the canonical optimum of `peak-memory` without constraints.

    Args:
        problem: Such a problem.
        stop: The search gives up once ``stop[0]`` is not 0.

    Returns:
        The stage of every op, None where the general search is needed; and a proven lower bound of the peak in bytes.
    """
    graph, proven = problem.graph, np.zeros(1, dtype=np.int64)
    stage_of = np.empty(graph.num_ops, dtype=np.int64)
    which, readers = graph.reads
    ended = plain_schedule(
        graph.topological_order,
        graph.edges,
        graph.param_bytes,
        graph.tensor_bytes,
        graph.tensor_producer,
        which,
        readers,
        problem.num_stages,
        stop,
        stage_of,
        proven,
    )
    return stage_of if ended == SEARCHED else None, int(proven[0])


@compiled
def _plain_poset(order: IntArray, edges: IntArray, op_load: IntArray) -> tuple[Poset, IntArray]:
    """Return the order of the ops, numbered topologically, and the node of every op."""
    n = order.size
    words = (n + 63) // 64
    node_of = np.empty(n, np.int64)
    load = np.empty(n, np.int64)
    for v in range(n):
        node_of[order[v]] = v
        load[v] = op_load[order[v]]
    start = np.zeros(n + 1, np.int64)
    for e in range(edges.shape[0]):
        start[node_of[edges[e, 1]] + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    place = start.copy()
    parent = np.empty(edges.shape[0], np.int64)
    for e in range(edges.shape[0]):
        child = node_of[edges[e, 1]]
        parent[place[child]] = node_of[edges[e, 0]]
        place[child] += 1
    before, after = closures(start, parent, words)
    table = np.zeros((8 * words, 256), np.int64)
    byte_table(load, table)
    full = np.zeros(words, np.int64)
    for v in range(n):
        full[v >> 6] += load[v]
    reach = np.zeros((2, n), np.int64)
    for v in range(n):
        for w in range(words):
            for side in range(2):
                word = before[v, w] if side == 0 else after[v, w]
                if word == -1:
                    reach[side, v] += full[w]
                elif word != 0:
                    reach[side, v] += word_sum(word, table, 8 * w, 8)
    return (before, after, reach, load), node_of


@compiled
def _peak_of(levels: Levels, budget: Int, bound: Int, work: IntArray) -> Int:
    """Return the smallest peak of a chain, of at least ``bound``; above the budget if there is none within it."""
    bits, loads, ends = levels[0], levels[1], levels[2]
    peaks = np.empty(ends[-1], np.int64)
    peaks[0] = bound
    for k in range(1, ends.size - 1):
        work[0] -= (ends[k] - ends[k - 1]) * (ends[k + 1] - ends[k]) // 16
        i_last = ends[k - 1]
        for j in range(ends[k], ends[k + 1]):
            while i_last < ends[k] and loads[i_last] <= loads[j]:
                i_last += 1
            best = budget + 1
            for i in range(i_last - 1, ends[k - 1] - 1, -1):  # by ascending load of the stage
                step = loads[j] - loads[i]
                if step >= best or best <= bound:
                    break
                reached = max(step, peaks[i])
                if reached < best:
                    is_subset = True
                    for w in range(bits.shape[1]):
                        if bits[i, w] & ~bits[j, w] != 0:
                            is_subset = False
                            break
                    if is_subset:
                        best = reached
            peaks[j] = best
    return peaks[ends[-1] - 1]


@compiled
def plain_schedule(
    order: IntArray,
    edges: IntArray,
    op_load: IntArray,
    tensor_bytes: IntArray,
    producer: IntArray,
    read_tensor: IntArray,
    read_op: IntArray,
    num_stages: Int,
    stop: IntArray,
    stage_of: IntArray,
    proven: IntArray,
) -> Int:
    """Find the smallest peak, the least communication within it, and the canonical schedule of both.

    Args:
        order: Ops in topological order. Shape (n,).
        edges: Shape (edges, 2).
        op_load: Parameter bytes of every op.
        tensor_bytes: Bytes of every tensor. Shape (m,).
        producer: Op that makes each tensor; negative for what no op makes.
        read_tensor: Tensors by ascending number, one entry a reader.
        read_op: The readers.
        num_stages: K.
        stop: The search gives up once ``stop[0]`` is not 0.
        stage_of: Written to: the lexicographically smallest optimum. Shape (n,).
        proven: Written to: a proven lower bound of the peak. Shape (1,).

    Returns:
        `SEARCHED` or `LEFT_OVER`.
    """
    poset, node_of = _plain_poset(order, edges, op_load)
    load = poset[3]
    n = load.size
    nodes, loaded = np.empty(n, np.int64), np.empty(n, np.int64)
    total, largest, count = np.int64(0), np.int64(0), 0
    for v in range(n):
        nodes[v] = v
        total += load[v]
        largest = max(largest, load[v])
        if load[v] > 0:
            loaded[count] = v
            count += 1
    loaded = loaded[:count]
    moved = np.int64(0)
    for t in range(tensor_bytes.size):
        moved += tensor_bytes[t]
    proven[0] = 0
    if float(num_stages) * float(max(total, moved)) > MAX_SUM:
        return LEFT_OVER
    work = np.full(1, MAX_WORK, np.int64)
    bound = max(largest, (total + num_stages - 1) // num_stages)
    budget, step = bound, bound // 65536 + 1
    is_found = total == 0
    while not is_found:
        proven[0] = bound
        budget = min(budget, total)
        is_listed, num_sets, levels = list_plain_levels(poset, loaded, num_stages, budget, total, work)
        if not is_listed or work[0] < 0 or stop[0] != 0:
            return LEFT_OVER
        if num_sets > 0:
            found = _peak_of(levels, budget, bound, work)
            if found <= budget:
                bound = found
                break
        bound = budget + 1
        budget += step
        step *= 4 if num_sets < 128 else 2 if num_sets < 1024 else 1
    proven[0] = bound
    is_listed, num_sets, levels = list_plain_levels(poset, nodes, num_stages, bound, total, work)
    if not is_listed or num_sets == 0 or stop[0] != 0:
        return LEFT_OVER
    weights = _crossing(levels, tensor_bytes, producer, read_tensor, read_op, node_of)
    bits, loads, ends, bit_of, limits = levels
    filled = np.zeros(num_stages, np.bool_)
    for v in range(n):
        if bit_of[v] < 0:
            filled[limits[0, v] - 1] = True
    costs = cheapest_chain(bits, loads, ends, weights, filled, bound)
    if costs.size == 0:
        return LEFT_OVER
    if not smallest_stages(bits, loads, ends, weights, filled, bound, costs, bit_of, node_of, stage_of):
        return LEFT_OVER
    for op in range(n):
        if bit_of[node_of[op]] < 0:
            stage_of[op] = limits[0, node_of[op]] - 1
    return SEARCHED


@compiled
def _crossing(
    levels: Levels,
    tensor_bytes: IntArray,
    producer: IntArray,
    read_tensor: IntArray,
    read_op: IntArray,
    node_of: IntArray,
) -> IntArray:
    """Sum the bytes of the tensors that are made in each set and read outside it. Shape (sets,)."""
    bits, _, ends, bit_of, limits = levels
    words = bits.shape[1]
    weights = np.zeros(ends[-1], np.int64)
    num_stages = ends.size - 2
    always = np.zeros(num_stages + 1, np.int64)
    readers = np.empty(words, np.int64)
    first = 0
    while first < read_tensor.size:
        t = read_tensor[first]
        last = first
        for w in range(words):
            readers[w] = 0
        done_by, varies_to = 0, 0
        while last < read_tensor.size and read_tensor[last] == t:
            v = node_of[read_op[last]]
            done_by = max(done_by, limits[0, v])  # this reader lies beyond every boundary below that
            varies_to = max(varies_to, limits[1, v])
            if bit_of[v] >= 0:
                readers[bit_of[v] >> 6] |= np.int64(1) << (bit_of[v] & 63)
            last += 1
        first = last
        if producer[t] < 0 or tensor_bytes[t] == 0:
            continue
        maker = node_of[producer[t]]
        bit = bit_of[maker]
        for k in range(limits[0, maker], min(varies_to, num_stages)):
            is_made = limits[1, maker] <= k
            is_missing = k < done_by
            if is_made and is_missing:
                always[k] += tensor_bytes[t]
                continue
            for i in range(ends[k], ends[k + 1]):
                if not is_made and (bits[i, bit >> 6] >> (bit & 63)) & 1 == 0:
                    continue
                crosses = is_missing
                for w in range(words):
                    crosses = crosses or readers[w] & ~bits[i, w] != 0
                if crosses:
                    weights[i] += tensor_bytes[t]
    for k in range(1, num_stages):
        for i in range(ends[k], ends[k + 1]):
            weights[i] += always[k]
    return weights
