"""Making the pointer network's weights that come with the program.

    OMP_NUM_THREADS=1 python -m respect_core.policy.pretrain_pointer OUT.safetensors [--folder STATE]

Graphs are drawn and labelled when they are needed, 2000 an epoch, from seeds that no evaluation uses: most of them
`local` with 30 ops and K = 4, 5, 6. The weights are rounded to 11 bits, which halves the file and, in the decode, what
an op reads of the recurrent matrices.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import numpy as np

from respect_core.policy.checkpoint import read_checkpoint, write_checkpoint
from respect_core.policy.chunks import chunk_of
from respect_core.policy.config import PointerConfig, TrainConfig
from respect_core.policy.decode import whole_exponent
from respect_core.policy.encoding import Float32Array
from respect_core.policy.pointer_orders import DrawnGraphs, drawn_graphs
from respect_core.policy.train import train
from respect_core.solve.label_batches import label_small_graphs
from respect_core.sources.synthetic import SyntheticSpec
from respect_core.sources.synthetic_batch import generate_tables

FIRST_SEED: Final = 90_000
"""The graphs of epoch i are drawn with seed FIRST_SEED + i, those to validate with before the first."""

SLACKS: Final = (1.04,)
"""First budget that the shipped network is asked for, over the lower bound."""

SHIPPED: Final = PointerConfig(slacks=SLACKS)
"""RESPECT's network of 256 units, told a budget."""

PUBLISHED: Final = TrainConfig()
"""RESPECT's training: REINFORCE from random weights on the cosine, visited ops masked, batch norm, greedy baseline."""

OURS: Final = TrainConfig(
    epochs=10,
    imitation_epochs=5,
    samples=8,
    reward="gap",
    legal=True,
    batch_norm=False,
    learning_rate=3e-4,
    final_learning_rate=2e-5,
    rising_steps=100,
    entropy_weight=1e-3,
)
"""Ours: imitation, then REINFORCE on the gap itself, eight orders of a graph compared with each other."""

_KINDS: Final = (("local", 30), ("local", 30), ("local", 0), ("local", 30), ("paper", 30))
"""Family and ops of the chunks in turn; 0 draws a number."""


class FreshGraphs:
    """The graphs of each epoch, drawn and labelled when they are asked for.

    Args:
        each: Graphs an epoch.
    """

    def __init__(self, each: int = 2000) -> None:
        self._each = each
        self.digest = hashlib.sha256(f"{FIRST_SEED} {each} {_KINDS}".encode()).hexdigest()

    def graphs(self, epoch: int) -> DrawnGraphs:
        """Draw and label the graphs of an epoch."""
        family, num_ops = _KINDS[epoch % len(_KINDS)]
        rng, stages = np.random.default_rng([FIRST_SEED, epoch]), (4, 5, 6)
        if not num_ops:
            num_ops = int(rng.integers(12, 41))
            stages = tuple(sorted(rng.choice(np.arange(2, 9), 3, replace=False).tolist()))
        elif family == "paper":
            stages = (2, 3, 8)
        return draw(SyntheticSpec(family=family, num_ops=num_ops, seed=FIRST_SEED + epoch), self._each, stages)


def draw(spec: SyntheticSpec, count: int, num_stages: tuple[int, ...] = (4, 5, 6)) -> DrawnGraphs:
    """Draw and label graphs."""
    tables = generate_tables(spec, range(count))
    return drawn_graphs(chunk_of(tables, label_small_graphs(tables, num_stages, "1", time_limit_s=60).labels))


def held_out(count: int = 150) -> DrawnGraphs:
    """Return the graphs that trainings are judged by: `local` with 30 ops."""
    return draw(SyntheticSpec(family="local", num_ops=30, seed=FIRST_SEED - 1), count)


def rounded(weights: Mapping[str, Float32Array]) -> dict[str, Float32Array]:
    """Round weights to float16, those of matrices also to whole multiples of one power of two that fit 16 bits.

    `decode.Factor` finds the multiples again, so that the decode reads half the bytes and computes the same.
    """
    out = {}
    for name, weight in weights.items():
        exponent = whole_exponent(weight) - 1  # one bit is left for what float16 rounds up
        multiples = np.ldexp(np.rint(np.ldexp(weight, exponent)), -exponent) if weight.ndim == 2 else weight
        out[name] = multiples.astype(np.float16).astype(np.float32)
    return out


def main() -> None:
    """Train and write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the checkpoint to write")
    parser.add_argument("--graphs", type=int, default=2000, help="graphs an epoch")
    parser.add_argument("--folder", type=Path, help="keeps the state to go on from after a kill")
    args = parser.parse_args()
    with nullcontext(args.folder) if args.folder else tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = train(
            FreshGraphs(args.graphs),
            held_out(),
            folder=folder,
            config=OURS,
            pointer=SHIPPED,
            on_epoch=lambda result: _say(f"{result}"),
        )
        trained = read_checkpoint(outcome.checkpoint)
        write_checkpoint(args.out, SHIPPED, rounded(trained.weights), trained.training, half=True)
    _say(f"validation gap {outcome.best_gap:.3%} in epoch {outcome.best_epoch}: {args.out}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
