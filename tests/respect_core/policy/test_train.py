from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from respect_core.errors import BadInputError, TrainingDivergedError
from respect_core.policy import train as train_module
from respect_core.policy.checkpoint import CHECKPOINT_NAME, read_checkpoint
from respect_core.policy.config import PointerConfig, TrainConfig
from respect_core.policy.examples import group_by_size
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.solver import PolicySolver
from respect_core.policy.train import STATE_NAME, train
from respect_core.policy.training_state import load_weights
from respect_core.policy.validation import validate
from respect_core.solve.protocol import Problem, SolveOptions
from tests.training_examples import labelled

SMALL = PointerConfig(embed_size=8, hidden_size=8, slacks=(1.05, 1.2))
QUICK = TrainConfig(
    epochs=4,
    imitation_epochs=1,
    warmup_epochs=1,
    batch_size=8,
    learning_rate=1e-2,
    final_learning_rate=1e-3,
    entropy_weight=0.01,
    num_threads=1,
    seed=3,
)


def examples():
    return labelled(10, 8, (2, 3)), labelled(10, 4, (2, 3), seed=6)


def run(folder, config=QUICK, pointer=SMALL, on_epoch=None, data=None):
    folder.mkdir(exist_ok=True)
    training, validation = data or examples()
    return train(training, validation, folder=folder, config=config, pointer=pointer, on_epoch=on_epoch)


def curve(outcome):
    return [{k: v for k, v in asdict(e).items() if k != "epoch_seconds"} for e in outcome.epochs]


class KilledError(Exception):
    pass


def kill_after(epoch):
    def on_epoch(result):
        if result.epoch == epoch:
            raise KilledError

    return on_epoch


def test_every_epoch_is_reported_once_with_finite_numbers(tmp_path):
    seen = []
    outcome = run(tmp_path, on_epoch=seen.append)
    assert [r.epoch for r in seen] == [1, 2, 3, 4]
    assert tuple(seen) == outcome.epochs
    for result in seen:
        numbers = [v for v in asdict(result).values() if isinstance(v, float)]
        assert all(math.isfinite(x) for x in numbers)
        assert 0 <= result.train_cost <= 1 and 0 <= result.validation_cost <= 1
        assert result.validation_gap >= 0 and result.gradient_norm > 0
    assert [r.baseline_replaced for r in seen[:2]] == [False, True], "frozen at the end of the warm-up"


def test_the_best_network_is_kept_and_is_as_good_as_reported(tmp_path):
    outcome = run(tmp_path)
    assert outcome.best_gap == min([outcome.untrained_gap, *(e.validation_gap for e in outcome.epochs)])
    checkpoint = read_checkpoint(outcome.checkpoint)
    assert checkpoint.training["epoch"] == outcome.best_epoch
    assert checkpoint.training["validation_gap"] == outcome.best_gap
    network = PointerNetwork(checkpoint.config)
    load_weights(network, checkpoint.weights)
    _, gaps = validate(network, group_by_size(examples()[1]))
    assert float(gaps.mean()) == pytest.approx(outcome.best_gap)


def test_the_gap_of_training_is_the_gap_of_the_solver(tmp_path):
    outcome = run(tmp_path, config=replace(QUICK, epochs=1))
    solver = PolicySolver.from_checkpoint(outcome.checkpoint)
    gaps = []
    for example in examples()[1]:
        problem = Problem.of(example.graph, example.num_stages)
        found = solver.solve(problem, SolveOptions())
        gaps.append(found.value[0] / example.optimal_peak_bytes - 1)
    assert np.mean(gaps) == pytest.approx(outcome.best_gap)


def test_two_trainings_with_one_seed_give_the_same_curve_and_the_same_file(tmp_path):
    first, second = run(tmp_path / "a"), run(tmp_path / "b")
    assert curve(first) == curve(second)
    assert first.checkpoint.read_bytes() == second.checkpoint.read_bytes()
    other = run(tmp_path / "c", config=replace(QUICK, seed=4))
    assert curve(other) != curve(first)


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_killed_training_goes_on_to_the_same_curve(tmp_path, epoch):
    whole = run(tmp_path / "whole")
    with pytest.raises(KilledError):
        run(tmp_path / "killed", on_epoch=kill_after(epoch))
    new = []
    resumed = run(tmp_path / "killed", on_epoch=new.append)
    assert resumed.resumed_after == epoch
    assert [r.epoch for r in new] == list(range(epoch + 1, QUICK.epochs + 1))
    assert curve(resumed) == curve(whole)
    assert resumed.checkpoint.read_bytes() == whole.checkpoint.read_bytes()
    assert (resumed.untrained_gap, resumed.best_epoch) == (whole.untrained_gap, whole.best_epoch)


@pytest.mark.parametrize("spoil", ["other settings", "other data", "damaged", "gone"])
def test_a_state_of_another_training_or_a_damaged_one_is_not_continued(tmp_path, spoil):
    config, data = QUICK, None
    run(tmp_path, config=replace(QUICK, epochs=2) if spoil == "other settings" else QUICK)
    if spoil == "other data":
        data = (labelled(10, 7, (2, 3)), labelled(10, 4, (2, 3), seed=6))
    elif spoil == "damaged":
        state = tmp_path / STATE_NAME
        state.write_bytes(state.read_bytes()[:-10])
    elif spoil == "gone":
        (tmp_path / CHECKPOINT_NAME).unlink()
    assert run(tmp_path, config=config, data=data).resumed_after == 0


def test_a_finished_training_is_not_repeated(tmp_path):
    whole = run(tmp_path)
    again = run(tmp_path, on_epoch=kill_after(1))
    assert again.resumed_after == QUICK.epochs
    assert again.epochs == whole.epochs


def test_imitation_learns_its_examples(tmp_path):
    training = labelled(10, 3, (3,))
    config = replace(QUICK, epochs=60, imitation_epochs=60, learning_rate=2e-2, entropy_weight=0.0)
    pointer = PointerConfig(embed_size=16, hidden_size=16, slacks=(1.05, 1.1, 1.2))
    outcome = run(tmp_path, config=config, pointer=pointer, data=(training, training))
    assert outcome.best_gap <= min(0.02, outcome.untrained_gap)


def test_reinforce_lowers_the_cost_of_the_papers_network(tmp_path):
    training = labelled(10, 6, (3,)) * 10  # as if every graph were sampled ten times a step
    config = replace(QUICK, epochs=30, imitation_epochs=0, batch_size=60, learning_rate=1e-2, final_learning_rate=5e-3)
    pointer = PointerConfig(embed_size=16, hidden_size=16)
    outcome = run(tmp_path, config=config, pointer=pointer, data=(training, training))
    costs = [e.train_cost for e in outcome.epochs]
    assert np.mean(costs[-5:]) < 0.8 * costs[0]
    assert any(e.baseline_replaced for e in outcome.epochs[1:])


def test_examples_of_several_sizes_train_together(tmp_path):
    data = ([*labelled(8, 3), *labelled(10, 3)], [*labelled(10, 2, seed=6), *labelled(8, 2, seed=6)])
    outcome = run(tmp_path, data=data)
    assert len(outcome.epochs) == QUICK.epochs


def test_a_loss_that_becomes_nan_stops_with_step_and_graphs_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    honest = train_module.cosine_cost
    calls = []

    def spoilt(labels, rows):
        calls.append(1)
        return honest(labels, rows) * (math.nan if len(calls) > 30 else 1)

    monkeypatch.setattr(train_module, "cosine_cost", spoilt)
    config = replace(QUICK, imitation_epochs=0, epochs=30)
    with pytest.raises(TrainingDivergedError, match=r"step \d+ of epoch \d+: the loss is nan") as caught:
        run(tmp_path, config=config)
    assert "local-10-s5-" in str(caught.value) and CHECKPOINT_NAME in str(caught.value)
    assert np.isfinite(read_checkpoint(tmp_path / CHECKPOINT_NAME).weights["start"]).all()


def test_the_number_of_threads_is_set_for_the_training_only(tmp_path, monkeypatch):
    before = torch.get_num_threads()
    used = []
    run(tmp_path, config=replace(QUICK, epochs=1), on_epoch=lambda _: used.append(torch.get_num_threads()))
    assert used == [QUICK.num_threads]
    assert torch.get_num_threads() == before


def test_a_time_limit_ends_the_training_early(tmp_path):
    config = replace(QUICK, max_seconds=1e-9)
    outcome = run(tmp_path, config=config)
    assert len(outcome.epochs) == 1 and outcome.checkpoint.exists()
    assert run(tmp_path, config=config).epochs == outcome.epochs, "asking again does not buy more time"


def test_the_global_random_state_is_left_alone(tmp_path):
    before = torch.random.get_rng_state()
    run(tmp_path, config=replace(QUICK, epochs=1))
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    "values",
    [
        {"epochs": 0},
        {"batch_size": 1.5},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"max_gradient_norm": -1.0},
        {"warmup_decay": 1.5},
        {"num_threads": True},
        {"seed": -1},
    ],
)
def test_settings_outside_their_range_are_refused(values):
    with pytest.raises(BadInputError, match=rf"{next(iter(values))} is .*allowed are"):
        TrainConfig(**values)


def test_no_examples_are_refused(tmp_path):
    with pytest.raises(BadInputError):
        run(tmp_path, data=([], labelled(10, 4)))
