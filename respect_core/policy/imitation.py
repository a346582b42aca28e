"""Training the policy's network to imitate exact labels, streamed a chunk at a time, resumable after every epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from respect_core.errors import BadInputError, InputFileError, TrainingDivergedError
from respect_core.policy.batches import ImitationBatch, batches_of, encode
from respect_core.policy.best_of import train_best_of
from respect_core.policy.best_of_step import BestOfConfig
from respect_core.policy.checkpoint import CHECKPOINT_NAME, Checkpoint, read_checkpoint, write_checkpoint
from respect_core.policy.chunks import ChunkSource, LabelChunk
from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.epochs import (
    STATE_NAME,
    Curve,
    EpochResult,
    RefinementPoint,
    TrainingStep,
    TrainOutcome,
    torch_threads,
)
from respect_core.policy.frozen import FrozenSets, WatchedSource
from respect_core.policy.judge import Judge
from respect_core.policy.network import PolicyNetwork, imitation_loss, step_scores
from respect_core.policy.solver import pretrained_path
from respect_core.policy.training_state import (
    load_tensors,
    load_weights,
    read_state,
    tensors_of,
    weights_of,
    write_state,
)

REFINED_NAME: Final = "best-of.safetensors"
"""What the second phase made, whether it is kept or not."""

REFINEMENT_STATE_NAME: Final = "best-of-state.safetensors"
"""What an interrupted second phase goes on from."""

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
    frozen: FrozenSets | None = None,
    on_step: Callable[[TrainingStep], None] | None = None,
    on_point: Callable[[RefinementPoint], None] | None = None,
) -> TrainOutcome:
    """Train a network on exact labels.

    The folder receives the best network by validation gap (`CHECKPOINT_NAME`) and, after each epoch, the state to go on
    from (`STATE_NAME`); the second phase saves its own every few seconds (`REFINEMENT_STATE_NAME`). If the folder holds
    the state of the same training (same settings, same labels), it is continued and gives the curve it would have given
    without the interruption; any other state is overwritten.

    In the results the costs are cross-entropies in nats, over the steps where a label leaves a choice: of the network
    (`train_cost`, `validation_cost`) and of taking any allowed op (`baseline_cost`). Gaps are those of the best of
    eight greedy orders, without local search. One criterion decides which network is kept and when a training ends
    early: `validation_gap`, the mean over all validation problems, of the labels set aside and of every frozen set. The
    points of the second phase are judged by it too.

    Args:
        source: Labels to learn from; one chunk is in memory at a time.
        validation: Labels of other graphs, to judge by.
        folder: An existing folder.
        config: How to train.
        network: The network's sizes.
        on_epoch: Called after each new epoch.
        frozen: Further sets to judge by; no label of their graphs may be trained on.
        on_step: Called after each step of both phases.
        on_point: Called with each new point of the second phase's curve.

    Raises:
        BadInputError: No labels on one of the two sides, a warm start with other sizes, or a graph of a frozen set
            among those to train on; it is named.
        TrainingDivergedError: A loss or gradient that is not finite; the message names the step and the graphs.
        UnwritableError: The folder cannot be written.
    """
    with torch_threads(config.num_threads):
        run = _Imitation(source, validation, folder, config, network, frozen)
        run.start()
        for epoch in run.curve.remaining(config.epochs, max_seconds=config.max_seconds, patience=config.patience):
            result = run.epoch(epoch, on_step)
            if on_epoch is not None:
                on_epoch(result)
        return run.refine(on_step, on_point) if config.best_of_steps else run.outcome()


class _Imitation:
    """One training; its attributes are what changes from epoch to epoch."""

    def __init__(
        self,
        source: ChunkSource,
        validation: LabelChunk,
        folder: Path,
        config: ImitationConfig,
        network: NetworkConfig,
        frozen: FrozenSets | None,
    ) -> None:
        if source.num_chunks < 1 or not len(validation):
            raise BadInputError("there are no labels to train or to validate with, at least one of each is needed")
        self.source = source if frozen is None else WatchedSource(source, frozen)
        self.validation, self.frozen = validation, frozen
        self.judge = Judge(network, validation, frozen)
        self.folder, self.config, self.sizes = folder, config, network
        self.belongs_to: dict[str, Any] = {
            "config": asdict(config),
            "network": asdict(network),
            "labels": source.digest,
            "validation": validation.digest,
        }
        if frozen is not None:
            self.belongs_to["frozen"] = frozen.digest
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.network = PolicyNetwork(network)
        if config.warm_start:
            self._start_warm()
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self.curve = Curve()
        self.best_set_gaps: dict[str, float] = {}

    def _start_warm(self) -> None:
        shipped = read_checkpoint(pretrained_path())
        if shipped.config != self.sizes:
            raise BadInputError(
                f"a warm start takes the weights that come with the program, of {shipped.config}; got {self.sizes}"
            )
        load_weights(self.network, shipped.weights)
        self.belongs_to["start"] = shipped.digest

    def start(self) -> None:
        """Go on from a saved state, or measure and keep the network as it is."""
        if self._restore():
            return
        cost, (gap, set_gaps) = self._validation_cost(), self.judge(weights_of(self.network))
        self.curve.begin(cost, gap)
        self._keep(0, cost, gap, set_gaps)

    def epoch(self, epoch: int, on_step: Callable[[TrainingStep], None] | None) -> EpochResult:
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
            if on_step is not None:
                on_step(TrainingStep(phase="imitation", epoch=epoch, step=step, value=losses[-1]))
        if not losses:
            raise BadInputError("there are no labels to train with, at least one is needed")
        cost, (gap, set_gaps) = self._validation_cost(), self.judge(weights_of(self.network))
        result = EpochResult(
            epoch=epoch,
            train_cost=math.fsum(losses) / len(losses),
            baseline_cost=math.fsum(plain) / len(plain),
            validation_cost=cost,
            validation_gap=gap,
            gradient_norm=math.fsum(norms) / len(norms),
            baseline_replaced=False,
            epoch_seconds=time.perf_counter() - began,
            set_gaps=set_gaps,
        )
        if self.curve.add(result):
            self._keep(epoch, cost, gap, set_gaps)
        facts = {**self.belongs_to, **self.curve.facts(), "best_set_gaps": self.best_set_gaps}
        write_state(self.folder / STATE_NAME, _KIND, tensors_of(self.network, self.optimiser), facts)
        return result

    def refine(
        self,
        on_step: Callable[[TrainingStep], None] | None,
        on_point: Callable[[RefinementPoint], None] | None,
    ) -> TrainOutcome:
        """Train the best network on by `train_best_of`, and keep the result where its validation gap is better."""
        path = self.folder / REFINED_NAME
        refined = self._refined(path)
        if refined is None:
            train_best_of(
                self.source,
                read_checkpoint(self.folder / CHECKPOINT_NAME),
                path,
                BestOfConfig(steps=self.config.best_of_steps, seed=self.config.seed),
                lambda result: on_step and on_step(TrainingStep("best-of", 0, result.step, result.best_gap)),
                judge=self.judge,
                on_point=on_point,
                state=self.folder / REFINEMENT_STATE_NAME,
            )
            refined = read_checkpoint(path)
        gap, set_gaps = self.judge(refined.weights)
        better = gap < self.curve.best_gap
        if better:
            self.curve.best_gap, self.best_set_gaps = gap, set_gaps
            facts = {**refined.training, "validation_gap": gap, "set_gaps": set_gaps}
            write_checkpoint(self.folder / CHECKPOINT_NAME, self.sizes, refined.weights, facts)
        points = tuple(RefinementPoint(**point) for point in refined.training.get("best_of_curve", []))
        return replace(self.outcome(), refinement=points, refined=better)

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
        return replace(self.curve.outcome(self.folder / CHECKPOINT_NAME), best_set_gaps=self.best_set_gaps)

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

    def _validation_cost(self) -> float:
        """Return the mean cross-entropy of the labels set aside."""
        chunk, costs = self.validation, []
        sizes = chunk.num_ops
        for n in np.unique(sizes):
            which = np.flatnonzero(sizes == n)
            for at in range(0, which.size, self.config.batch_size):
                part = which[at : at + self.config.batch_size]
                batch = encode(chunk, part, _VALIDATION_SEED)
                with torch.no_grad():
                    costs.append(float(self._loss(batch)) * part.size)
        return math.fsum(costs) / len(chunk)

    def _learning_rate(self, epoch: int) -> float:
        """Fall from the first to the final step size along a half cosine."""
        config = self.config
        half = 0.5 * (1 + math.cos(math.pi * (epoch - 1) / max(1, config.epochs - 1)))
        return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * half

    def _keep(self, epoch: int, cost: float, gap: float, set_gaps: dict[str, float]) -> None:
        """Write the network as the best one."""
        self.best_set_gaps = set_gaps
        facts = {**self.belongs_to, "epoch": epoch, "validation_cost": cost, "validation_gap": gap}
        if self.frozen is not None:
            facts["set_gaps"] = set_gaps
        write_checkpoint(self.folder / CHECKPOINT_NAME, self.sizes, weights_of(self.network), facts)

    def _restore(self) -> bool:
        """Load the folder's state if it belongs to this training; tells whether there is one."""
        if not (self.folder / CHECKPOINT_NAME).exists():
            return False
        found = read_state(self.folder / STATE_NAME, _KIND, self.belongs_to)
        if found is None:
            return False
        tensors, facts = found
        load_tensors(tensors, self.network, self.optimiser)
        self.curve.resume(facts)
        self.best_set_gaps = facts.get("best_set_gaps", {})
        return True


def _uniform_cost(batch: ImitationBatch) -> float:
    """Return the cross-entropy of taking any allowed op, over the steps where there is a choice."""
    allowed, led = batch.allowed.sum(axis=2), batch.led.sum(axis=2)
    choice = allowed != led
    return float(np.log(allowed[choice] / led[choice]).mean()) if choice.any() else 0.0
