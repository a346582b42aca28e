"""What every training has in common: a curve of epochs, when it ends, and what it leaves behind."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import torch

STATE_NAME: Final = "training-state.safetensors"
"""What a training goes on from, beside its checkpoint."""


@dataclass(frozen=True, kw_only=True)
class EpochResult:
    """One point of the training curve; costs are cross-entropies, 1 - cosine or gaps, gaps fractions."""

    epoch: int
    """Counted from 1."""
    train_cost: float
    """Mean cost while learning (pointer: the cross-entropy while it imitates, then the cost of the orders sampled)."""
    baseline_cost: float
    """Mean cost of the baseline (pointer: of any allowed op while it imitates; then the exponential mean, later the
    frozen network's greedy orders, or the orders sampled where these are compared with each other)."""
    validation_cost: float
    """Mean cost on the validation labels (pointer: always RESPECT's)."""
    validation_gap: float
    """Mean relative distance to the optimal peak memory over all validation problems: the training is judged by it."""
    gradient_norm: float
    """Mean norm of the gradients before clipping."""
    baseline_replaced: bool
    """Whether this epoch's network became the baseline."""
    epoch_seconds: float
    set_gaps: dict[str, float] = field(default_factory=dict)
    """Mean gap of each validation set by name; empty where there is one set only."""

    @property
    def numbers(self) -> dict[str, Any]:
        """Every field but the sets' gaps: a row of the table `training` without its run."""
        return {name: value for name, value in asdict(self).items() if name != "set_gaps"}


class TrainingStep(NamedTuple):
    """One optimiser step, as it is told to whoever shows progress."""

    phase: Literal["imitation", "best-of"]
    epoch: int
    """0 in the second phase."""
    step: int
    """Within the epoch or the phase, from 1."""
    value: float
    """The loss; in the second phase the mean gap of the best sampled orders."""


@dataclass(frozen=True, kw_only=True)
class RefinementPoint:
    """One point of the second phase's curve; gaps are fractions, without local search."""

    step: int
    """Steps taken so far."""
    sampled_gap: float
    """Mean gap of all orders sampled since the point before."""
    best_gap: float
    """Mean gap of the best order of each group, which is what this phase lowers."""
    validation_gap: float
    """As `EpochResult.validation_gap`; NaN where nothing is validated."""
    set_gaps: dict[str, float] = field(default_factory=dict)
    """As `EpochResult.set_gaps`."""


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
    refinement: tuple[RefinementPoint, ...] = ()
    """The curve of the second phase, if there was one."""
    refined: bool = False
    """Whether the second phase's network is the checkpoint."""
    best_set_gaps: dict[str, float] = field(default_factory=dict)
    """Mean gap of the checkpoint on each validation set; empty where there is one set only."""


class Curve:
    """The epochs of one training so far, and which of them was best."""

    def __init__(self) -> None:
        self.epochs: list[EpochResult] = []
        self.resumed_after = 0
        self.best_epoch, self.best_gap = 0, math.inf
        self.untrained_cost, self.untrained_gap = math.nan, math.nan

    def begin(self, cost: float, gap: float) -> None:
        """Take the untrained network's numbers: it is the best one until an epoch is better."""
        self.untrained_cost, self.untrained_gap = cost, gap
        self.best_epoch, self.best_gap = 0, gap

    def add(self, result: EpochResult) -> bool:
        """Add an epoch; returns whether it is the best one by validation gap."""
        self.epochs.append(result)
        if result.validation_gap >= self.best_gap:
            return False
        self.best_epoch, self.best_gap = result.epoch, result.validation_gap
        return True

    def remaining(self, epochs: int, *, max_seconds: float = 0.0, patience: int = 0) -> Iterator[int]:
        """Yield the numbers of the epochs that are left.

        Args:
            epochs: How many there are in all.
            max_seconds: None is begun once all before it took so long, resumed ones included; 0 sets no limit.
            patience: None is begun after so many without a better validation gap; 0 never stops early.
        """
        for epoch in range(len(self.epochs) + 1, epochs + 1):
            if max_seconds and math.fsum(result.epoch_seconds for result in self.epochs) > max_seconds:
                return
            if patience and self.epochs and epoch - 1 - self.best_epoch >= patience:
                return
            yield epoch

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON values, for `resume`."""
        return {
            "epochs": [asdict(result) for result in self.epochs],
            "best_epoch": self.best_epoch,
            "best_gap": self.best_gap,
            "untrained_cost": self.untrained_cost,
            "untrained_gap": self.untrained_gap,
        }

    def resume(self, facts: Mapping[str, Any]) -> None:
        """Go on from what `facts` returned."""
        self.epochs = [EpochResult(**entry) for entry in facts["epochs"]]
        self.resumed_after = len(self.epochs)
        self.best_epoch, self.best_gap = facts["best_epoch"], facts["best_gap"]
        self.untrained_cost, self.untrained_gap = facts["untrained_cost"], facts["untrained_gap"]

    def outcome(self, checkpoint: Path) -> TrainOutcome:
        """Sum the training up."""
        return TrainOutcome(
            checkpoint=checkpoint,
            best_epoch=self.best_epoch,
            best_gap=self.best_gap,
            untrained_cost=self.untrained_cost,
            untrained_gap=self.untrained_gap,
            epochs=tuple(self.epochs),
            resumed_after=self.resumed_after,
        )


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with so many threads, and with as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
