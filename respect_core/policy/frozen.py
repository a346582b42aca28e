"""The frozen validation sets: problems that a training is judged on after every epoch, and that none is trained on.

Synthetic graphs of 30, 50 and 200 ops and the ten ImageNet models, for K = 4, 5, 6. Their optimal peaks were proven
once by the exact solver and are kept in `datasets/validation/optima.json`; see `respect_core.policy.frozen_optima`,
which makes the file. That no training uses the graphs is ensured twice: the seeds are refused to whoever plans a
training (`FROZEN_SEEDS`), and every chunk of labels is compared with the frozen graphs by content when it is read
(`FrozenSets.refuse`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from respect_core.errors import BadInputError, CorruptDatasetError
from respect_core.graph import FloatArray, IntArray
from respect_core.policy.chunks import ChunkSource, LabelChunk, chunk_of
from respect_core.policy.greedy import greedy_gaps
from respect_core.policy.scoring import Scorer
from respect_core.sources.catalog import IMAGENET_MODELS, load_model
from respect_core.sources.synthetic import SyntheticSpec
from respect_core.sources.synthetic_batch import generate_tables
from respect_core.tables.graph_rows import GraphTables, graphs_to_tables
from respect_core.tables.labels import LABELS

STAGES: Final = (4, 5, 6)
"""K of every frozen problem."""

IMAGENET: Final = "imagenet"
"""Name of the set of the ten models."""

OPTIMA_NAME: Final = "optima.json"

FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True)
class SyntheticSet:
    """The graphs of one frozen set."""

    family: str
    num_ops: int
    num_graphs: int
    seed: int
    """Of no training, no evaluation and no benchmark."""

    @property
    def name(self) -> str:
        """Such as ``local-30``."""
        return f"{self.family}-{self.num_ops}"

    def tables(self) -> GraphTables:
        """Draw the graphs."""
        spec = SyntheticSpec(family=self.family, num_ops=self.num_ops, seed=self.seed)
        return generate_tables(spec, range(self.num_graphs))


SYNTHETIC: Final = (
    SyntheticSet(family="local", num_ops=30, num_graphs=50, seed=4_100_030),
    SyntheticSet(family="local", num_ops=50, num_graphs=20, seed=4_100_050),
    SyntheticSet(family="local", num_ops=200, num_graphs=8, seed=4_100_200),
    SyntheticSet(family="wide", num_ops=30, num_graphs=50, seed=4_200_030),
)
"""Few enough graphs that judging a network takes about two seconds."""

FROZEN_SEEDS: Final = frozenset(entry.seed for entry in SYNTHETIC)
"""Nobody may train on graphs of these seeds."""


def frozen_tables() -> dict[str, GraphTables]:
    """Return the graphs of every frozen set by its name."""
    tables = {entry.name: entry.tables() for entry in SYNTHETIC}
    return {**tables, IMAGENET: graphs_to_tables([load_model(name) for name in IMAGENET_MODELS])}


@dataclass(frozen=True, kw_only=True, eq=False)
class ValidationSet:
    """Problems with proven optimal peaks, without schedules."""

    name: str
    chunk: LabelChunk

    @property
    def digest(self) -> str:
        """SHA-256 over graphs, K and optimal peaks."""
        return self.chunk.digest

    def __len__(self) -> int:
        return len(self.chunk)

    def gaps(self, scorer: Scorer) -> FloatArray:
        """Return the gap of the best of eight greedy orders for each problem; see `greedy_gaps`. Shape (L,)."""
        return greedy_gaps(self.chunk, np.arange(len(self.chunk)), scorer)


@dataclass(frozen=True, kw_only=True, eq=False)
class FrozenSets:
    """Validation sets and the check that no training sees their graphs."""

    sets: tuple[ValidationSet, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over the sets."""
        return hashlib.sha256("".join(f"{one.name} {one.digest}\n" for one in self.sets).encode()).hexdigest()

    @cached_property
    def _known(self) -> dict[bytes, str]:
        return {
            key: f"{name} of the frozen set {one.name}"
            for one in self.sets
            for key, name in zip(graph_keys(one.chunk), one.chunk.ids, strict=True)
        }

    def refuse(self, chunk: LabelChunk) -> None:
        """Refuse labels of a frozen graph, whatever name it goes by.

        Raises:
            BadInputError: A graph of the chunk is one of the frozen ones; both are named.
        """
        keys = graph_keys(chunk)
        for at in np.unique(chunk.graph_of).tolist():
            same = self._known.get(keys[at])
            if same is not None:
                raise BadInputError(
                    f"graph {chunk.ids[at]!r} is graph {same}, which judges trainings: train on graphs of another seed"
                )


class WatchedSource:
    """Labels of which no chunk may hold a frozen graph: each is compared the first time it is read."""

    def __init__(self, source: ChunkSource, frozen: FrozenSets) -> None:
        self.num_chunks, self.digest = source.num_chunks, source.digest
        self._source, self._frozen = source, frozen
        self._compared: set[int] = set()

    def chunk(self, index: int) -> LabelChunk:
        """Return a chunk of the source; see `FrozenSets.refuse`."""
        chunk = self._source.chunk(index)
        if index not in self._compared:
            self._frozen.refuse(chunk)
            self._compared.add(index)
        return chunk


def graph_keys(chunk: LabelChunk) -> list[bytes]:
    """Return a digest of each graph's edges: names, and weights that an objective changes, do not matter. Length G."""
    num_ops = np.diff(chunk.op_start).tolist()
    return [hashlib.sha256(f"{n} ".encode() + _edges(chunk, at).tobytes()).digest() for at, n in enumerate(num_ops)]


def _edges(chunk: LabelChunk, graph: int) -> IntArray:
    return chunk.edges[chunk.edge_start[graph] : chunk.edge_start[graph + 1]]


def without_labels(graphs: GraphTables, peaks: Mapping[str, Sequence[int | None]], name: str) -> ValidationSet:
    """Lay out graphs with their optimal peaks.

    Args:
        graphs: The graphs.
        peaks: For each graph's id its optimal peaks for `STAGES`, None where none is proven.
        name: Name of the set.
    """
    chunk = chunk_of(graphs, LABELS.table([]))
    rows = [
        (at, num_stages, peak)
        for at, graph in enumerate(chunk.ids)
        for num_stages, peak in zip(STAGES, peaks[graph], strict=True)
        if peak is not None
    ]
    graph_of, num_stages, peaks_of = (_whole(column) for column in zip(*rows, strict=True))
    return ValidationSet(
        name=name,
        chunk=replace(
            chunk,
            graph_of=graph_of,
            num_stages=num_stages,
            peaks=peaks_of,
            shares=np.zeros((graph_of.size, 4)),
            label_start=np.zeros(graph_of.size + 1, dtype=np.int64),
        ),
    )


def _whole(column: Sequence[int]) -> IntArray:
    return np.array(column, dtype=np.int64)


def graphs_digest(graphs: GraphTables) -> str:
    """Return a SHA-256 of the graphs of a set, which says whether kept optima are still theirs."""
    chunk = chunk_of(graphs, LABELS.table([]))
    return hashlib.sha256(chunk.loads.tobytes() + b"".join(graph_keys(chunk))).hexdigest()


def load_frozen_sets(path: Path | None = None) -> FrozenSets:
    """Draw the frozen sets and read their optimal peaks; takes a second.

    Args:
        path: The file of optima; the one that comes with the program if None.

    Raises:
        CorruptDatasetError: The file is missing, damaged, or of other graphs than those that are drawn now.
    """
    path = path or optima_path()
    kept = _kept(path)
    sets = []
    for name, graphs in frozen_tables().items():
        entry = kept.get(name)
        if entry is None or entry.get("graphs") != graphs_digest(graphs):
            raise CorruptDatasetError(
                f"{path} does not hold the optimal peaks of the frozen set {name!r} as its graphs are drawn now: make "
                f"it anew with `python -m respect_core.policy.frozen_optima --out {path}`"
            )
        try:
            sets.append(without_labels(graphs, entry["peaks"], name))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise CorruptDatasetError(
                f"{path}: the peaks of the frozen set {name!r} are damaged: restore it"
            ) from error
    return FrozenSets(sets=tuple(sets))


def optima_path() -> Path:
    """Return the file of optimal peaks: that of the checkout this package lies in, else where a wheel puts it.

    Raises:
        CorruptDatasetError: It is in neither place.
    """
    places = [
        Path(__file__).resolve().parents[2] / "datasets" / "validation" / OPTIMA_NAME,
        Path(sys.prefix) / "share" / "respect" / "validation" / OPTIMA_NAME,
    ]
    for place in places:
        if place.is_file():
            return place
    raise CorruptDatasetError(
        f"the validation sets' optimal peaks are in none of {', '.join(map(str, places))}: install the project again"
    )


def _kept(path: Path) -> dict[str, dict[str, Any]]:
    """Read the file: for each set its graphs' digest and their peaks."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise CorruptDatasetError(f"{path} has format {content['format']!r}, {FORMAT} is known")
        sets: dict[str, dict[str, Any]] = {entry["name"]: dict(entry) for entry in content["sets"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptDatasetError(f"{path} cannot be read as optimal peaks ({error}): restore it") from error
    return sets
