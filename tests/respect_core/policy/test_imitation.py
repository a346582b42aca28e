"""Imitation from the tables: labels that cannot teach are refused, curves repeat, killed trainings go on."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError, TrainingDivergedError
from respect_core.policy import best_of, imitation
from respect_core.policy.batches import batches_of, encode
from respect_core.policy.checkpoint import CHECKPOINT_NAME, read_checkpoint
from respect_core.policy.chunks import ChunksInMemory, chunk_of, hold_out
from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.epochs import STATE_NAME
from respect_core.policy.greedy import bare_graph, greedy_gaps
from respect_core.policy.imitation import train_imitation
from respect_core.policy.network import imitation_loss
from respect_core.policy.scoring import Scorer
from respect_core.policy.solver import PolicySolver
from respect_core.solve.label_batches import label_small_graphs
from respect_core.solve.local_search_graph import search_graph
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.synthetic import SyntheticSpec
from respect_core.sources.synthetic_batch import generate_tables
from respect_core.tables.graph_rows import tables_to_graphs
from respect_core.tables.labels import LABELS

SMALL = NetworkConfig(width=8, rounds=2)
QUICK = ImitationConfig(epochs=4, batch_size=16, learning_rate=1e-2, seed=3)


@cache
def tables(num_ops=12, count=12, seed=5):
    graphs = generate_tables(SyntheticSpec(family="local", num_ops=num_ops, seed=seed), range(count))
    return graphs, label_small_graphs(graphs, (2, 3), "1", time_limit_s=9.0).labels


@cache
def chunks():
    return tuple(chunk_of(*tables(n, 12, seed)) for n, seed in ((12, 5), (9, 6)))


def run(folder, config=QUICK, network=SMALL, on_epoch=None, **others):
    folder.mkdir(exist_ok=True)
    train, held = hold_out(chunks()[0], 0.25, 9, seed=0)
    source = ChunksInMemory(chunks=(train, chunks()[1]))
    return train_imitation(source, held, folder=folder, config=config, network=network, on_epoch=on_epoch, **others)


def curve(outcome):
    return [{k: v for k, v in asdict(e).items() if k != "epoch_seconds"} for e in outcome.epochs]


class KilledError(Exception):
    pass


def test_a_chunk_holds_what_the_tables_hold():
    graphs, labels = tables()
    chunk = chunk_of(graphs, labels)
    by_name = {graph.name: graph for graph in tables_to_graphs(graphs)}
    for at, row in enumerate(labels.to_pylist()):
        graph = by_name[chunk.ids[chunk.graph_of[at]]]
        assert graph.name == row["graph_id"] and chunk.num_stages[at] == row["num_stages"]
        stages = chunk.stage_of[chunk.label_start[at] : chunk.label_start[at + 1]]
        assert stages.tolist() == row["stage_of"]
        arrays, plain = bare_graph(chunk, int(chunk.graph_of[at])), search_graph(graph)
        for name in ("weight", "first", "near"):
            assert getattr(arrays, name).tolist() == getattr(plain, name).tolist()
        assert graph.is_topological(arrays.order)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "feasible"}, "status 'feasible'"),
        ({"objective": "throughput"}, "objective 'throughput'"),
        ({"graph_id": "nobody"}, "'nobody'"),
        ({"peak_param_bytes": 1}, "has the peak"),
        ({"stage_of": [0, 1]}, "2 stages for 12 ops"),
        ({"stage_of": [9] * 12}, "puts an op into stage 9"),
        ({"stage_of": [1] * 11 + [0]}, "the peak|earlier stage"),
    ],
)
def test_labels_that_cannot_teach_are_refused_with_the_graph(change, message):
    graphs, labels = tables()
    rows = labels.to_pylist()
    rows[3] = {**rows[3], **change}
    with pytest.raises(BadInputError, match=message) as caught:
        chunk_of(graphs, LABELS.table(rows))
    assert change.get("graph_id", rows[3]["graph_id"]) in str(caught.value)


def test_all_labels_of_a_graph_stay_on_one_side():
    train, held = hold_out(chunks()[0], 0.25, 9, seed=1)
    assert not set(train.graph_of.tolist()) & set(held.graph_of.tolist())
    assert len(train) + len(held) == len(chunks()[0]) and len(held) == 6
    assert hold_out(chunks()[0], 0.9, 2, seed=1)[1].num_stages.size == 4
    with pytest.raises(BadInputError, match="at least 2"):
        hold_out(chunks()[0].with_labels(np.array([0])), 0.5, 9, seed=0)
    with pytest.raises(BadInputError, match="fraction"):
        hold_out(chunks()[0], 1.0, 9, seed=0)


def test_every_label_is_in_one_batch_of_an_epoch():
    seen = [b.graphs for b in batches_of(chunks()[0], 5, np.random.default_rng(0))]
    assert sum(map(len, seen)) == len(chunks()[0]) and max(map(len, seen)) <= 5


@given(st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_the_teacher_takes_the_labels_stages_one_after_the_other(seed):
    chunk = chunks()[0]
    batch = encode(chunk, np.arange(4), seed)
    assert (batch.led <= batch.allowed).all() and batch.led.any(axis=2).all()
    for b in range(4):
        stages = chunk.stage_of[chunk.label_start[b] : chunk.label_start[b + 1]]
        at = [int(stages[step_ops][0]) for step_ops in batch.led[b]]
        assert at == sorted(at) and all((stages[ops] == k).all() for ops, k in zip(batch.led[b], at, strict=True))
    assert (batch.dynamic >= 0).all() and (batch.dynamic <= 1).all()


def test_the_loss_is_the_probability_of_what_the_label_takes():
    allowed = torch.tensor([[[True, True, True, False], [True, False, False, False]]])
    led = torch.tensor([[[True, True, False, False], [True, False, False, False]]])
    scores = torch.tensor([[[1.0, 2.0, 0.5, 9.0], [3.0, 9.0, 9.0, 9.0]]])
    weight = np.exp([1.0, 2.0, 0.5])
    assert float(imitation_loss(scores, allowed, led)) == pytest.approx(-math.log(weight[:2].sum() / weight.sum()))
    assert float(imitation_loss(scores, led, led)) == 0


def test_imitation_learns_its_examples(tmp_path):
    outcome = run(tmp_path, config=replace(QUICK, epochs=40))
    first, last = outcome.epochs[0], outcome.epochs[-1]
    assert last.train_cost < 0.8 * first.baseline_cost and last.train_cost < first.train_cost
    assert outcome.best_gap == min([outcome.untrained_gap, *(e.validation_gap for e in outcome.epochs)])
    checkpoint = read_checkpoint(outcome.checkpoint)
    assert checkpoint.training["epoch"] == outcome.best_epoch and checkpoint.config == SMALL


def test_the_gap_of_training_is_the_gap_of_the_bare_solver(tmp_path):
    outcome = run(tmp_path, config=replace(QUICK, epochs=1))
    _, held = hold_out(chunks()[0], 0.25, 9, seed=0)
    graphs = {graph.name: graph for graph in tables_to_graphs(tables()[0])}
    solver, gaps = PolicySolver.from_checkpoint(outcome.checkpoint).bare(), []
    for at in range(len(held)):
        problem = Problem.of(graphs[held.ids[held.graph_of[at]]], int(held.num_stages[at]))
        gaps.append(solver.solve(problem, SolveOptions()).value[0] / held.peaks[at] - 1)
    checkpoint = read_checkpoint(outcome.checkpoint)
    scorer = Scorer(checkpoint.config, checkpoint.weights)
    assert np.allclose(greedy_gaps(held, np.arange(len(held)), scorer), gaps)
    assert np.mean(gaps) == pytest.approx(outcome.best_gap)


def test_two_trainings_with_one_seed_give_the_same_curve_and_the_same_file(tmp_path):
    first, second = run(tmp_path / "a"), run(tmp_path / "b")
    assert curve(first) == curve(second)
    assert first.checkpoint.read_bytes() == second.checkpoint.read_bytes()
    assert curve(run(tmp_path / "c", config=replace(QUICK, seed=4))) != curve(first)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_killed_training_goes_on_to_the_same_curve(tmp_path, epoch):
    whole = run(tmp_path / "whole")

    def kill(result):
        if result.epoch == epoch:
            raise KilledError

    with pytest.raises(KilledError):
        run(tmp_path / "killed", on_epoch=kill)
    resumed = run(tmp_path / "killed")
    assert resumed.resumed_after == epoch and curve(resumed) == curve(whole)
    assert resumed.checkpoint.read_bytes() == whole.checkpoint.read_bytes()


@pytest.mark.parametrize("spoil", ["other settings", "damaged", "gone"])
def test_a_state_of_another_training_or_a_damaged_one_is_not_continued(tmp_path, spoil):
    run(tmp_path, config=replace(QUICK, epochs=2) if spoil == "other settings" else QUICK)
    if spoil == "damaged":
        (tmp_path / STATE_NAME).write_bytes((tmp_path / STATE_NAME).read_bytes()[:-10])
    elif spoil == "gone":
        (tmp_path / CHECKPOINT_NAME).unlink()
    assert run(tmp_path).resumed_after == 0


def test_a_loss_that_becomes_nan_stops_with_step_and_graphs_and_keeps_the_checkpoint(tmp_path, monkeypatch):
    honest, calls = imitation.imitation_loss, []

    def spoilt(*args):
        calls.append(1)
        return honest(*args) * (math.nan if len(calls) > 6 else 1)

    monkeypatch.setattr(imitation, "imitation_loss", spoilt)
    with pytest.raises(TrainingDivergedError, match=r"step \d+ of epoch \d+: the loss is nan") as caught:
        run(tmp_path)
    assert "local-" in str(caught.value) and CHECKPOINT_NAME in str(caught.value)
    assert np.isfinite(read_checkpoint(tmp_path / CHECKPOINT_NAME).weights["embed.bias"]).all()


def test_patience_and_the_clock_end_a_training_early(tmp_path):
    assert len(run(tmp_path / "clock", config=replace(QUICK, max_seconds=1e-9)).epochs) == 1
    patient = run(tmp_path / "patience", config=replace(QUICK, epochs=60, patience=2, learning_rate=1e-9))
    assert len(patient.epochs) == patient.best_epoch + 2


def test_a_warm_start_begins_with_the_weights_that_come_along(tmp_path):
    outcome = run(tmp_path / "warm", config=replace(QUICK, epochs=1, warm_start=True), network=NetworkConfig())
    cold = run(tmp_path / "cold", config=replace(QUICK, epochs=1), network=NetworkConfig())
    assert outcome.untrained_gap < cold.untrained_gap
    with pytest.raises(BadInputError, match="warm start"):
        run(tmp_path / "other", config=replace(QUICK, warm_start=True))


@pytest.mark.parametrize("values", [{"epochs": 0}, {"patience": -1}, {"learning_rate": 0.0}, {"warm_start": 1}])
def test_settings_outside_their_range_are_refused(values):
    with pytest.raises(BadInputError, match=rf"{next(iter(values))} is .*allowed are"):
        ImitationConfig(**values)
    with pytest.raises(BadInputError, match="width is"):
        NetworkConfig(width=0)


def test_no_labels_are_refused(tmp_path):
    with pytest.raises(BadInputError, match="no labels"):
        train_imitation(ChunksInMemory(chunks=()), chunks()[0], folder=tmp_path, config=QUICK, network=SMALL)
    unproven = chunk_of(tables()[0], LABELS.table([]))
    with pytest.raises(BadInputError, match="no labels"):
        train_imitation(ChunksInMemory(chunks=(unproven,)), chunks()[0], folder=tmp_path, config=QUICK, network=SMALL)


def test_a_shard_without_a_proven_label_is_passed_over_in_both_phases(tmp_path):
    unproven = chunk_of(tables()[0], LABELS.table([]))
    config = replace(QUICK, epochs=2, best_of_steps=60)
    outcome = train_imitation(
        ChunksInMemory(chunks=(unproven, chunks()[1])), chunks()[0], folder=tmp_path, config=config, network=SMALL
    )
    assert len(outcome.epochs) == 2 and outcome.refinement[-1].step == 60
    with pytest.raises(BadInputError, match="no labels"):
        best_of.train_best_of(
            ChunksInMemory(chunks=(unproven, unproven)),
            read_checkpoint(outcome.checkpoint),
            tmp_path / "a.safetensors",
            best_of.BestOfConfig(steps=2),
        )


def test_the_second_phase_is_kept_where_it_is_better_and_is_not_repeated(tmp_path, monkeypatch):
    config = replace(QUICK, epochs=1, best_of_steps=40)
    first = run(tmp_path / "a", config=config)
    plain = run(tmp_path / "b", config=replace(config, best_of_steps=0))
    assert first.best_gap <= plain.best_gap and curve(first) == curve(plain)
    assert (tmp_path / "a" / imitation.REFINED_NAME).exists()
    monkeypatch.setattr(imitation, "train_best_of", lambda *args, **others: pytest.fail("trained again"))
    again = run(tmp_path / "a", config=config)
    assert again.best_gap == first.best_gap and again.checkpoint.read_bytes() == first.checkpoint.read_bytes()


@pytest.mark.parametrize("at", [5, 33])
def test_a_training_killed_in_the_second_phase_goes_on_to_the_same_files(tmp_path, monkeypatch, at):
    monkeypatch.setattr(best_of, "_BLOCK", 5)
    monkeypatch.setattr(
        best_of.train_best_of, "__kwdefaults__", {**best_of.train_best_of.__kwdefaults__, "save_every_s": 0}
    )
    config = replace(QUICK, epochs=1, best_of_steps=40, learning_rate=1e-4)
    whole, points = run(tmp_path / "whole", config=config), []

    def kill(step):
        if step.phase == "best-of" and step.step == at:
            raise KilledError

    with pytest.raises(KilledError):
        run(tmp_path / "killed", config=config, on_step=kill)
    again = run(tmp_path / "killed", config=config, on_point=points.append)
    assert again.resumed_after == 1 and curve(again) == curve(whole)
    assert again.refinement == whole.refinement == tuple(points) and len(points) == 1
    for name in (CHECKPOINT_NAME, imitation.REFINED_NAME):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (tmp_path / "killed" / imitation.REFINEMENT_STATE_NAME).exists()


def test_every_step_of_both_phases_is_told(tmp_path):
    steps = []
    run(tmp_path, config=replace(QUICK, epochs=2, best_of_steps=5), on_step=steps.append)
    epochs = [[s.step for s in steps if s.epoch == epoch] for epoch in (1, 2, 0)]
    assert epochs[0] == epochs[1] == list(range(1, len(epochs[0]) + 1)) and epochs[2] == [1, 2, 3, 4, 5]
    assert {s.phase for s in steps if s.epoch == 0} == {"best-of"}
    assert all(math.isfinite(s.value) for s in steps)
