from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError
from respect_core.policy.config import PointerConfig
from respect_core.policy.decode import MOST_BUDGETS, Budgets, Factor, PointerDecoder, order_peak, weight_shapes
from respect_core.policy.decode_loops import add_product, read_in_order, tanh
from respect_core.policy.encoding import node_features, row_edges, row_order
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.pointer_orders import NO_BUDGET, follow_orders, parent_bits
from respect_core.policy.pretrain_pointer import rounded
from respect_core.policy.rollout import decode_orders
from respect_core.policy.training_state import load_weights, weights_of
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.strategies import graphs

PAPER = PointerConfig(embed_size=7, hidden_size=9)
BUDGETED = PointerConfig(embed_size=7, hidden_size=9, slacks=(1.0, 1.1, 1.5))


def network(config, seed=0, spread=2.0, *, round_to=None):
    """An untrained network, its weights spread so that scores differ clearly."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = PointerNetwork(config)
        with torch.no_grad():
            for weight in made.parameters():
                weight.mul_(spread)
    if round_to is not None:
        load_weights(made, round_to(weights_of(made)))
    return made


def in_batch(made, some, budgets, generator=None):
    """Orders of graphs of one size, straight from the torch network."""
    order = [row_order(graph) for graph in some]
    features = torch.from_numpy(np.stack([node_features(graph) for graph in some]))
    with torch.no_grad():
        encoded = made.encode(features)
    parents = np.stack([parent_bits(row_edges(graph), graph.num_ops) for graph in some])
    loads = np.stack([graph.param_bytes[rows] for graph, rows in zip(some, order, strict=True)])
    which = np.arange(len(some))
    rows = decode_orders(made, encoded, which, parents, loads, np.array(budgets, dtype=np.int64), generator)
    return [ops[taken] for ops, taken in zip(order, rows, strict=True)]


def in_turn(made, some, num_stages):
    """The distinct orders of each graph, a budget after the other."""
    found = []
    for graph in some:
        orders, budgets = [], Budgets(graph.param_bytes, num_stages, made.config.slacks)
        step, peak = 0, None
        while (budget := budgets.next(step, peak) if made.config.slacks else NO_BUDGET) is not None:
            (order,) = in_batch(made, [graph], [budget])
            if order.tolist() not in orders:
                orders.append(order.tolist())
            step, peak = step + 1, min(peak or NO_BUDGET, order_peak(graph.param_bytes, order, num_stages))
            if not made.config.slacks:
                break
        found.append(orders)
    return found


@pytest.mark.parametrize("config", [PAPER, BUDGETED])
def test_the_weights_of_the_decode_are_those_of_the_torch_network(config):
    assert {name: tuple(w.shape) for name, w in network(config).state_dict().items()} == weight_shapes(config)


@pytest.mark.parametrize("config", [PAPER, BUDGETED], ids=["paper", "budgeted"])
@pytest.mark.parametrize("round_to", [None, rounded], ids=["float32", "16 bits"])
@pytest.mark.parametrize("num_ops", [1, 2, 12, 60])
@pytest.mark.parametrize("family", ["local", "wide"])
def test_the_compiled_decode_gives_the_order_of_the_torch_decode(config, round_to, num_ops, family):
    made = network(config, round_to=round_to)
    decoder = PointerDecoder(config, weights_of(made))
    spec = SyntheticSpec(family=family, num_ops=num_ops, seed=3)
    some = [generate_graph(spec, i) for i in range(6)]
    stages = min(4, num_ops)
    for graph, orders in zip(some, in_turn(made, some, stages), strict=True):
        assert [order.tolist() for order in decoder.orders(graph, stages)] == orders


def test_the_networks_of_full_size_give_the_same_orders():
    config = PointerConfig(slacks=(1.03, 1.13))
    made = network(config, seed=1, round_to=rounded)
    decoder = PointerDecoder(config, weights_of(made))
    some = [
        generate_graph(SyntheticSpec(family=f, num_ops=30, seed=8), i) for f in ("local", "wide") for i in range(20)
    ]
    for graph, orders in zip(some, in_turn(made, some, 5), strict=True):
        assert [order.tolist() for order in decoder.orders(graph, 5)] == orders


@given(graphs(max_ops=12))
@settings(max_examples=50)
def test_decoded_and_sampled_orders_are_always_topological(graph):
    made = network(BUDGETED)
    for order in PointerDecoder(BUDGETED, weights_of(made)).orders(graph, 1 + graph.num_ops // 3):
        assert graph.is_topological(order)
    sampled = in_batch(made, [graph] * 4, [0, 1, 3000, 10**9], torch.Generator().manual_seed(1))
    assert all(graph.is_topological(order) for order in sampled)


def test_probabilities_of_all_topological_orders_sum_to_one():
    drawn = (generate_graph(SyntheticSpec(family="local", num_ops=5, seed=1), i) for i in itertools.count())
    for graph in drawn:
        orders = [o for o in itertools.permutations(range(5)) if graph.is_topological(o)]
        if len(orders) >= 4:
            break
    made, rows = network(PAPER, spread=1.0), np.array(orders)
    log_p = scores(made, graph, rows, NO_BUDGET)
    assert np.exp(log_p.sum(axis=1)).sum() == pytest.approx(1, abs=1e-5)


def scores(made, graph, rows, budget):
    """The log-probability of each step of orders of one graph. Shape (B, n)."""
    size = len(rows)
    bits = np.repeat(parent_bits(row_edges(graph), graph.num_ops)[None], size, axis=0)
    loads = np.repeat(graph.param_bytes[None], size, axis=0)
    steps = follow_orders(bits, rows, loads, np.full(size, budget))
    assert np.array_equal(steps.led.sum(axis=2), np.ones(rows.shape))
    with torch.no_grad():
        encoded = made.encode(torch.from_numpy(node_features(graph)[None]))
        log_p = made.score_orders(
            encoded,
            torch.zeros(size, dtype=torch.int64),
            *(torch.from_numpy(x) for x in (steps.rows, steps.allowed, steps.known, steps.loads)),
        )
    return log_p.numpy()[steps.led.reshape(-1, steps.led.shape[2])].reshape(rows.shape)


@pytest.mark.parametrize("config", [PAPER, BUDGETED], ids=["paper", "budgeted"])
def test_the_greedy_order_is_the_likeliest_at_every_step_of_the_scores(config):
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=20), 3)
    made, budget = network(config), int(graph.param_bytes.sum() // 4)
    (order,) = in_batch(made, [graph], [budget if config.knows_budget else NO_BUDGET])
    greedy = scores(made, graph, order[None], budget if config.knows_budget else NO_BUDGET)
    for step in range(20):
        for other in range(step + 1, 20):
            changed = order.copy()
            changed[[step, other]] = changed[[other, step]]
            if graph.is_topological(changed) and not config.knows_budget:
                assert scores(made, graph, changed[None], NO_BUDGET)[0, step] <= greedy[0, step] + 1e-5
    assert np.isfinite(greedy).all()


def test_sampling_follows_the_generator():
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=15), 0)
    made, budgets = network(BUDGETED, spread=1.0), [int(graph.param_bytes.sum() // 3)] * 8
    first, again, other = (
        np.stack(in_batch(made, [graph] * 8, budgets, torch.Generator().manual_seed(s))) for s in (1, 1, 2)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_an_op_that_does_not_fit_waits_while_another_one_fits():
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=30), 4)
    budget = int(1.1 * max(graph.param_bytes.sum() // 4, graph.param_bytes.max()))
    (order,) = in_batch(network(BUDGETED), [graph], [budget])
    done, filled = set(), 0
    for v in order.tolist():
        ready = [u for u in range(30) if u not in done and done >= set(graph.parents[u])]
        if filled + graph.param_bytes[v] > budget:
            assert all(filled + graph.param_bytes[u] > budget for u in ready)
            filled = 0
        filled += int(graph.param_bytes[v])
        done.add(v)


@pytest.mark.parametrize("config", [PAPER, BUDGETED], ids=["paper", "budgeted"])
def test_a_graph_much_larger_than_any_seen_and_one_without_edges_are_decoded(config):
    decoder = PointerDecoder(config, weights_of(network(config)))
    large = generate_graph(SyntheticSpec(family="wide", num_ops=1500), 0)
    assert all(large.is_topological(order) for order in decoder.orders(large, 6))
    apart = replace(
        generate_graph(SyntheticSpec(family="local", num_ops=9), 0),
        tensor_consumers=((),) * 9,
        tensor_is_output=(True,) * 9,
    )
    assert not apart.edges.size
    assert all(sorted(order.tolist()) == list(range(9)) for order in decoder.orders(apart, 3))


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_a_factor_multiplies_as_its_weight_does_and_halves_where_it_can(rows, columns, seed):
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(rows, columns)).astype(np.float32) * np.float32(10.0 ** rng.integers(-3, 3))
    vector = rng.normal(size=columns).astype(np.float32)
    products = []
    for some, kind in ((weight, np.float32), (rounded({"w": weight})["w"], np.int16)):
        factor = Factor.of(some)
        if rows * columns > 1:  # one number is always a multiple of a power of two
            assert factor.matrix.dtype == kind
        out = np.zeros(rows, dtype=np.float32)
        add_product(*factor, vector, out)
        assert np.allclose(out, some.astype(np.float64) @ vector, rtol=1e-4, atol=1e-5 * np.abs(some).max())
        plain = np.zeros(rows, dtype=np.float32)
        add_product(np.ascontiguousarray(some.T), np.float32(1), vector, plain)
        assert np.array_equal(out, plain), "half the bytes change no digit"
        products.append(out)
    assert np.allclose(*products, rtol=1e-2, atol=1e-2 * np.abs(weight).max() * columns)


def test_weights_of_zeros_and_of_extreme_sizes_are_taken_as_they_are():
    for value in (0.0, 1e-35, 1e35):
        factor = Factor.of(np.full((3, 2), value, dtype=np.float32))
        assert np.allclose(factor.matrix.astype(np.float64) * factor.scale, value, rtol=1e-6, atol=0)


@given(st.floats(-100, 100, width=32))
def test_the_tangent_is_right_to_three_parts_in_ten_million(x):
    assert tanh(np.float32(x)) == pytest.approx(np.tanh(x), abs=3e-7)


def test_the_compiled_encoder_is_torchs():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layer = torch.nn.LSTM(5, 6, batch_first=True)
    x = torch.randn(1, 40, 5, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, (_, cell) = layer(x)
        gates = (x[0] @ layer.weight_ih_l0.T + layer.bias_ih_l0 + layer.bias_hh_l0).numpy().copy()
    read = np.empty((40, 6), dtype=np.float32)
    last = read_in_order(gates, *Factor.of(layer.weight_hh_l0.detach().numpy()), read)
    assert np.allclose(read, expected[0].numpy(), atol=2e-6) and np.allclose(last, cell[0, 0].numpy(), atol=2e-6)


@pytest.mark.parametrize("values", [{"hidden_size": 0}, {"clip": 0.0}, {"clip": float("nan")}, {"slacks": (0.5,)}])
def test_sizes_outside_their_range_are_refused(values):
    with pytest.raises(BadInputError, match=r"is .*allowed are"):
        PointerConfig(**values)


def test_budgets_begin_as_asked_for_and_go_on_below_the_best_peak():
    graph = generate_graph(SyntheticSpec(family="local"), 0)
    total, largest = int(graph.param_bytes.sum()), int(graph.param_bytes.max())
    bound = max(-(-total // 5), largest)
    budgets = Budgets(graph.param_bytes, 5, (1.0, 1.5))
    assert [budgets.next(0, None), budgets.next(1, 2 * bound)] == [bound, int(1.5 * bound)]
    for step in range(2, MOST_BUDGETS):
        assert bound + bound // 2 <= budgets.next(step, 2 * bound) < 2 * bound
        assert budgets.next(step, bound) is None, "nothing is below the bound"
    assert budgets.next(MOST_BUDGETS, 2 * bound) is None


@pytest.mark.parametrize(("num_ops", "most"), [(1, 8), (30, 8), (782, 2), (5000, 1)])
def test_large_graphs_are_decoded_less_often(num_ops, most):
    assert Budgets(np.ones(num_ops, dtype=np.int64), 1, (1.04,)).most == most
