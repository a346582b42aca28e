"""Labelled graphs drawn to train on, kept in a folder once they are solved."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from respect_core.errors import InputFileError
from respect_core.policy import timed_labels
from respect_core.policy.checkpoint import read_tensors, write_tensors
from respect_core.policy.chunks import LabelChunk, chunk_of
from respect_core.policy.timed_labels import draw_timed_labels, timed_chunk
from respect_core.solve.label_batches import label_small_graphs
from respect_core.sources.synthetic import SyntheticSpec
from respect_core.sources.synthetic_batch import generate_tables

FIRST_SEED: Final = 50_000
"""Chunk i for `peak-memory` is drawn with seed FIRST_SEED + i."""

KINDS: Final = (
    ("wide", 0), ("local", 0), ("wide", 0), ("wide", 44), ("local", 60), ("wide", 0),
    ("local", 0), ("wide", 0), ("paper", 0), ("wide", 44), ("local", 0), ("wide", 0),
)  # fmt: skip
"""Families of the chunks in turn, and the most ops of a chunk whose size and K are drawn: 0 means 30 ops, K = 4, 5, 6.
More than half are `wide`, where a network is furthest from the optimum."""

FEWEST_OPS: Final = 12

_KIND: Final = "label-chunk"


@dataclass(frozen=True, kw_only=True)
class DrawnLabels:
    """Chunks of labels that are drawn and solved when they are first asked for.

    First `plain` chunks for `peak-memory`, then `timed` ones for `throughput`, each `repeats` times: their labels cost
    more.
    """

    plain: int
    timed: int = 0
    repeats: int = 1
    graphs: int = 2000
    """Graphs of a chunk; for `peak-memory` each gives three labels, for `throughput` at most one."""
    folder: Path | None = None
    """Where solved chunks are kept; they are solved again and again if None."""

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return self.plain + self.timed * self.repeats

    @property
    def digest(self) -> str:
        """SHA-256 of what the chunks follow from."""
        drawn = (FIRST_SEED, KINDS, self.plain, self.timed, self.repeats, self.graphs)
        return hashlib.sha256(repr(drawn).encode()).hexdigest()

    def chunk(self, index: int) -> LabelChunk:
        """Return chunk ``index``."""
        is_timed = index >= self.plain
        number = (index - self.plain) % self.timed if is_timed else index
        name = f"{'timed' if is_timed else 'plain'}-{number}-{self.graphs}.safetensors"
        recipe = repr((FIRST_SEED, KINDS, FEWEST_OPS, timed_labels.RECIPE if is_timed else ()))
        kept = None if self.folder is None else _read(self.folder / name, recipe)
        if kept is not None:
            return kept
        chunk = timed_chunk(draw_timed_labels(number, self.graphs)) if is_timed else draw_chunk(number, self.graphs)
        if self.folder is not None:
            _write(self.folder / name, chunk, recipe)
        return chunk


def draw_chunk(index: int, graphs: int) -> LabelChunk:
    """Draw and label chunk ``index`` of `peak-memory`."""
    rng = np.random.default_rng([FIRST_SEED, index])
    family, largest = KINDS[index % len(KINDS)]
    num_ops, stages = 30, (2, 3, 8) if family == "paper" else (4, 5, 6)
    if largest:
        num_ops = int(rng.integers(FEWEST_OPS, largest + 1))
        stages = tuple(sorted(rng.choice(np.arange(2, 9), 3, replace=False).tolist()))
    return labelled_chunk(SyntheticSpec(family=family, num_ops=num_ops, seed=FIRST_SEED + index), graphs, stages)


def labelled_chunk(spec: SyntheticSpec, graphs: int, stages: tuple[int, ...]) -> LabelChunk:
    """Draw the first ``graphs`` graphs of a family and solve them for every K; what has too many down-sets is left."""
    tables = generate_tables(spec, range(graphs))
    return chunk_of(tables, label_small_graphs(tables, stages, "1", time_limit_s=60).labels)


def _write(path: Path, chunk: LabelChunk, recipe: str) -> None:
    arrays = {name: value for name, value in vars(chunk).items() if name != "ids"}
    write_tensors(path, arrays, {"kind": _KIND, "ids": chunk.ids, "recipe": recipe})


def _read(path: Path, recipe: str) -> LabelChunk | None:
    """Return a chunk that was kept; None where there is none, the file is damaged, or it was drawn in another way."""
    if not path.exists():
        return None
    try:
        arrays, header, _ = read_tensors(path)
    except InputFileError:
        return None
    wanted = {field.name for field in fields(LabelChunk)} - {"ids"}
    if header.get("kind") != _KIND or header.get("recipe") != recipe or set(arrays) != wanted:
        return None
    found: dict[str, Any] = arrays
    return LabelChunk(ids=tuple(header["ids"]), **found)
