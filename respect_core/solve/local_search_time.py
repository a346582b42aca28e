"""Stage times that follow single ops moving from stage to stage, and set moves that lower the larger of two of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, DnnGraph, IntArray
from respect_core.objective import TimeTerms
from respect_core.solve.local_search_graph import SearchGraph
from respect_core.solve.order_arrays import order_arrays


class TimeModel(NamedTuple):
    """`respect_core.objective.TimeTerms` as flat arrays, in ns."""

    op_ns: IntArray
    """Compute, streaming and always-streamed time of each op, one after the other. Shape (3 n,)."""
    tensor_ns: IntArray
    """Input, output and occupied time of each tensor, one after the other. Shape (3 m,)."""
    is_output: BoolArray
    """Shape (m,)."""
    is_input_op: IntArray
    """1 where an op receives its output from the host. Shape (n,)."""
    scalars: IntArray
    """Overhead, capacity, shared capacity, overlap numerator and denominator. Shape (5,)."""


class StageTimes(NamedTuple):
    """What the times of K stages are made of, kept up to date while ops move."""

    sums: IntArray
    """Compute, streaming, always, inputs, outputs and occupied of each stage, one after the other. Shape (6 K,)."""
    readers: IntArray
    """Ops of stage k that read tensor t, at ``t * K + k``. Shape (m K,)."""
    time: IntArray
    """Shape (K,)."""


def time_model(graph: DnnGraph, terms: TimeTerms) -> TimeModel:
    """Lay out the time terms of a graph."""
    scalars = (terms.overhead_ns, terms.capacity_ns, terms.shared_capacity_ns, terms.overlap_num, terms.overlap_den)
    return TimeModel(
        op_ns=np.concatenate([terms.compute_ns, terms.streaming_ns, terms.always_ns]).astype(np.int64),
        tensor_ns=np.concatenate([terms.input_ns, terms.output_ns, terms.occupied_ns]).astype(np.int64),
        is_output=np.array(graph.tensor_is_output, dtype=np.bool_),
        is_input_op=order_arrays(graph).is_input_op,
        scalars=np.array(scalars, dtype=np.int64),
    )


def stage_times(num_tensors: int, num_stages: int) -> StageTimes:
    """Return space for the times of K stages."""
    return StageTimes(
        sums=np.zeros(6 * num_stages, dtype=np.int64),
        readers=np.zeros(num_tensors * num_stages, dtype=np.int64),
        time=np.zeros(num_stages, dtype=np.int64),
    )


@compiled
def stage_time(model: TimeModel, times: StageTimes, stage: int) -> int:
    """Combine the sums of a stage; see `respect_core.objective.TimeTerms`."""
    num_stages, sums, scalars = times.time.size, times.sums, model.scalars
    compute, streaming, always = sums[stage], sums[num_stages + stage], sums[2 * num_stages + stage]
    inputs, outputs = sums[3 * num_stages + stage], sums[4 * num_stages + stage]
    room = max(np.int64(0), min(scalars[1], scalars[2] - sums[5 * num_stages + stage]))
    spilled = max(np.int64(0), streaming - room) + always
    hidden = min(compute, spilled) * scalars[3] // scalars[4]
    time: int = scalars[0] + inputs + outputs + compute + spilled - hidden
    return time


@compiled
def count_times(graph: SearchGraph, model: TimeModel, stage_of: IntArray, times: StageTimes) -> None:
    """Compute everything of ``times`` afresh."""
    n, m, num_stages = stage_of.size, graph.tensor_bytes.size, times.time.size
    sums, readers, tensor_ns = times.sums, times.readers, model.tensor_ns
    sums[:] = 0
    readers[:] = 0
    for v in range(n):
        for part in range(3):
            sums[part * num_stages + stage_of[v]] += model.op_ns[part * n + v]
    for t in range(m):
        for r in range(graph.reader_start[t], graph.reader_start[t + 1]):
            readers[t * num_stages + stage_of[graph.reader[r]]] += 1
        producer = graph.tensor_producer[t]
        made_in = stage_of[producer] if producer >= 0 else -1
        for k in range(num_stages):
            if k != made_in and readers[t * num_stages + k] > 0:
                sums[3 * num_stages + k] += tensor_ns[t]
                sums[5 * num_stages + k] += tensor_ns[2 * m + t]
        if producer < 0:
            continue
        if model.is_input_op[producer] == 1:
            sums[3 * num_stages + made_in] += tensor_ns[t]
            sums[5 * num_stages + made_in] += tensor_ns[2 * m + t]
        others = graph.reader_start[t + 1] - graph.reader_start[t] - readers[t * num_stages + made_in]
        if model.is_output[t] or others > 0:
            sums[4 * num_stages + made_in] += tensor_ns[m + t]
    for k in range(num_stages):
        times.time[k] = stage_time(model, times, k)


@compiled
def move_op(
    graph: SearchGraph, model: TimeModel, stage_of: IntArray, times: StageTimes, op: int, source: int, target: int
) -> None:
    """Move an op and keep the sums (not the times) up to date.

    A tensor is sent where anybody outside its producer's stage reads it: while a set is on its way, readers may for a
    moment be in an earlier stage than the producer.
    """
    n, m, num_stages = stage_of.size, graph.tensor_bytes.size, times.time.size
    sums, readers, tensor_ns = times.sums, times.readers, model.tensor_ns
    for part in range(3):
        sums[part * num_stages + source] -= model.op_ns[part * n + op]
        sums[part * num_stages + target] += model.op_ns[part * n + op]
    for r in range(graph.read_start[op], graph.read_start[op + 1]):
        t = graph.read[r]
        row, producer = t * num_stages, graph.tensor_producer[t]
        made_in = stage_of[producer] if producer >= 0 else -1
        num_readers = graph.reader_start[t + 1] - graph.reader_start[t]
        was_sent = producer >= 0 and (model.is_output[t] or num_readers > readers[row + made_in])
        readers[row + source] -= 1
        if readers[row + source] == 0 and source != made_in:
            sums[3 * num_stages + source] -= tensor_ns[t]
            sums[5 * num_stages + source] -= tensor_ns[2 * m + t]
        readers[row + target] += 1
        if readers[row + target] == 1 and target != made_in:
            sums[3 * num_stages + target] += tensor_ns[t]
            sums[5 * num_stages + target] += tensor_ns[2 * m + t]
        if producer >= 0:
            is_sent = model.is_output[t] or num_readers > readers[row + made_in]
            if is_sent != was_sent:
                sums[4 * num_stages + made_in] += tensor_ns[m + t] if is_sent else -tensor_ns[m + t]
    for r in range(graph.made_start[op], graph.made_start[op + 1]):
        t = graph.made[r]
        row = t * num_stages
        num_readers = graph.reader_start[t + 1] - graph.reader_start[t]
        if model.is_input_op[op] == 1:
            sums[3 * num_stages + source] -= tensor_ns[t]
            sums[5 * num_stages + source] -= tensor_ns[2 * m + t]
            sums[3 * num_stages + target] += tensor_ns[t]
            sums[5 * num_stages + target] += tensor_ns[2 * m + t]
        if readers[row + source] > 0:
            sums[3 * num_stages + source] += tensor_ns[t]
            sums[5 * num_stages + source] += tensor_ns[2 * m + t]
        if readers[row + target] > 0:
            sums[3 * num_stages + target] -= tensor_ns[t]
            sums[5 * num_stages + target] -= tensor_ns[2 * m + t]
        if model.is_output[t] or num_readers > readers[row + source]:
            sums[4 * num_stages + source] -= tensor_ns[m + t]
        if model.is_output[t] or num_readers > readers[row + target]:
            sums[4 * num_stages + target] += tensor_ns[m + t]
    stage_of[op] = target


@compiled
def move_set(
    graph: SearchGraph,
    model: TimeModel,
    stage_of: IntArray,
    times: StageTimes,
    ops: IntArray,
    base: int,
    size: int,
    source: int,
    target: int,
) -> None:
    """Move ``ops[base:base + size]`` from one stage to another one."""
    for i in range(size):
        move_op(graph, model, stage_of, times, ops[base + i], source, target)
