"""The compiled search for the smallest peak: draw an order, split it, improve it by set moves, keep the best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import FloatArray, IntArray
from respect_core.solve.local_search_crossings import communication_of
from respect_core.solve.local_search_graph import Int, SearchGraph
from respect_core.solve.local_search_moves import descend
from respect_core.solve.local_search_orders import (
    OrderSpace,
    dfs_order_into,
    draw_order,
    kahn_order_into,
    split_at_peak,
)
from respect_core.solve.local_search_random import Word, below


class Incumbent(NamedTuple):
    """The best schedule so far."""

    stage_of: IntArray
    """Shape (n,)."""
    value: IntArray
    """Largest weight of a stage, and communication. Shape (2,)."""


class StageSpace(NamedTuple):
    """One start's stages."""

    stage_of: IntArray
    """Shape (n,)."""
    load: IntArray
    """Shape (K,)."""
    num_ops: IntArray
    """Shape (K,)."""
    closed: IntArray
    """Shape (K,)."""


NOT_FOUND = np.int64(2**62)


def no_incumbent(num_ops: int) -> Incumbent:
    """Return an incumbent that every schedule beats."""
    return Incumbent(stage_of=np.zeros(num_ops, dtype=np.int64), value=np.full(2, NOT_FOUND))


def stage_space(num_ops: int, num_stages: int) -> StageSpace:
    """Return space for the stages of one start."""
    load, count, closed = (np.zeros(num_stages, dtype=np.int64) for _ in range(3))
    return StageSpace(stage_of=np.zeros(num_ops, dtype=np.int64), load=load, num_ops=count, closed=closed)


@compiled
def offer(graph: SearchGraph, stages: StageSpace, peak: Int, best: Incumbent) -> None:
    """Keep a schedule if it is better than the incumbent: smaller peak, or the same with less communication."""
    if peak > best.value[0]:
        return
    communication = communication_of(graph, stages.stage_of)
    if peak < best.value[0] or communication < best.value[1]:
        best.value[0], best.value[1] = peak, communication
        for v in range(stages.stage_of.size):
            best.stage_of[v] = stages.stage_of[v]


@compiled
def search_peak(
    graph: SearchGraph,
    num_stages: int,
    bound: int,
    from_space: bool,
    simple: bool,
    how: int,
    scores: FloatArray,
    temperature: float,
    backwards: bool,
    greedy_budgets: IntArray,
    num_starts: int,
    improve: bool,
    gumbel: FloatArray,
    state: Word,
    space: OrderSpace,
    stages: StageSpace,
    work: IntArray,
    best: Incumbent,
) -> int:
    """Make some starts and keep the best schedule.

    The budget of a start's stages is drawn in the upper half of [``bound``, incumbent's peak - 1]. Sets that are far
    heavier than what a pair of stages differs by are left out of account: the time of a start then hardly depends on
    the size of a stage.

    Args:
        graph: The graph.
        num_stages: K.
        bound: Lower bound on the peak; the search ends where it is reached.
        from_space: Whether to begin with the order that is in ``space``.
        simple: Whether to go on with the orders of a depth-first and a breadth-first search.
        how: `RANDOM`, `FIT` or `SCORED`.
        scores: See `draw_order`.
        temperature: See `draw_order`.
        backwards: See `draw_order`.
        greedy_budgets: Budgets of greedy starts (temperature 0) that are made next.
        num_starts: Starts after those.
        improve: Whether the splits are improved by set moves.
        gumbel: See `draw_order`.
        state: Random numbers.
        space: Space for an order.
        stages: Space for its stages.
        work: Space for set moves.
        best: The best schedule so far; replaced by better ones.

    Returns:
        Number of starts made.
    """
    weight, first, near, window = graph.weight, graph.first, graph.near, graph.window
    order = graph.order
    stage_of, load, count, closed = stages.stage_of, stages.load, stages.num_ops, stages.closed
    slack = 2 * weight.max()
    num_given = 1 if from_space else 0
    num_simple = num_given + (2 if simple else 0)
    first_drawn = num_simple + greedy_budgets.size
    for start in range(first_drawn + num_starts):
        if best.value[0] <= bound:
            return start
        if start < num_given:
            pass
        elif start < num_simple:
            if start == num_given:
                dfs_order_into(graph, space)
            else:
                kahn_order_into(graph, space)
        elif start < first_drawn:
            budget = greedy_budgets[start - num_simple]
            draw_order(graph, how, budget, num_stages, scores, 0.0, gumbel, state, space, backwards)
        else:
            budget = next_budget(bound, best.value[0], state)
            draw_order(graph, how, budget, num_stages, scores, temperature, gumbel, state, space, backwards)
        split_at_peak(graph, num_stages, space, stage_of, load, count)
        peak: Int = 0
        if improve:
            peak = descend(weight, first, near, window, order, stage_of, work, load, count, closed, bound, slack)
        else:
            peak = load.max()
        offer(graph, stages, peak, best)
    return first_drawn + num_starts


@compiled
def next_budget(bound: int, value: Int, state: Word) -> int:
    """Draw a budget in the upper half of [``bound``, ``value`` - 1]; a sixteenth above the bound without a value."""
    if value >= NOT_FOUND:
        return bound + bound // 16
    low = bound + (value - bound) // 2
    return int(low + below(state, int(max(np.int64(1), value - low))))
