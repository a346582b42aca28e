"""Tensors around the boundaries of the exact search: which depend on the down-sets, and what crosses those."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import Cuts, Int

NO_CAP = 2**62
"""Stands for "any amount may cross"."""

VaryingTensors = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]
"""Tensors whose fate depends on the down-sets: maker's bit or -1, maker's stage if fixed (-1 for a graph input),
readers as bitsets, last stage of the readers that are fixed or -1, columns (3, m)."""


@compiled
def split_tensors(
    maker: IntArray,
    read_start: IntArray,
    reader: IntArray,
    columns: IntArray,
    bit_of: IntArray,
    fixed: IntArray,
    num_stages: Int,
    words: Int,
    timed: bool,
) -> tuple[VaryingTensors, tuple[IntArray, IntArray], IntArray]:
    """Separate the tensors that depend on the down-sets from those that cost the same in every schedule."""
    m = maker.size
    constants = np.zeros((num_stages + 1, 3), np.int64)
    varies = np.zeros(m, np.bool_)
    seen = np.full(num_stages, -1, np.int64)
    for t in range(m):
        varies[t] = maker[t] >= 0 and bit_of[maker[t]] >= 0
        for r in range(read_start[t], read_start[t + 1]):
            varies[t] = varies[t] or bit_of[reader[r]] >= 0
        if varies[t]:
            continue
        home = fixed[maker[t]] if maker[t] >= 0 else -1
        last = -1
        for r in range(read_start[t], read_start[t + 1]):
            stage = fixed[reader[r]]
            last = max(last, stage)
            if timed and stage != home and seen[stage] != t:
                seen[stage] = t
                constants[stage, 0] += columns[0, t]
                constants[stage, 2] += columns[2, t]
        if timed:
            if home >= 0 and last > home:
                constants[home, 1] += columns[1, t]
        else:
            for k in range(home + 1, last + 1):
                constants[k, 0] += columns[0, t]
    chosen = np.flatnonzero(varies)
    count = chosen.size
    maker_bit = np.full(count, -1, np.int64)
    maker_stage = np.full(count, -1, np.int64)
    readers = np.zeros((count, words), np.int64)
    last_fixed = np.full(count, -1, np.int64)
    picked = np.empty((3, count), np.int64)
    stage_start = np.zeros(count + 1, np.int64)
    stages = np.empty(reader.size, np.int64)
    end = 0
    for i in range(count):
        t = chosen[i]
        for c in range(3):
            picked[c, i] = columns[c, t]
        if maker[t] >= 0:
            maker_bit[i] = bit_of[maker[t]]
            maker_stage[i] = fixed[maker[t]]
        for r in range(read_start[t], read_start[t + 1]):
            bit = bit_of[reader[r]]
            if bit >= 0:
                readers[i, bit >> 6] |= np.int64(1) << (bit & 63)
            else:
                stages[end] = fixed[reader[r]]
                last_fixed[i] = max(last_fixed[i], stages[end])
                end += 1
        stage_start[i + 1] = end
    return (maker_bit, maker_stage, readers, last_fixed, picked), (stage_start, stages[:end].copy()), constants


@compiled
def crossing_sums(sets: IntArray, tensors: VaryingTensors, boundary: Int, column: Int, with_inputs: bool) -> IntArray:
    """Sum a column over the varying tensors made inside each set and read beyond the boundary. Shape (sets,).

    ``with_inputs`` counts graph inputs without a maker too.
    """
    maker_bit, maker_stage, readers, last_fixed, columns = tensors
    count, words = sets.shape
    out = np.zeros(count, np.int64)
    for t in range(maker_bit.size):
        bit = maker_bit[t]
        if bit < 0 and (maker_stage[t] >= boundary or (maker_stage[t] < 0 and not with_inputs)):
            continue
        value = columns[column, t]
        if value == 0:
            continue
        for i in range(count):
            if bit >= 0 and (sets[i, bit >> 6] >> (bit & 63)) & 1 == 0:
                continue
            beyond = last_fixed[t] >= boundary
            if not beyond:
                for w in range(words):
                    if readers[t, w] & ~sets[i, w] != 0:
                        beyond = True
                        break
            if beyond:
                out[i] += value
    return out


@compiled
def cuts_at(
    nodes: IntArray, tensors: tuple[IntArray, IntArray, IntArray, IntArray], status: IntArray, limits: IntArray
) -> Cuts:
    """Select the tensors that may or may not cross a boundary, and take what crosses anyway off the limits."""
    maker, read_start, reader, weight = tensors
    place = np.full(status.size, -1, np.int64)
    for i in range(nodes.size):
        place[nodes[i]] = i
    count = 0
    limited = limits.min() < NO_CAP
    m = maker.size if limited else 0
    makers, weights, leaves = np.empty(m, np.int64), np.empty(m, np.int64), np.zeros(m, np.int64)
    readers = np.zeros((m, max(1, (nodes.size + 63) // 64)), np.int64)
    always = 0
    for t in range(m):
        if maker[t] < 0 or status[maker[t]] == 2 or weight[t] == 0:
            continue
        open_readers = False
        leaves[count] = 0
        readers[count] = 0
        for r in range(read_start[t], read_start[t + 1]):
            v = reader[r]
            if status[v] == 2:
                leaves[count] = 1
            elif status[v] == 0:
                open_readers = True
                readers[count, place[v] >> 6] |= np.int64(1) << (place[v] & 63)
        if place[maker[t]] < 0 and leaves[count]:
            always += weight[t]
        elif leaves[count] or open_readers:
            makers[count], weights[count] = place[maker[t]], weight[t]
            count += 1
    if limited and count == 0:
        makers, weights, leaves = np.full(1, -1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64)
        readers = np.zeros((1, readers.shape[1]), np.int64)
        count = 1
    return makers[:count], readers[:count], leaves[:count], weights[:count], limits - always
