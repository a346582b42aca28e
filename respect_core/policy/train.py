"""Training the pointer network: imitation (if asked for), then REINFORCE with a greedy-rollout baseline.

What keeps it from collapsing, where the published training did: the decode is legal by construction, the baseline is a
frozen network that only a significantly better one replaces, gradients are clipped and the step size falls, and the
best network by validation gap is what is kept, whatever comes later.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from respect_core.errors import TrainingDivergedError
from respect_core.policy.baseline import p_value_lower
from respect_core.policy.checkpoint import CHECKPOINT_NAME, write_checkpoint
from respect_core.policy.config import PointerConfig, TrainConfig
from respect_core.policy.examples import (
    ExampleGroup,
    TrainingExample,
    cosine_cost,
    examples_digest,
    group_by_size,
    in_parts,
    shuffled_batches,
)
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.rollout import rollout
from respect_core.policy.training_state import Learner, load_weights, restore_state, save_state, weights_of
from respect_core.policy.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

STATE_NAME: Final = "training-state.safetensors"


@dataclass(frozen=True, kw_only=True)
class EpochResult:
    """One point of the training curve; costs are 1 - cosine, gaps fractions."""

    epoch: int
    """Counted from 1."""
    train_cost: float
    """Mean cost of the orders sampled in this epoch (after an imitation epoch: of one sampled batch)."""
    baseline_cost: float
    """Mean cost of the baseline: the exponential mean, then the frozen network's greedy orders."""
    validation_cost: float
    """Mean cost of the greedy orders on the validation examples."""
    validation_gap: float
    """Mean relative distance to the optimal peak memory of their optimal splits."""
    gradient_norm: float
    """Mean norm of the gradients before clipping."""
    baseline_replaced: bool
    """Whether this epoch's network became the baseline."""
    epoch_seconds: float


@dataclass(frozen=True, kw_only=True)
class TrainOutcome:
    """What a training left behind."""

    checkpoint: Path
    """The best network by validation gap; the untrained one if none was better."""
    best_epoch: int
    """Epoch of that network, 0 for the untrained one."""
    best_gap: float
    untrained_cost: float
    untrained_gap: float
    epochs: tuple[EpochResult, ...]
    """The whole curve, epochs before a resumption included."""
    resumed_after: int
    """Epochs that an earlier, interrupted training had done; 0 for a fresh one."""


def train(
    training: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    *,
    folder: Path,
    config: TrainConfig,
    pointer: PointerConfig,
    on_epoch: Callable[[EpochResult], None] | None = None,
) -> TrainOutcome:
    """Train a network on exact labels.

    The folder receives the best network (`CHECKPOINT_NAME`) and, after each epoch, the state to go on from
    (`STATE_NAME`). If the folder holds the state of the same training (same settings, same examples), it is continued
    and gives the curve it would have given without the interruption; any other state is overwritten.

    Args:
        training: Examples to learn from; any sizes and K.
        validation: Examples of other graphs, to judge by.
        folder: An existing folder.
        config: How to train.
        pointer: The network's sizes.
        on_epoch: Called after each new epoch.

    Raises:
        BadInputError: No examples on one of the two sides.
        TrainingDivergedError: A loss or gradient that is not finite; the message names the step and the graphs.
        UnwritableError: The folder cannot be written.
    """
    with torch_threads(config.num_threads):
        run = _Training(training, validation, folder, config, pointer)
        run.start()
        for epoch in range(len(run.epochs) + 1, config.epochs + 1):
            if config.max_seconds and math.fsum(e.epoch_seconds for e in run.epochs) > config.max_seconds:
                break
            result = run.epoch(epoch)
            if on_epoch is not None:
                on_epoch(result)
        return run.outcome()


class _Training:
    """One training; its attributes are what changes from epoch to epoch."""

    def __init__(
        self,
        training: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        folder: Path,
        config: TrainConfig,
        pointer: PointerConfig,
    ) -> None:
        self.groups, self.held_out = group_by_size(training), group_by_size(validation)
        self.folder, self.config, self.pointer = folder, config, pointer
        self.belongs_to: dict[str, Any] = {
            "train_config": asdict(config),
            "pointer_config": {**asdict(pointer), "slacks": list(pointer.slacks)},
            "training_digest": examples_digest(training),
            "validation_digest": examples_digest(validation),
        }
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            network = PointerNetwork(pointer)
        self.learner = Learner(
            network=network,
            baseline=copy.deepcopy(network),
            optimiser=torch.optim.Adam(network.parameters(), lr=config.learning_rate),
        )
        self.epochs: list[EpochResult] = []
        self.resumed_after = 0
        self.exponential_mean: float | None = None
        self.greedy_baseline = False
        self.baseline_costs: Tensor | None = None
        self.baseline_validation = np.empty(0)
        self.best_epoch, self.best_gap = 0, math.inf
        self.untrained_cost, self.untrained_gap = math.nan, math.nan

    def start(self) -> None:
        """Go on from a saved state, or measure and keep the untrained network."""
        facts = restore_state(self.folder / STATE_NAME, self.learner, self.belongs_to)
        if facts is not None and (self.folder / CHECKPOINT_NAME).exists():
            self.epochs = [EpochResult(**entry) for entry in facts["epochs"]]
            self.resumed_after = len(self.epochs)
            self.exponential_mean, self.greedy_baseline = facts["exponential_mean"], facts["greedy_baseline"]
            self.best_epoch, self.best_gap = facts["best_epoch"], facts["best_gap"]
            self.untrained_cost, self.untrained_gap = facts["untrained_cost"], facts["untrained_gap"]
            if self.greedy_baseline:
                self._measure_baseline()
            return
        costs, gaps = validate(self.learner.network, self.held_out)
        self.untrained_cost, self.untrained_gap = float(costs.mean()), float(gaps.mean())
        self._keep(0, self.untrained_cost, self.untrained_gap)

    def epoch(self, epoch: int) -> EpochResult:
        """Pass over the training examples once, validate, replace the baseline if due, save."""
        began = time.perf_counter()
        config, learner = self.config, self.learner
        generator = torch.Generator().manual_seed(
            int(np.random.SeedSequence([config.seed, epoch]).generate_state(1)[0])
        )
        for settings in learner.optimiser.param_groups:
            settings["lr"] = self._learning_rate(epoch)
        imitating = epoch <= config.imitation_epochs
        costs: list[float] = []
        norms = []
        for step, (group, which) in enumerate(shuffled_batches(self.groups, config.batch_size, generator), 1):
            if imitating:
                loss = self._imitation_loss(group, which, generator)
            else:
                loss, cost = self._reinforce_loss(group, which, generator)
                costs += cost.tolist()
            norms.append(self._descend(loss, epoch, step, group, which))
        if imitating:
            costs = self._sampled_costs(generator)
        train_cost = math.fsum(costs) / len(costs)
        baseline_cost = self._baseline_cost(train_cost if imitating else None)
        validation_costs, gaps = validate(learner.network, self.held_out)
        replaced = self._replace_baseline(epoch, validation_costs)
        validation_cost, gap = float(validation_costs.mean()), float(gaps.mean())
        result = EpochResult(
            epoch=epoch,
            train_cost=train_cost,
            baseline_cost=baseline_cost,
            validation_cost=validation_cost,
            validation_gap=gap,
            gradient_norm=math.fsum(norms) / len(norms),
            baseline_replaced=replaced,
            epoch_seconds=time.perf_counter() - began,
        )
        self.epochs.append(result)
        if gap < self.best_gap:
            self._keep(epoch, validation_cost, gap)
        self._save()
        return result

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

    # -- one step ------------------------------------------------------------------------------------------------

    def _imitation_loss(self, group: ExampleGroup, which: Tensor, generator: torch.Generator) -> Tensor:
        """Cross-entropy a step of choosing any ready op of the label's current stage."""
        led = rollout(self.learner.network, group.batch.pick(which), generator, labels=group.labels[which])
        return -led.log_prob.mean() / group.labels.shape[1]

    def _reinforce_loss(self, group: ExampleGroup, which: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Advantage times log-probability, less the entropy bonus; also returns the costs (B,)."""
        sampled = rollout(self.learner.network, group.batch.pick(which), generator)
        cost = cosine_cost(group.labels[which], sampled.rows)
        if self.baseline_costs is not None:
            baseline = self.baseline_costs[group.positions[which]]
        else:
            baseline = torch.full_like(cost, self._follow(float(cost.mean())))
        loss = ((cost - baseline) * sampled.log_prob).mean() - self.config.entropy_weight * sampled.entropy.mean()
        return loss, cost

    def _descend(self, loss: Tensor, epoch: int, step: int, group: ExampleGroup, which: Tensor) -> float:
        """Take one clipped optimiser step; returns the gradient's norm."""
        optimiser, network = self.learner.optimiser, self.learner.network
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(torch.nn.utils.clip_grad_norm_(network.parameters(), self.config.max_gradient_norm))
        if not (math.isfinite(float(loss.detach())) and math.isfinite(norm)):
            graphs = [group.examples[i].graph.name for i in which.tolist()]
            raise TrainingDivergedError(
                f"the training stopped at step {step} of epoch {epoch}: the loss is {float(loss.detach())} and the "
                f"gradient's norm {norm}; the batch held the graphs {', '.join(dict.fromkeys(graphs))}; the best "
                f"checkpoint so far is kept in {self.folder / CHECKPOINT_NAME}"
            )
        optimiser.step()
        return norm

    def _sampled_costs(self, generator: torch.Generator) -> list[float]:
        """Return the costs of one batch of orders sampled from the network as it is."""
        group, which = next(shuffled_batches(self.groups, self.config.batch_size, generator))
        with torch.no_grad():
            sampled = rollout(self.learner.network, group.batch.pick(which), generator)
        costs: list[float] = cosine_cost(group.labels[which], sampled.rows).tolist()
        return costs

    def _learning_rate(self, epoch: int) -> float:
        """Fall from the first to the final step size along a half cosine."""
        config = self.config
        progress = (epoch - 1) / max(1, config.epochs - 1)
        half = 0.5 * (1 + math.cos(math.pi * progress))
        return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * half

    # -- the baseline ----------------------------------------------------------------------------------------------

    def _follow(self, cost: float) -> float:
        """Move the exponential mean of the costs and return it."""
        decay, mean = self.config.warmup_decay, self.exponential_mean
        self.exponential_mean = cost if mean is None else decay * mean + (1 - decay) * cost
        return self.exponential_mean

    def _baseline_cost(self, imitated_cost: float | None) -> float:
        if self.baseline_costs is not None:
            return float(self.baseline_costs.mean())
        if imitated_cost is not None:
            return self._follow(imitated_cost)
        assert self.exponential_mean is not None  # a REINFORCE epoch has followed at least one batch
        return self.exponential_mean

    def _replace_baseline(self, epoch: int, validation_costs: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
        """Freeze the network as the baseline after the warm-up, later where it is significantly better."""
        config = self.config
        if epoch < config.imitation_epochs + config.warmup_epochs:
            return False
        if self.greedy_baseline:
            if validation_costs.size < 2:
                return False
            if p_value_lower(validation_costs, self.baseline_validation) >= config.baseline_p_value:
                return False
        load_weights(self.learner.baseline, weights_of(self.learner.network))
        self.greedy_baseline = True
        self._measure_baseline()
        return True

    def _measure_baseline(self) -> None:
        """Compute the baseline network's costs on all examples: they stay as they are until it is replaced."""
        baseline = self.learner.baseline
        costs = torch.empty(sum(len(group.examples) for group in self.groups))
        with torch.no_grad():
            for group in self.groups:
                for which in in_parts(torch.arange(len(group.examples)), self.config.batch_size):
                    rows = rollout(baseline, group.batch.pick(which)).rows
                    costs[group.positions[which]] = cosine_cost(group.labels[which], rows)
        self.baseline_costs = costs
        self.baseline_validation = validate(baseline, self.held_out)[0]

    # -- files -----------------------------------------------------------------------------------------------------

    def _keep(self, epoch: int, cost: float, gap: float) -> None:
        self.best_epoch, self.best_gap = epoch, gap
        facts = {**self.belongs_to, "epoch": epoch, "validation_cost": cost, "validation_gap": gap}
        write_checkpoint(self.folder / CHECKPOINT_NAME, self.pointer, weights_of(self.learner.network), facts)

    def _save(self) -> None:
        facts = {
            **self.belongs_to,
            "epochs": [asdict(result) for result in self.epochs],
            "exponential_mean": self.exponential_mean,
            "greedy_baseline": self.greedy_baseline,
            "best_epoch": self.best_epoch,
            "best_gap": self.best_gap,
            "untrained_cost": self.untrained_cost,
            "untrained_gap": self.untrained_gap,
        }
        save_state(self.folder / STATE_NAME, self.learner, facts)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with so many threads, and with as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
