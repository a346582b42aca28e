from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from respect_core.errors import BadInputError, InvalidScheduleError
from respect_core.policy.config import PointerConfig
from respect_core.policy.decode import PointerDecoder, stage_budgets, weight_shapes
from respect_core.policy.examples import cosine_cost, group_by_size
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.rollout import Batch, orders_of, rollout
from respect_core.policy.training_state import weights_of
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.strategies import graphs
from tests.training_examples import labelled

PAPER = PointerConfig(embed_size=7, hidden_size=9)
BUDGETED = PointerConfig(embed_size=7, hidden_size=9, slacks=(1.0, 1.1, 1.5))


def network(config, seed=0, spread=2.0):
    """An untrained network, its weights spread so that scores differ clearly."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = PointerNetwork(config)
        with torch.no_grad():
            for weight in made.parameters():
                weight.mul_(spread)
    return made


@pytest.mark.parametrize("config", [PAPER, BUDGETED])
def test_the_numpy_weights_are_those_of_the_torch_network(config):
    assert {name: tuple(w.shape) for name, w in network(config).state_dict().items()} == weight_shapes(config)


@pytest.mark.parametrize("config", [PAPER, BUDGETED], ids=["paper", "budgeted"])
@pytest.mark.parametrize("num_ops", [1, 2, 12, 60])
@pytest.mark.parametrize("family", ["local", "wide"])
def test_the_numpy_decode_gives_the_order_of_the_batched_torch_decode(config, num_ops, family):
    made = network(config)
    decoder = PointerDecoder(config, weights_of(made))
    spec = SyntheticSpec(family=family, num_ops=num_ops, seed=3)
    some = [generate_graph(spec, i) for i in range(6)]
    stages = min(4, num_ops)
    expected = [[] for _ in some]
    for slack in config.slacks or (1.0,):
        batch = Batch.of(some, [stage_budgets(g, stages, [slack])[0] for g in some])
        with torch.no_grad():
            for orders, order in zip(expected, orders_of(some, rollout(made, batch).rows), strict=True):
                orders.append(order.tolist())
    for graph, orders in zip(some, expected, strict=True):
        found = [order.tolist() for order in decoder.orders(graph, stages)]
        assert found == [orders[i] for i in range(len(orders)) if orders[i] not in orders[:i]]


@given(graphs(max_ops=12))
@settings(max_examples=50)
def test_decoded_and_sampled_orders_are_always_topological(graph):
    made = network(BUDGETED)
    decoder = PointerDecoder(BUDGETED, weights_of(made))
    for order in decoder.orders(graph, 1 + graph.num_ops // 3):
        assert graph.is_topological(order)
    batch = Batch.of([graph] * 4, [0, 1, 3000, 10**9])
    sampled = rollout(made, batch, torch.Generator().manual_seed(1))
    assert len(orders_of([graph] * 4, sampled.rows)) == 4
    assert torch.isfinite(sampled.log_prob).all() and (sampled.log_prob <= 1e-5).all()
    assert torch.isfinite(sampled.entropy).all() and (sampled.entropy >= -1e-5).all()


def test_probabilities_of_all_topological_orders_sum_to_one():
    drawn = (generate_graph(SyntheticSpec(family="local", num_ops=5, seed=1), i) for i in itertools.count())
    for graph in drawn:
        orders = [o for o in itertools.permutations(range(5)) if graph.is_topological(o)]
        if len(orders) >= 4:
            break
    made = network(PAPER, spread=1.0)
    total = 0.0
    for order in orders:
        # labels that allow exactly one op at each step force the order
        batch = Batch.of([graph], [0])
        labels = torch.empty(1, 5, dtype=torch.int64)
        labels[0, torch.tensor(order)] = torch.arange(5)
        with torch.no_grad():
            forced = rollout(made, batch, torch.Generator().manual_seed(0), labels=labels)
        assert forced.rows[0].tolist() == list(order)
        total += forced.log_prob.exp().item()
    assert total == pytest.approx(1, abs=1e-5)


def test_sampling_follows_the_generator_and_reaches_the_gradients():
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=15), 0)
    made, batch = network(BUDGETED, spread=1.0), Batch.of([graph] * 8, [graph.param_bytes.sum() // 3] * 8)
    first, again, other = (rollout(made, batch, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first.rows, again.rows) and torch.equal(first.log_prob, again.log_prob)
    assert not torch.equal(first.rows, other.rows)
    first.log_prob.sum().backward()
    for name, weight in made.named_parameters():
        assert weight.grad is not None and torch.isfinite(weight.grad).all(), name


def test_labels_lead_through_the_stages_one_after_the_other():
    (group,) = group_by_size(labelled(10, 4))
    led = rollout(network(BUDGETED), group.batch, torch.Generator().manual_seed(0), labels=group.labels)
    visited = group.labels.gather(1, led.rows)
    assert torch.equal(visited, visited.sort(dim=1).values)
    assert torch.all(cosine_cost(group.labels, led.rows).abs() < 1e-6)


def test_an_op_that_does_not_fit_waits_while_another_one_fits():
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=30), 4)
    budget = stage_budgets(graph, 4, [1.1])[0]
    with torch.no_grad():
        rows = rollout(network(BUDGETED), Batch.of([graph], [budget]))
    (order,) = orders_of([graph], rows.rows)
    done, filled = set(), 0
    for v in order.tolist():
        ready = [u for u in range(30) if u not in done and done >= set(graph.parents[u])]
        if filled + graph.param_bytes[v] > budget:
            assert all(filled + graph.param_bytes[u] > budget for u in ready)
            filled = 0
        filled += int(graph.param_bytes[v])
        done.add(v)


def test_a_graph_much_larger_than_any_seen_is_decoded():
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=1500), 0)
    for order in PointerDecoder(BUDGETED, weights_of(network(BUDGETED))).orders(graph, 6):
        assert graph.is_topological(order)


def test_graphs_of_several_sizes_are_no_batch():
    some = [generate_graph(SyntheticSpec(family="local", num_ops=n), 0) for n in (4, 5)]
    with pytest.raises(BadInputError, match=r"sizes \[4, 5\]"):
        Batch.of(some, [0, 0])


def test_an_illegal_order_is_refused_with_the_graphs_name():
    graph = generate_graph(SyntheticSpec(family="local", num_ops=5), 0)
    with pytest.raises(InvalidScheduleError, match=graph.name):
        orders_of([graph], torch.tensor([[4, 3, 2, 1, 0]]))


@pytest.mark.parametrize("values", [{"hidden_size": 0}, {"clip": 0.0}, {"clip": float("nan")}, {"slacks": (0.5,)}])
def test_sizes_outside_their_range_are_refused(values):
    with pytest.raises(BadInputError, match=r"is .*allowed are"):
        PointerConfig(**values)


def test_budgets_are_multiples_of_the_lower_bound():
    graph = generate_graph(SyntheticSpec(family="local"), 0)
    total, largest = int(graph.param_bytes.sum()), int(graph.param_bytes.max())
    bound = max(-(-total // 5), largest)
    assert stage_budgets(graph, 5, (1.0, 1.0, 1.5)) == [bound, int(bound * 1.5)]
    assert np.array(stage_budgets(graph, 30, (1.0,))) == largest
