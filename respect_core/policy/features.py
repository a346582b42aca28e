"""What the policy sees of a problem: a row of numbers an op, the same code for training and for inference."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from respect_core.compiled import compiled
from respect_core.graph import FloatArray, IntArray

Float32Array = NDArray[np.float32]

NUM_GLOBALS: Final = 8
"""Numbers of a problem that every op's row ends with."""

NUM_OP_FEATURES: Final = 18
"""Numbers of an op alone."""

NUM_FEATURES: Final = NUM_OP_FEATURES + NUM_GLOBALS

EXACT_MASS_OPS: Final = 4096
"""Up to so many ops, the load of all ancestors and descendants is summed exactly, by bit sets; beyond, the heaviest
path stands for it, which needs no time and space that grow with the square of the size."""


def problem_globals(
    num_ops: int, num_stages: int, load: IntArray, budget: int, profile_shares: FloatArray
) -> FloatArray:
    """Return the numbers that describe the whole problem. Shape (NUM_GLOBALS,).

    Args:
        num_ops: Ops n.
        num_stages: Stages K.
        load: Load of every op: parameter bytes, or nanoseconds for `throughput`. Shape (n,).
        budget: What a stage may hold, at least 1.
        profile_shares: What the device costs: 1 for `throughput` (else all are 0), a stage's fixed time, all tensors'
            transfer and all parameters' streaming, each over the load of a stage. Shape (4,).
    """
    out = np.empty(NUM_GLOBALS)
    out[0] = num_stages / 8
    out[1] = 2 / num_stages
    out[2] = math.log(num_ops) / 6
    out[3] = float(load.sum()) / (num_stages * budget)
    out[4:] = np.minimum(profile_shares, 4.0)
    return out


@compiled
def fill_features(
    load: IntArray,
    first: IntArray,
    near: IntArray,
    made_bytes: IntArray,
    num_stages: int,
    budget: int,
    globals_: FloatArray,
    out: Float32Array,
) -> None:
    """Describe every op.

    Columns: load over the budget and whether it is any; longest path (in ops) to and from the op over the longest of
    the graph; in- and out-degree; share of the load on lower levels, counted from the inputs and from the outputs; the
    same two as an angle that turns once a stage (sine and cosine); the heaviest path that ends and that starts here, in
    budgets; share of the load of all ancestors and of all descendants; bytes made, against the mean; the difference
    of the two shares. Then the globals.

    Args:
        load: Shape (n,).
        first: As in `respect_core.solve.local_search_graph.SearchGraph`.
        near: Likewise.
        made_bytes: Bytes of the tensors that each op makes. Shape (n,).
        num_stages: K.
        budget: What a stage may hold, at least 1.
        globals_: `problem_globals`. Shape (NUM_GLOBALS,).
        out: Written to. Shape (n, NUM_FEATURES).
    """
    n = load.size
    total = max(1.0, float(load.sum()))
    mean_made = max(1.0, float(made_bytes.sum()) / n)
    order, level, back = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    path, tail = np.zeros(n, np.int64), np.zeros(n, np.int64)
    waiting = np.empty(n, np.int64)
    end = 0
    for v in range(n):
        waiting[v] = first[n + 2 + v] - first[n + 1 + v]
        if waiting[v] == 0:
            order[end] = v
            end += 1
    for step in range(n):
        v = order[step]
        path[v] += load[v]
        for r in range(first[v], first[v + 1]):
            c = near[r]
            level[c] = max(level[c], level[v] + 1)
            path[c] = max(path[c], path[v])
            waiting[c] -= 1
            if waiting[c] == 0:
                order[end] = c
                end += 1
    for step in range(n - 1, -1, -1):
        v = order[step]
        tail[v] += load[v]
        for r in range(first[n + 1 + v], first[n + 2 + v]):
            u = near[r]
            back[u] = max(back[u], back[v] + 1)
            tail[u] = max(tail[u], tail[v])
    depth = max(1, level.max())
    early, late = _mass_below(level, load, total), _mass_below(back, load, total)
    above, below_ = _masses(load, first, near, order, path, tail)
    for v in range(n):
        out[v, 0] = load[v] / budget
        out[v, 1] = 1.0 if load[v] > 0 else 0.0
        out[v, 2] = level[v] / depth
        out[v, 3] = back[v] / depth
        out[v, 4] = min(2.0, (first[n + 2 + v] - first[n + 1 + v]) / 4)
        out[v, 5] = min(2.0, (first[v + 1] - first[v]) / 4)
        out[v, 6] = early[v]
        out[v, 7] = late[v]
        for i, x in ((8, early[v] * total / budget), (10, late[v] * total / budget)):
            out[v, i] = math.sin(2 * math.pi * x)
            out[v, i + 1] = math.cos(2 * math.pi * x)
        out[v, 12] = min(4.0, path[v] / budget / 2)
        out[v, 13] = min(4.0, tail[v] / budget / 2)
        out[v, 14] = above[v] / total
        out[v, 15] = below_[v] / total
        out[v, 16] = min(4.0, made_bytes[v] / mean_made)
        out[v, 17] = (above[v] - below_[v]) / total
        for i in range(globals_.size):
            out[v, 18 + i] = globals_[i]


@compiled
def _mass_below(level: IntArray, load: IntArray, total: float) -> FloatArray:
    """Return the share of the load on lower levels and half of the own one. Shape (n,)."""
    n = level.size
    mass = np.zeros(level.max() + 2)
    for v in range(n):
        mass[level[v] + 1] += load[v]
    mass = np.cumsum(mass)
    out = np.empty(n)
    for v in range(n):
        out[v] = (mass[level[v]] + mass[level[v] + 1]) / (2 * total)
    return out


@compiled
def _masses(
    load: IntArray, first: IntArray, near: IntArray, order: IntArray, path: IntArray, tail: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the load of all ancestors and of all descendants of each op, itself left out. Shapes (n,)."""
    n = load.size
    above, below_ = np.zeros(n), np.zeros(n)
    if n > EXACT_MASS_OPS:
        for v in range(n):
            above[v], below_[v] = path[v] - load[v], tail[v] - load[v]
        return above, below_
    words = (n + 63) // 64
    reached = np.zeros((n, words), np.uint64)
    position = np.empty(n, np.int64)
    for i in range(n):
        position[order[i]] = i
    for i in range(n):
        v = order[i]
        for r in range(first[n + 1 + v], first[n + 2 + v]):
            p = position[near[r]]
            for w in range(p // 64 + 1):
                reached[i, w] |= reached[p, w]
            reached[i, p // 64] |= np.uint64(1) << np.uint64(p % 64)
        for w in range(i // 64 + 1):
            rest = reached[i, w]
            while rest != 0:
                low = rest & (~rest + np.uint64(1))
                u = order[w * 64 + _index_of_bit(low)]
                above[v] += load[u]
                below_[u] += load[v]
                rest ^= low
    return above, below_


@compiled
def _index_of_bit(bit: np.uint64) -> int:
    """Return the index of the only bit of a word (multiplication by a de Bruijn sequence)."""
    return int(_DE_BRUIJN[np.int64((bit * np.uint64(0x03F79D71B4CB0A89)) >> np.uint64(58))])


def _de_bruijn_table() -> IntArray:
    table = np.zeros(64, dtype=np.int64)
    for i in range(64):
        table[((0x03F79D71B4CB0A89 << i) & (2**64 - 1)) >> 58] = i
    return table


_DE_BRUIJN: Final = _de_bruijn_table()
