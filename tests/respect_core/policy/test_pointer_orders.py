from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.errors import BadInputError
from respect_core.policy.chunks import chunk_of
from respect_core.policy.encoding import node_features
from respect_core.policy.pointer_orders import NO_BUDGET, drawn_graphs, follow_labels, follow_orders
from respect_core.policy.pretrain_pointer import draw
from respect_core.policy.rollout import cosine_costs, peak_gaps
from respect_core.solve.exact import ExactSolver
from respect_core.solve.label_batches import label_small_graphs
from respect_core.solve.order_arrays import order_arrays
from respect_core.solve.orders import random_order
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from respect_core.sources.synthetic_batch import generate_tables

SPEC = SyntheticSpec(family="local", num_ops=12, seed=4)
STAGES = (2, 3, 4)


@pytest.fixture(scope="module")
def drawn():
    return draw(SPEC, 20, STAGES)


def chunk(spec=SPEC, stages=STAGES, count=6):
    tables = generate_tables(spec, range(count))
    return chunk_of(tables, label_small_graphs(tables, stages, "1", time_limit_s=60).labels)


def test_a_chunk_is_laid_out_as_its_graphs_and_labels_are(drawn):
    by_name = {graph.name: graph for graph in (generate_graph(SPEC, i) for i in range(20))}
    for g, name in enumerate(drawn.names):
        graph = by_name[name]
        assert np.array_equal(drawn.features[g], node_features(graph))
        assert np.array_equal(drawn.param_bytes[g], graph.param_bytes)
        for v, parents in enumerate(graph.parents):
            assert int(drawn.parents[g, v]) == sum(1 << p for p in parents)
        for j, num_stages in enumerate(STAGES):
            found = ExactSolver().solve(Problem.of(graph, num_stages, "peak-memory"), SolveOptions())
            assert found.value[0] == drawn.peak_bytes[g, j] and list(found.stage_of) == drawn.stages[g, j].tolist()


def test_the_digest_knows_names_graphs_and_labels(drawn):
    assert drawn.digest == draw(SPEC, 20, STAGES).digest
    changed = drawn.stages.copy()
    changed[0, 0, 0] ^= 1
    others = [drawn.pick(np.arange(19)), drawn.pick(np.arange(20)[::-1]), drawn._replace(stages=changed)]
    assert len({drawn.digest, *(other.digest for other in others)}) == 4


def test_chunks_that_cannot_be_laid_out_are_refused():
    several = chunk()
    odd = several.with_labels(np.arange(1, len(several)))
    with pytest.raises(BadInputError, match=r"one label for each K in \[2, 3, 4\]"):
        drawn_graphs(odd)
    with pytest.raises(BadInputError, match="an edge leads backwards"):
        drawn_graphs(replace(several, edges=several.edges[:, ::-1].copy()))
    other = replace(several, op_start=np.array([0, 13, *range(24, 73, 12)]))
    with pytest.raises(BadInputError, match=r"sizes \[11, 12, 13\]"):
        drawn_graphs(other)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1.1, None]))
def test_a_followed_label_visits_its_stages_in_turn_and_what_is_allowed_is_ready(drawn, seed, slack):
    rng = np.random.default_rng(seed)
    which, label = rng.integers(20, size=8), rng.integers(3, size=8)
    some = drawn.pick(which)
    stages = some.stages[np.arange(8), label]
    peaks = some.peak_bytes[np.arange(8), label]
    budgets = np.full(8, NO_BUDGET) if slack is None else (peaks * slack).astype(np.int64)
    steps = follow_labels(some.parents, stages, some.param_bytes, budgets, rng.random((8, 12)))
    visited = np.take_along_axis(stages, steps.rows, axis=1)
    assert np.array_equal(visited, np.sort(stages, axis=1))
    assert np.allclose(cosine_costs(stages, steps.rows), 0)
    for b in range(8):
        done, filled = 0, 0
        for t, v in enumerate(steps.rows[b].tolist()):
            if t and visited[b, t] != visited[b, t - 1]:
                filled = 0
            allowed = steps.allowed[b, t, : steps.num_allowed[b, t]].tolist()
            ready = [u for u in range(12) if not done >> u & 1 and int(some.parents[b, u]) & ~done == 0]
            mine = [u for u in ready if stages[b, u] == visited[b, t]]
            fitting = [u for u in ready if filled + some.param_bytes[b, u] <= budgets[b]]
            assert allowed == sorted({*mine, *fitting}) and v in mine
            assert [u for u, led in zip(allowed, steps.led[b, t], strict=False) if led] == mine
            shares = steps.loads[b, t, : len(allowed)] * max(1, budgets[b])
            expected = [[some.param_bytes[b, u], some.param_bytes[b, u] + filled] for u in allowed]
            assert np.allclose(shares, expected, rtol=1e-5, atol=1e-3)
            done |= 1 << v
            filled += int(some.param_bytes[b, v])
    optimal = peak_gaps(drawn, which, steps.rows)[np.arange(8), label]
    assert np.all(optimal == 0), "an order that follows an optimal label splits into it"


def test_followed_orders_lead_to_what_was_chosen(drawn):
    rng = np.random.default_rng(1)
    rows = np.stack([random_order(generate_graph(SPEC, i), rng) for i in range(20)])
    by_name = [drawn.names.index(generate_graph(SPEC, i).name) for i in range(20)]
    some = drawn.pick(np.array(by_name))
    steps = follow_orders(some.parents, rows, some.param_bytes, np.full(20, NO_BUDGET))
    assert np.array_equal(steps.allowed[steps.led].reshape(rows.shape), rows)
    assert np.array_equal(steps.rows, rows)
    assert int(steps.num_allowed[0, 0]) == int((order_arrays(generate_graph(SPEC, 0)).num_parents == 0).sum())


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9).flatmap(lambda x: st.tuples(st.just(x), st.permutations(x))))
def test_the_cost_is_one_minus_the_cosine_of_gathered_and_ascending_labels(case):
    labels, visited = case
    rows = np.array([sorted(range(len(labels)), key=lambda i: visited.index(labels[i]))])
    gathered = [labels[i] for i in rows[0].tolist()]
    ascending = sorted(labels)
    length = math.sqrt(sum(x * x for x in gathered)) * math.sqrt(sum(x * x for x in ascending))
    expected = 1 - sum(a * b for a, b in zip(gathered, ascending, strict=True)) / length if length else 0.0
    cost = float(cosine_costs(np.array([labels]), rows)[0])
    assert cost == pytest.approx(expected, abs=1e-9)
    assert (cost < 1e-12) == (gathered == ascending)
