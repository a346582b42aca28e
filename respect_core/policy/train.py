"""Training the pointer network on fresh labelled graphs: imitation (if asked for), then REINFORCE.

One trainer for the published way and for ours; `respect_core.policy.pretrain_pointer` holds both settings.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import torch
from torch import Tensor

from respect_core.errors import TrainingDivergedError
from respect_core.graph import FloatArray
from respect_core.policy.baseline import p_value_lower
from respect_core.policy.checkpoint import CHECKPOINT_NAME, write_checkpoint, write_tensors
from respect_core.policy.config import PointerConfig, TrainConfig
from respect_core.policy.epochs import STATE_NAME, Curve, EpochResult, TrainOutcome, torch_threads
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.pointer_losses import Losses, with_batch_norm
from respect_core.policy.pointer_orders import DrawnGraphs
from respect_core.policy.training_state import (
    load_tensors,
    load_weights,
    read_state,
    tensors_of,
    weights_of,
    write_state,
)

_KIND: Final = "pointer-state"


class GraphSource(Protocol):
    """Where a training reads its graphs; one chunk is in memory at a time."""

    digest: str
    """Changes whenever any chunk does."""

    def graphs(self, epoch: int) -> DrawnGraphs:
        """Return the graphs of an epoch, the same ones at every call."""
        ...


def train(
    source: GraphSource,
    validation: DrawnGraphs,
    *,
    folder: Path,
    config: TrainConfig,
    pointer: PointerConfig,
    on_epoch: Callable[[EpochResult], None] | None = None,
) -> TrainOutcome:
    """Train a network on exact labels.

    The folder receives the best network by validation gap (`CHECKPOINT_NAME`; with batch norm it is no checkpoint that
    can be scheduled with) and, after each epoch, the state to go on from (`STATE_NAME`). If the folder holds the state
    of the same training (same settings, same labels), it is continued and gives the curve it would have given without
    the interruption; any other state is overwritten.

    In the results, validation costs are RESPECT's 1 - cosine and gaps those of the best of the budgets' greedy orders.
    While imitating, `train_cost` is the cross-entropy in nats over the steps where a label leaves a choice, and
    `baseline_cost` that of taking any allowed op; in REINFORCE they are the mean reward and its baseline.

    Args:
        source: Graphs to learn from.
        validation: Other graphs, to judge by.
        folder: An existing folder.
        config: How to train.
        pointer: The network's sizes.
        on_epoch: Called after each new epoch.

    Raises:
        TrainingDivergedError: A loss or gradient that is not finite; the message names the step and the graphs.
        UnwritableError: The folder cannot be written.
    """
    with torch_threads(config.num_threads), _quick_products():
        run = _Training(source, validation, folder, config, pointer)
        run.start()
        for epoch in run.curve.remaining(config.epochs):
            result = run.epoch(epoch)
            if on_epoch is not None:
                on_epoch(result)
        return run.curve.outcome(folder / CHECKPOINT_NAME)


class _Training:
    """One training; its attributes are what changes from epoch to epoch."""

    def __init__(
        self, source: GraphSource, validation: DrawnGraphs, folder: Path, config: TrainConfig, pointer: PointerConfig
    ) -> None:
        self.source, self.folder, self.config, self.pointer = source, folder, config, pointer
        self.belongs_to: dict[str, Any] = {
            "train_config": asdict(config),
            "pointer_config": {**asdict(pointer), "slacks": list(pointer.slacks)},
            "labels": source.digest,
            "validation": validation.digest,
        }
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.network = with_batch_norm(pointer) if config.batch_norm else PointerNetwork(pointer)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self.losses = Losses(config, self.network)
        self.validation = validation
        self.baseline_validation: list[float] = []
        self.curve, self.steps = Curve(), 0

    def start(self) -> None:
        """Go on from a saved state, or measure and keep the untrained network."""
        found = read_state(self.folder / STATE_NAME, _KIND, self.belongs_to)
        if found is not None and (self.folder / CHECKPOINT_NAME).exists():
            self._resume(*found)
            return
        costs, gaps = self.losses.validate(self.validation)
        self.curve.begin(float(costs.mean()), float(gaps.mean()))
        self._keep(0, self.curve.untrained_gap)

    def epoch(self, epoch: int) -> EpochResult:
        """Learn from one chunk of graphs, validate, replace the baseline if due, save."""
        began = time.perf_counter()
        config, losses = self.config, self.losses
        rng = np.random.default_rng([config.seed, epoch])
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        graphs = self.source.graphs(epoch)
        imitating = epoch <= config.imitation_epochs
        orders_each = graphs.num_stages.size if imitating else config.samples
        costs, baselines, norms = [], [], []
        for step, batch in enumerate(_batches(graphs, max(1, config.batch_size // orders_each), rng), 1):
            loss, cost, baseline = losses.imitate(batch, rng) if imitating else losses.reinforce(batch, rng, generator)
            norms.append(self._descend(loss, epoch, step, batch))
            costs.append(cost)
            baselines.append(baseline)
        validation_costs, gaps = losses.validate(self.validation)
        replaced = self._replace_baseline(epoch, validation_costs)
        result = EpochResult(
            epoch=epoch,
            train_cost=math.fsum(costs) / len(costs),
            baseline_cost=math.fsum(baselines) / len(baselines),
            validation_cost=float(validation_costs.mean()),
            validation_gap=float(gaps.mean()),
            gradient_norm=math.fsum(norms) / len(norms),
            baseline_replaced=replaced,
            epoch_seconds=time.perf_counter() - began,
        )
        if self.curve.add(result):
            self._keep(epoch, result.validation_gap)
        self._save()
        return result

    def _descend(self, loss: Tensor, epoch: int, step: int, batch: DrawnGraphs) -> float:
        """Take one clipped optimiser step; returns the gradient's norm."""
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.max_gradient_norm))
        if not (math.isfinite(float(loss.detach())) and math.isfinite(norm)):
            raise TrainingDivergedError(
                f"the training stopped at step {step} of epoch {epoch}: the loss is {float(loss.detach())} and the "
                f"gradient's norm {norm}; the batch held the graphs {', '.join(batch.names)}; the best "
                f"checkpoint so far is kept in {self.folder / CHECKPOINT_NAME}"
            )
        self.steps += 1
        rising = min(1.0, self.steps / self.config.rising_steps) if self.config.rising_steps else 1.0
        for settings in self.optimiser.param_groups:
            settings["lr"] = self._learning_rate(epoch) * rising
        self.optimiser.step()
        return norm

    def _learning_rate(self, epoch: int) -> float:
        """Fall along half a cosine in each of the two phases."""
        config = self.config
        if epoch <= config.imitation_epochs:
            done, first, last = (epoch - 1) / config.imitation_epochs, config.imitation_rate, config.learning_rate
        else:
            done = (epoch - 1 - config.imitation_epochs) / (config.epochs - config.imitation_epochs)
            first, last = config.learning_rate, config.final_learning_rate
        return last + (first - last) * 0.5 * (1 + math.cos(math.pi * done))

    def _replace_baseline(self, epoch: int, validation_costs: FloatArray) -> bool:
        """Freeze the network as the baseline after the warm-up, later where it is significantly better."""
        config, losses = self.config, self.losses
        if config.samples > 1 or epoch < config.imitation_epochs + config.warmup_epochs:
            return False
        if losses.baseline is not None:
            before = np.array(self.baseline_validation)
            if p_value_lower(validation_costs, before) >= config.baseline_p_value:
                return False
        losses.baseline = copy.deepcopy(self.network)
        self.baseline_validation = validation_costs.tolist()
        return True

    # -- files -----------------------------------------------------------------------------------------------------

    def _keep(self, epoch: int, gap: float) -> None:
        facts = {**self.belongs_to, "epoch": epoch, "validation_gap": gap}
        path, weights = self.folder / CHECKPOINT_NAME, weights_of(self.network)
        if self.config.batch_norm:
            write_tensors(path, weights, {"architecture": "pointer with batch norm", "training": facts})
        else:
            write_checkpoint(path, self.pointer, weights, facts)

    def _save(self) -> None:
        losses, tensors = self.losses, tensors_of(self.network, self.optimiser)
        if losses.baseline is not None:
            tensors |= {f"baseline.{name}": array for name, array in weights_of(losses.baseline).items()}
        facts = {
            **self.belongs_to,
            **self.curve.facts(),
            "steps": self.steps,
            "exponential_mean": losses.exponential_mean,
            "baseline_validation": self.baseline_validation,
        }
        write_state(self.folder / STATE_NAME, _KIND, tensors, facts)

    def _resume(self, tensors: dict[str, Any], facts: dict[str, Any]) -> None:
        load_tensors(tensors, self.network, self.optimiser)
        baseline = {n.removeprefix("baseline."): a for n, a in tensors.items() if n.startswith("baseline.")}
        if baseline:
            self.losses.baseline = copy.deepcopy(self.network)
            load_weights(self.losses.baseline, baseline)
        self.curve.resume(facts)
        self.steps = facts["steps"]
        self.losses.exponential_mean, self.baseline_validation = facts["exponential_mean"], facts["baseline_validation"]


def _batches(graphs: DrawnGraphs, size: int, rng: np.random.Generator) -> Iterator[DrawnGraphs]:
    """Yield the graphs in random order, ``size`` at a time; what is left at the end is not worth a step."""
    size = min(size, len(graphs.names))
    order = rng.permutation(len(graphs.names))
    for at in range(0, order.size - size + 1, size):
        yield graphs.pick(order[at : at + size])


@contextmanager
def _quick_products() -> Iterator[None]:
    """Let matrix products round their factors to 16 bits where the processor gains by it; sums stay 32 bits wide."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
