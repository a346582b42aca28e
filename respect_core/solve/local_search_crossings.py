"""Communication of a stage vector, and set moves that lower it while no stage grows beyond a budget."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.local_search_graph import SIDE_SPACE, Int, SearchGraph
from respect_core.solve.local_search_moves import gather, put


@compiled
def crossing_of(graph: SearchGraph, stage_of: IntArray, tensor: int) -> Int:
    """Return a tensor's bytes times the boundaries it crosses."""
    producer = graph.tensor_producer[tensor]
    if producer < 0:
        return np.int64(0)
    last = stage_of[producer]
    for r in range(graph.reader_start[tensor], graph.reader_start[tensor + 1]):
        last = max(last, stage_of[graph.reader[r]])
    crossed: Int = graph.tensor_bytes[tensor] * (last - stage_of[producer])
    return crossed


@compiled
def communication_of(graph: SearchGraph, stage_of: IntArray) -> Int:
    """Return the sum of the boundary bytes."""
    total = np.int64(0)
    for tensor in range(graph.tensor_bytes.size):
        total += crossing_of(graph, stage_of, tensor)
    return total


@compiled
def _touched_crossings(graph: SearchGraph, stage_of: IntArray, size: int, work: IntArray) -> Int:
    """Return the crossings of all tensors that the ops of the set at hand make or read."""
    n = stage_of.size
    work[8 * n] += 1
    mark = work[8 * n]
    touched = 8 * n + 1 + 2 * SIDE_SPACE
    total = np.int64(0)
    for i in range(size):
        v = work[2 * n + i]
        for r in range(graph.made_start[v], graph.made_start[v + 1]):
            if work[touched + graph.made[r]] != mark:
                work[touched + graph.made[r]] = mark
                total += crossing_of(graph, stage_of, graph.made[r])
        for r in range(graph.read_start[v], graph.read_start[v + 1]):
            if work[touched + graph.read[r]] != mark:
                work[touched + graph.read[r]] = mark
                total += crossing_of(graph, stage_of, graph.read[r])
    return total


@compiled
def lower_communication(
    graph: SearchGraph, stage_of: IntArray, load: IntArray, count: IntArray, budget: int, work: IntArray
) -> Int:
    """Move sets to neighbouring stages as long as the communication falls.

    Args:
        graph: The graph.
        stage_of: Stage of every op; changed.
        load: Weight of every stage, none above ``budget``; changed.
        count: Ops of every stage; changed.
        budget: No stage gets heavier.
        work: Scratch space.

    Returns:
        By how much the communication fell.
    """
    n, num_stages = stage_of.size, load.size
    weight, first, near, window = graph.weight, graph.first, graph.near, graph.window
    gained = np.int64(0)
    again = True
    while again:
        again = False
        for v in range(n):
            for direction in range(2):
                source = stage_of[v]
                target = source + 1 if direction == 0 else source - 1
                if target < 0 or target >= num_stages:
                    continue
                size, total = gather(
                    weight, first, near, window, stage_of, work, v, direction, budget - load[target], 0
                )
                if size == 0 or size == count[source]:
                    continue
                before = _touched_crossings(graph, stage_of, size, work)
                put(stage_of, work, 0, size, target)
                after = _touched_crossings(graph, stage_of, size, work)
                if after >= before:
                    put(stage_of, work, 0, size, source)
                    continue
                load[source] -= total
                load[target] += total
                count[source] -= size
                count[target] += size
                gained += before - after
                again = True
    return gained
