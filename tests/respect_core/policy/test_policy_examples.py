from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from respect_core.errors import BadInputError, InvalidScheduleError
from respect_core.policy.examples import (
    TrainingExample,
    cosine_cost,
    examples_digest,
    group_by_size,
    shuffled_batches,
    split_examples,
)
from tests.training_examples import labelled


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9).flatmap(lambda x: st.tuples(st.just(x), st.permutations(x))))
def test_the_cost_is_one_minus_the_cosine_of_gathered_and_ascending_labels(case):
    labels, visited = case
    rows = torch.tensor([sorted(range(len(labels)), key=lambda i: visited.index(labels[i]))])
    gathered = [labels[i] for i in rows[0].tolist()]
    ascending = sorted(labels)
    length = math.sqrt(sum(x * x for x in gathered)) * math.sqrt(sum(x * x for x in ascending))
    expected = 1 - sum(a * b for a, b in zip(gathered, ascending, strict=True)) / length if length else 0.0
    cost = float(cosine_cost(torch.tensor([labels]), rows)[0])
    assert cost == pytest.approx(expected, abs=1e-6)
    assert (cost < 1e-7) == (gathered == ascending)


def test_a_label_that_is_not_legal_or_not_optimal_cannot_teach():
    example = labelled(8, 1)[0]
    with pytest.raises(InvalidScheduleError):
        replace(example, stage_of=np.zeros(8, np.int64))
    with pytest.raises(BadInputError, match="only optimal labels"):
        replace(example, optimal_peak_bytes=example.optimal_peak_bytes - 1)


def test_all_stage_counts_of_a_graph_stay_on_one_side():
    examples = labelled(8, 6, (2, 3))
    training, validation = split_examples(examples, 0.3, seed=0)
    assert {e.graph.name for e in training}.isdisjoint({e.graph.name for e in validation})
    assert len(training) + len(validation) == 12 and len(validation) == 4
    assert split_examples(examples, 0.3, seed=0)[1] == validation


@pytest.mark.parametrize("fraction", [0.0001, 0.9999])
def test_no_side_is_ever_empty(fraction):
    assert all(split_examples(labelled(8, 6), fraction, seed=1))


@pytest.mark.parametrize(("count", "fraction"), [(1, 0.5), (0, 0.5), (6, 0.0), (6, 1.0)])
def test_splits_that_cannot_be_are_refused(count, fraction):
    with pytest.raises(BadInputError):
        split_examples(labelled(8, 6)[:count], fraction, seed=1)


def test_batches_hold_every_example_once_and_one_size_each():
    examples = [*labelled(8, 5), *labelled(10, 4)]
    groups = group_by_size(examples)
    assert [len(g.examples) for g in groups] == [5, 4]
    seen = []
    for group, which in shuffled_batches(groups, 2, torch.Generator().manual_seed(0)):
        assert len(which) <= 2
        seen += group.positions[which].tolist()
    assert sorted(seen) == list(range(9))
    assert seen != list(range(9))


def test_the_digest_knows_graphs_labels_and_order():
    examples = list(labelled(8, 3))
    assert examples_digest(examples) == examples_digest(list(examples))
    assert examples_digest(examples) != examples_digest(examples[::-1])
    assert examples_digest(examples) != examples_digest(examples[:2])


def test_no_examples_are_refused():
    with pytest.raises(BadInputError, match="at least one"):
        group_by_size([])


def test_an_example_is_checked_at_construction():
    example = labelled(8, 1)[0]
    with pytest.raises(BadInputError):
        TrainingExample(graph=example.graph, num_stages=9, stage_of=example.stage_of, optimal_peak_bytes=1)
