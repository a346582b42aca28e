from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from respect_core.errors import BadInputError, InputFileError, TrainingDivergedError
from respect_core.policy import pointer_losses
from respect_core.policy.checkpoint import CHECKPOINT_NAME, read_checkpoint
from respect_core.policy.config import PointerConfig, TrainConfig
from respect_core.policy.encoding import features_of_rows
from respect_core.policy.epochs import STATE_NAME
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.pointer_losses import Losses
from respect_core.policy.pointer_orders import DrawnGraphs, parent_bits
from respect_core.policy.pretrain_pointer import draw
from respect_core.policy.solver import PolicySolver
from respect_core.policy.train import train
from respect_core.policy.training_state import load_weights
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.synthetic import SyntheticSpec, generate_graph

SMALL = PointerConfig(embed_size=8, hidden_size=8, slacks=(1.05, 1.2))
PLAIN = PointerConfig(embed_size=8, hidden_size=8)
HELD = SyntheticSpec(family="local", num_ops=10, seed=6)
OURS = TrainConfig(
    epochs=4,
    imitation_epochs=2,
    batch_size=12,
    samples=4,
    reward="gap",
    legal=True,
    batch_norm=False,
    learning_rate=1e-2,
    final_learning_rate=1e-3,
    rising_steps=3,
    entropy_weight=0.01,
    seed=3,
)
PUBLISHED = TrainConfig(epochs=4, batch_size=8, learning_rate=1e-2, seed=3)
WAYS = {"ours": (OURS, SMALL), "published": (PUBLISHED, PLAIN)}


class Drawn:
    """Fresh graphs of 10 ops, for K = 2, 3."""

    def __init__(self, each=24, seed=5, same=False):
        self.digest, self._each, self._seed, self._same = f"{each} {seed} {same}", each, seed, same

    def graphs(self, epoch):
        seed = self._seed if self._same else 100 * self._seed + epoch
        return draw(SyntheticSpec(family="local", num_ops=10, seed=seed), self._each, (2, 3))


def held(count=12):
    return draw(HELD, count, (2, 3))


def run(folder, way="ours", config=None, pointer=None, on_epoch=None, source=None, validation=None):
    folder.mkdir(exist_ok=True)
    usual, sizes = WAYS[way]
    return train(
        source or Drawn(),
        held() if validation is None else validation,
        folder=folder,
        config=config or usual,
        pointer=pointer or sizes,
        on_epoch=on_epoch,
    )


def curve(outcome):
    return [{k: v for k, v in asdict(e).items() if k != "epoch_seconds"} for e in outcome.epochs]


class KilledError(Exception):
    pass


def kill_after(epoch):
    def on_epoch(result):
        if result.epoch == epoch:
            raise KilledError

    return on_epoch


@pytest.mark.parametrize("way", WAYS)
def test_every_epoch_is_reported_once_with_finite_numbers(tmp_path, way):
    seen = []
    outcome = run(tmp_path, way, on_epoch=seen.append)
    assert [r.epoch for r in seen] == [1, 2, 3, 4]
    assert tuple(seen) == outcome.epochs
    for result in seen:
        assert all(math.isfinite(x) for x in asdict(result).values() if isinstance(x, float))
        assert 0 <= result.validation_cost <= 1 and result.validation_gap >= 0 and result.gradient_norm > 0
    assert [r.baseline_replaced for r in seen[:1]] == [way == "published"], "frozen at the end of the warm-up"


def test_the_best_network_is_kept_and_is_as_good_as_reported(tmp_path):
    outcome = run(tmp_path)
    assert outcome.best_gap == min([outcome.untrained_gap, *(e.validation_gap for e in outcome.epochs)])
    checkpoint = read_checkpoint(outcome.checkpoint)
    assert checkpoint.training["epoch"] == outcome.best_epoch
    network = PointerNetwork(checkpoint.config)
    load_weights(network, checkpoint.weights)
    _, gaps = Losses(OURS, network).validate(held())
    assert float(gaps.mean()) == pytest.approx(outcome.best_gap)


def test_the_gap_of_training_is_the_gap_of_the_solver(tmp_path):
    outcome, known = run(tmp_path), held()
    solver = PolicySolver.from_checkpoint(outcome.checkpoint)
    gaps = []
    for i in range(12):
        graph = generate_graph(HELD, i)
        for j, num_stages in enumerate((2, 3)):
            found = solver.solve(Problem.of(graph, num_stages), SolveOptions())
            gaps.append(found.value[0] / known.peak_bytes[known.names.index(graph.name), j] - 1)
    assert np.mean(gaps) == pytest.approx(outcome.best_gap)


@pytest.mark.parametrize("way", WAYS)
def test_two_trainings_with_one_seed_give_the_same_curve_and_the_same_file(tmp_path, way):
    first, second = run(tmp_path / "a", way), run(tmp_path / "b", way)
    assert curve(first) == curve(second)
    assert first.checkpoint.read_bytes() == second.checkpoint.read_bytes()
    other = run(tmp_path / "c", way, config=replace(WAYS[way][0], seed=4))
    assert curve(other) != curve(first)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_killed_training_goes_on_to_the_same_curve(tmp_path, way, epoch):
    whole = run(tmp_path / "whole", way)
    with pytest.raises(KilledError):
        run(tmp_path / "killed", way, on_epoch=kill_after(epoch))
    new = []
    resumed = run(tmp_path / "killed", way, on_epoch=new.append)
    assert resumed.resumed_after == epoch
    assert [r.epoch for r in new] == list(range(epoch + 1, 5))
    assert curve(resumed) == curve(whole)
    assert resumed.checkpoint.read_bytes() == whole.checkpoint.read_bytes()
    assert (resumed.untrained_gap, resumed.best_epoch) == (whole.untrained_gap, whole.best_epoch)


@pytest.mark.parametrize("spoil", ["other settings", "other labels", "damaged", "gone"])
def test_a_state_of_another_training_or_a_damaged_one_is_not_continued(tmp_path, spoil):
    run(tmp_path, config=replace(OURS, seed=9) if spoil == "other settings" else OURS)
    if spoil == "damaged":
        state = tmp_path / STATE_NAME
        state.write_bytes(state.read_bytes()[:-10])
    elif spoil == "gone":
        (tmp_path / CHECKPOINT_NAME).unlink()
    assert run(tmp_path, source=Drawn(25) if spoil == "other labels" else None).resumed_after == 0


def test_a_finished_training_is_not_repeated(tmp_path):
    whole = run(tmp_path)
    again = run(tmp_path, on_epoch=kill_after(1))
    assert again.resumed_after == 4 and again.epochs == whole.epochs


def test_imitation_learns_its_labels(tmp_path):
    source = Drawn(3, same=True)
    config = replace(OURS, epochs=60, imitation_epochs=60, imitation_rate=2e-2, entropy_weight=0.0)
    outcome = run(tmp_path, config=config, source=source, validation=source.graphs(1))
    assert outcome.epochs[-1].train_cost < 0.5 * outcome.epochs[0].baseline_cost
    assert outcome.best_gap <= min(0.02, outcome.untrained_gap)


def test_reinforce_lowers_the_gap_of_sampled_orders(tmp_path):
    source = Drawn(6, same=True)
    config = replace(OURS, epochs=40, imitation_epochs=0, batch_size=96, samples=16, final_learning_rate=5e-3)
    costs = [e.train_cost for e in run(tmp_path, config=config, source=source).epochs]
    assert np.mean(costs[-5:]) < 0.8 * np.mean(costs[:5])


def test_the_published_way_lowers_the_cosine_cost_and_replaces_its_baseline(tmp_path):
    source = Drawn(120, same=True)
    config = replace(PUBLISHED, epochs=25, batch_size=60)
    outcome = run(tmp_path, "published", config=config, source=source, validation=source.graphs(1))
    costs = [e.train_cost for e in outcome.epochs]
    assert np.mean(costs[-5:]) < 0.8 * costs[0]
    assert sum(e.baseline_replaced for e in outcome.epochs) > 1


def test_a_network_with_batch_norm_is_no_checkpoint_to_schedule_with(tmp_path):
    with pytest.raises(InputFileError, match="architecture 'pointer with batch norm'"):
        read_checkpoint(run(tmp_path, "published").checkpoint)


@pytest.mark.parametrize("edges", [[], [(0, 1), (1, 2)]], ids=["single", "chain"])
@pytest.mark.parametrize("way", WAYS)
def test_graphs_that_leave_no_choice_change_nothing_and_stop_nothing(tmp_path, way, edges):
    n = 1 + len(edges)
    pairs, param_bytes = np.array(edges, dtype=np.int64).reshape(-1, 2), np.arange(1, 24 * n + 1).reshape(24, n)
    graphs = DrawnGraphs(
        names=tuple(f"g{i}" for i in range(24)),
        features=np.stack([features_of_rows(pairs, row) for row in param_bytes]),
        parents=np.stack([parent_bits(pairs, n)] * 24),
        param_bytes=param_bytes,
        num_stages=np.array([1]),
        stages=np.zeros((24, 1, n), dtype=np.int64),
        peak_bytes=param_bytes.sum(axis=1, keepdims=True),
    )
    source = Drawn()
    source.graphs = lambda epoch: graphs
    config = replace(WAYS[way][0], legal=True)
    outcome = run(tmp_path, way, config=config, source=source, validation=graphs)
    assert [e.gradient_norm for e in outcome.epochs] == [0.0] * 4
    assert outcome.untrained_gap == 0.0 and {e.validation_gap for e in outcome.epochs} == {0.0}


def test_scores_that_become_nan_while_orders_are_sampled_stop_with_step_and_graphs(tmp_path, monkeypatch):
    honest, calls = Losses.reinforce, []

    def spoilt(self, *args):
        calls.append(1)
        if len(calls) == 3:
            self.network.pointer.v.data[0] = math.nan
        return honest(self, *args)

    monkeypatch.setattr(Losses, "reinforce", spoilt)
    with pytest.raises(TrainingDivergedError, match=r"step 3 of epoch 1: the loss is nan.*graphs local-10-s5"):
        run(tmp_path, config=replace(OURS, imitation_epochs=0))
    assert read_checkpoint(tmp_path / CHECKPOINT_NAME).training["epoch"] == 0


def test_a_loss_that_becomes_nan_stops_with_step_and_graphs_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    honest, calls = pointer_losses.cosine_costs, []

    def spoilt(stages, rows):
        calls.append(1)
        return honest(stages, rows) * (math.nan if len(calls) > 12 else 1)

    monkeypatch.setattr(pointer_losses, "cosine_costs", spoilt)
    config = replace(OURS, imitation_epochs=0, reward="cosine")
    with pytest.raises(TrainingDivergedError, match=r"step \d+ of epoch \d+: the loss is nan") as caught:
        run(tmp_path, config=config)
    assert "local-10-s5" in str(caught.value) and CHECKPOINT_NAME in str(caught.value)
    assert np.isfinite(read_checkpoint(tmp_path / CHECKPOINT_NAME).weights["start"]).all()


def test_threads_precision_and_random_state_are_left_as_they_were(tmp_path):
    before = torch.get_num_threads(), torch.get_float32_matmul_precision(), torch.random.get_rng_state()
    used = []
    run(tmp_path, config=replace(OURS, epochs=2), on_epoch=lambda _: used.append(torch.get_num_threads()))
    assert used == [OURS.num_threads] * 2
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == before[:2]
    assert torch.equal(torch.random.get_rng_state(), before[2])


@pytest.mark.parametrize(
    "values",
    [
        {"epochs": 0},
        {"epochs": 2, "imitation_epochs": 3},
        {"batch_size": 1.5},
        {"samples": 0},
        {"learning_rate": 0.0},
        {"imitation_rate": float("nan")},
        {"max_gradient_norm": -1.0},
        {"warmup_decay": 1.5},
        {"num_threads": True},
        {"legal": 1},
        {"reward": "makespan"},
        {"seed": -1},
    ],
)
def test_settings_outside_their_range_are_refused(values):
    with pytest.raises(BadInputError, match=rf"{list(values)[-1]} is .*allowed are"):
        TrainConfig(**values)
