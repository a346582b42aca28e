"""A graph's arrays as the compiled loops over topological orders want them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph, IntArray


@dataclass(frozen=True, kw_only=True)
class OrderArrays:
    """Adjacency of ops and tensors in compressed rows: entries of row i lie in ``x[x_start[i]:x_start[i + 1]]``."""

    child_start: IntArray
    child: IntArray
    num_parents: IntArray
    """Shape (n,)."""
    read_start: IntArray
    read: IntArray
    """Tensors that each op reads."""
    made_start: IntArray
    made: IntArray
    """Tensors that each op makes."""
    is_input_op: IntArray
    """1 for ops of kind `input`. Shape (n,)."""


def order_arrays(graph: DnnGraph) -> OrderArrays:
    """Compute the arrays of ``graph`` once; they are kept with the graph."""
    found = graph.__dict__.get("_order_arrays")
    if isinstance(found, OrderArrays):
        return found
    n = graph.num_ops
    edges = graph.edges
    tensors, readers = graph.reads
    producers = np.flatnonzero(graph.tensor_producer != UNKNOWN)
    child_start, child = _rows(edges[:, 0], edges[:, 1], n)
    read_start, read = _rows(readers, tensors, n)
    made_start, made = _rows(graph.tensor_producer[producers], producers, n)
    is_input_op = np.zeros(n, dtype=np.int64)
    is_input_op[list(graph.input_ops)] = 1
    arrays = OrderArrays(
        child_start=child_start,
        child=child,
        num_parents=np.bincount(edges[:, 1], minlength=n).astype(np.int64),
        read_start=read_start,
        read=read,
        made_start=made_start,
        made=made,
        is_input_op=is_input_op,
    )
    object.__setattr__(graph, "_order_arrays", arrays)
    return arrays


def _rows(rows: IntArray, entries: IntArray, num_rows: int) -> tuple[IntArray, IntArray]:
    start = np.zeros(num_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=num_rows), out=start[1:])
    return start, np.ascontiguousarray(entries[np.argsort(rows, kind="stable")])
