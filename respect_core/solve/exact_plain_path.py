"""The second half of `exact_plain`: least communication within the optimal peak, and the canonical schedule."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, IntArray
from respect_core.solve.downsets import Int
from respect_core.solve.exact_plain_levels import sort_by

MAX_PLAIN_CELLS = 1 << 22
"""Most stages that the vectors of all sets may hold."""

NO_COST: Int = np.int64(2**62)


@compiled
def _fits(bits: IntArray, loads: IntArray, i: Int, j: Int, is_filled: bool, budget: Int) -> bool:
    """Whether a stage of at most this load, with some op, leads from set i to set j."""
    if loads[j] - loads[i] > budget:
        return False
    differs = is_filled
    for w in range(bits.shape[1]):
        if bits[i, w] & ~bits[j, w] != 0:
            return False
        differs = differs or bits[i, w] != bits[j, w]
    return differs


@compiled
def cheapest_chain(
    bits: IntArray, loads: IntArray, ends: IntArray, weights: IntArray, filled: BoolArray, budget: Int
) -> IntArray:
    """Return the least sum of weights of a chain to each set, huge where there is none.

    Args:
        bits: Down-sets of all boundaries. Shape (at least sets, words).
        loads: Their loads.
        ends: Boundary k's lie in ``ends[k]..ends[k + 1]``. Shape (K + 2,).
        weights: What crosses each. Shape (sets,).
        filled: Stages that have an op anyway. Shape (K,).
        budget: Largest load of a stage.

    Returns:
        Shape (sets,); empty where no chain reaches the last boundary.
    """
    costs = np.full(ends[-1], NO_COST, np.int64)
    costs[0] = 0
    ranked, reached = np.zeros(ends[-1], np.int64), np.empty(ends[-1], np.int64)
    size = 1
    for k in range(1, ends.size - 1):
        count = 0
        for j in range(ends[k], ends[k + 1]):
            for at in range(size):  # by ascending cost: the first that fits is the best
                if _fits(bits, loads, ranked[at], j, filled[k - 1], budget):
                    costs[j] = costs[ranked[at]] + weights[j]
                    reached[count] = j
                    count += 1
                    break
        if count == 0:
            return costs[:0]
        sort_by(costs, reached, count)
        ranked, reached, size = reached, ranked, count
    return costs


@compiled
def smallest_stages(
    bits: IntArray,
    loads: IntArray,
    ends: IntArray,
    weights: IntArray,
    filled: BoolArray,
    budget: Int,
    costs: IntArray,
    bit_of: IntArray,
    node_of: IntArray,
    stage_of: IntArray,
) -> bool:
    """Write the lexicographically smallest stages among the cheapest chains to ``stage_of``.

    Args:
        bits: See `cheapest_chain`, like the others up to ``budget``.
        loads: Likewise.
        ends: Likewise.
        weights: Likewise.
        filled: Likewise.
        budget: Likewise.
        costs: What `cheapest_chain` returned.
        bit_of: Bit of every node, -1 for those with one stage, which are left out.
        node_of: Node of every op.
        stage_of: Written to at the ops whose nodes have bits. Shape (n,).

    Returns:
        False if the vectors to choose from would be too large.
    """
    num_stages = ends.size - 2
    row_of = np.full(ends[-1], -1, np.int64)
    row_of[ends[-1] - 1] = 0
    num_rows = 1
    for k in range(num_stages, 0, -1):
        for j in range(ends[k], ends[k + 1]):
            if row_of[j] < 0:
                continue
            need = costs[j] - weights[j]
            for i in range(ends[k - 1], ends[k]):
                if row_of[i] < 0 and costs[i] == need and _fits(bits, loads, i, j, filled[k - 1], budget):
                    row_of[i] = num_rows
                    num_rows += 1
    u = 0
    ops = np.empty(node_of.size, np.int64)
    for op in range(node_of.size):
        if bit_of[node_of[op]] >= 0:
            ops[u] = op
            u += 1
    if num_rows * u > MAX_PLAIN_CELLS:
        return False
    vectors = np.full((num_rows, u), num_stages, np.int64)
    for k in range(1, num_stages + 1):
        for j in range(ends[k], ends[k + 1]):
            if row_of[j] < 0:
                continue
            need = costs[j] - weights[j]
            best = -1
            for i in range(ends[k - 1], ends[k]):
                if row_of[i] < 0 or costs[i] != need or not _fits(bits, loads, i, j, filled[k - 1], budget):
                    continue
                if best < 0:
                    best = i
                    continue
                for place in range(u):
                    mine, theirs = min(vectors[row_of[i], place], k - 1), min(vectors[row_of[best], place], k - 1)
                    if mine != theirs:
                        if mine < theirs:
                            best = i
                        break
            for place in range(u):
                bit = bit_of[node_of[ops[place]]]
                if (bits[j, bit >> 6] >> (bit & 63)) & 1:
                    vectors[row_of[j], place] = min(vectors[row_of[best], place], k - 1)
    for place in range(u):
        stage_of[ops[place]] = vectors[0, place]
    return True
