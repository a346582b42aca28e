"""Chunks of labels to batches of equally large graphs, encoded for the network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, FloatArray, IntArray
from respect_core.policy.chunks import LabelChunk
from respect_core.policy.features import NUM_FEATURES, Float32Array, fill_features, problem_globals
from respect_core.policy.teacher import follow_label
from respect_core.solve.local_search_random import random_state

NO_PROFILE = np.zeros(4)
"""The device does not matter to `peak-memory`."""


LOOSENED, LOOSER = 0.4, 0.03
"""Share of the labels taught under a larger budget than their peak, and by how much it is larger at most."""


class ImitationBatch(NamedTuple):
    """B labels of graphs with n ops each."""

    features: Float32Array
    """Shape (B, n, NUM_FEATURES)."""
    parents: Float32Array
    """Row v averages over the parents of op v. Shape (B, n, n)."""
    children: Float32Array
    """Shape (B, n, n)."""
    allowed: BoolArray
    """Shape (B, n, n): label, step, op."""
    led: BoolArray
    """Shape (B, n, n)."""
    dynamic: Float32Array
    """Shape (B, n, 2)."""
    graphs: tuple[str, ...]
    """Name of each graph, for messages."""


def batches_of(chunk: LabelChunk, batch_size: int, rng: np.random.Generator) -> Iterator[ImitationBatch]:
    """Yield every label of a chunk once, in batches of one size each, in random order."""
    sizes = chunk.num_ops
    parts: list[IntArray] = []
    for n in np.unique(sizes):
        which = rng.permutation(np.flatnonzero(sizes == n))
        parts += [which[at : at + batch_size] for at in range(0, which.size, batch_size)]
    for i in rng.permutation(len(parts)).tolist():
        yield encode(chunk, parts[i], int(rng.integers(2**62)))


def encode(chunk: LabelChunk, labels: IntArray, seed: int) -> ImitationBatch:
    """Encode some labels of a chunk, whose graphs have equally many ops."""
    size, n = labels.size, int(chunk.num_ops[labels[0]])
    batch = ImitationBatch(
        features=np.empty((size, n, NUM_FEATURES), dtype=np.float32),
        parents=np.zeros((size, n, n), dtype=np.float32),
        children=np.zeros((size, n, n), dtype=np.float32),
        allowed=np.empty((size, n, n), dtype=np.bool_),
        led=np.empty((size, n, n), dtype=np.bool_),
        dynamic=np.empty((size, n, 2), dtype=np.float32),
        graphs=tuple(chunk.ids[g] for g in chunk.graph_of[labels].tolist()),
    )
    state, loosen = random_state(seed), np.random.default_rng(seed)
    for b, label in enumerate(labels.tolist()):
        g = int(chunk.graph_of[label])
        ops, stages = slice(chunk.op_start[g], chunk.op_start[g + 1]), int(chunk.num_stages[label])
        load = chunk.loads[ops]
        budget = max(1, int(chunk.peaks[label]))
        if loosen.random() < LOOSENED:
            budget += int(budget * LOOSER * loosen.random())
        first, near = adjacency(chunk.edges[chunk.edge_start[g] : chunk.edge_start[g + 1]], n)
        fill_features(
            load, first, near, chunk.made_bytes[ops], stages, budget,
            problem_globals(n, stages, load, budget, chunk.shares[label]), batch.features[b],
        )  # fmt: skip
        averages(first, near, batch.parents[b], batch.children[b])
        label_ops = slice(chunk.label_start[label], chunk.label_start[label + 1])
        dynamic = np.empty((n, 2))
        follow_label(
            load, first, near, chunk.stage_of[label_ops], stages, budget, state,
            batch.allowed[b], batch.led[b], dynamic,
        )  # fmt: skip
        batch.dynamic[b] = dynamic
    return batch


@compiled
def adjacency(edges: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Return `first` and `near` of a `SearchGraph` for edges sorted by producer. Shapes (2 (n + 1),) and (2 e,)."""
    e = edges.shape[0]
    first = np.zeros(2 * (n + 1), np.int64)
    near = np.empty(2 * e, np.int64)
    for i in range(e):
        first[edges[i, 0] + 1] += 1
        first[n + 2 + edges[i, 1]] += 1
    for v in range(n):
        first[v + 1] += first[v]
        first[n + 2 + v] += first[n + 1 + v]
    for v in range(n + 1):
        first[n + 1 + v] += e
    free = first.copy()
    for i in range(e):
        near[free[edges[i, 0]]] = edges[i, 1]
        free[edges[i, 0]] += 1
        at = n + 1 + edges[i, 1]
        near[free[at]] = edges[i, 0]
        free[at] += 1
    return first, near


@compiled
def averages(first: IntArray, near: IntArray, parents: FloatArray, children: FloatArray) -> None:
    """Write the averaging matrices of one graph into zeros of shape (n, n) each."""
    n = parents.shape[0]
    for v in range(n):
        for r in range(first[v], first[v + 1]):
            children[v, near[r]] = 1.0 / (first[v + 1] - first[v])
        for r in range(first[n + 1 + v], first[n + 2 + v]):
            parents[v, near[r]] = 1.0 / (first[n + 2 + v] - first[n + 1 + v])
