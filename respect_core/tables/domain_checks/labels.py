"""Rules of the table `labels`: every schedule is legal, its numbers are right and its proof is consistent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from respect_core.graph import UNKNOWN, BoolArray, IntArray
from respect_core.tables.domain_checks.columns import (
    DomainColumns,
    equals,
    holds,
    is_null,
    list_entries,
    numbers,
    ranges,
)
from respect_core.tables.domain_checks.flat import FlatGraphs, flatten_graphs
from respect_core.tables.graph_rows import GraphTables
from respect_core.tables.labels import LABEL_TIMINGS

_CHUNK: Final = 4_000_000
"""Ops and (tensor, reader) pairs that are looked at together; bounds the memory."""

GAP_TOLERANCE: Final = 1e-9


def label_checks(labels: pa.Table, tables: GraphTables, timings: pa.Table | None = None) -> DomainColumns:
    """Check labels against the graphs they belong to.

    Args:
        labels: Rows of `labels`.
        tables: The graphs, in any order; further graphs do no harm.
        timings: Rows of `label_timings`; where given, every label must have one.

    Returns:
        One column a rule. What depends on a sound stage vector is null where the vector is not sound, and what
        depends on the value of another objective than `peak-memory` is null there, for labels do not hold that value.
    """
    flat = flatten_graphs(tables)
    graph_of = flat.index_of(labels["graph_id"])
    known = graph_of >= 0
    num_stages = numbers(labels, "num_stages").astype(np.int64)
    entries, rows, lengths = list_entries(labels, "stage_of")
    right_length = known & (lengths == np.append(flat.num_ops, -1)[graph_of])
    outside = np.bincount(rows[(entries < 0) | (entries >= num_stages[rows])], minlength=lengths.size)
    sound = right_length & (outside == 0) & (lengths > 0) & (num_stages > 0)
    enough_ops = num_stages <= lengths
    found = _recompute(flat, graph_of, num_stages, entries, lengths, np.flatnonzero(sound & enough_ops))
    legal = sound & enough_ops & found.monotone & found.all_used
    return DomainColumns(
        columns={
            "graph_known": holds(known),
            "stage_of_has_every_op": holds(right_length, known),
            "stages_in_range": holds(outside == 0),
            "every_stage_used": holds(found.all_used & enough_ops, sound),
            "stages_monotone": holds(found.monotone, sound & enough_ops),
            "peak_recomputed": holds(numbers(labels, "peak_param_bytes") == found.peak, sound & enough_ops),
            "communication_recomputed": holds(numbers(labels, "communication_bytes") == found.communication, legal),
            **_proof_columns(labels),
            **({} if timings is None else {"timed": _timed(labels, timings)}),
        }
    )


def _timed(labels: pa.Table, timings: pa.Table) -> pa.Array:
    keys = list(LABEL_TIMINGS.key)
    present = timings.select(keys).to_pandas().drop_duplicates().assign(timed=True)
    joined = labels.select(keys).to_pandas().merge(present, on=keys, how="left")
    return holds(joined["timed"].notna().to_numpy())


def _proof_columns(labels: pa.Table) -> dict[str, pa.Array]:
    """Check status, bound, gap and baseline against each other."""
    peak, communication = numbers(labels, "peak_param_bytes"), numbers(labels, "communication_bytes")
    base_peak, base_communication = (
        numbers(labels, "baseline_peak_param_bytes"),
        numbers(labels, "baseline_communication_bytes"),
    )
    bound, bounded = numbers(labels, "lower_bound"), ~is_null(labels, "lower_bound")
    gap, has_gap = numbers(labels, "gap"), ~is_null(labels, "gap")
    optimal, by_peak = equals(labels, "status", "optimal"), equals(labels, "objective", "peak-memory")
    computable = bounded & ((bound > 0) | (bound == peak))
    expected = np.where(bound == peak, 0.0, (peak - bound) / np.maximum(bound, 1))
    right_gap = np.where(computable, has_gap & (np.abs(gap - expected) <= GAP_TOLERANCE), ~has_gap)
    proven = has_gap & (gap == 0) & bounded & (~by_peak | (bound == peak))
    not_worse = (peak < base_peak) | ((peak == base_peak) & (communication <= base_communication))
    return {
        "bound_not_above_value": holds(bound <= peak, bounded & by_peak),
        "gap_follows_from_bound": holds(right_gap, by_peak),
        "optimal_is_proven": holds(proven, optimal),
        "canonical_is_optimal": holds(optimal, numbers(labels, "canonical").astype(np.bool_)),
        "optimal_not_worse_than_baseline": holds(not_worse, optimal & by_peak),
        "baseline_not_below_bound": holds(base_peak >= bound, bounded & by_peak),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class _Recomputed:
    """What the stage vectors say; rows that were not looked at keep false and -1. Shapes (rows,)."""

    all_used: BoolArray
    monotone: BoolArray
    peak: IntArray
    communication: IntArray


def _recompute(
    flat: FlatGraphs, graph_of: IntArray, num_stages: IntArray, entries: IntArray, lengths: IntArray, chosen: IntArray
) -> _Recomputed:
    """Recompute the numbers of the chosen rows, whose stages are all in range, from the flat graphs."""
    starts = np.cumsum(lengths) - lengths
    out = _Recomputed(
        all_used=np.zeros(lengths.size, dtype=np.bool_),
        monotone=np.zeros(lengths.size, dtype=np.bool_),
        peak=np.full(lengths.size, -1, dtype=np.int64),
        communication=np.full(lengths.size, -1, dtype=np.int64),
    )
    for rows in _chunks(flat, graph_of, chosen):
        graphs, K = graph_of[rows], num_stages[rows]
        stages = entries[ranges(starts[rows], lengths[rows])]
        params = flat.param_bytes[ranges(flat.op_start[graphs], lengths[rows])]
        first_slot = np.cumsum(K) - K
        slot = np.repeat(first_slot, lengths[rows]) + stages
        used, loads = np.zeros(K.sum(), dtype=np.int64), np.zeros(K.sum(), dtype=np.int64)
        used[slot] = 1
        np.add.at(loads, slot, params)
        out.all_used[rows] = np.add.reduceat(used, first_slot) == K
        out.peak[rows] = np.maximum.reduceat(loads, first_slot)
        out.monotone[rows], out.communication[rows] = _along_edges(flat, graphs, stages, lengths[rows])
    return out


def _along_edges(flat: FlatGraphs, graphs: IntArray, stages: IntArray, lengths: IntArray) -> tuple[BoolArray, IntArray]:
    """Return whether stages never fall along an edge, and the bytes crossing boundaries.

    A tensor made in stage a and read last in stage b crosses the b - a boundaries between them.

    Args:
        flat: The graphs.
        graphs: Graph of every row. Shape (rows,).
        stages: Stage vectors of the rows, one after the other. Shape (lengths.sum(),).
        lengths: Ops of every row. Shape (rows,).
    """
    first_op = np.cumsum(lengths) - lengths
    num_tensors = np.diff(flat.tensor_start)[graphs]
    tensor_row = np.repeat(np.arange(graphs.size), num_tensors)
    tensors = ranges(flat.tensor_start[graphs], num_tensors)
    producer = flat.producer[tensors]
    made = np.where(producer == UNKNOWN, UNKNOWN, stages[first_op[tensor_row] + producer])
    num_reads = np.diff(flat.read_start)[graphs]
    read_row = np.repeat(np.arange(graphs.size), num_reads)
    reads = ranges(flat.read_start[graphs], num_reads)
    read_in = stages[first_op[read_row] + flat.read_op[reads]]
    first_tensor = np.cumsum(num_tensors) - num_tensors
    tensor = first_tensor[read_row] + flat.read_tensor[reads] - flat.tensor_start[graphs][read_row]
    monotone = np.bincount(read_row[made[tensor] > read_in], minlength=graphs.size) == 0
    last = made.copy()
    np.maximum.at(last, tensor, read_in)
    communication = np.zeros(graphs.size, dtype=np.int64)
    crossed = np.where(producer == UNKNOWN, 0, last - made)
    np.add.at(communication, tensor_row, flat.tensor_bytes[tensors] * crossed)
    return monotone, communication


def _chunks(flat: FlatGraphs, graph_of: IntArray, chosen: IntArray) -> Iterator[IntArray]:
    """Cut rows into pieces of bounded work."""
    work = np.cumsum((np.diff(flat.read_start) + flat.num_ops)[graph_of[chosen]])
    if not work.size:
        return
    cuts = np.searchsorted(work, np.arange(_CHUNK, int(work[-1]), _CHUNK))
    yield from (piece for piece in np.split(chosen, np.unique(cuts)) if piece.size)
