"""Exact `peak-memory` labels of many small graphs in one compiled call: what the label factory runs on."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import UNKNOWN, IntArray
from respect_core.solve.downsets import Int
from respect_core.solve.exact_small import (
    Level,
    full_word,
    list_useful,
    loaded_poset,
    prepare_small,
    renumbered,
    smallest_peak_within,
)
from respect_core.solve.exact_small_path import Useful, least_communication

SOLVED, TOO_LARGE = 0, 1
"""Outcome of one problem of a batch."""

MAX_SETS = 1 << 18
"""Default limit of down-sets kept for one problem (14 MB)."""


@compiled
def _next_step(step: Int, num_sets: Int) -> Int:
    """How much to raise the budget: twice as much each time, but slowly where many down-sets fit already."""
    return step * 2 if num_sets < 500 else step


@compiled
def _useful_sets(level: Level, ends: IntArray, num_stages: Int, budget: Int, number: IntArray) -> Useful:
    """Copy the sets that `list_useful` left unmarked, in the numbers of all ops."""
    words, loads = np.empty(ends[num_stages], np.int64), np.empty(ends[num_stages], np.int64)
    starts = np.zeros(num_stages + 1, np.int64)
    count = 0
    for k in range(num_stages):
        starts[k] = count
        for i in range(ends[k], ends[k + 1]):
            if level[2][i] <= budget:
                words[count] = renumbered(level[0][i], number)
                loads[count] = level[1][i]
                count += 1
    starts[num_stages] = count
    return words[:count], loads[:count], starts


@compiled
def label_batch(
    op_start: IntArray,
    param_bytes: IntArray,
    tensor_start: IntArray,
    tensor_bytes: IntArray,
    tensor_producer: IntArray,
    read_start: IntArray,
    reader: IntArray,
    stage_counts: IntArray,
    max_sets: Int,
    stages: IntArray,
    peaks: IntArray,
    communication: IntArray,
    outcome: IntArray,
) -> None:
    """Solve many graphs of up to 64 ops for `peak-memory` without constraints, each for several K.

    Args:
        op_start: Where the ops of each graph start in ``param_bytes``. Shape (graphs + 1,).
        param_bytes: Parameter bytes of all ops.
        tensor_start: Where the tensors of each graph start. Shape (graphs + 1,).
        tensor_bytes: Bytes of all tensors.
        tensor_producer: Producing op, an index within its graph, or `UNKNOWN`.
        read_start: Where the readers of each tensor start in ``reader``. Shape (tensors + 1,).
        reader: Reading ops, indices within their graph.
        stage_counts: Numbers of stages K to solve for, each at most the smallest graph's number of ops.
        max_sets: Most down-sets to keep for one problem; what needs more is reported as `TOO_LARGE`, and so is the rare
            problem whose smallest peak leaves some stage without an op.
        stages: Written to: the canonical stage of every op. Shape (len(stage_counts), len(param_bytes)).
        peaks: Written to: optimal peak memory. Shape (len(stage_counts), graphs).
        communication: Written to: least communication within that peak. Shape (len(stage_counts), graphs).
        outcome: Written to: `SOLVED` (everything is proven) or `TOO_LARGE`. Shape (len(stage_counts), graphs).
    """
    level = (
        np.empty(max_sets, np.int64),
        np.empty(max_sets, np.int64),
        np.empty(max_sets, np.int64),
        np.empty(max_sets, np.int64),
        np.empty(max_sets, np.int64),
    )
    sources = np.empty(max_sets, np.int64)
    stack = np.empty((65, 4), np.int64)
    ends = np.empty(66, np.int64)
    for g in range(op_start.size - 1):
        ops = slice(op_start[g], op_start[g + 1])
        load = param_bytes[ops]
        n = load.size
        low, high = tensor_start[g], tensor_start[g + 1]
        parents = np.zeros(n, np.int64)
        readers = np.zeros(high - low, np.int64)
        for t in range(low, high):
            for r in range(read_start[t], read_start[t + 1]):
                readers[t - low] |= np.int64(1) << reader[r]
                if tensor_producer[t] != UNKNOWN:
                    parents[reader[r]] |= np.int64(1) << tensor_producer[t]
        bit_of, op_of = np.empty(n, np.int64), np.empty(n, np.int64)
        poset, new_load = prepare_small(parents, load, bit_of)
        loaded, number = loaded_poset(poset, new_load)
        all_loaded = renumbered(full_word(number.size), number)
        for v in range(n):
            op_of[bit_of[v]] = v
        makers = np.zeros(high - low, np.int64)
        for t in range(high - low):
            readers[t] = renumbered(readers[t], bit_of)
            if tensor_producer[low + t] != UNKNOWN:
                makers[t] = np.int64(1) << bit_of[tensor_producer[low + t]]
        tensors = (makers, readers, tensor_bytes[low:high])
        total = load.sum()
        for c in range(stage_counts.size):
            num_stages = stage_counts[c]
            bound = max((total + num_stages - 1) // num_stages, load.max())
            budget = bound
            step = bound // 1024 + 1
            while True:
                found, num_sets = smallest_peak_within(loaded, budget, num_stages, stack, level, sources)
                if found <= budget:
                    break
                budget += step
                step = _next_step(step, num_sets)
            crossing = np.int64(-1)
            if found >= 0 and list_useful(loaded, found, num_stages, stack, level, sources, ends):
                useful = _useful_sets(level, ends, num_stages, found, number)
                crossing = least_communication(
                    poset, useful, all_loaded, num_stages, found, tensors, op_of, stack, level, stages[c, ops]
                )
            outcome[c, g] = SOLVED if crossing >= 0 else TOO_LARGE
            peaks[c, g], communication[c, g] = found, crossing
