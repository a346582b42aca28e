"""The message-passing network: compiled and torch agree, features are sane, and the solver keeps its promises."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import InputFileError
from respect_core.policy.batches import NO_PROFILE, adjacency, averages
from respect_core.policy.checkpoint import read_checkpoint, read_tensors, write_checkpoint, write_tensors
from respect_core.policy.config import NetworkConfig, PointerConfig
from respect_core.policy.features import NUM_FEATURES, fill_features, problem_globals
from respect_core.policy.forward import Forward, weight_shapes
from respect_core.policy.network import PolicyNetwork, step_scores
from respect_core.policy.scoring import BudgetPath, Scorer, made_bytes_of, shared_out
from respect_core.policy.solver import PointerSolver, PolicySolver, pretrained_path
from respect_core.schedule import first_violation
from respect_core.solve.local_search_graph import search_graph
from respect_core.solve.local_search_orders import NUM_COEFFICIENTS, SCORED, draw_order, order_space
from respect_core.solve.local_search_random import gumbel_table, random_state
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions, Solver
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.oracles import brute_force
from tests.strategies import graphs, problems

SMALL = NetworkConfig(width=8, rounds=2)
TOLERANCE = 2e-4
"""Largest difference of a coefficient between torch and the compiled forward pass."""


def network(config=SMALL, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PolicyNetwork(config)


def weights_of(made):
    return {name: tensor.detach().numpy().copy() for name, tensor in made.state_dict().items()}


def features_of(graph, num_stages, budget):
    arrays, n = search_graph(graph), graph.num_ops
    out = np.empty((n, NUM_FEATURES), np.float32)
    numbers = problem_globals(n, num_stages, arrays.weight, budget, NO_PROFILE)
    fill_features(arrays.weight, arrays.first, arrays.near, made_bytes_of(graph), num_stages, budget, numbers, out)
    return out


def torch_coefficients(made, graph, features):
    arrays, n = search_graph(graph), graph.num_ops
    parents, children = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
    averages(arrays.first, arrays.near, parents, children)
    with torch.no_grad():
        inputs = [torch.from_numpy(x).unsqueeze(0) for x in (features, parents, children)]
        return made(*inputs)[0].numpy()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "policy.safetensors"
    write_checkpoint(path, SMALL, weights_of(network()), {"note": "untrained"})
    return path


@given(graphs(max_ops=10), st.integers(1, 6), st.integers(1, 20_000))
@settings(deadline=None, max_examples=60)
def test_features_are_finite_and_do_not_depend_on_the_scale_of_the_bytes(graph, num_stages, budget):
    features = features_of(graph, num_stages, budget)
    assert np.isfinite(features).all()
    scaled = replace(graph, param_bytes=graph.param_bytes * 64, tensor_bytes=graph.tensor_bytes * 64)
    if made_bytes_of(graph).sum() >= graph.num_ops and graph.param_bytes.sum():
        assert np.allclose(features, features_of(scaled, num_stages, budget * 64), atol=1e-4)


@given(graphs(max_ops=10))
@settings(deadline=None, max_examples=60)
def test_the_load_above_and_below_is_that_of_all_ancestors_and_descendants(graph):
    import networkx as nx

    features, plain = features_of(graph, 2, 1000), graph.to_networkx()
    total = max(1, int(graph.param_bytes.sum()))
    for v in range(graph.num_ops):
        above = sum(int(graph.param_bytes[u]) for u in nx.ancestors(plain, v))
        below = sum(int(graph.param_bytes[u]) for u in nx.descendants(plain, v))
        assert np.allclose(features[v, 14:16], [above / total, below / total], atol=1e-6)


@given(graphs(max_ops=12), st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_torch_and_the_compiled_pass_agree(graph, num_stages):
    made = network()
    features, arrays = features_of(graph, num_stages, 5000), search_graph(graph)
    found = Forward(SMALL, weights_of(made)).coefficients(features, arrays.first, arrays.near)
    assert np.abs(found - torch_coefficients(made, graph, features)).max() < TOLERANCE


@pytest.mark.parametrize("family", ["local", "wide"])
def test_torch_and_the_compiled_pass_give_the_same_schedules(family):
    opened = read_checkpoint(pretrained_path())
    made = network(opened.config)
    made.load_state_dict({name: torch.from_numpy(w) for name, w in opened.weights.items()})
    scorer, gumbel = Scorer(opened.config, opened.weights), gumbel_table()
    for i, n in enumerate((1, 5, 30, 60, 200)):
        graph = generate_graph(SyntheticSpec(family=family, num_ops=n, seed=77), i)
        arrays, K = search_graph(graph), min(n, 4)
        budget = int(1.05 * max(graph.param_bytes.sum() // K, graph.param_bytes.max()))
        compiled = scorer.scores(arrays, made_bytes_of(graph), K, budget, NO_PROFILE)
        plain = torch_coefficients(made, graph, features_of(graph, K, max(1, budget))).astype(np.float64)
        assert np.abs(compiled - plain).max() < TOLERANCE
        orders = []
        for scores in (compiled, plain):
            space = order_space(n)
            draw_order(arrays, SCORED, budget, K, scores.ravel(), 0.0, gumbel, random_state(0), space)
            orders.append(space.order.tolist())
        assert orders[0] == orders[1]


def test_scores_in_torch_choose_what_the_compiled_decode_chooses():
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=12), 3)
    arrays, budget, K = search_graph(graph), 6000, 3
    coefficients = np.random.default_rng(0).normal(size=(12, NUM_COEFFICIENTS))
    space = order_space(12)
    draw_order(arrays, SCORED, budget, K, coefficients.ravel(), 0.0, gumbel_table(), random_state(0), space)
    shares = torch.from_numpy(graph.param_bytes / budget).unsqueeze(0)
    done, filled, stage = set(), 0, 0
    for v in space.order.tolist():
        ready = [u for u in range(12) if u not in done and done >= set(graph.parents[u])]
        fitting = [u for u in ready if filled + graph.param_bytes[u] <= budget]
        if not fitting:
            filled, stage, fitting = 0, min(stage + 1, K - 1), ready
        dynamic = torch.tensor([[[(budget - filled) / budget, stage / (K - 1)]]], dtype=torch.float64)
        scores = step_scores(torch.from_numpy(coefficients).unsqueeze(0), dynamic, shares)[0, 0].numpy()
        assert max(fitting, key=lambda u: scores[u]) == v
        filled += int(graph.param_bytes[v])
        done.add(v)


@given(problems(max_ops=6))
@settings(deadline=None, max_examples=50)
def test_every_schedule_is_legal_under_all_objectives_and_constraints(checkpoint, problem):
    for solver in (PolicySolver.from_checkpoint(checkpoint), PolicySolver.from_checkpoint(checkpoint).bare()):
        found = solver.solve(problem, SolveOptions())
        if found.stage_of is None:
            assert found.status == "timeout" and "contiguous split" in found.message
            continue
        assert first_violation(problem.graph, found.stage_of, problem.num_stages, problem.constraints) is None
        best = brute_force(problem)
        assert best is not None and found.value >= best.value


def test_it_is_a_solver_that_follows_its_seed_and_is_no_worse_than_the_simple_orders(checkpoint):
    solver = PolicySolver.from_checkpoint(checkpoint)
    assert isinstance(solver, Solver)
    for i in range(5):
        problem = Problem.of(generate_graph(SyntheticSpec(family="wide", seed=3), i), 5)
        found = solver.solve(problem, SolveOptions(seed=i))
        assert found.stage_of == solver.solve(problem, SolveOptions(seed=i)).stage_of
        assert found.value[0] <= BestOrderSolver().solve(problem, SolveOptions()).value[0]
        assert solver.solve(problem, SolveOptions(time_limit_s=0.0)).status == "feasible"


@pytest.mark.parametrize("num_ops", [1, 2, 1500, 5000])
def test_sizes_never_seen_are_scheduled(checkpoint, num_ops):
    problem = Problem.of(generate_graph(SyntheticSpec(family="local", num_ops=num_ops), 0), min(num_ops, 6))
    assert PolicySolver.from_checkpoint(checkpoint).solve(problem, SolveOptions(time_limit_s=2.0)).stage_of is not None


def test_the_weights_that_come_along_beat_an_untrained_network():
    trained, untrained = [], []
    other = network(read_checkpoint(pretrained_path()).config)
    for i in range(60):
        problem = Problem.of(generate_graph(SyntheticSpec(family="local", seed=424_242), i), 5)
        solver = PolicySolver.pretrained()
        assert "come with the program" in solver.version
        trained.append(solver.bare().solve(problem, SolveOptions()).value[0])
        plain = replace(solver.checkpoint, weights=weights_of(other))
        untrained.append(PolicySolver(plain, bare=True).solve(problem, SolveOptions()).value[0])
    assert np.mean(trained) < 0.995 * np.mean(untrained)


def test_solving_needs_no_torch_and_no_platform(checkpoint):
    code = (
        "import sys; from respect_core.policy.solver import PolicySolver; "
        "from respect_core.solve.protocol import Problem, SolveOptions; "
        "from respect_core.sources.synthetic import SyntheticSpec, generate_graph; "
        f"s = PolicySolver.from_checkpoint({str(checkpoint)!r}); "
        "s.solve(Problem.of(generate_graph(SyntheticSpec(family='local'), 0), 4), SolveOptions()); "
        "print([m for m in ('torch', 'mlflow', 'prefect', 'ortools', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def test_other_architectures_versions_and_damaged_weights_are_named(checkpoint, tmp_path):
    weights, header, _ = read_tensors(checkpoint)
    file = tmp_path / "policy.safetensors"
    for change, message in (
        ({"architecture": "transformer"}, "'transformer', this program reads 'messages' and 'pointer'"),
        ({"architecture": "pointer"}, "config cannot be used"),
        ({"format_version": 7}, "format version 7"),
        ({"config": {"width": 9, "rounds": 2}}, "expected float32 of shape"),
        ({"config": {"width": 8, "rounds": 0}}, "rounds is 0"),
    ):
        write_tensors(file, weights, {**header, **change})
        with pytest.raises(InputFileError, match=message):
            PolicySolver.from_checkpoint(file)
    weights["head.bias"][0] = np.nan
    write_tensors(file, weights, header)
    with pytest.raises(InputFileError, match=r"head\.bias.*not finite"):
        PolicySolver.from_checkpoint(file)
    file.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(InputFileError, match="truncated"):
        PolicySolver.from_checkpoint(file)
    with pytest.raises(InputFileError, match="needs 'pointer'"):
        PointerSolver.from_checkpoint(checkpoint)


def test_weight_shapes_are_those_of_torch():
    assert {name: tuple(w.shape) for name, w in network().state_dict().items()} == weight_shapes(SMALL)
    assert isinstance(read_checkpoint(pretrained_path()).config, NetworkConfig)
    assert not isinstance(SMALL, PointerConfig)


@given(graphs(max_ops=10))
@settings(deadline=None)
def test_adjacency_is_that_of_the_search(graph):
    first, near = adjacency(np.array(graph.edges), graph.num_ops)
    arrays = search_graph(graph)
    assert first.tolist() == arrays.first.tolist() and near.tolist() == arrays.near.tolist()


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 20))
def test_budgets_lie_between_the_bound_and_the_incumbent(bound, more, step):
    budget = BudgetPath(bound).next(step, bound + more)
    assert bound <= budget <= max(bound, bound + more - 1)
    assert BudgetPath(bound).next(step, None) >= bound


@given(st.integers(0, 100), st.integers(1, 9))
def test_samples_are_shared_out(count, parts):
    shares = list(shared_out(count, parts))
    assert sum(shares) == count and max(shares) - min(shares) <= 1
