"""Making the weights that come with the program: fresh graphs, exact labels, imitation, then the best of several.

    python -m respect_core.policy.pretrain OUT.safetensors --folder STATE

`peak-memory` labels of all three families with 12 to 60 ops and K in 2..8, most of them with 30 ops and K = 4, 5, 6;
`throughput` labels of smaller graphs under drawn devices. All come from seeds that no evaluation uses. At the end, and
with `--compare` without any training, the gaps of the new weights on the frozen validation sets are printed beside
those of the weights that come with the program now.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from respect_core.policy.best_of import train_best_of
from respect_core.policy.best_of_step import BestOfConfig
from respect_core.policy.checkpoint import Checkpoint, read_checkpoint, read_tensors, write_checkpoint
from respect_core.policy.chunks import joined
from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.drawn_labels import FIRST_SEED, DrawnLabels, labelled_chunk
from respect_core.policy.epochs import STATE_NAME
from respect_core.policy.imitation import train_imitation
from respect_core.policy.judge import Judge
from respect_core.policy.side_by_side import set_gaps, table_of
from respect_core.policy.solver import pretrained_path
from respect_core.sources.synthetic import SyntheticSpec

HELD_SEED = FIRST_SEED - 1
"""Of the graphs that decide which epoch is kept, and that show how the second phase goes."""

HELD_GRAPHS = 200
"""Of each of two families, for three K each."""

IMITATED_NAME = "imitated.safetensors"
REFINED_NAME = "refined.safetensors"
REFINED_STATE_NAME = "refined-state.safetensors"
_NETWORK = "network."


def main() -> None:
    """Train, write the checkpoint and compare it with the weights that come along; or only compare."""
    args = _arguments()
    if not args.compare:
        with tempfile.TemporaryDirectory() as scratch:
            folder = args.folder or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            train(args, folder)
    weights = {"now": pretrained_path(), "new": args.out}
    sys.stdout.write(table_of({name: set_gaps(read_checkpoint(path)) for name, path in weights.items()}))


def train(args: argparse.Namespace, folder: Path) -> None:
    """Go through both phases, or what a killed run has left of them, and write ``args.out``."""
    began = time.perf_counter()
    held = joined([
        labelled_chunk(SyntheticSpec(family=family, seed=HELD_SEED), HELD_GRAPHS, (4, 5, 6))
        for family in ("local", "wide")
    ])  # fmt: skip
    plain = DrawnLabels(plain=args.chunks, graphs=args.graphs, folder=folder)
    network = NetworkConfig()
    train_imitation(
        DrawnLabels(
            plain=args.chunks, timed=args.timed_chunks, repeats=args.repeats, graphs=args.graphs, folder=folder
        ),
        held,
        folder=folder,
        config=ImitationConfig(epochs=args.epochs),
        network=network,
        on_epoch=lambda result: _say(began, f"epoch {result.epoch}: gap {result.validation_gap:.3%}"),
    )
    train_best_of(
        plain,
        _imitated(folder, network),
        folder / REFINED_NAME,
        BestOfConfig(steps=args.best_of_steps),
        judge=Judge(network, held, None),
        on_point=lambda point: _say(began, f"step {point.step}: gap {point.validation_gap:.3%}"),
        state=folder / REFINED_STATE_NAME,
    )
    trained = read_checkpoint(folder / REFINED_NAME)
    write_checkpoint(args.out, trained.config, trained.weights, trained.training)


def _imitated(folder: Path, network: NetworkConfig) -> Checkpoint:
    """Return the last epoch's network, that of the smallest step size: what greedy orders say of epochs is noisy."""
    tensors, header, _ = read_tensors(folder / STATE_NAME)
    weights = {name.removeprefix(_NETWORK): array for name, array in tensors.items() if name.startswith(_NETWORK)}
    facts = {name: header["facts"][name] for name in ("config", "labels", "validation")}
    write_checkpoint(folder / IMITATED_NAME, network, weights, facts)
    return read_checkpoint(folder / IMITATED_NAME)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the new weights")
    parser.add_argument("--chunks", type=int, default=48, help="chunks of `peak-memory` labels")
    parser.add_argument("--timed-chunks", type=int, default=4, help="chunks of `throughput` labels")
    parser.add_argument("--repeats", type=int, default=4, help="how often an epoch takes those")
    parser.add_argument("--graphs", type=int, default=2000, help="graphs of a chunk")
    parser.add_argument("--epochs", type=int, default=10, help="of imitation")
    parser.add_argument("--best-of-steps", type=int, default=12_000, help="of the second phase")
    parser.add_argument("--folder", type=Path, help="keeps labels and the state to go on from after a kill")
    parser.add_argument("--compare", action="store_true", help="train nothing, OUT is there")
    return parser.parse_args()


def _say(began: float, text: str) -> None:
    sys.stderr.write(f"{time.perf_counter() - began:.0f} s, {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
