"""The compiled search for the shortest longest stage time: draw an order, split it, improve it, keep the best."""

from __future__ import annotations

from typing import Final

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import FloatArray, IntArray
from respect_core.solve.local_search_graph import Int, SearchGraph
from respect_core.solve.local_search_moves import descend
from respect_core.solve.local_search_orders import (
    OrderSpace,
    dfs_order_into,
    draw_order,
    kahn_order_into,
    split_at_peak,
)
from respect_core.solve.local_search_peak import Incumbent, StageSpace
from respect_core.solve.local_search_quicken import lower_latency, quicken_all
from respect_core.solve.local_search_random import Word, below
from respect_core.solve.local_search_time import StageTimes, TimeModel, count_times
from respect_core.solve.split_loops import INFINITE, fastest_split

MOST_SPLIT_OPS: Final = 2000
"""In larger graphs, cutting an order by stage times would take longer than everything else."""


@compiled
def offer_times(stage_of: IntArray, times: StageTimes, best: Incumbent) -> None:
    """Keep a schedule if it is better than the incumbent: shorter longest time, or the same with less latency."""
    longest, latency = times.time.max(), times.time.sum()
    if longest < best.value[0] or (longest == best.value[0] and latency < best.value[1]):
        best.value[0], best.value[1] = longest, latency
        for v in range(stage_of.size):
            best.stage_of[v] = stage_of[v]


@compiled
def improve_times(
    graph: SearchGraph,
    model: TimeModel,
    stages: StageSpace,
    times: StageTimes,
    work: IntArray,
    best: Incumbent,
) -> None:
    """Improve the schedule in ``stages`` by set moves and offer it before and after."""
    count_times(graph, model, stages.stage_of, times)
    offer_times(stages.stage_of, times, best)
    slack = 2 * graph.weight.max()
    longest = quicken_all(graph, model, stages.stage_of, times, stages.num_ops, slack, stages.closed, work)
    if longest <= best.value[0]:
        lower_latency(graph, model, stages.stage_of, times, stages.num_ops, work)
    offer_times(stages.stage_of, times, best)


@compiled
def split_by_time(
    graph: SearchGraph,
    model: TimeModel,
    limit: Int,
    space: OrderSpace,
    stage_of: IntArray,
    load: IntArray,
    count: IntArray,
) -> bool:
    """Cut the order of ``space`` so that the longest stage time is smallest; False where it would exceed ``limit``."""
    n, m, num_stages = stage_of.size, graph.tensor_bytes.size, load.size
    position, last = np.empty(n, np.int64), np.full(m, -1, np.int64)
    for p in range(n):
        position[space.order[p]] = p
    for t in range(m):
        for r in range(graph.reader_start[t], graph.reader_start[t + 1]):
            last[t] = max(last[t], position[graph.reader[r]])
    value, bounds = fastest_split(
        space.order,
        position,
        last,
        graph.tensor_producer,
        model.is_output,
        graph.read_start,
        graph.read,
        graph.made_start,
        graph.made,
        model.is_input_op,
        model.op_ns.reshape(3, n),
        model.tensor_ns.reshape(3, m),
        model.scalars,
        np.ones(n + 1, np.bool_),
        np.full((num_stages, n), n, np.int64),
        num_stages,
        limit,
        False,
    )
    if value == INFINITE:
        return False
    for k in range(num_stages):
        count[k], load[k] = bounds[k + 1] - bounds[k], 0
        for p in range(bounds[k], bounds[k + 1]):
            stage_of[space.order[p]] = k
            load[k] += graph.weight[space.order[p]]
    return True


@compiled
def search_times(
    graph: SearchGraph,
    model: TimeModel,
    num_stages: int,
    bound: int,
    from_space: bool,
    simple: bool,
    how: int,
    scores: FloatArray,
    temperature: float,
    backwards: bool,
    greedy_budgets: IntArray,
    asked: int,
    num_starts: int,
    improve: bool,
    gumbel: FloatArray,
    state: Word,
    space: OrderSpace,
    stages: StageSpace,
    times: StageTimes,
    work: IntArray,
    best: Incumbent,
) -> int:
    """Make some starts and keep the best schedule.

    An order is drawn by the ops' own times, which leave out what the stages exchange, and split by the whole stage
    times (by the ops' own in graphs of more than `MOST_SPLIT_OPS` ops, and where no split comes near the incumbent).
    Every other start first evens the ops' own times out.

    Args:
        graph: The graph; its weights are the ops' own times in ns.
        model: Its times.
        num_stages: K.
        bound: Lower bound on the largest sum of the ops' own times of a stage.
        from_space: See `respect_core.solve.local_search_peak.search_peak`.
        simple: Likewise.
        how: Likewise.
        scores: Likewise.
        temperature: Likewise.
        backwards: Likewise.
        greedy_budgets: Likewise.
        asked: Budget of the orders that are drawn; 0 draws one for each, up to an eighth above ``bound``.
        num_starts: Likewise.
        improve: Likewise.
        gumbel: Likewise.
        state: Likewise.
        space: Likewise.
        stages: Likewise.
        times: Space for the times of the stages.
        work: Likewise.
        best: Likewise; its value is the longest time and the latency.

    Returns:
        Number of starts made.
    """
    weight, first, near, window = graph.weight, graph.first, graph.near, graph.window
    stage_of, load, count = stages.stage_of, stages.load, stages.num_ops
    num_given = 1 if from_space else 0
    num_simple = num_given + (2 if simple else 0)
    first_drawn = num_simple + greedy_budgets.size
    slack = 2 * graph.weight.max()
    for start in range(first_drawn + num_starts):
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
            budget = np.int64(asked)
            if asked == 0:
                budget += bound + below(state, max(1, min(2**30, bound // 8)))
            draw_order(graph, how, budget, num_stages, scores, temperature, gumbel, state, space, backwards)
        limit = np.int64(INFINITE - 1)
        if best.value[0] < INFINITE:
            limit = best.value[0] + best.value[0] // 8  # what is slower by more is hardly worth improving
        if stage_of.size > MOST_SPLIT_OPS or not split_by_time(graph, model, limit, space, stage_of, load, count):
            split_at_peak(graph, num_stages, space, stage_of, load, count)
        if improve:
            count_times(graph, model, stage_of, times)
            offer_times(stage_of, times, best)
        if improve and start % 2 == 1:
            descend(weight, first, near, window, graph.order, stage_of, work, load, count, stages.closed, bound, slack)
        if improve:
            improve_times(graph, model, stages, times, work, best)
        else:
            count_times(graph, model, stages.stage_of, times)
            offer_times(stages.stage_of, times, best)
    return first_drawn + num_starts
