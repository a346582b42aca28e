"""The second phase of a training: a network that imitates learns that the best of several samples be good.

It goes on from a kill: every few seconds, between two chunks of labels, weights, moments, random numbers and the curve
so far are saved, and what follows from them is the same as without the interruption.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from respect_core.errors import BadInputError
from respect_core.policy.best_of_step import BestOfConfig, best_of_step
from respect_core.policy.checkpoint import Checkpoint, write_checkpoint
from respect_core.policy.chunks import ChunkSource, LabelChunk
from respect_core.policy.config import NetworkConfig
from respect_core.policy.epochs import RefinementPoint, torch_threads
from respect_core.policy.features import Float32Array
from respect_core.policy.network import PolicyNetwork
from respect_core.policy.training_state import (
    load_tensors,
    load_weights,
    read_state,
    tensors_of,
    weights_of,
    write_state,
)

_BLOCK: Final = 40
"""Steps on one chunk of labels before another is drawn, at most."""

_KIND: Final = "best-of-state"

SAVE_EVERY_S: Final = 5.0
"""Seconds of work that a kill costs at most, about."""

POINTS: Final = 10
"""Points of the curve."""

LEAST_STEPS: Final = 50
"""Steps between two points at least: each costs a validation."""

Judge = Callable[[dict[str, Float32Array]], tuple[float, dict[str, float]]]
"""Returns the validation gap of weights, and each validation set's."""


class BestOfResult(NamedTuple):
    """What a step found out about its batch; gaps are to the optimal peak, without local search."""

    step: int
    mean_gap: float
    """Of all samples."""
    best_gap: float
    """Of the best in each group."""


def train_best_of(
    source: ChunkSource,
    start: Checkpoint,
    out: Path,
    config: BestOfConfig,
    on_step: Callable[[BestOfResult], None] | None = None,
    *,
    judge: Judge | None = None,
    on_point: Callable[[RefinementPoint], None] | None = None,
    state: Path | None = None,
    save_every_s: float | None = None,
) -> tuple[RefinementPoint, ...]:
    """Train a network on from a checkpoint and write the best one of the curve's points, the last one without a judge.

    Args:
        source: Labels; of them only the optimal peaks are used.
        start: A message-passing network.
        out: File of the new checkpoint.
        config: How to train.
        on_step: Called after every step.
        judge: Validates the network at every point of the curve; not done if None.
        on_point: Called with every new point of the curve.
        state: File of what an interrupted run goes on from. If it holds the state of the same training (same start,
            settings and labels), that is continued and ends with the same weights; it is removed at the end. Nothing
            is saved if None.
        save_every_s: Seconds between two savings, `SAVE_EVERY_S` if None.

    Returns:
        The whole curve, points before a resumption included.

    Raises:
        BadInputError: The checkpoint is of another architecture, or there are no labels.
        TrainingDivergedError: A gradient that is not finite; nothing is written.
        UnwritableError: The file cannot be written.
    """
    if not isinstance(start.config, NetworkConfig):
        raise BadInputError(f"checkpoint {start.version} is of another architecture, a message-passing one is needed")
    run = _BestOf(source, start, start.config, config)
    if state is not None:
        run.restore(state)
    saved, pause = time.monotonic(), SAVE_EVERY_S if save_every_s is None else save_every_s
    with torch_threads(1):
        while run.step < config.steps:
            for result in run.block():
                if on_step is not None:
                    on_step(result)
                if run.step % _point_every(config) and run.step < config.steps:
                    continue
                point = run.point(judge)
                if on_point is not None:
                    on_point(point)
            if state is not None and run.step < config.steps and time.monotonic() - saved >= pause:
                run.save(state)
                saved = time.monotonic()
    curve = [asdict(point) for point in run.points]
    facts = {**start.training, "best_of": asdict(config), "best_of_curve": curve if judge is not None else []}
    write_checkpoint(out, start.config, run.best or weights_of(run.network), facts)
    if state is not None:
        state.unlink(missing_ok=True)
    return tuple(run.points)


def _point_every(config: BestOfConfig) -> int:
    """Return the steps between two points of the curve; the last point is after the last step."""
    return max(LEAST_STEPS, math.ceil(config.steps / POINTS))


class _BestOf:
    """One run of the phase; its attributes are what changes from step to step."""

    def __init__(self, source: ChunkSource, start: Checkpoint, sizes: NetworkConfig, config: BestOfConfig) -> None:
        self.source, self.config = source, config
        self.belongs_to: dict[str, Any] = {
            "best_of": asdict(config),
            "labels": source.digest,
            "start": start.digest,
        }
        self.network = PolicyNetwork(sizes)
        load_weights(self.network, start.weights)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self.rng, self.step = np.random.default_rng(config.seed), 0
        self.points: list[RefinementPoint] = []
        self._since: list[tuple[float, float]] = []
        """Mean and best gap of each step since the last point."""
        self.best: dict[str, Float32Array] = {}
        """Weights of the point with the smallest validation gap; none without a judge."""

    def block(self) -> Iterator[BestOfResult]:
        """Take the steps on one chunk of labels; the state may be saved before and after, not in between."""
        config, rng = self.config, self.rng
        chunk = self._chunk(int(rng.integers(self.source.num_chunks)))
        sizes = chunk.num_ops
        which = rng.permutation(np.flatnonzero(sizes == int(rng.choice(np.unique(sizes)))))
        for at in range(0, min(which.size, _BLOCK * config.batch_size), config.batch_size):
            half = 0.5 * (1 + math.cos(math.pi * self.step / config.steps))
            for settings in self.optimiser.param_groups:
                settings["lr"] = config.learning_rate * half
            part = which[at : at + config.batch_size]
            gaps = best_of_step(self.network, self.optimiser, chunk, part, config, rng, self.step + 1)
            self.step += 1
            self._since.append(gaps)
            yield BestOfResult(step=self.step, mean_gap=gaps[0], best_gap=gaps[1])
            if self.step == config.steps:
                return

    def _chunk(self, first: int) -> LabelChunk:
        """Return a chunk, or the next one with labels: of some shards none may be proven."""
        count = self.source.num_chunks
        for index in range(first, first + count):
            chunk = self.source.chunk(index % count)
            if len(chunk):
                return chunk
        raise BadInputError("there are no labels to train with, at least one is needed")

    def point(self, judge: Judge | None) -> RefinementPoint:
        """Add a point to the curve."""
        sampled, best = np.array(self._since).mean(axis=0).tolist()  # (steps, 2) -> (2,)
        weights = weights_of(self.network)
        validation_gap, set_gaps = (math.nan, {}) if judge is None else judge(weights)
        if all(validation_gap < earlier.validation_gap for earlier in self.points):
            self.best = weights if judge is not None else {}
        point = RefinementPoint(
            step=self.step, sampled_gap=sampled, best_gap=best, validation_gap=validation_gap, set_gaps=set_gaps
        )
        self.points.append(point)
        self._since = []
        return point

    def save(self, path: Path) -> None:
        """Write everything that the next block depends on."""
        facts = {
            **self.belongs_to,
            "step": self.step,
            "random": self.rng.bit_generator.state,
            "points": [asdict(point) for point in self.points],
            "since": self._since,
        }
        best = {f"best.{name}": array for name, array in self.best.items()}
        write_state(path, _KIND, {**tensors_of(self.network, self.optimiser), **best}, facts)

    def restore(self, path: Path) -> None:
        """Go on from a saved state if it is this training's."""
        found = read_state(path, _KIND, self.belongs_to)
        if found is None:
            return
        tensors, facts = found
        load_tensors(tensors, self.network, self.optimiser)
        self.best = {n.removeprefix("best."): array for n, array in tensors.items() if n.startswith("best.")}
        self.step = facts["step"]
        self.rng.bit_generator.state = facts["random"]
        self.points = [RefinementPoint(**point) for point in facts["points"]]
        self._since = [(mean, best) for mean, best in facts["since"]]
