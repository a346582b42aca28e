"""The arrays that the compiled local search walks over, and their scratch space."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from respect_core.graph import DnnGraph, IntArray
from respect_core.solve.order_arrays import order_arrays

Int: TypeAlias = Any
"""A whole number, of Python or of NumPy: compiled loops mix them."""

MOST_OPS: Final = 24
"""Larger sets are not moved: they are heavy, or long chains of which a part moves as well."""

MOST_TRIES: Final = 96
"""Exchanges of one pair of stages that are timed at most before it counts as even."""

MOST_SETS: Final = 64
"""Of a stage, so many ops that may leave it are looked at: the bits of a word."""

MOST_PAIRS: Final = 64
"""So many pairs of a stage's sets are looked at in exchanges: all in small stages, and few enough in large ones."""

SIDE_SPACE: Final = 2 * MOST_SETS
"""Of one stage, the op of every bit, and the ops whose sets may leave it."""

UP, DOWN = 0, 1
"""Towards later stages, along the edges to children; towards earlier ones, along the edges to parents."""


class SearchGraph(NamedTuple):
    """A graph of n ops, e edges and m tensors, in flat arrays: taking rows of arrays costs compiled loops time.

    The neighbours of op v in direction d lie in ``near[first[d * (n + 1) + v]:first[d * (n + 1) + v + 1]]``: its
    children for `UP`, its parents for `DOWN`. Of other compressed rows, the entries of row i lie in
    ``x[x_start[i]:x_start[i + 1]]``.
    """

    weight: IntArray
    """What the stages share out: parameter bytes of every op, or its time in ns. Shape (n,)."""
    first: IntArray
    """Shape (2 (n + 1),)."""
    near: IntArray
    """Shape (2 e,)."""
    order: IntArray
    """A topological order of the ops. Shape (n,)."""
    window: IntArray
    """Earliest stage that each op may be moved to, then the latest one of each. Shape (2 n,)."""
    made_start: IntArray
    made: IntArray
    """Tensors that each op makes."""
    read_start: IntArray
    read: IntArray
    """Tensors that each op reads."""
    tensor_producer: IntArray
    """Shape (m,); negative for a graph input."""
    tensor_bytes: IntArray
    """Shape (m,)."""
    reader_start: IntArray
    reader: IntArray
    """Ops that read each tensor."""


def search_graph(graph: DnnGraph, weight: IntArray | None = None) -> SearchGraph:
    """Compute the arrays of a graph; they are kept with the graph.

    Args:
        graph: The graph.
        weight: What the stages share out. Shape (n,). The parameter bytes if None.
    """
    found = graph.__dict__.get("_search_graph")
    if not isinstance(found, SearchGraph):
        found = _arrays(graph)
        object.__setattr__(graph, "_search_graph", found)
    return found if weight is None else found._replace(weight=np.array(weight, dtype=np.int64))


def turned_round(arrays: SearchGraph) -> SearchGraph:
    """Return the arrays with every edge turned round; orders of it, read backwards, are orders of the graph.

    Windows and tensors stay as they are: it is a graph to draw orders of, not to move sets in.
    """
    n, edges = arrays.weight.size, arrays.near.size // 2
    first, near = arrays.first, arrays.near
    return arrays._replace(
        first=np.concatenate([first[n + 1 :] - edges, first[: n + 1] + edges]),
        near=np.concatenate([near[edges:], near[:edges]]),
    )


def _arrays(graph: DnnGraph) -> SearchGraph:
    rows, edges = order_arrays(graph), graph.edges
    parent_first = np.zeros(graph.num_ops + 1, dtype=np.int64)
    np.cumsum(rows.num_parents, out=parent_first[1:])
    by_reader = np.argsort(edges[:, 1], kind="stable")
    tensors, readers = graph.reads
    reader_start = np.zeros(graph.num_tensors + 1, dtype=np.int64)
    np.cumsum(np.bincount(tensors, minlength=graph.num_tensors), out=reader_start[1:])
    return SearchGraph(
        weight=np.array(graph.param_bytes, dtype=np.int64),
        first=np.concatenate([rows.child_start, parent_first + len(edges)]),
        near=np.concatenate([rows.child, edges[by_reader, 0]]),
        order=np.array(graph.topological_order, dtype=np.int64),
        window=np.repeat(np.array([0, graph.num_ops]), graph.num_ops),
        made_start=rows.made_start,
        made=rows.made,
        read_start=rows.read_start,
        read=rows.read,
        tensor_producer=np.array(graph.tensor_producer, dtype=np.int64),
        tensor_bytes=np.array(graph.tensor_bytes, dtype=np.int64),
        reader_start=reader_start,
        reader=np.array(readers, dtype=np.int64),
    )


def work_for(graph: SearchGraph) -> IntArray:
    """Return scratch space for set moves, of shape (8 n + 1 + 2 `SIDE_SPACE` + m,).

    In this order: for two sets marks and ops, n each; of the set that leaves with each op its bits, weight, bits that
    edges lead to, and the op's own bit, n each; the last mark given; lists of the ops of two stages; a mark a tensor.
    """
    return np.zeros(8 * graph.weight.size + 1 + 2 * SIDE_SPACE + graph.tensor_bytes.size, dtype=np.int64)
