"""Given orders of many small graphs: what was ready at every step, for scoring all steps of an order at once."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from respect_core.compiled import compiled
from respect_core.errors import BadInputError
from respect_core.graph import BoolArray, FloatArray, IntArray
from respect_core.policy.chunks import LabelChunk
from respect_core.policy.encoding import NUM_FEATURES, Float32Array, features_of_rows

MaskArray = NDArray[np.uint64]

MOST_OPS = 64
"""Sets of ops are bits of a word here; larger graphs are decoded, not trained on."""

NO_BUDGET = 2**62
"""Everything fits."""

_ONE = np.uint64(1)
_NONE = np.uint64(0)


class DrawnGraphs(NamedTuple):
    """G labelled graphs of n ops each, whose ops are numbered in topological order, and J labels of every graph."""

    names: tuple[str, ...]
    """Length G."""
    features: Float32Array
    """`node_features`. Shape (G, n, 15)."""
    parents: MaskArray
    """Bit i of ``parents[g, v]`` is set where op v reads what op i makes. Shape (G, n)."""
    param_bytes: IntArray
    """Shape (G, n)."""
    num_stages: IntArray
    """The K of each label, the same ones for every graph. Shape (J,)."""
    stages: IntArray
    """Stage of every op in each label. Shape (G, J, n)."""
    peak_bytes: IntArray
    """Proven smallest peak memory of each label. Shape (G, J)."""

    @property
    def digest(self) -> str:
        """SHA-256 over names, numbers and labels."""
        total = hashlib.sha256(repr(self.names).encode())
        for array in self[1:]:
            total.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return total.hexdigest()

    def pick(self, which: IntArray) -> DrawnGraphs:
        """Return the graphs of these indices."""
        return DrawnGraphs(
            tuple(self.names[i] for i in which.tolist()),
            self.features[which],
            self.parents[which],
            self.param_bytes[which],
            self.num_stages,
            self.stages[which],
            self.peak_bytes[which],
        )


def drawn_graphs(chunk: LabelChunk) -> DrawnGraphs:
    """Lay out a chunk whose graphs have one size and were labelled for the same K.

    Raises:
        BadInputError: Graphs of several sizes, above `MOST_OPS`, with other K than the first, or with ops that are not
            numbered in topological order.
    """
    graphs = np.unique(chunk.graph_of)
    sizes = np.unique(np.diff(chunk.op_start)[graphs])
    if sizes.size != 1 or sizes[0] > MOST_OPS:
        raise BadInputError(f"the graphs have the sizes {sizes.tolist()}, needed is one size of at most {MOST_OPS} ops")
    if np.any(chunk.edges[:, 0] >= chunk.edges[:, 1]):
        raise BadInputError("the ops of every graph must be numbered in topological order, an edge leads backwards")
    n, by_graph = int(sizes[0]), np.lexsort((chunk.num_stages, chunk.graph_of))
    stages = np.unique(chunk.num_stages)
    if len(chunk) != graphs.size * stages.size or np.any(chunk.num_stages[by_graph].reshape(graphs.size, -1) != stages):
        raise BadInputError(f"every graph needs one label for each K in {stages.tolist()}")
    ops = chunk.op_start[graphs][:, None] + np.arange(n)
    features = np.empty((graphs.size, n, NUM_FEATURES), dtype=np.float32)
    parents = np.zeros((graphs.size, n), dtype=np.uint64)
    param_bytes = chunk.loads[ops]
    for at, g in enumerate(graphs.tolist()):
        edges = chunk.edges[chunk.edge_start[g] : chunk.edge_start[g + 1]]
        features[at] = features_of_rows(edges, param_bytes[at])
        parents[at] = parent_bits(edges, n)
    entries = chunk.label_start[:-1][by_graph][:, None] + np.arange(n)
    return DrawnGraphs(
        names=tuple(chunk.ids[g] for g in graphs.tolist()),
        features=features,
        parents=parents,
        param_bytes=param_bytes,
        num_stages=stages,
        stages=chunk.stage_of[entries].reshape(graphs.size, stages.size, n).astype(np.int64),
        peak_bytes=chunk.peaks[by_graph].reshape(graphs.size, stages.size),
    )


def parent_bits(edges: IntArray, num_ops: int) -> MaskArray:
    """Return the parents of every op as bits (n,), for (producer, reader) pairs (e, 2)."""
    parents = np.zeros(num_ops, dtype=np.uint64)
    np.bitwise_or.at(parents, edges[:, 1], _ONE << edges[:, 0].astype(np.uint64))
    return parents


class Steps(NamedTuple):
    """What B orders of n ops met at their steps; R is the most ops that any step allows."""

    rows: IntArray
    """The orders. Shape (B, n)."""
    allowed: IntArray
    """Ops that may be taken at each step, ascending, op 0 beyond them. Shape (B, n, R)."""
    num_allowed: IntArray
    """Shape (B, n)."""
    led: BoolArray
    """True for the allowed ops that the label takes. Shape (B, n, R)."""
    loads: Float32Array
    """Of each allowed op, the budget's share it takes, and the share taken with it in the stage. Shape (B, n, R, 2)."""

    @property
    def known(self) -> BoolArray:
        """Return where ``allowed`` holds an op. Shape (B, n, R)."""
        return np.arange(self.allowed.shape[2]) < self.num_allowed[..., None]


def follow_labels(
    parents: MaskArray, stages: IntArray, param_bytes: IntArray, budgets: IntArray, draws: FloatArray
) -> Steps:
    """Follow B labels in random orders that take their stages one after the other.

    A step allows what fits into the label's stage, and what the label puts there.

    Args:
        parents: As in `DrawnGraphs`. Shape (B, n).
        stages: The labels. Shape (B, n).
        param_bytes: Shape (B, n).
        budgets: Bytes that a stage may hold, `NO_BUDGET` for a network that knows none. Shape (B,).
        draws: Numbers in [0, 1) that choose among the ready ops of the first unfinished stage. Shape (B, n).
    """
    steps = _room(*stages.shape)
    _follow(parents, stages, param_bytes, budgets, draws, *steps)
    return _trimmed(steps)


def follow_orders(parents: MaskArray, rows: IntArray, param_bytes: IntArray, budgets: IntArray) -> Steps:
    """Follow B given orders (B, n) as they were decoded: each step leads to one op."""
    steps = _room(*rows.shape)
    done, filled = np.zeros(len(rows), dtype=np.uint64), np.zeros(len(rows), dtype=np.int64)
    steps.rows[:] = rows
    for step in range(rows.shape[1]):
        steps.num_allowed[:, step] = allowed_ops(
            parents, done, param_bytes, budgets, filled, steps.allowed[:, step], steps.loads[:, step]
        )
        take(rows[:, step], param_bytes, budgets, done, filled)
    steps.led[:] = steps.allowed == rows[..., None]
    return _trimmed(steps._replace(led=steps.led & steps.known))


def _room(size: int, n: int) -> Steps:
    return Steps(
        rows=np.empty((size, n), dtype=np.int64),
        allowed=np.zeros((size, n, n), dtype=np.int64),
        num_allowed=np.empty((size, n), dtype=np.int64),
        led=np.zeros((size, n, n), dtype=np.bool_),
        loads=np.zeros((size, n, n, 2), dtype=np.float32),
    )


def _trimmed(steps: Steps) -> Steps:
    most = int(steps.num_allowed.max(initial=1))
    return Steps(
        steps.rows, steps.allowed[..., :most], steps.num_allowed, steps.led[..., :most], steps.loads[..., :most, :]
    )


@compiled
def _follow(
    parents: MaskArray,
    stages: IntArray,
    param_bytes: IntArray,
    budgets: IntArray,
    draws: FloatArray,
    rows: IntArray,
    allowed: IntArray,
    num_allowed: IntArray,
    led: BoolArray,
    loads: Float32Array,
) -> None:
    size, n = stages.shape
    for b in range(size):
        done, filled, stage = _NONE, np.int64(0), np.int64(-1)
        for step in range(n):
            first = np.int64(n)
            for v in range(n):
                if (done >> np.uint64(v)) & _ONE == _NONE and parents[b, v] & ~done == _NONE:
                    first = min(first, stages[b, v])
            if first != stage:
                stage, filled = first, np.int64(0)
            count, choices = 0, 0
            for v in range(n):
                if (done >> np.uint64(v)) & _ONE != _NONE or parents[b, v] & ~done != _NONE:
                    continue
                if filled + param_bytes[b, v] > budgets[b] and stages[b, v] != stage:
                    continue
                allowed[b, step, count] = v
                loads[b, step, count, 0] = param_bytes[b, v] / max(1, budgets[b])
                loads[b, step, count, 1] = (param_bytes[b, v] + filled) / max(1, budgets[b])
                if stages[b, v] == stage:
                    led[b, step, count] = True
                    choices += 1
                count += 1
            num_allowed[b, step] = count
            pick = int(draws[b, step] * choices)
            for i in range(count):
                if led[b, step, i]:
                    if pick == 0:
                        rows[b, step] = allowed[b, step, i]
                        break
                    pick -= 1
            done |= _ONE << np.uint64(rows[b, step])
            filled += param_bytes[b, rows[b, step]]


@compiled
def allowed_ops(
    parents: MaskArray,
    done: MaskArray,
    param_bytes: IntArray,
    budgets: IntArray,
    filled: IntArray,
    allowed: IntArray,
    loads: Float32Array,
) -> IntArray:
    """Find what each graph's next step allows: the ready ops that fit, or all ready ones where none does.

    Args:
        parents: As in `DrawnGraphs`. Shape (B, n).
        done: The ops taken already, as bits. Shape (B,).
        param_bytes: Shape (B, n).
        budgets: Shape (B,).
        filled: Bytes in the current stage. Shape (B,).
        allowed: Written to: the ops, ascending, 0 beyond them. Shape (B, n).
        loads: Written to: as in `Steps`. Shape (B, n, 2).

    Returns:
        How many each step allows. Shape (B,).
    """
    size, n = parents.shape
    num_allowed = np.zeros(size, np.int64)
    for b in range(size):
        for fitting in (True, False):
            if num_allowed[b]:
                break
            for v in range(n):
                if (done[b] >> np.uint64(v)) & _ONE != _NONE or parents[b, v] & ~done[b] != _NONE:
                    continue
                if fitting and filled[b] + param_bytes[b, v] > budgets[b]:
                    continue
                at = num_allowed[b]
                allowed[b, at] = v
                loads[b, at, 0] = param_bytes[b, v] / max(1, budgets[b])
                loads[b, at, 1] = (param_bytes[b, v] + filled[b]) / max(1, budgets[b])
                num_allowed[b] += 1
        allowed[b, num_allowed[b] :] = 0
    return num_allowed


@compiled
def take(chosen: IntArray, param_bytes: IntArray, budgets: IntArray, done: MaskArray, filled: IntArray) -> None:
    """Add the chosen ops (B,) to ``done`` and ``filled``: what exceeds the budget opens the next stage."""
    for b in range(chosen.size):
        own = param_bytes[b, chosen[b]]
        done[b] |= _ONE << np.uint64(chosen[b])
        filled[b] = own if filled[b] + own > budgets[b] else filled[b] + own
