"""What the pointer network sees of a graph: one row of fifteen numbers an op."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from respect_core.graph import DnnGraph, IntArray

Float32Array = NDArray[np.float32]

MAX_PARENTS: Final = 6
"""Parents of an op that its row has room for."""

NUM_FEATURES: Final = 2 * MAX_PARENTS + 3
"""Level, the parents' levels, the parents' ids, own id, memory."""

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
    n = graph.num_ops
    order = row_order(graph)
    row_of = np.empty(n, dtype=np.int64)
    row_of[order] = np.arange(n)
    levels = graph.levels
    top = float(levels.max())
    rows = np.empty((n, NUM_FEATURES), dtype=np.float32)
    rows[:, 1 : 1 + MAX_PARENTS] = NO_LEVEL
    rows[:, 1 + MAX_PARENTS : 1 + 2 * MAX_PARENTS] = NO_ID
    rows[:, 0] = levels[order] / top
    for i, v in enumerate(order.tolist()):
        parents = np.array(graph.parents[v], dtype=np.int64)
        if parents.size:
            last_first = np.lexsort((-row_of[parents], -levels[parents]))[:MAX_PARENTS]
            shown = parents[last_first]
            rows[i, 1 : 1 + shown.size] = levels[shown] / top
            rows[i, 1 + MAX_PARENTS : 1 + MAX_PARENTS + shown.size] = row_of[shown] / n
    rows[:, -2] = np.arange(n) / n
    rows[:, -1] = graph.param_bytes[order] / max(1, int(graph.param_bytes.max()))
    return rows


def row_edges(graph: DnnGraph) -> IntArray:
    """Return the graph's edges as (producer row, reader row) pairs. Shape (e, 2)."""
    row_of = np.empty(graph.num_ops, dtype=np.int64)
    row_of[row_order(graph)] = np.arange(graph.num_ops)
    return row_of[graph.edges]
