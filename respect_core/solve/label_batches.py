"""Labels of many small graphs from flat arrays: compiled solving, and Arrow columns without a Python object a row."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from respect_core.graph import FloatArray, IntArray
from respect_core.solve.baseline_batch import baseline_batch
from respect_core.solve.exact_batch import SOLVED, label_batch
from respect_core.solve.exact_small import MAX_SMALL_OPS
from respect_core.tables.domain_checks.columns import ranges
from respect_core.tables.domain_checks.flat import FlatGraphs, flatten_graphs
from respect_core.tables.graph_rows import GraphTables
from respect_core.tables.labels import LABEL_TIMINGS, LABELS

BATCH_GRAPHS: Final = 250
"""Graphs of one compiled call; a solve's time is that of its batch divided by the number of solves in it."""

MAX_SETS: Final = 1 << 14
"""Down-sets kept for one solve in a batch. What needs more is left to a solver that looks at the clock."""

OBJECTIVE: Final = "peak-memory"


@dataclass(frozen=True, kw_only=True)
class BatchLabels:
    """What the compiled batches made of a set of graphs."""

    labels: pa.Table
    timings: pa.Table
    left: pa.Array
    """Names of the graphs of which no row is here: too many ops or down-sets, or fewer ops than stages."""


@dataclass(frozen=True, kw_only=True)
class _Solved:
    """Arrays over G graphs of N ops in all, for C numbers of stages."""

    stages: IntArray
    """Shape (C, N)."""
    numbers: IntArray
    """Peak, communication, and both of the baseline. Shape (4, C, G)."""
    outcome: IntArray
    """Shape (C, G)."""
    seconds: FloatArray
    """Of one solve of each graph. Shape (G,)."""


def label_small_graphs(
    tables: GraphTables, num_stages: Sequence[int], version: str, *, time_limit_s: float
) -> BatchLabels:
    """Label the graphs of up to 64 ops for `peak-memory` with proven optimal, canonical schedules.

    Args:
        tables: The graphs, legal ones.
        num_stages: Every K to solve for.
        version: Version of the solver `exact`, for the rows.
        time_limit_s: Deadline to put into the timings; the batches end long before any sensible one.

    Returns:
        The rows, and which graphs are left for another way of solving, as a whole with all their K.
    """
    flat = flatten_graphs(tables)
    K = np.array(sorted(num_stages), dtype=np.int64)
    small = (flat.num_ops <= MAX_SMALL_OPS) & (flat.num_ops >= K[-1])
    solved = _solve(flat, np.flatnonzero(small), K)
    done = np.all(solved.outcome == SOLVED, axis=0)
    chosen = np.flatnonzero(done)
    return BatchLabels(
        labels=_label_rows(flat, solved, chosen, K, version),
        timings=_timing_rows(flat, solved, chosen, K, time_limit_s),
        left=flat.ids.combine_chunks().take(pa.array(np.flatnonzero(~done))),
    )


def _solve(flat: FlatGraphs, graphs: IntArray, K: IntArray) -> _Solved:
    """Run the compiled batches; graphs that are not asked for are not `SOLVED`."""
    total = flat.num_graphs
    solved = _Solved(
        stages=np.zeros((K.size, flat.param_bytes.size), dtype=np.int64),
        numbers=np.zeros((4, K.size, total), dtype=np.int64),
        outcome=np.full((K.size, total), SOLVED - 1, dtype=np.int64),
        seconds=np.zeros(total),
    )
    read_start = np.zeros(flat.tensor_bytes.size + 1, dtype=np.int64)
    np.cumsum(np.bincount(flat.read_tensor, minlength=flat.tensor_bytes.size), out=read_start[1:])
    runs = np.split(graphs, np.flatnonzero(np.diff(graphs) > 1) + 1)
    batches = [run[at : at + BATCH_GRAPHS] for run in runs for at in range(0, run.size, BATCH_GRAPHS)]
    for batch in [batches[0][:1], *batches] if batches else []:  # the first call loads or compiles the code
        first, end = int(batch[0]), int(batch[-1]) + 1
        start = time.perf_counter()
        ops = slice(flat.op_start[first], flat.op_start[end])
        tensors = slice(flat.tensor_start[first], flat.tensor_start[end])
        peaks, communication, base_peaks, base_communication = (
            np.empty((K.size, batch.size), dtype=np.int64) for _ in range(4)
        )
        outcome = np.empty((K.size, batch.size), dtype=np.int64)
        stages = np.zeros((K.size, ops.stop - ops.start), dtype=np.int64)
        arrays = (
            flat.op_start[first : end + 1] - ops.start,
            flat.param_bytes[ops],
            flat.tensor_start[first : end + 1] - tensors.start,
            flat.tensor_bytes[tensors],
            flat.producer[tensors],
            read_start[tensors.start : tensors.stop + 1],
            flat.read_op,
            K,
        )
        label_batch(*arrays, MAX_SETS, stages, peaks, communication, outcome)
        solved.seconds[first:end] = (time.perf_counter() - start) / (batch.size * K.size)
        baseline_batch(*arrays, base_peaks, base_communication)
        solved.stages[:, ops] = stages
        solved.outcome[:, first:end] = outcome
        for row, found in enumerate((peaks, communication, base_peaks, base_communication)):
            solved.numbers[row, :, first:end] = found
    return solved


def _label_rows(flat: FlatGraphs, solved: _Solved, chosen: IntArray, K: IntArray, version: str) -> pa.Table:
    rows = chosen.size * K.size
    lengths = np.repeat(flat.num_ops[chosen], K.size)
    starts = np.repeat(flat.op_start[chosen], K.size) + np.tile(np.arange(K.size), chosen.size) * flat.param_bytes.size
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    stages = solved.stages.ravel()[ranges(starts, lengths)].astype(np.int16)
    peak, communication, base_peak, base_communication = (row[:, chosen].T.ravel() for row in solved.numbers)
    return LABELS.table_of(
        {
            **_keys(flat, chosen, K),
            "solver": pa.repeat("exact", rows),
            "solver_version": pa.repeat(version, rows),
            "status": pa.repeat("optimal", rows),
            "canonical": pa.repeat(True, rows),
            "stage_of": pa.ListArray.from_arrays(pa.array(offsets), pa.array(stages)),
            "peak_param_bytes": peak,
            "communication_bytes": communication,
            "lower_bound": peak,
            "gap": np.zeros(rows),
            "baseline_peak_param_bytes": base_peak,
            "baseline_communication_bytes": base_communication,
        },
    )


def _timing_rows(flat: FlatGraphs, solved: _Solved, chosen: IntArray, K: IntArray, time_limit_s: float) -> pa.Table:
    return LABEL_TIMINGS.table_of(
        {
            **_keys(flat, chosen, K),
            "time_limit_s": np.full(chosen.size * K.size, float(time_limit_s)),
            "solve_seconds": np.repeat(solved.seconds[chosen], K.size),
        },
    )


def _keys(flat: FlatGraphs, chosen: IntArray, K: IntArray) -> dict[str, Any]:
    """Return graph, K and objective of every row, sorted by graph, then K."""
    return {
        "graph_id": flat.ids.combine_chunks().take(pa.array(np.repeat(chosen, K.size))),
        "num_stages": np.tile(K, chosen.size),
        "objective": pa.repeat(OBJECTIVE, chosen.size * K.size),
    }
