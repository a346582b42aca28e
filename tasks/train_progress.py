"""How far a training is: a bar in a terminal, lines in the log elsewhere."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from respect_core.policy.config import ImitationConfig

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from respect_core.policy.epochs import EpochResult, RefinementPoint, TrainingStep

Log = logging.Logger | logging.LoggerAdapter[Any]

QUIET_S: Final = 30.0
"""Without a terminal, a line comes after so many seconds without one."""


class TrainingProgress:
    """Shows the steps of a training; its methods are what `train_imitation` calls.

    Args:
        config: How it is trained.
        num_labels: Labels that an epoch passes over, about.
        log: Where lines go.
        bar: A bar that is running, None for lines only.
    """

    def __init__(self, config: ImitationConfig, num_labels: int, log: Log, bar: Progress | None) -> None:
        self._config, self._log, self._bar = config, log, bar
        self._steps = max(1, math.ceil(num_labels / config.batch_size))
        self._task: TaskID | None = None
        self._at: tuple[str, int] = ("", -1)
        self._gap = math.nan
        self._spoke = time.monotonic()
        self._begun = False

    def step(self, step: TrainingStep) -> None:
        """Move on by a step."""
        imitating = step.phase == "imitation"
        if not self._begun:
            self._begun = True
            if imitating and step.epoch > 1:
                self._say("an interrupted training goes on, with epoch %d", step.epoch)
            elif not imitating and math.isnan(self._gap):
                self._say("an interrupted training goes on, with step %d of the second phase", step.step)
        total = self._steps if imitating else self._config.best_of_steps
        title = f"epoch {step.epoch} of {self._config.epochs}" if imitating else "best of several"
        value = f"loss {step.value:.4f}" if imitating else f"best of a group {step.value:.2%}"
        if self._bar is not None:
            self._show(step, title, max(total, step.step), value)
        elif time.monotonic() - self._spoke >= QUIET_S:
            self._say("%s: step %d of about %d, %s%s", title, step.step, max(total, step.step), value, self._so_far)
        if imitating:
            self._steps = max(self._steps, step.step)

    def epoch(self, result: EpochResult) -> None:
        """Say how an epoch ended."""
        self._gap = result.validation_gap
        self._say(
            "epoch %d of at most %d: cost %.4f, validation gap %.2f %%%s, %.1f s",
            result.epoch,
            self._config.epochs,
            result.validation_cost,
            100 * result.validation_gap,
            sets_text(result.set_gaps),
            result.epoch_seconds,
        )

    def point(self, point: RefinementPoint) -> None:
        """Say how far the second phase is."""
        self._gap = point.validation_gap
        self._say(
            "best of several, step %d of %d: sampled %.2f %%, best of a group %.2f %%, validation gap %.2f %%%s",
            point.step,
            self._config.best_of_steps,
            100 * point.sampled_gap,
            100 * point.best_gap,
            100 * point.validation_gap,
            sets_text(point.set_gaps),
        )

    @property
    def _so_far(self) -> str:
        return "" if math.isnan(self._gap) else f", validation gap {self._gap:.2%}"

    def _show(self, step: TrainingStep, title: str, total: int, value: str) -> None:
        assert self._bar is not None
        if self._task is None or self._at != (step.phase, step.epoch):
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task, self._at = self._bar.add_task(title, total=total), (step.phase, step.epoch)
        text = f"{title}: {value}{self._so_far}"
        self._bar.update(self._task, completed=step.step, total=total, description=text)

    def _say(self, text: str, *values: object) -> None:
        """Log a line; the bar gives way meanwhile, as the log has a console of its own."""
        if self._bar is not None:
            self._bar.stop()
        self._log.info(text, *values)
        if self._bar is not None:
            self._bar.start()
        self._spoke = time.monotonic()


@contextmanager
def training_progress(
    config: ImitationConfig, num_labels: int, log: Log, console: Console | None = None
) -> Iterator[TrainingProgress]:
    """Show progress for a ``with`` block, as a bar where the console (standard error) is a terminal."""
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = console or RichConsole(stderr=True)
    if not console.is_terminal:
        yield TrainingProgress(config, num_labels, log, None)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as bar:
        yield TrainingProgress(config, num_labels, log, bar)


def sets_text(set_gaps: dict[str, float]) -> str:
    """Return the gaps of the validation sets in brackets, nothing where there are none."""
    if not set_gaps:
        return ""
    return " (" + ", ".join(f"{name} {gap:.2%}" for name, gap in set_gaps.items()) + ")"
