"""REINFORCE on the best of k: the advantages are the gradient of the expected best, and training lowers it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError, TrainingDivergedError
from respect_core.policy import best_of
from respect_core.policy.best_of import train_best_of
from respect_core.policy.best_of_step import BestOfConfig
from respect_core.policy.checkpoint import read_checkpoint, write_checkpoint
from respect_core.policy.chunks import ChunksInMemory, chunk_of
from respect_core.policy.config import NetworkConfig, PointerConfig
from respect_core.policy.greedy import bare_graph
from respect_core.policy.network import PolicyNetwork
from respect_core.policy.reinforce import best_of_advantages, log_probabilities, sample_orders
from respect_core.solve.label_batches import label_small_graphs
from respect_core.solve.local_search_random import random_state
from respect_core.sources.synthetic import SyntheticSpec
from respect_core.sources.synthetic_batch import generate_tables

SMALL = NetworkConfig(width=8, rounds=2)
QUICK = BestOfConfig(steps=60, batch_size=8, samples=16, group=4, learning_rate=1e-2)


@pytest.fixture(scope="module")
def chunk():
    tables = generate_tables(SyntheticSpec(family="wide", num_ops=14, seed=8), range(16))
    return chunk_of(tables, label_small_graphs(tables, (3, 4), "1", time_limit_s=9.0).labels)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = PolicyNetwork(SMALL)
    path = tmp_path_factory.mktemp("start") / "policy.safetensors"
    write_checkpoint(path, SMALL, {k: v.detach().numpy().copy() for k, v in made.state_dict().items()}, {})
    return read_checkpoint(path)


@given(st.lists(st.integers(0, 9), min_size=4, max_size=7), st.integers(2, 4))
@settings(max_examples=60)
def test_an_advantage_is_the_mean_lift_over_all_groups(rewards, group):
    found = best_of_advantages(np.array([rewards], dtype=float), group)[0]
    for i, own in enumerate(rewards):
        others = [r for j, r in enumerate(rewards) if j != i]
        lifts = [max(0, own - max(g)) for g in itertools.combinations(others, group - 1)]
        assert found[i] == pytest.approx(np.mean(lifts))


def test_sampled_orders_are_topological_and_their_log_probabilities_are_those_of_the_softmax(chunk):
    graph, m = bare_graph(chunk, 0), 5
    n = graph.weight.size
    allowed, chosen = np.empty((m, n, n), np.bool_), np.empty((m, n), np.int64)
    dynamic, peaks = np.empty((m, n, 2)), np.empty(m, np.int64)
    scores = np.zeros(6 * n)
    sample_orders(graph, 3, 7000, scores, random_state(1), allowed, chosen, dynamic, peaks)
    for sample in range(m):
        assert sorted(chosen[sample].tolist()) == list(range(n))
        position = np.argsort(chosen[sample])
        for v in range(n):
            parents = graph.near[graph.first[n + 1 + v] : graph.first[n + 2 + v]]
            assert (position[parents] < position[v]).all()
        assert allowed[sample, np.arange(n), chosen[sample]].all()
    flat = torch.zeros(m, n, n)
    found = log_probabilities(flat, torch.from_numpy(allowed), torch.from_numpy(chosen))
    assert np.allclose(found.numpy(), -np.log(allowed.sum(axis=2)).sum(axis=1), atol=1e-4)


def test_the_best_of_a_group_becomes_better_and_a_seed_repeats(chunk, checkpoint, tmp_path):
    source, seen = ChunksInMemory(chunks=(chunk,)), []
    train_best_of(source, checkpoint, tmp_path / "a.safetensors", QUICK, seen.append)
    assert [r.step for r in seen] == list(range(1, 61))
    assert np.mean([r.best_gap for r in seen[-15:]]) < np.mean([r.best_gap for r in seen[:15]])
    assert all(r.best_gap <= r.mean_gap for r in seen)
    again = []
    train_best_of(source, checkpoint, tmp_path / "b.safetensors", replace(QUICK, steps=5), again.append)
    train_best_of(source, checkpoint, tmp_path / "c.safetensors", replace(QUICK, steps=5))
    assert len(again) == 5
    b, c = (read_checkpoint(tmp_path / f"{x}.safetensors") for x in "bc")
    assert all(np.array_equal(b.weights[name], c.weights[name]) for name in b.weights)
    assert read_checkpoint(tmp_path / "a.safetensors").training["best_of"]["group"] == 4


class KilledError(Exception):
    pass


@pytest.mark.parametrize("at", [1, 23, 30, 59])
def test_a_killed_phase_goes_on_to_the_same_weights_and_curve(chunk, checkpoint, tmp_path, monkeypatch, at):
    monkeypatch.setattr(best_of, "_BLOCK", 7)
    monkeypatch.setattr(best_of, "LEAST_STEPS", 10)
    source, state = ChunksInMemory(chunks=(chunk,)), tmp_path / "state.safetensors"

    def judge(weights):
        return float(abs(weights["embed.bias"] - 0.2).sum()), {"held-out": 0.5}

    whole = train_best_of(source, checkpoint, tmp_path / "whole.safetensors", QUICK, judge=judge)
    assert [point.step for point in whole] == [10, 20, 30, 40, 50, 60]
    assert all(0 <= point.best_gap <= point.sampled_gap for point in whole)
    best = min(whole, key=lambda point: point.validation_gap)
    assert judge(read_checkpoint(tmp_path / "whole.safetensors").weights)[0] == best.validation_gap

    def kill(result):
        if result.step == at:
            raise KilledError

    out, seen = tmp_path / "killed.safetensors", []
    with pytest.raises(KilledError):
        train_best_of(source, checkpoint, out, QUICK, kill, judge=judge, state=state, save_every_s=0)
    assert not out.exists() and state.exists() == (at > 7)
    again = train_best_of(source, checkpoint, out, QUICK, seen.append, judge=judge, state=state, save_every_s=0)
    assert again == whole and out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    assert seen[0].step <= at and (seen[0].step > 1 or at <= 7), "what was saved is not done again"
    assert not state.exists()


@pytest.mark.parametrize("spoil", ["other settings", "damaged"])
def test_a_state_of_another_phase_or_a_damaged_one_is_not_continued(chunk, checkpoint, tmp_path, spoil):
    source, state = ChunksInMemory(chunks=(chunk,)), tmp_path / "state.safetensors"
    config = replace(QUICK, steps=12)

    def kill(result):
        if result.step == 9:
            raise KilledError

    used = replace(config, seed=9) if spoil == "other settings" else config
    with pytest.raises(KilledError):
        train_best_of(source, checkpoint, tmp_path / "a.safetensors", used, kill, state=state, save_every_s=0)
    if spoil == "damaged":
        state.write_bytes(b"half of a sta")
    seen = []
    train_best_of(source, checkpoint, tmp_path / "a.safetensors", config, seen.append, state=state)
    assert seen[0].step == 1


def test_a_gradient_that_becomes_nan_stops_with_step_and_graphs(chunk, checkpoint, tmp_path, monkeypatch):
    honest = best_of.best_of_step

    def spoilt(network, *args):
        if args[-1] == 4:
            network.embed.bias.data[0] = float("nan")
        return honest(network, *args)

    monkeypatch.setattr(best_of, "best_of_step", spoilt)
    with pytest.raises(TrainingDivergedError, match=r"step 4 of the second phase.*graphs wide-14"):
        train_best_of(ChunksInMemory(chunks=(chunk,)), checkpoint, tmp_path / "a.safetensors", QUICK)
    assert not (tmp_path / "a.safetensors").exists()


def test_nonsense_is_refused(chunk, checkpoint, tmp_path):
    with pytest.raises(BadInputError, match="group is 1"):
        BestOfConfig(group=1)
    for name, value in {
        "steps": 0,
        "batch_size": 2.5,
        "samples": True,
        "seed": -1,
        "learning_rate": float("nan"),
    }.items():
        with pytest.raises(BadInputError, match=f"{name} is {value}"):
            BestOfConfig(**{name: value})
    with pytest.raises(BadInputError, match=r"group is 2\.5"):
        BestOfConfig(group=2.5)
    with pytest.raises(BadInputError, match="another architecture"):
        train_best_of(ChunksInMemory(chunks=(chunk,)), replace(checkpoint, config=PointerConfig()), tmp_path, QUICK)
