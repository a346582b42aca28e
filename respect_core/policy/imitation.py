"""Training the policy's network to imitate exact labels, streamed a chunk at a time, resumable after every epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from respect_core.errors import BadInputError, InputFileError, TrainingDivergedError
from respect_core.graph import FloatArray
from respect_core.policy.batches import ImitationBatch, batches_of, encode
from respect_core.policy.best_of import BestOfConfig, train_best_of
from respect_core.policy.checkpoint import (
    CHECKPOINT_NAME,
    Checkpoint,
    read_checkpoint,
    read_tensors,
    write_checkpoint,
    write_tensors,
)
from respect_core.policy.chunks import ChunkSource, LabelChunk
from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.greedy import greedy_gaps
from respect_core.policy.network import PolicyNetwork, imitation_loss, step_scores
from respect_core.policy.scoring import Scorer
from respect_core.policy.solver import pretrained_path
from respect_core.policy.train import STATE_NAME, EpochResult, TrainOutcome, torch_threads

REFINED_NAME: Final = "best-of.safetensors"
"""What the second phase made, whether it is kept or not."""

_KIND: Final = "imitation-state"
_VALIDATION_SEED: Final = 1


def train_imitation(
    source: ChunkSource,
    validation: LabelChunk,
    *,
    folder: Path,
    config: ImitationConfig,
    network: NetworkConfig,
    on_epoch: Callable[[EpochResult], None] | None = None,
) -> TrainOutcome:
    """Train a network on exact labels.

    The folder receives the best network by validation gap (`CHECKPOINT_NAME`) and, after each epoch, the state to go on
    from (`STATE_NAME`). If the folder holds the state of the same training (same settings, same labels), it is
    continued and gives the curve it would have given without the interruption; any other state is overwritten.

    In the results the costs are cross-entropies in nats, over the steps where a label leaves a choice: of the network
    (`train_cost`, `validation_cost`) and of taking any allowed op (`baseline_cost`); `validation_gap` is that of the
    best of eight greedy orders, without local search.

    Args:
        source: Labels to learn from; one chunk is in memory at a time.
        validation: Labels of other graphs, to judge by.
        folder: An existing folder.
        config: How to train.
        network: The network's sizes.
        on_epoch: Called after each new epoch.

    Raises:
        BadInputError: No labels on one of the two sides, or a warm start with other sizes.
        TrainingDivergedError: A loss or gradient that is not finite; the message names the step and the graphs.
        UnwritableError: The folder cannot be written.
    """
    with torch_threads(config.num_threads):
        run = _Imitation(source, validation, folder, config, network)
        run.start()
        for epoch in range(len(run.epochs) + 1, config.epochs + 1):
            if config.max_seconds and math.fsum(e.epoch_seconds for e in run.epochs) > config.max_seconds:
                break
            if config.patience and run.epochs and epoch - 1 - run.best_epoch >= config.patience:
                break
            result = run.epoch(epoch)
            if on_epoch is not None:
                on_epoch(result)
        if config.best_of_steps:
            run.refine()
        return run.outcome()


class _Imitation:
    """One training; its attributes are what changes from epoch to epoch."""

    def __init__(
        self,
        source: ChunkSource,
        validation: LabelChunk,
        folder: Path,
        config: ImitationConfig,
        network: NetworkConfig,
    ) -> None:
        if source.num_chunks < 1 or not len(validation):
            raise BadInputError("there are no labels to train or to validate with, at least one of each is needed")
        self.source, self.validation = source, validation
        self.folder, self.config, self.sizes = folder, config, network
        self.belongs_to: dict[str, Any] = {
            "config": asdict(config),
            "network": asdict(network),
            "labels": source.digest,
            "validation": validation.digest,
        }
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.network = PolicyNetwork(network)
        if config.warm_start:
            self._start_warm()
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self.epochs: list[EpochResult] = []
        self.resumed_after = 0
        self.best_epoch, self.best_gap = 0, math.inf
        self.untrained_cost, self.untrained_gap = math.nan, math.nan

    def _start_warm(self) -> None:
        shipped = read_checkpoint(pretrained_path())
        if shipped.config != self.sizes:
            raise BadInputError(
                f"a warm start takes the weights that come with the program, of {shipped.config}; got {self.sizes}"
            )
        self.network.load_state_dict({name: torch.from_numpy(w.copy()) for name, w in shipped.weights.items()})

    def start(self) -> None:
        """Go on from a saved state, or measure and keep the network as it is."""
        facts = self._restore()
        if facts is not None:
            self.epochs = [EpochResult(**entry) for entry in facts["epochs"]]
            self.resumed_after = len(self.epochs)
            self.best_epoch, self.best_gap = facts["best_epoch"], facts["best_gap"]
            self.untrained_cost, self.untrained_gap = facts["untrained_cost"], facts["untrained_gap"]
            return
        self.untrained_cost, gaps = self._validate()
        self.untrained_gap = float(gaps.mean())
        self._keep(0, self.untrained_cost, self.untrained_gap)

    def epoch(self, epoch: int) -> EpochResult:
        """Pass over all labels once, validate, save."""
        began = time.perf_counter()
        rng = np.random.default_rng([self.config.seed, epoch])
        for settings in self.optimiser.param_groups:
            settings["lr"] = self._learning_rate(epoch)
        losses, plain, norms = [], [], []
        for step, batch in enumerate(self._batches(rng), 1):
            loss = self._loss(batch)
            norms.append(self._descend(loss, epoch, step, batch))
            losses.append(float(loss.detach()))
            plain.append(_uniform_cost(batch))
        cost, gaps = self._validate()
        gap = float(gaps.mean())
        result = EpochResult(
            epoch=epoch,
            train_cost=math.fsum(losses) / len(losses),
            baseline_cost=math.fsum(plain) / len(plain),
            validation_cost=cost,
            validation_gap=gap,
            gradient_norm=math.fsum(norms) / len(norms),
            baseline_replaced=False,
            epoch_seconds=time.perf_counter() - began,
        )
        self.epochs.append(result)
        if gap < self.best_gap:
            self._keep(epoch, cost, gap)
        self._save()
        return result

    def refine(self) -> None:
        """Train the best network on by `train_best_of`, and keep the result where its validation gap is better.

        The phase begins and ends with a file, so a kill within it costs this phase only.
        """
        path = self.folder / REFINED_NAME
        refined = self._refined(path)
        if refined is None:
            config = BestOfConfig(steps=self.config.best_of_steps, seed=self.config.seed)
            train_best_of(self.source, read_checkpoint(self.folder / CHECKPOINT_NAME), path, config)
            refined = read_checkpoint(path)
        scorer = Scorer(self.sizes, refined.weights)
        gap = float(greedy_gaps(self.validation, np.arange(len(self.validation)), scorer).mean())
        if gap < self.best_gap:
            self.best_gap = gap
            facts = {**refined.training, "validation_gap": gap}
            write_checkpoint(self.folder / CHECKPOINT_NAME, self.sizes, refined.weights, facts)

    def _refined(self, path: Path) -> Checkpoint | None:
        """Return what an earlier run of this training made of the second phase, None where there is nothing usable."""
        try:
            found = read_checkpoint(path)
        except InputFileError:
            return None
        same = all(found.training.get(key) == value for key, value in self.belongs_to.items())
        return found if same and found.config == self.sizes else None

    def outcome(self) -> TrainOutcome:
        """Sum the training up."""
        return TrainOutcome(
            checkpoint=self.folder / CHECKPOINT_NAME,
            best_epoch=self.best_epoch,
            best_gap=self.best_gap,
            untrained_cost=self.untrained_cost,
            untrained_gap=self.untrained_gap,
            epochs=tuple(self.epochs),
            resumed_after=self.resumed_after,
        )

    def _batches(self, rng: np.random.Generator) -> Iterator[ImitationBatch]:
        for index in rng.permutation(self.source.num_chunks).tolist():
            yield from batches_of(self.source.chunk(index), self.config.batch_size, rng)

    def _loss(self, batch: ImitationBatch) -> torch.Tensor:
        return imitation_loss(
            step_scores(
                self._coefficients(batch), torch.from_numpy(batch.dynamic), torch.from_numpy(batch.features[..., 0])
            ),
            torch.from_numpy(batch.allowed),
            torch.from_numpy(batch.led),
        )

    def _coefficients(self, batch: ImitationBatch) -> torch.Tensor:
        out: torch.Tensor = self.network(
            torch.from_numpy(batch.features), torch.from_numpy(batch.parents), torch.from_numpy(batch.children)
        )
        return out

    def _descend(self, loss: torch.Tensor, epoch: int, step: int, batch: ImitationBatch) -> float:
        """Take one clipped optimiser step; returns the gradient's norm."""
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.max_gradient_norm))
        if not (math.isfinite(float(loss.detach())) and math.isfinite(norm)):
            raise TrainingDivergedError(
                f"the training stopped at step {step} of epoch {epoch}: the loss is {float(loss.detach())} and the "
                f"gradient's norm {norm}; the batch held the graphs {', '.join(dict.fromkeys(batch.graphs))}; the best "
                f"checkpoint so far is kept in {self.folder / CHECKPOINT_NAME}"
            )
        self.optimiser.step()
        return norm

    def _validate(self) -> tuple[float, FloatArray]:
        """Return the mean cross-entropy and the gap of every label, shape (L,)."""
        chunk, costs = self.validation, []
        sizes = chunk.num_ops
        for n in np.unique(sizes):
            which = np.flatnonzero(sizes == n)
            for at in range(0, which.size, self.config.batch_size):
                part = which[at : at + self.config.batch_size]
                batch = encode(chunk, part, _VALIDATION_SEED)
                with torch.no_grad():
                    costs.append(float(self._loss(batch)) * part.size)
        scorer = Scorer(self.sizes, self._weights())
        return math.fsum(costs) / len(chunk), greedy_gaps(chunk, np.arange(len(chunk)), scorer)

    def _learning_rate(self, epoch: int) -> float:
        """Fall from the first to the final step size along a half cosine."""
        config = self.config
        half = 0.5 * (1 + math.cos(math.pi * (epoch - 1) / max(1, config.epochs - 1)))
        return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * half

    # -- files -----------------------------------------------------------------------------------------------------

    def _weights(self) -> dict[str, Any]:
        return {name: tensor.detach().numpy().copy() for name, tensor in self.network.state_dict().items()}

    def _keep(self, epoch: int, cost: float, gap: float) -> None:
        self.best_epoch, self.best_gap = epoch, gap
        facts = {**self.belongs_to, "epoch": epoch, "validation_cost": cost, "validation_gap": gap}
        write_checkpoint(self.folder / CHECKPOINT_NAME, self.sizes, self._weights(), facts)

    def _save(self) -> None:
        tensors = {f"network.{name}": array for name, array in self._weights().items()}
        for name, parameter in self.network.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"adam.{key}.{name}"] = np.asarray(value.detach().numpy()).copy()
        facts = {
            **self.belongs_to,
            "epochs": [asdict(result) for result in self.epochs],
            "best_epoch": self.best_epoch,
            "best_gap": self.best_gap,
            "untrained_cost": self.untrained_cost,
            "untrained_gap": self.untrained_gap,
        }
        write_tensors(self.folder / STATE_NAME, tensors, {"kind": _KIND, "facts": facts})

    def _restore(self) -> dict[str, Any] | None:
        """Load the folder's state if it belongs to this training; None where it is absent, damaged or another's."""
        path = self.folder / STATE_NAME
        if not path.exists() or not (self.folder / CHECKPOINT_NAME).exists():
            return None
        try:
            tensors, header, _ = read_tensors(path)
        except InputFileError:
            return None
        facts = header.get("facts")
        if header.get("kind") != _KIND or not isinstance(facts, dict):
            return None
        if any(facts.get(key) != value for key, value in self.belongs_to.items()):
            return None
        self.network.load_state_dict(
            {name: torch.from_numpy(tensors[f"network.{name}"].copy()) for name in self.network.state_dict()}
        )
        for name, parameter in self.network.named_parameters():
            self.optimiser.state[parameter] = {
                key: torch.from_numpy(tensors[f"adam.{key}.{name}"].copy())
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"adam.{key}.{name}" in tensors
            }
        return facts


def _uniform_cost(batch: ImitationBatch) -> float:
    """Return the cross-entropy of taking any allowed op, over the steps where there is a choice."""
    allowed, led = batch.allowed.sum(axis=2), batch.led.sum(axis=2)
    choice = allowed != led
    return float(np.log(allowed[choice] / led[choice]).mean()) if choice.any() else 0.0
