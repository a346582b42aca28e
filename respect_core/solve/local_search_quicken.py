"""Set moves that lower the larger of two neighbouring stage times, or the sum of all."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.local_search_graph import MOST_TRIES, Int, SearchGraph
from respect_core.solve.local_search_moves import gather
from respect_core.solve.local_search_sets import collect_sets, listed
from respect_core.solve.local_search_time import StageTimes, TimeModel, move_set, stage_time


@compiled
def quicken(
    graph: SearchGraph,
    model: TimeModel,
    stage_of: IntArray,
    times: StageTimes,
    count: IntArray,
    slow: int,
    fast: int,
    slack: int,
    work: IntArray,
) -> bool:
    """Make the move or swap between two neighbouring stages that lowers the longer of their times most.

    Args:
        graph: The graph, its weights the ops' own times.
        model: Its times.
        stage_of: Stage of every op; changed.
        times: Their times; changed.
        count: Ops of every stage; changed.
        slow: The stage that takes longer.
        fast: The stage before or after it.
        slack: Sets whose weight exceeds the difference of the times by more than this are not looked at.
        work: Scratch space.

    Returns:
        Whether anything was moved.
    """
    n = stage_of.size
    weight, first, near, window = graph.weight, graph.first, graph.near, graph.window
    direction = 0 if fast > slow else 1
    old, old_other = times.time[slow], times.time[fast]
    surplus = old - old_other
    limit = surplus + slack
    best, best_other = old, old_other
    best_a, best_b = -1, -1
    num_b = collect_sets(weight, first, near, window, graph.order, stage_of, work, fast, slow, limit, 1)
    num_a = collect_sets(weight, first, near, window, graph.order, stage_of, work, slow, fast, limit, 0)
    in_a, in_b = listed(n, 0), listed(n, 1)
    masks, totals, reaches = 4 * n, 5 * n, 6 * n
    for i in range(in_a, in_a + num_a):
        v = work[i]
        size, _ = gather(weight, first, near, window, stage_of, work, v, direction, limit, 0)
        if size == 0 or size == count[slow]:
            continue
        longer, shorter = _tried(graph, model, stage_of, times, size, 0, slow, fast, work)
        if longer < best or (longer == best and shorter < best_other):
            best, best_other, best_a = longer, shorter, v
    if best_a < 0:
        tries = 0
        for i in range(in_a, in_a + num_a):
            for j in range(in_b, in_b + num_b):
                a, b = work[i], work[j]
                transfer = work[totals + a] - work[totals + b]
                if transfer < 0 or transfer > surplus or tries >= MOST_TRIES:
                    continue
                if work[reaches + a] & work[masks + b] != 0:
                    continue
                tries += 1
                size, _ = gather(weight, first, near, window, stage_of, work, a, direction, limit, 0)
                size_b, _ = gather(weight, first, near, window, stage_of, work, b, 1 - direction, limit, 1)
                if size == 0 or size_b == 0:
                    continue
                longer, shorter = _tried(graph, model, stage_of, times, size, size_b, slow, fast, work)
                if longer < best or (longer == best and shorter < best_other):
                    best, best_other, best_a, best_b = longer, shorter, a, b
    if best_a < 0:
        return False
    size, _ = gather(weight, first, near, window, stage_of, work, best_a, direction, limit, 0)
    size_b = 0
    if best_b >= 0:
        size_b, _ = gather(weight, first, near, window, stage_of, work, best_b, 1 - direction, limit, 1)
        move_set(graph, model, stage_of, times, work, 3 * n, size_b, fast, slow)
    move_set(graph, model, stage_of, times, work, 2 * n, size, slow, fast)
    count[slow] += size_b - size
    count[fast] += size - size_b
    times.time[slow], times.time[fast] = stage_time(model, times, slow), stage_time(model, times, fast)
    return True


@compiled
def _tried(
    graph: SearchGraph,
    model: TimeModel,
    stage_of: IntArray,
    times: StageTimes,
    size: int,
    size_b: int,
    slow: int,
    fast: int,
    work: IntArray,
) -> tuple[int, int]:
    """Return the longer and the shorter time after the sets at hand were moved; they are moved back."""
    n = stage_of.size
    move_set(graph, model, stage_of, times, work, 3 * n, size_b, fast, slow)
    move_set(graph, model, stage_of, times, work, 2 * n, size, slow, fast)
    a, b = stage_time(model, times, slow), stage_time(model, times, fast)
    move_set(graph, model, stage_of, times, work, 2 * n, size, fast, slow)
    move_set(graph, model, stage_of, times, work, 3 * n, size_b, slow, fast)
    return max(a, b), min(a, b)


@compiled
def quicken_all(
    graph: SearchGraph,
    model: TimeModel,
    stage_of: IntArray,
    times: StageTimes,
    count: IntArray,
    slack: int,
    closed: IntArray,
    work: IntArray,
) -> int:
    """Quicken neighbouring stages, the slowest first, until nothing helps; returns the longest time."""
    num_pairs = count.size - 1
    closed[:] = 0
    while True:
        chosen, slowest = -1, np.int64(-1)
        for d in range(num_pairs):
            longer = max(times.time[d], times.time[d + 1])
            if closed[d] == 0 and longer > slowest:
                chosen, slowest = d, longer
        if chosen < 0:
            return int(times.time.max())
        slow, fast = (chosen, chosen + 1) if times.time[chosen] >= times.time[chosen + 1] else (chosen + 1, chosen)
        if quicken(graph, model, stage_of, times, count, slow, fast, slack, work):
            for d in range(max(0, chosen - 1), min(num_pairs, chosen + 2)):
                closed[d] = 0
        else:
            closed[chosen] = 1


@compiled
def lower_latency(
    graph: SearchGraph,
    model: TimeModel,
    stage_of: IntArray,
    times: StageTimes,
    count: IntArray,
    work: IntArray,
) -> None:
    """Move sets to neighbouring stages as long as the sum of all times falls and none exceeds the longest one.

    Args:
        graph: The graph.
        model: Its times.
        stage_of: Stage of every op; changed.
        times: Their times; changed.
        count: Ops of every stage; changed.
        work: Scratch space.
    """
    n, num_stages = stage_of.size, count.size
    weight, first, near, window = graph.weight, graph.first, graph.near, graph.window
    longest: Int = times.time.max()
    again = True
    while again:
        again = False
        for v in range(n):
            for direction in range(2):
                source = stage_of[v]
                target = source + 1 if direction == 0 else source - 1
                if target < 0 or target >= num_stages:
                    continue
                room = longest - times.time[target] + longest // 8  # what is no longer exchanged makes room too
                size, _ = gather(weight, first, near, window, stage_of, work, v, direction, room, 0)
                if size == 0 or size == count[source]:
                    continue
                before = times.time[source] + times.time[target]
                move_set(graph, model, stage_of, times, work, 2 * n, size, source, target)
                a, b = stage_time(model, times, source), stage_time(model, times, target)
                if max(a, b) > longest or a + b >= before:
                    move_set(graph, model, stage_of, times, work, 2 * n, size, target, source)
                    continue
                times.time[source], times.time[target] = a, b
                count[source] -= size
                count[target] += size
                again = True
