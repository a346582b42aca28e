"""Progress of a training: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import io
import logging
import re

import pytest
from rich.console import Console

from respect_core.policy.config import ImitationConfig
from respect_core.policy.epochs import EpochResult, RefinementPoint, TrainingStep
from tasks import train_progress
from tasks.train_progress import training_progress

CONFIG = ImitationConfig(epochs=3, batch_size=10, best_of_steps=60)
LOG = logging.getLogger("test-train-progress")
EPOCH = EpochResult(
    epoch=1,
    train_cost=0.5,
    baseline_cost=1.0,
    validation_cost=0.4,
    validation_gap=0.0125,
    gradient_norm=1.0,
    baseline_replaced=False,
    epoch_seconds=2.0,
    set_gaps={"held-out": 0.01, "wide-30": 0.02},
)
POINT = RefinementPoint(step=50, sampled_gap=0.04, best_gap=0.01, validation_gap=0.011)


def steps(epoch, count, phase="imitation"):
    return [TrainingStep(phase=phase, epoch=epoch, step=step, value=0.25) for step in range(1, count + 1)]


def show(console, caplog):
    with caplog.at_level(logging.INFO, LOG.name), training_progress(CONFIG, 95, LOG, console) as progress:
        for step in steps(1, 12):
            progress.step(step)
        progress.epoch(EPOCH)
        for step in steps(0, 50, "best-of"):
            progress.step(step)
        progress.point(POINT)
    return [record.getMessage() for record in caplog.records]


def test_lines_without_a_terminal(caplog):
    output = io.StringIO()
    lines = show(Console(file=output), caplog)
    assert output.getvalue() == ""
    assert lines == [
        "epoch 1 of at most 3: cost 0.4000, validation gap 1.25 % (held-out 1.00%, wide-30 2.00%), 2.0 s",
        "best of several, step 50 of 60: sampled 4.00 %, best of a group 1.00 %, validation gap 1.10 %",
    ]


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (TrainingStep(phase="imitation", epoch=1, step=1, value=0.25), []),
        (
            TrainingStep(phase="imitation", epoch=2, step=1, value=0.25),
            ["an interrupted training goes on, with epoch 2"],
        ),
        (
            TrainingStep(phase="best-of", epoch=0, step=21, value=0.25),
            ["an interrupted training goes on, with step 21 of the second phase"],
        ),
    ],
)
def test_a_training_that_was_killed_says_where_it_goes_on(caplog, first, said):
    console = Console(file=io.StringIO())
    with caplog.at_level(logging.INFO, LOG.name), training_progress(CONFIG, 95, LOG, console) as progress:
        progress.step(first)
        progress.step(first._replace(step=first.step + 1))
    assert [record.getMessage() for record in caplog.records] == said


def test_long_epochs_say_how_far_they_are_without_a_terminal(caplog, monkeypatch):
    monkeypatch.setattr(train_progress, "QUIET_S", 0.0)
    lines = show(Console(file=io.StringIO()), caplog)
    assert lines[0] == "epoch 1 of 3: step 1 of about 10, loss 0.2500"
    assert lines[11] == "epoch 1 of 3: step 12 of about 12, loss 0.2500"
    assert "best of several: step 50 of about 60, best of a group 25.00%, validation gap 1.25%" in lines


@pytest.mark.parametrize("width", [200])
def test_a_terminal_gets_a_bar_with_step_loss_and_gap(caplog, width):
    output = io.StringIO()
    lines = show(Console(file=output, force_terminal=True, width=width, legacy_windows=False), caplog)
    assert len(lines) == 2, "what the log keeps is the same"
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.getvalue())
    assert "12/12" in shown and "epoch 1 of 3: loss 0.2500" in shown
    assert "50/60" in shown and "best of several: best of a group 25.00%, validation gap 1.25%" in shown
