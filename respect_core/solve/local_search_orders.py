"""Topological orders drawn in compiled code, and their optimal contiguous split."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import FloatArray, IntArray
from respect_core.solve.local_search_graph import Int, SearchGraph
from respect_core.solve.local_search_random import Word, below, draw
from respect_core.solve.split_loops import smallest_peak

RANDOM: Final = 0
"""A ready op, each as likely as the others."""
FIT: Final = 1
"""A ready op that still fits the stage, each as likely as the others."""
SCORED: Final = 2
"""The ready op that still fits the stage and has the highest score, noise included."""

NEARNESS: Final = (8.0, 64.0)
"""How sharply two of the score's terms ask whether an op fills the budget up."""

NUM_COEFFICIENTS: Final = 4 + len(NEARNESS)
"""Of an op's score: constant, times the share of the budget left, times the stage, times its square; by nearness."""

_NEAR, _NEARER = NEARNESS

NO_BUDGET: Final = np.int64(2**62)
"""Everything fits."""


class OrderSpace(NamedTuple):
    """An order of n ops, and what drawing and splitting it writes to."""

    order: IntArray
    """Shape (n,)."""
    waiting: IntArray
    """Parents that are not ordered yet. Shape (n,)."""
    ready: IntArray
    """Shape (n,)."""
    noise: FloatArray
    """Shape (n,)."""
    prefix: IntArray
    """Weight of the first ops of the order. Shape (n + 1,)."""


def order_space(num_ops: int) -> OrderSpace:
    """Return space for an order of ``num_ops`` ops."""
    order, waiting, ready = (np.zeros(num_ops, dtype=np.int64) for _ in range(3))
    return OrderSpace(
        order=order,
        waiting=waiting,
        ready=ready,
        noise=np.zeros(num_ops),
        prefix=np.zeros(num_ops + 1, dtype=np.int64),
    )


@compiled
def kahn_order_into(graph: SearchGraph, space: OrderSpace) -> None:
    """Write Kahn's first-in-first-out order into ``space``."""
    n = graph.weight.size
    end = 0
    for v in range(n):
        space.waiting[v] = graph.first[n + 2 + v] - graph.first[n + 1 + v]
        if space.waiting[v] == 0:
            space.order[end] = v
            end += 1
    for step in range(n):
        v = space.order[step]
        for r in range(graph.first[v], graph.first[v + 1]):
            c = graph.near[r]
            space.waiting[c] -= 1
            if space.waiting[c] == 0:
                space.order[end] = c
                end += 1


@compiled
def dfs_order_into(graph: SearchGraph, space: OrderSpace) -> None:
    """Write the reversed post-order of a depth-first search from the ops without parents into ``space``."""
    n = graph.weight.size
    at = space.waiting  # the next edge of every op that was reached, -1 for the others
    at[:] = -1
    end = n
    for root in range(n):
        if graph.first[n + 2 + root] != graph.first[n + 1 + root]:
            continue
        depth = 1
        space.ready[0], at[root] = root, graph.first[root]
        while depth > 0:
            v = space.ready[depth - 1]
            if at[v] < graph.first[v + 1]:
                c = graph.near[at[v]]
                at[v] += 1
                if at[c] < 0:
                    space.ready[depth], at[c] = c, graph.first[c]
                    depth += 1
            else:
                depth -= 1
                end -= 1
                space.order[end] = v


@compiled
def draw_order(
    graph: SearchGraph,
    how: int,
    budget: int,
    num_stages: int,
    scores: FloatArray,
    temperature: float,
    gumbel: FloatArray,
    state: Word,
    space: OrderSpace,
    backwards: bool = False,
) -> None:
    """Draw a topological order that fills one stage after the other; a new stage opens where nothing fits any more.

    Args:
        graph: The graph.
        how: `RANDOM`, `FIT` or `SCORED`.
        budget: What a stage may hold; not used by `RANDOM`.
        num_stages: K, for the stage's position in the scores.
        scores: Six coefficients an op, flat: its score is ``a + b left + c at + d at at + e / (1 + 8 room) +
            f / (1 + 64 room)`` with the share of the budget that is left, the stage over the last stage, and the share
            be left with the op. Shape (6 n,); not used but by `SCORED`.
        temperature: Weight of the Gumbel noise that every op's score gets, once an order; 0 is greedy.
        gumbel: `respect_core.solve.local_search_random.gumbel_table`.
        state: Random numbers.
        space: Receives the order.
        backwards: Draw it from the end: an op is ready where all its children are ordered, and the first stage that
            is filled is the last one.
    """
    n = graph.weight.size
    incoming, outgoing = (0, n + 1) if backwards else (n + 1, 0)
    weight, first, near = graph.weight, graph.first, graph.near
    order, waiting, ready, noise = space.order, space.waiting, space.ready, space.noise
    num_ready = 0
    for v in range(n):
        waiting[v] = first[incoming + v + 1] - first[incoming + v]
        if waiting[v] == 0:
            ready[num_ready] = v
            num_ready += 1
    if how == SCORED:
        noise[:] = 0.0
        if temperature > 0:
            for v in range(n):
                noise[v] = temperature * gumbel[np.int64(draw(state) >> np.uint64(52))]
    filled: Int = np.int64(0)
    stage = 0
    for step in range(n):
        at: Int = -1
        if how == RANDOM:
            at = below(state, num_ready)
        elif how == FIT:
            at = _random_fitting(weight, ready, num_ready, budget - filled, state)
        else:
            at = _best_fitting(weight, ready, num_ready, filled, budget, stage, num_stages, scores, noise)
        if at < 0:
            filled, stage = np.int64(0), min(stage + 1, num_stages - 1)
            if how == FIT:
                at = below(state, num_ready)
            else:
                at = _best_fitting(weight, ready, num_ready, filled, NO_BUDGET, stage, num_stages, scores, noise)
        v = int(ready[at])
        filled += weight[v]
        num_ready -= 1
        ready[at] = ready[num_ready]
        order[n - 1 - step if backwards else step] = v
        for r in range(first[outgoing + v], first[outgoing + v + 1]):
            c = near[r]
            waiting[c] -= 1
            if waiting[c] == 0:
                ready[num_ready] = c
                num_ready += 1


@compiled
def _random_fitting(weight: IntArray, ready: IntArray, num_ready: int, room: Int, state: Word) -> Int:
    """Return a position in ``ready`` whose op fits, -1 if there is none; any of them, nearly equally likely."""
    start = below(state, num_ready)
    for i in range(num_ready):
        at = start + i
        if at >= num_ready:
            at -= num_ready
        if weight[ready[at]] <= room:
            return at
    return -1


@compiled
def _best_fitting(
    weight: IntArray,
    ready: IntArray,
    num_ready: int,
    filled: Int,
    budget: Int,
    stage: int,
    num_stages: int,
    scores: FloatArray,
    noise: FloatArray,
) -> Int:
    """Return the position in ``ready`` of the op that fits and has the highest score, -1 if there is none."""
    room = budget - filled
    left = room / max(1, budget)
    at_stage = stage / max(1, num_stages - 1)
    squared = at_stage * at_stage
    best, highest = -1, -np.inf
    for i in range(num_ready):
        v = ready[i]
        if weight[v] <= room:
            row = NUM_COEFFICIENTS * v
            after = (room - weight[v]) / max(1, budget)
            score = scores[row] + left * scores[row + 1] + at_stage * scores[row + 2] + squared * scores[row + 3]
            score += scores[row + 4] / (1 + _NEAR * after) + scores[row + 5] / (1 + _NEARER * after) + noise[v]
            if score > highest:
                best, highest = i, score
    return best


@compiled
def split_at_peak(
    graph: SearchGraph, num_stages: int, space: OrderSpace, stage_of: IntArray, load: IntArray, count: IntArray
) -> None:
    """Cut the order of ``space`` into K non-empty stages with the smallest largest weight, the first ones filled first.

    Args:
        graph: The graph.
        num_stages: K, at most the number of ops.
        space: Holds the order.
        stage_of: Written to: the stage of every op. Shape (n,).
        load: Written to: the weight of every stage. Shape (K,).
        count: Written to: the number of its ops. Shape (K,).
    """
    n = stage_of.size
    order, prefix, weight = space.order, space.prefix, graph.weight
    for p in range(n):
        prefix[p + 1] = prefix[p] + weight[order[p]]
    peak = smallest_peak(prefix, num_stages)
    start = 0
    for k in range(num_stages):
        end, last = start, n - (num_stages - 1 - k)
        while end < last and (end == start or k == num_stages - 1 or prefix[end + 1] - prefix[start] <= peak):
            stage_of[order[end]] = k
            end += 1
        load[k] = prefix[end] - prefix[start]
        count[k] = end - start
        start = end
