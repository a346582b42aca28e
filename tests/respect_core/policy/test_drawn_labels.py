"""Drawn labels: what training sees of a `throughput` problem is what inference sees, and labels are optimal."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from respect_core.errors import BadInputError
from respect_core.policy import drawn_labels, timed_labels
from respect_core.policy.batches import encode
from respect_core.policy.checkpoint import read_tensors, write_tensors
from respect_core.policy.chunks import LabelChunk, joined
from respect_core.policy.drawn_labels import KINDS, DrawnLabels, draw_chunk
from respect_core.policy.features import NUM_FEATURES, fill_features, problem_globals
from respect_core.policy.frozen import FROZEN_SEEDS
from respect_core.policy.greedy import bare_graph
from respect_core.policy.scoring import made_bytes_of
from respect_core.policy.solver import profile_shares
from respect_core.policy.timed_labels import MOST_LOADED, TimedLabel, draw_problems, draw_timed_labels, timed_chunk
from respect_core.solve.ilp import IlpSolver
from respect_core.solve.local_search_run import LocalSearch
from respect_core.solve.protocol import SolveOptions

COUNT = 12


@cache
def timed():
    return draw_timed_labels(0, COUNT)


def same(a: LabelChunk, b: LabelChunk) -> bool:
    return a.digest == b.digest and len(a) == len(b)


def test_the_features_of_a_timed_label_are_those_of_inference():
    labels = timed()
    chunk = timed_chunk(labels)
    assert len(chunk) == len(labels) > COUNT // 3
    seen = 0
    for at, label in enumerate(labels):
        batch = encode(chunk, np.array([at]), seed=at)
        search = LocalSearch(label.problem, 0)
        budget = int(chunk.peaks[at])
        if batch.features[0, 0, 21] != np.float32(search.loads.sum() / (label.problem.num_stages * budget)):
            continue  # taught under a larger budget
        n = label.problem.graph.num_ops
        expected = np.empty((n, NUM_FEATURES), dtype=np.float32)
        shares = profile_shares(search)
        numbers = problem_globals(n, label.problem.num_stages, search.arrays.weight, budget, shares)
        fill_features(
            search.arrays.weight, search.arrays.first, search.arrays.near, made_bytes_of(label.problem.graph),
            label.problem.num_stages, budget, numbers, expected,
        )  # fmt: skip
        assert np.array_equal(batch.features[0], expected)
        assert shares[0] == 1 and expected[0, 22] == 1
        bare = bare_graph(chunk, at)
        for name in ("weight", "first", "near"):
            assert getattr(bare, name).tolist() == getattr(search.arrays, name).tolist()
        seen += 1
    assert seen > 2


def test_timed_labels_are_optimal_and_near_the_smallest_load():
    for label in timed()[:3]:
        found = label.problem.value(label.problem.evaluate(label.stage_of))
        proven = IlpSolver().solve(label.problem, SolveOptions(time_limit_s=20))
        assert proven.status == "optimal" and proven.value is not None and found[0] == proven.value[0]
    for label in timed():
        search = LocalSearch(label.problem, 0)
        loads = np.bincount(label.stage_of, weights=search.loads)
        assert search.bound <= loads.max() <= MOST_LOADED * search.bound


def test_drawn_problems_repeat_and_vary():
    first, again, other = (list(draw_problems(i, 9)) for i in (1, 1, 2))
    assert [(p.graph.name, p.num_stages, p.profile) for p in first] == [
        (p.graph.name, p.num_stages, p.profile) for p in again
    ]
    assert [p.graph.name for p in first] != [p.graph.name for p in other]
    assert {p.objective for p in first} == {"throughput"}
    assert {p.profile.name.split("-")[0] for p in first + other} == {"usb3", "pcie"}
    assert any(p.profile.name in ("usb3", "pcie") for p in first)
    assert len({p.profile for p in first}) > 2


def test_a_timed_label_that_is_no_schedule_is_refused():
    label = timed()[0]
    backwards = TimedLabel(problem=label.problem, stage_of=label.stage_of[::-1].copy())
    with pytest.raises(BadInputError, match="earlier stage"):
        timed_chunk([backwards])


def test_chunks_are_kept_and_damaged_ones_solved_again(tmp_path, monkeypatch):
    source = DrawnLabels(plain=1, timed=1, repeats=2, graphs=6, folder=tmp_path)
    assert source.num_chunks == 3
    made = [source.chunk(i) for i in range(3)]
    assert same(made[1], made[2]) and not made[0].shares.any() and (made[1].shares[:, 0] == 1).all()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    files[0].write_bytes(files[0].read_bytes()[:-3])
    assert same(source.chunk(0), made[0])
    monkeypatch.setattr(drawn_labels, "draw_chunk", lambda *args: pytest.fail("solved again"))
    assert same(source.chunk(0), made[0]) and same(source.chunk(1), made[1])
    assert DrawnLabels(plain=2).digest != DrawnLabels(plain=1).digest


def test_a_chunk_that_was_drawn_in_another_way_is_not_taken_for_this_one(tmp_path, monkeypatch):
    source = DrawnLabels(plain=1, timed=1, graphs=6, folder=tmp_path)
    plain, timed_one = source.chunk(0), source.chunk(1)
    with monkeypatch.context() as patch:
        patch.setattr(drawn_labels, "KINDS", (("local", 0),))
        assert not same(source.chunk(0), plain)
        patch.setattr(timed_labels, "RECIPE", ("another",))
        patch.setattr(drawn_labels, "timed_chunk", lambda labels: plain)
        assert same(source.chunk(1), plain)
    assert same(source.chunk(0), plain) and same(source.chunk(1), timed_one)
    arrays, header, _ = read_tensors(tmp_path / "plain-0-6.safetensors")
    write_tensors(tmp_path / "plain-0-6.safetensors", {n: a for n, a in arrays.items() if n != "shares"}, header)
    assert same(source.chunk(0), plain), "of an older layout"


def test_chunks_are_of_every_family_and_of_no_frozen_seed():
    drawn = [draw_chunk(i, 3) for i in range(len(KINDS))]
    assert {name.split("-")[0] for chunk in drawn for name in chunk.ids} == {"local", "wide", "paper"}
    assert sum(family == "wide" for family, _ in KINDS) > len(KINDS) / 2
    assert not FROZEN_SEEDS & set(range(drawn_labels.FIRST_SEED - 1, drawn_labels.FIRST_SEED + 1000))


def test_joined_chunks_hold_what_each_holds():
    parts = [draw_chunk(0, 4), draw_chunk(3, 3), timed_chunk(timed()[:2])]
    whole = joined(parts)
    assert len(whole) == sum(map(len, parts)) and whole.ids == tuple(name for part in parts for name in part.ids)
    at = 0
    for part in parts:
        for label in range(len(part)):
            ours = whole.with_labels(np.array([at]))
            theirs = part.with_labels(np.array([label]))
            assert ours.stage_of.tolist() == theirs.stage_of.tolist()
            assert ours.shares.tolist() == theirs.shares.tolist() and ours.peaks == theirs.peaks
            a, b = bare_graph(ours, int(ours.graph_of[0])), bare_graph(theirs, int(theirs.graph_of[0]))
            assert all(getattr(a, name).tolist() == getattr(b, name).tolist() for name in ("weight", "first", "near"))
            at += 1
