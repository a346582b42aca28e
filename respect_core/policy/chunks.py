"""Labelled graphs as a few flat arrays, a chunk at a time: what the policy is trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, FloatArray, IntArray
from respect_core.tables.domain_checks.columns import list_entries, numbers, ranges
from respect_core.tables.domain_checks.flat import flatten_graphs
from respect_core.tables.graph_rows import GraphTables


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelChunk:
    """G graphs with N ops and E edges in all, and L proven labels of them. Ops of edges count within their graph.

    Labels are optimal for `peak-memory`, or for `throughput` under some device. Then the stages share out the ops' own
    times, and as these depend on the device and K, every such label brings its graph along once more.
    """

    ids: tuple[str, ...]
    """Names of the graphs. Length G."""
    op_start: IntArray
    """First op of each graph. Shape (G + 1,)."""
    loads: IntArray
    """What the stages share out: parameter bytes, for `throughput` the loads of
    `respect_core.solve.local_search_run.op_loads` in ns. Shape (N,)."""
    made_bytes: IntArray
    """Bytes of the tensors that each op makes. Shape (N,)."""
    edge_start: IntArray
    """First edge of each graph. Shape (G + 1,)."""
    edges: IntArray
    """(producer, reader) pairs, sorted within each graph. Shape (E, 2)."""
    graph_of: IntArray
    """Graph of each label. Shape (L,)."""
    num_stages: IntArray
    """Shape (L,)."""
    peaks: IntArray
    """Proven smallest peak memory; for `throughput` the largest load of a stage in the label. Shape (L,)."""
    shares: FloatArray
    """What the device costs, `respect_core.policy.solver.profile_shares`; zeros for `peak-memory`. Shape (L, 4)."""
    label_start: IntArray
    """First entry of each label in ``stage_of``. Shape (L + 1,)."""
    stage_of: NDArray[np.int16]
    """Stages of the ops of all labels."""

    def __len__(self) -> int:
        return int(self.graph_of.size)

    @property
    def num_ops(self) -> IntArray:
        """Ops of the graph of each label. Shape (L,)."""
        return np.diff(self.op_start)[self.graph_of]

    @property
    def digest(self) -> str:
        """SHA-256 over all arrays and names."""
        total = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            content = repr(value).encode() if isinstance(value, tuple) else np.ascontiguousarray(value).tobytes()
            total.update(f"{field.name} {len(content)}\n".encode() + content)
        return total.hexdigest()

    def with_labels(self, which: IntArray) -> LabelChunk:
        """Return the same graphs with some of the labels only; ``which`` has shape (l,)."""
        lengths = np.diff(self.label_start)[which]
        starts = np.zeros(lengths.size + 1, dtype=np.int64)
        np.cumsum(lengths, out=starts[1:])
        return replace(
            self,
            graph_of=self.graph_of[which],
            num_stages=self.num_stages[which],
            peaks=self.peaks[which],
            shares=self.shares[which],
            label_start=starts,
            stage_of=self.stage_of[ranges(self.label_start[which], lengths)],
        )


def hold_out(chunk: LabelChunk, fraction: float, most: int, seed: int) -> tuple[LabelChunk, LabelChunk]:
    """Set a fraction of the *graphs* aside for validation, at most ``most``; all labels of a graph stay on one side.

    Returns:
        What is left to train on, and what is set aside; neither is empty.

    Raises:
        BadInputError: Fewer than two labelled graphs, or a fraction outside (0, 1).
    """
    graphs = np.unique(chunk.graph_of)
    if graphs.size < 2:
        raise BadInputError(
            f"{graphs.size} labelled graphs are too few to train and validate with, at least 2 are needed"
        )
    if not 0 < fraction < 1:
        raise BadInputError(f"the validation fraction is {fraction}, allowed are numbers in (0, 1)")
    count = min(graphs.size - 1, most, max(1, round(fraction * graphs.size)))
    aside = np.random.default_rng(seed).choice(graphs, size=count, replace=False)
    held = np.isin(chunk.graph_of, aside)
    return chunk.with_labels(np.flatnonzero(~held)), chunk.with_labels(np.flatnonzero(held))


class ChunkSource(Protocol):
    """Where a training reads its labels; only one chunk need be in memory."""

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        ...

    @property
    def digest(self) -> str:
        """Changes whenever any chunk does."""
        ...

    def chunk(self, index: int) -> LabelChunk:
        """Return chunk ``index``, the same one at every call."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunksInMemory:
    """A few chunks that are at hand."""

    chunks: tuple[LabelChunk, ...]

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return len(self.chunks)

    @property
    def digest(self) -> str:
        """SHA-256 over the chunks."""
        return hashlib.sha256("".join(chunk.digest for chunk in self.chunks).encode()).hexdigest()

    def chunk(self, index: int) -> LabelChunk:
        """Return a chunk."""
        return self.chunks[index]


def chunk_of(graphs: GraphTables, labels: pa.Table) -> LabelChunk:
    """Lay out graphs and their labels, rows of the table `labels` for `peak-memory`.

    Raises:
        BadInputError: A label that is not proven optimal, of another objective, of an unknown graph, of another length
            than its graph, or whose peak is not that of its own stages; the graph is named.
    """
    flat = flatten_graphs(graphs)
    graph_of = flat.index_of(labels["graph_id"])
    wrong = np.flatnonzero(
        (graph_of < 0)
        | ~np.asarray(pc.equal(labels["status"], "optimal").to_numpy(), dtype=np.bool_)
        | ~np.asarray(pc.equal(labels["objective"], "peak-memory").to_numpy(), dtype=np.bool_)
    )
    if wrong.size:
        row = labels.slice(int(wrong[0]), 1).to_pylist()[0]
        raise BadInputError(
            f"the label of graph {row['graph_id']!r} for {row['num_stages']} stages has status {row['status']!r} and "
            f"objective {row['objective']!r}: only labels of known graphs that are optimal for peak-memory can teach"
        )
    entries, _, lengths = list_entries(labels, "stage_of")
    starts = np.zeros(lengths.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    made = np.zeros(flat.param_bytes.size, dtype=np.int64)
    tensor_graph = np.repeat(np.arange(flat.num_graphs), np.diff(flat.tensor_start))
    known = flat.producer != UNKNOWN
    np.add.at(made, flat.op_start[tensor_graph[known]] + flat.producer[known], flat.tensor_bytes[known])
    sources, readers = flat.edges()
    edge_start = np.searchsorted(sources, flat.op_start).astype(np.int64)
    base = np.repeat(flat.op_start[:-1], np.diff(edge_start))
    chunk = LabelChunk(
        ids=tuple(flat.ids.to_pylist()),
        op_start=flat.op_start,
        loads=flat.param_bytes,
        made_bytes=made,
        edge_start=edge_start,
        edges=np.stack([sources - base, readers - base], axis=1),
        graph_of=graph_of,
        num_stages=numbers(labels, "num_stages").astype(np.int64),
        peaks=numbers(labels, "peak_param_bytes").astype(np.int64),
        shares=np.zeros((labels.num_rows, 4)),
        label_start=starts,
        stage_of=entries.astype(np.int16),
    )
    check_labels(chunk)
    return chunk


def joined(chunks: Sequence[LabelChunk]) -> LabelChunk:
    """Put chunks one after the other into one."""

    def starts(name: str) -> Any:
        return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(getattr(c, name)) for c in chunks]))])

    def rows(name: str) -> Any:
        return np.concatenate([getattr(c, name) for c in chunks])

    before = np.cumsum([0, *(len(c.ids) for c in chunks[:-1])])
    return LabelChunk(
        ids=tuple(name for c in chunks for name in c.ids),
        graph_of=np.concatenate([c.graph_of + first for c, first in zip(chunks, before.tolist(), strict=True)]),
        **{name: starts(name) for name in ("op_start", "edge_start", "label_start")},
        **{name: rows(name) for name in ("loads", "made_bytes", "edges", "num_stages", "peaks", "shares", "stage_of")},
    )


def check_labels(chunk: LabelChunk) -> None:
    """Refuse the first label that is no schedule with the peak it claims.

    Raises:
        BadInputError: There is one; its graph is named.
    """
    lengths = np.diff(chunk.label_start)
    rows = np.repeat(np.arange(len(chunk)), lengths)

    def refuse(label: int, why: str) -> None:
        name = chunk.ids[int(chunk.graph_of[label])]
        raise BadInputError(f"the label of graph {name!r} for {chunk.num_stages[label]} stages {why}")

    bad = np.flatnonzero(lengths != chunk.num_ops)
    if bad.size:
        refuse(int(bad[0]), f"has {lengths[bad[0]]} stages for {chunk.num_ops[bad[0]]} ops")
    outside = np.flatnonzero((chunk.stage_of < 0) | (chunk.stage_of >= chunk.num_stages[rows]))
    if outside.size:
        refuse(int(rows[outside[0]]), f"puts an op into stage {chunk.stage_of[outside[0]]}")
    ops = np.arange(rows.size) - chunk.label_start[rows] + chunk.op_start[chunk.graph_of[rows]]
    width = int(chunk.num_stages.max(initial=1))
    loads = np.zeros((len(chunk), width), dtype=np.int64)
    np.add.at(loads, (rows, chunk.stage_of), chunk.loads[ops])
    bad = np.flatnonzero(loads.max(axis=1, initial=0) != chunk.peaks)
    if bad.size:
        refuse(int(bad[0]), f"has the peak {loads[bad[0]].max()} bytes, the optimal one is {chunk.peaks[bad[0]]}")
    count = np.diff(chunk.edge_start)[chunk.graph_of]
    label = np.repeat(np.arange(len(chunk)), count)
    edge = np.arange(label.size) - np.repeat(np.cumsum(count) - count, count) + chunk.edge_start[chunk.graph_of[label]]
    ends = chunk.stage_of[chunk.label_start[label][:, None] + chunk.edges[edge]]
    backward = np.flatnonzero(ends[:, 0] > ends[:, 1])
    if backward.size:
        refuse(int(label[backward[0]]), "has an edge that leads to an earlier stage")
