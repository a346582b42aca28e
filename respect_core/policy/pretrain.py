"""Making the weights that come with the program: fresh graphs, exact labels, imitation, then the best of several.

    python -m respect_core.policy.pretrain OUT.safetensors [--chunks 84] [--epochs 4] [--best-of-steps 5000]

Graphs of all three families with 12 to 60 ops and K in 2..8, most of them with 30 ops and K = 4, 5, 6, from seeds that
no evaluation uses. Nothing is stored: a chunk of 2000 graphs is drawn and labelled again whenever it is needed, which
takes about a second.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from respect_core.policy.checkpoint import read_checkpoint, write_checkpoint
from respect_core.policy.chunks import LabelChunk, chunk_of, hold_out
from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.imitation import train_imitation
from respect_core.solve.label_batches import label_small_graphs
from respect_core.sources.synthetic import SyntheticSpec
from respect_core.sources.synthetic_batch import generate_tables

FIRST_SEED = 50_000
"""Chunk i is drawn with seed FIRST_SEED + i; the chunk before the first is the one to validate with."""

CHUNK_GRAPHS = 2000


class DrawnLabels:
    """Chunks of labels that are drawn and solved when they are asked for."""

    def __init__(self, num_chunks: int, graphs: int = CHUNK_GRAPHS) -> None:
        self.num_chunks, self._graphs = num_chunks, graphs
        self.digest = hashlib.sha256(f"{FIRST_SEED} {num_chunks} {graphs}".encode()).hexdigest()

    def chunk(self, index: int) -> LabelChunk:
        """Draw and label chunk ``index``."""
        return _drawn(index, self._graphs)


@lru_cache(maxsize=1)
def _drawn(index: int, graphs: int) -> LabelChunk:
    rng = np.random.default_rng([FIRST_SEED, index + 1])
    kinds = (("local", 0), ("wide", 0), ("local", 60), ("wide", 40), ("local", 0), ("wide", 0), ("paper", 0))
    family, largest = kinds[index % len(kinds)]
    num_ops, stages = 30, (2, 3, 8) if family == "paper" else (4, 5, 6)
    if largest:
        num_ops = int(rng.integers(12, largest + 1))
        stages = tuple(sorted(rng.choice(np.arange(2, 9), 3, replace=False).tolist()))
    tables = generate_tables(SyntheticSpec(family=family, num_ops=num_ops, seed=FIRST_SEED + index), range(graphs))
    return chunk_of(tables, label_small_graphs(tables, stages, "1", time_limit_s=60).labels)


def main() -> None:
    """Train and write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--chunks", type=int, default=84)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--best-of-steps", type=int, default=5000)
    parser.add_argument("--graphs", type=int, default=CHUNK_GRAPHS, help="graphs of a chunk")
    parser.add_argument("--folder", type=Path, help="keeps the state to go on from after a kill")
    args = parser.parse_args()
    source = DrawnLabels(args.chunks, args.graphs)
    _, held = hold_out(_drawn(-7, args.graphs), 0.5, 200, 0)  # local, 30 ops
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = train_imitation(
            source,
            held,
            folder=folder,
            config=ImitationConfig(epochs=args.epochs, best_of_steps=args.best_of_steps),
            network=NetworkConfig(),
            on_epoch=lambda result: _say(f"{result}"),
        )
        trained = read_checkpoint(outcome.checkpoint)
        write_checkpoint(args.out, trained.config, trained.weights, trained.training)
    _say(f"validation gap {outcome.best_gap:.4%}: {args.out}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
