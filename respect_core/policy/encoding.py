"""What the pointer network sees of a graph: one row of fifteen numbers an op."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from respect_core.compiled import compiled
from respect_core.graph import DnnGraph, IntArray

Float32Array = NDArray[np.float32]

MAX_PARENTS: Final = 6
"""Parents of an op that its row has room for."""

NUM_FEATURES: Final = 2 * MAX_PARENTS + 3
"""Level, the parents' levels, the parents' ids, own id, memory."""

FILLED_RATES: Final = (10.0, 50.0)
"""How fast the last shares fall with the room that an op leaves in its stage, in budgets."""

FILLED_WEIGHT: Final = 3.0
"""What these shares are where it leaves none."""

NUM_SHARES: Final = 2 + len(FILLED_RATES)
"""Own share of the budget, share with the stage, and how exactly the stage is filled."""

NO_LEVEL: Final = 0.0
NO_ID: Final = -1.0


def row_order(graph: DnnGraph) -> IntArray:
    """Return the op of every row: the topological order that takes the smallest ready index first. Shape (n,).

    RESPECT shuffles its rows. In topological order the recurrent encoder has read the parents of an op before the op
    itself, and the ids of the rows mean something, so that fewer graphs are needed to learn.
    """
    return graph.topological_order


def node_features(graph: DnnGraph) -> Float32Array:
    """Describe every op as RESPECT does, scaled so that graphs of any size give numbers of one range.

    The columns, for the op in row i of `row_order`:

    - 0: its topological level (ops on the longest path that ends in it), divided by the largest of the graph;
    - 1..6: the levels of up to six parents on the same scale, largest first, `NO_LEVEL` where there are fewer;
    - 7..12: the rows of these parents divided by n, `NO_ID` where there are fewer;
    - 13: its own row i divided by n;
    - 14: its parameter bytes divided by the largest of the graph, 0 where no op has parameters.

    An op with more than six parents shows the six with the largest level (then the largest row): they are the ones
    that decide when it can run. Dividing the bytes by their mean instead lets one heavy op of a large network leave
    the range seen in training, so the largest is used. The number of stages is not shown, as in RESPECT: one order
    serves all K.

    Returns:
        Shape (n, 15); all finite, all within [-1, 1].
    """
    return features_of_rows(row_edges(graph), graph.param_bytes[row_order(graph)])


@compiled
def features_of_rows(edges: IntArray, param_bytes: IntArray) -> Float32Array:
    """Return `node_features` of rows that stand in a topological order.

    Args:
        edges: (producer row, reader row) pairs. Shape (e, 2).
        param_bytes: Shape (n,).
    """
    n = param_bytes.size
    start = np.zeros(n + 1, np.int64)
    for e in range(edges.shape[0]):
        start[edges[e, 1] + 1] += 1
    for i in range(n):
        start[i + 1] += start[i]
    free, parents = start.copy(), np.empty(edges.shape[0], np.int64)
    for e in range(edges.shape[0]):
        parents[free[edges[e, 1]]] = edges[e, 0]
        free[edges[e, 1]] += 1
    levels, top, largest = np.ones(n, np.int64), 1, np.int64(1)
    for i in range(n):
        for at in range(start[i], start[i + 1]):
            levels[i] = max(levels[i], levels[parents[at]] + 1)
        top, largest = max(top, levels[i]), max(largest, param_bytes[i])
    rows = np.empty((n, NUM_FEATURES), np.float32)
    for i in range(n):
        rows[i, 0] = levels[i] / top
        shown = min(MAX_PARENTS, start[i + 1] - start[i])
        for place in range(shown):  # a selection sort of the few parents: the last level first, then the last row
            best = start[i] + place
            for at in range(best + 1, start[i + 1]):
                one, other = parents[at], parents[best]
                if levels[one] > levels[other] or (levels[one] == levels[other] and one > other):
                    best = at
            parents[start[i] + place], parents[best] = parents[best], parents[start[i] + place]
            rows[i, 1 + place] = levels[parents[start[i] + place]] / top
            rows[i, 1 + MAX_PARENTS + place] = parents[start[i] + place] / n
        for place in range(shown, MAX_PARENTS):
            rows[i, 1 + place] = NO_LEVEL
            rows[i, 1 + MAX_PARENTS + place] = NO_ID
        rows[i, NUM_FEATURES - 2] = i / n
        rows[i, NUM_FEATURES - 1] = param_bytes[i] / largest
    return rows


def row_edges(graph: DnnGraph) -> IntArray:
    """Return the graph's edges as (producer row, reader row) pairs. Shape (e, 2)."""
    row_of = np.empty(graph.num_ops, dtype=np.int64)
    row_of[row_order(graph)] = np.arange(graph.num_ops)
    return row_of[graph.edges]
