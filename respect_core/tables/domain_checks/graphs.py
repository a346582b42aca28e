"""Rules of the tables `graphs`, `ops` and `tensors`: the three agree, and every graph is a legal one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from respect_core.graph import BoolArray, IntArray
from respect_core.tables.domain_checks.columns import (
    DomainColumns,
    holds,
    is_null,
    list_entries,
    numbers,
    ranges,
    unique_in_graph,
)
from respect_core.tables.domain_checks.flat import flatten_graphs
from respect_core.tables.graph_rows import GraphTables


def graph_checks(tables: GraphTables) -> DomainColumns:
    """Check every graph against its ops and tensors.

    Returns:
        For every row of ``tables.graphs``: it is acyclic, and its counts, sums, depth and largest in-degree are those
        of its ops and tensors.
    """
    flat, graphs = flatten_graphs(tables), tables.graphs
    producers, readers = flat.edges()
    op_graph = np.repeat(np.arange(flat.num_graphs), flat.num_ops)
    in_degree = np.bincount(readers, minlength=flat.param_bytes.size)
    level = _levels(producers, readers, in_degree)
    acyclic = np.ones(flat.num_graphs, dtype=np.bool_)
    acyclic[op_graph[level == 0]] = False
    depth, widest = np.zeros(flat.num_graphs, dtype=np.int64), np.zeros(flat.num_graphs, dtype=np.int64)
    np.maximum.at(depth, op_graph, level - 1)
    np.maximum.at(widest, op_graph, in_degree)
    found = {
        "num_ops": flat.num_ops,
        "num_tensors": np.diff(flat.tensor_start),
        "num_edges": np.bincount(op_graph[producers], minlength=flat.num_graphs),
        "max_in_degree": widest,
        "param_bytes": flat.sums(flat.param_bytes, flat.op_start),
        "macs": flat.sums(flat.macs, flat.op_start),
        "tensor_bytes": flat.sums(flat.tensor_bytes, flat.tensor_start),
    }
    columns = {f"{name}_recounted": holds(numbers(graphs, name) == value) for name, value in found.items()}
    columns["depth_recounted"] = holds(numbers(graphs, "depth") == depth, acyclic)
    return DomainColumns(columns={"acyclic": holds(acyclic), **columns})


def _levels(producers: IntArray, readers: IntArray, in_degree: IntArray) -> IntArray:
    """Return the ops on the longest path that ends in each op, 0 for ops on or behind a cycle."""
    waiting = in_degree.copy()
    level = np.zeros(waiting.size, dtype=np.int64)
    start = np.searchsorted(producers, np.arange(waiting.size + 1))
    ready, depth = np.flatnonzero(waiting == 0), 1
    while ready.size:
        level[ready] = depth
        freed, times = np.unique(readers[ranges(start[ready], start[ready + 1] - start[ready])], return_counts=True)
        waiting[freed] -= times
        ready, depth = freed[waiting[freed] == 0], depth + 1
    return level


def op_checks(ops: pa.Table, graphs: pa.Table) -> DomainColumns:
    """Check every op: its graph exists, its index is one of the graph's, its name is unique and not empty."""
    known, num_ops = _looked_up(ops, graphs, "num_ops")
    return DomainColumns(
        columns={
            "graph_known": holds(known),
            "op_index_in_graph": holds(numbers(ops, "op_index") < num_ops, known),
            "op_name_unique": unique_in_graph(ops, "op_name"),
            "op_name_not_empty": _not_empty(ops, "op_name"),
        }
    )


def tensor_checks(tensors: pa.Table, graphs: pa.Table) -> DomainColumns:
    """Check every tensor: its ops are ops of its graph, consumers ascend, nobody reads its own output."""
    known, num_ops = _looked_up(tensors, graphs, "num_ops")
    _, num_tensors = _looked_up(tensors, graphs, "num_tensors")
    producer = numbers(tensors, "producer", -1)
    entries, rows, lengths = list_entries(tensors, "consumers")
    outside = np.bincount(rows[(entries < 0) | (entries >= num_ops[rows])], minlength=lengths.size)
    falling = np.flatnonzero((rows[1:] == rows[:-1]) & (entries[1:] <= entries[:-1]))
    own = np.bincount(rows[entries == producer[rows]], minlength=lengths.size)
    made = ~is_null(tensors, "producer")
    return DomainColumns(
        columns={
            "graph_known": holds(known),
            "tensor_index_in_graph": holds(numbers(tensors, "tensor_index") < num_tensors, known),
            "tensor_name_unique": unique_in_graph(tensors, "tensor_name"),
            "tensor_name_not_empty": _not_empty(tensors, "tensor_name"),
            "producer_in_graph": holds((producer >= 0) & (producer < num_ops), known & made),
            "consumers_in_graph": holds(outside == 0, known),
            "consumers_ascending": holds(np.bincount(rows[falling], minlength=lengths.size) == 0),
            "not_its_own_reader": holds(own == 0, made),
        }
    )


def _looked_up(table: pa.Table, graphs: pa.Table, column: str) -> tuple[BoolArray, IntArray]:
    """Return which rows' graphs exist, and a number of each row's graph (0 where it does not)."""
    index = np.asarray(pc.fill_null(pc.index_in(table["graph_id"], value_set=graphs["graph_id"]), -1).to_numpy())
    padded = np.append(numbers(graphs, column), 0)
    return index >= 0, padded[index]


def _not_empty(table: pa.Table, name: str) -> pa.Array:
    filled = pc.fill_null(pc.greater(pc.utf8_length(table[name]), 0), False)
    return holds(np.asarray(filled.to_numpy()))
