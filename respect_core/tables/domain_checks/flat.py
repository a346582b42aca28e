"""Many graphs as a few flat arrays, so that checks of millions of rows need no Python object a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from respect_core.graph import UNKNOWN, IntArray
from respect_core.tables.domain_checks.columns import list_entries, numbers, ranges
from respect_core.tables.graph_rows import GraphTables


@dataclass(frozen=True, kw_only=True, eq=False)
class FlatGraphs:
    """G graphs with N ops, M tensors and R (tensor, reader) pairs in all, each sorted by graph.

    It can be built of tables with mistakes, which the checks of those tables name: rows of unknown graphs, readers
    and producers that are no ops of their graph are left out.
    """

    ids: pa.ChunkedArray
    """Name of every graph. Length G."""
    op_start: IntArray
    """First op of each graph. Shape (G + 1,)."""
    param_bytes: IntArray
    """Shape (N,)."""
    macs: IntArray
    """Shape (N,)."""
    tensor_start: IntArray
    """First tensor of each graph. Shape (G + 1,)."""
    tensor_bytes: IntArray
    """Shape (M,)."""
    producer: IntArray
    """Op within its graph, `UNKNOWN` for a graph input. Shape (M,)."""
    read_start: IntArray
    """First (tensor, reader) pair of each graph. Shape (G + 1,)."""
    read_tensor: IntArray
    """Tensor, counted over all graphs. Shape (R,)."""
    read_op: IntArray
    """Op within its graph. Shape (R,)."""

    @property
    def num_graphs(self) -> int:
        """Number of graphs G."""
        return len(self.op_start) - 1

    @property
    def num_ops(self) -> IntArray:
        """Ops of each graph. Shape (G,)."""
        return np.diff(self.op_start)

    def index_of(self, names: pa.ChunkedArray) -> IntArray:
        """Return the position of graphs of these names, -1 for an unknown one."""
        return np.asarray(pc.fill_null(pc.index_in(names, value_set=self.ids), -1).to_numpy()).astype(np.int64)

    def sums(self, values: IntArray, start: IntArray) -> IntArray:
        """Sum values of ops or tensors a graph. Shape (G,)."""
        out = np.zeros(self.num_graphs, dtype=np.int64)
        np.add.at(out, np.repeat(np.arange(self.num_graphs), np.diff(start)), values)
        return out

    def edges(self) -> tuple[IntArray, IntArray]:
        """Return the distinct (producer op, reader op) pairs, ops counted over all graphs, sorted by producer."""
        graph_of = np.repeat(np.arange(self.num_graphs), np.diff(self.read_start))
        producer = self.producer[self.read_tensor]
        known = producer != UNKNOWN
        base = self.op_start[graph_of[known]]
        num_ops = max(1, self.param_bytes.size)
        pairs = np.sort((base + producer[known]) * num_ops + base + self.read_op[known])
        first = np.append(True, pairs[1:] != pairs[:-1])[: pairs.size]
        pairs = pairs[first]  # far faster than np.unique, which hashes
        return pairs // num_ops, pairs % num_ops


def flatten_graphs(tables: GraphTables) -> FlatGraphs:
    """Lay out the three tables of a set of graphs as flat arrays."""
    ids = tables.graphs["graph_id"]
    unplaced = FlatGraphs(
        **{name: np.zeros(0, np.int64) for name in FlatGraphs.__annotations__ if name != "ids"}, ids=ids
    )
    op_graph, op_rows = _sorted_rows(unplaced, tables.ops, "op_index")
    tensor_graph, tensor_rows = _sorted_rows(unplaced, tables.tensors, "tensor_index")
    op_start, tensor_start = _starts(op_graph, len(ids)), _starts(tensor_graph, len(ids))
    num_ops = np.diff(op_start)
    producer = numbers(tables.tensors, "producer", UNKNOWN)[tensor_rows].astype(np.int64)
    producer[(producer < 0) | (producer >= num_ops[tensor_graph])] = UNKNOWN
    entries, _, lengths = list_entries(tables.tensors, "consumers")
    picked = ranges((np.cumsum(lengths) - lengths)[tensor_rows], lengths[tensor_rows])
    read_op = entries[picked]
    read_tensor = np.repeat(np.arange(tensor_rows.size), lengths[tensor_rows])
    inside = (read_op >= 0) & (read_op < num_ops[tensor_graph[read_tensor]])
    return FlatGraphs(
        ids=ids,
        op_start=op_start,
        param_bytes=numbers(tables.ops, "param_bytes")[op_rows],
        macs=numbers(tables.ops, "macs")[op_rows],
        tensor_start=tensor_start,
        tensor_bytes=numbers(tables.tensors, "tensor_bytes")[tensor_rows],
        producer=producer,
        read_start=_starts(tensor_graph[read_tensor[inside]], len(ids)),
        read_tensor=read_tensor[inside],
        read_op=read_op[inside],
    )


def _sorted_rows(graphs: FlatGraphs, table: pa.Table, index: str) -> tuple[IntArray, IntArray]:
    """Return graph and row of a table's rows, sorted by graph and ``index``, without those of unknown graphs."""
    graph_of = graphs.index_of(table["graph_id"])
    order = np.lexsort((numbers(table, index), graph_of))
    order = order[graph_of[order] >= 0]
    return graph_of[order], order


def _starts(graph_of: IntArray, num_graphs: int) -> IntArray:
    return np.searchsorted(graph_of, np.arange(num_graphs + 1)).astype(np.int64)
