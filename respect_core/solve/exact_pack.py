"""Packing graphs into the flat arrays of `label_batch`, and unpacking what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import BoolArray, DnnGraph, IntArray
from respect_core.solve.exact_batch import MAX_SETS, SOLVED, label_batch
from respect_core.solve.exact_small import MAX_SMALL_OPS


@dataclass(frozen=True, kw_only=True)
class PackedGraphs:
    """Several graphs of up to 64 ops, as the first arguments of `label_batch`."""

    op_start: IntArray
    param_bytes: IntArray
    tensor_start: IntArray
    tensor_bytes: IntArray
    tensor_producer: IntArray
    read_start: IntArray
    reader: IntArray

    def __len__(self) -> int:
        return self.op_start.size - 1


@dataclass(frozen=True, kw_only=True)
class BatchLabels:
    """Optimal `peak-memory` schedules of packed graphs for several K."""

    stages: IntArray
    """Canonical stage of every op. Shape (stage counts, ops of all graphs)."""
    peak_bytes: IntArray
    """Shape (stage counts, graphs)."""
    communication_bytes: IntArray
    """Shape (stage counts, graphs)."""
    is_solved: BoolArray
    """False where a problem was too large: nothing else is then valid. Shape (stage counts, graphs)."""


def pack_graphs(graphs: Sequence[DnnGraph]) -> PackedGraphs:
    """Pack graphs.

    Raises:
        BadInputError: A graph has more than 64 ops.
    """
    for graph in graphs:
        if graph.num_ops > MAX_SMALL_OPS:
            raise BadInputError(f"graph {graph.name!r} has {graph.num_ops} ops, a batch takes at most {MAX_SMALL_OPS}")
    reads = [np.bincount(graph.reads[0], minlength=graph.num_tensors) for graph in graphs]
    return PackedGraphs(
        op_start=_starts([graph.num_ops for graph in graphs]),
        param_bytes=_joined([graph.param_bytes for graph in graphs]),
        tensor_start=_starts([graph.num_tensors for graph in graphs]),
        tensor_bytes=_joined([graph.tensor_bytes for graph in graphs]),
        tensor_producer=_joined([graph.tensor_producer for graph in graphs]),
        read_start=_starts(_joined(reads)),
        reader=_joined([graph.reads[1] for graph in graphs]),
    )


def label_packed(packed: PackedGraphs, stage_counts: Sequence[int], max_sets: int = MAX_SETS) -> BatchLabels:
    """Solve every packed graph for every K.

    Args:
        packed: The graphs.
        stage_counts: Numbers of stages K.
        max_sets: Most down-sets to keep for one problem.

    Returns:
        Proven optima.

    Raises:
        BadInputError: A graph has fewer ops than some K, or some K is below 1.
    """
    fewest = int(np.diff(packed.op_start).min()) if len(packed) else max(stage_counts)
    for num_stages in stage_counts:
        if not 1 <= num_stages <= fewest:
            raise BadInputError(f"a graph of {fewest} ops cannot be cut into {num_stages} stages")
    shape = (len(stage_counts), len(packed))
    stages = np.zeros((len(stage_counts), packed.param_bytes.size), dtype=np.int64)
    peaks, communication, outcome = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    label_batch(
        packed.op_start,
        packed.param_bytes,
        packed.tensor_start,
        packed.tensor_bytes,
        packed.tensor_producer,
        packed.read_start,
        packed.reader,
        np.array(stage_counts, dtype=np.int64),
        max_sets,
        stages,
        peaks,
        communication,
        outcome,
    )
    return BatchLabels(stages=stages, peak_bytes=peaks, communication_bytes=communication, is_solved=outcome == SOLVED)


def _starts(lengths: Sequence[int] | IntArray) -> IntArray:
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def _joined(parts: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)
