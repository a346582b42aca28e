"""Many synthetic graphs at once: straight from drawn numbers to the rows of the tables, no object a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from respect_core.compiled import compiled
from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph, IntArray
from respect_core.sources.synthetic import (
    FEWEST_LEVELS,
    MACS_PER_BYTE,
    MOST_DRAWS,
    MOST_LEVELS,
    WINDOW,
    SyntheticSpec,
    generate_graph,
    graph_id,
    seed_words,
    undrawable,
)
from respect_core.sources.synthetic_loops import MAX_IN_DEGREE, NUMBERS_PER_GRAPH, NUMBERS_PER_OP, draw
from respect_core.tables.graph_rows import GraphTables
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.ops import OPS
from respect_core.tables.tensors import TENSORS


def generate_tables(spec: SyntheticSpec, indices: Sequence[int]) -> GraphTables:
    """Draw graphs and lay them out as rows.

    Args:
        spec: Family, size and seed.
        indices: Numbers of the graphs, at least one.

    Returns:
        The same tables as `graphs_to_tables` of `generate_graph(spec, i)` for every i.

    Raises:
        BadInputError: No index, one out of range, or a graph that could not be drawn.
    """
    if not len(indices):
        raise BadInputError("synthetic graphs were asked for without the number of any")
    by_id = sorted((graph_id(spec, index), index) for index in indices)
    parents, numbers = draw_graphs(spec, [index for _, index in by_id])
    ids = pa.array([name for name, _ in by_id], pa.string())
    like = generate_graph(spec, by_id[0][1])  # names, kinds and what is not drawn are the same in every graph
    return GraphTables(
        graphs=_graph_rows(spec, ids, parents, numbers),
        ops=_op_rows(like, ids, numbers),
        tensors=_tensor_rows(like, ids, parents, numbers),
    )


def draw_graphs(spec: SyntheticSpec, indices: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Draw the numbers of G graphs of n ops; every graph depends on its index alone.

    Returns:
        Ascending parents of every op, -1 beyond them, shape (G, n, 6); and level, parameter bytes and tensor bytes of
        every op, shape (G, 3, n).

    Raises:
        BadInputError: A `paper` graph was not found in `MOST_DRAWS` draws.
    """
    n, count = spec.num_ops, len(indices)
    window = n if spec.family == "wide" else WINDOW
    fewest, most = (FEWEST_LEVELS, MOST_LEVELS) if spec.family == "paper" else (1, n)
    parents = np.empty((count, n, MAX_IN_DEGREE), dtype=np.int64)
    numbers = np.empty((count, 3, n), dtype=np.int64)
    uniform = np.empty(NUMBERS_PER_GRAPH + NUMBERS_PER_OP * n)
    for at, index in enumerate(indices):
        rng = np.random.default_rng(seed_words(spec, index))
        for _ in range(MOST_DRAWS):
            rng.random(out=uniform)
            if fewest <= draw(uniform, window, parents[at], numbers[at]) <= most:
                break
        else:
            raise undrawable(graph_id(spec, index), n)
    return parents, numbers


@compiled
def readers_of(parents: IntArray) -> tuple[IntArray, IntArray]:
    """Turn parents round.

    Args:
        parents: Ascending parents of every op, -1 beyond them. Shape (G, n, 6).

    Returns:
        Where the readers of each op start, counted over all graphs, shape (G n + 1,), and the readers, indices within
        their graph, ascending.
    """
    graphs, n, most = parents.shape
    start = np.zeros(graphs * n + 1, np.int64)
    for g in range(graphs):
        for v in range(n):
            for j in range(most):
                if parents[g, v, j] < 0:
                    break
                start[g * n + parents[g, v, j] + 1] += 1
    for at in range(graphs * n):
        start[at + 1] += start[at]
    free = start.copy()
    readers = np.empty(start[graphs * n], np.int64)
    for g in range(graphs):
        for v in range(n):
            for j in range(most):
                if parents[g, v, j] < 0:
                    break
                maker = g * n + parents[g, v, j]
                readers[free[maker]] = v
                free[maker] += 1
    return start, readers


def _graph_rows(spec: SyntheticSpec, ids: pa.Array, parents: IntArray, numbers: IntArray) -> pa.Table:
    count, n = len(ids), spec.num_ops
    in_degree = (parents >= 0).sum(axis=2)
    param_bytes = numbers[:, 1].sum(axis=1)
    return GRAPHS.table_of(
        {
            "graph_id": ids,
            "source": pa.repeat("synthetic", count),
            "family": pa.repeat(spec.family, count),
            "num_ops": np.full(count, n),
            "num_tensors": np.full(count, n),
            "num_edges": in_degree.sum(axis=1),
            "depth": numbers[:, 0].max(axis=1) - 1,
            "max_in_degree": in_degree.max(axis=1),
            "param_bytes": param_bytes,
            "macs": param_bytes * MACS_PER_BYTE,
            "tensor_bytes": numbers[:, 2].sum(axis=1),
        },
    )


def _op_rows(like: DnnGraph, ids: pa.Array, numbers: IntArray) -> pa.Table:
    count, n = len(ids), like.num_ops
    param_bytes = numbers[:, 1].ravel()
    return OPS.table_of(
        {
            **_keys(ids, "op_index", n),
            "op_name": _repeated(like.op_names, count),
            "kind": _repeated(like.op_kinds, count),
            "param_bytes": param_bytes,
            "macs": param_bytes * MACS_PER_BYTE,
            "compiled_bytes": pa.nulls(count * n, pa.int64()),
            "always_streamed_bytes": np.zeros(count * n, dtype=np.int64),
            "time_us": pa.nulls(count * n, pa.float64()),
        },
    )


def _tensor_rows(like: DnnGraph, ids: pa.Array, parents: IntArray, numbers: IntArray) -> pa.Table:
    count, n = len(ids), like.num_ops
    start, readers = readers_of(parents)
    consumers = pa.ListArray.from_arrays(
        pa.array(start, pa.int64()).cast(pa.int32()), pa.array(readers, pa.int64()).cast(pa.int32())
    )
    return TENSORS.table_of(
        {
            **_keys(ids, "tensor_index", n),
            "tensor_name": _repeated(like.tensor_names, count),
            "tensor_bytes": numbers[:, 2].ravel(),
            "producer": np.tile(np.arange(n), count),
            "consumers": consumers,
            "is_output": start[1:] == start[:-1],
        },
    )


def _keys(ids: pa.Array, index: str, n: int) -> dict[str, Any]:
    """Return graph and index of n rows a graph."""
    count = len(ids)
    return {"graph_id": ids.take(pa.array(np.repeat(np.arange(count), n))), index: np.tile(np.arange(n), count)}


def _repeated(names: Sequence[str], times: int) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(len(names)), times)))
