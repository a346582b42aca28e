"""Orders are topological, and their splits are the best contiguous ones: against looking at all of them."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph, IntArray
from respect_core.schedule import first_violation
from respect_core.solve.compiler_rule import CompilerRuleSolver, compiler_order, compiler_segments
from respect_core.solve.orders import (
    SIMPLE_ORDERS,
    BestOrderSolver,
    OrderSolver,
    RandomOrdersSolver,
    random_order,
)
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.split import split_order
from tests.oracles import Oracle, brute_force
from tests.strategies import graphs, problems


def contiguous(problem: Problem, order: IntArray) -> list[list[int]]:
    """Return every legal schedule that cuts ``order`` into contiguous stages."""
    n, num_stages = problem.graph.num_ops, problem.num_stages
    oracle = Oracle(problem.graph, problem.profile)
    found = []
    for cuts in itertools.combinations(range(1, n), num_stages - 1):
        stages = [0] * n
        for position, v in enumerate(order.tolist()):
            stages[v] = sum(position >= cut for cut in cuts)
        if oracle.is_legal(stages, num_stages, problem.constraints):
            found.append(stages)
    return found


@given(graphs(max_ops=9), st.integers(0, 5))
def test_every_order_is_topological(graph: DnnGraph, seed: int) -> None:
    for order in SIMPLE_ORDERS.values():
        assert graph.is_topological(order(graph))
    assert graph.is_topological(compiler_order(graph))
    assert graph.is_topological(random_order(graph, np.random.default_rng(seed)))


def test_random_orders_reach_every_order_of_a_small_graph() -> None:
    graph = _edgeless(4)
    rng = np.random.default_rng(0)
    seen = {tuple(random_order(graph, rng).tolist()) for _ in range(500)}
    assert len(seen) == 24


@given(problems(max_ops=7, constrained=False), st.integers(0, 3))
def test_unconstrained_split_is_the_best_contiguous_one(problem: Problem, seed: int) -> None:
    order = random_order(problem.graph, np.random.default_rng(seed))
    stages = split_order(problem, order)
    assert stages is not None
    oracle = Oracle(problem.graph, problem.profile)
    best = min(
        oracle.numbers(s, problem.num_stages).value(problem.objective, problem.ratio)
        for s in contiguous(problem, order)
    )
    assert problem.value(problem.evaluate(stages)) == best


@given(problems(max_ops=7, constrained=True), st.integers(0, 3))
def test_constrained_split_is_legal_and_no_worse_than_any_contiguous_one(problem: Problem, seed: int) -> None:
    order = random_order(problem.graph, np.random.default_rng(seed))
    stages = split_order(problem, order)
    candidates = contiguous(problem, order)
    if stages is None:
        assert not candidates
        return
    oracle = Oracle(problem.graph, problem.profile)
    assert oracle.is_legal(stages.tolist(), problem.num_stages, problem.constraints)
    value = problem.value(problem.evaluate(stages))
    assert all(
        value <= oracle.numbers(s, problem.num_stages).value(problem.objective, problem.ratio) for s in candidates
    )


@given(problems(max_ops=6))
def test_order_solvers_never_beat_brute_force(problem: Problem) -> None:
    best = brute_force(problem)
    solvers = [OrderSolver(name, order) for name, order in SIMPLE_ORDERS.items()]
    for solver in [*solvers, BestOrderSolver(), RandomOrdersSolver(8), CompilerRuleSolver()]:
        result = solver.solve(problem, SolveOptions())
        assert result.lower_bound is None
        if best is None:
            assert result.status == "timeout"
        if result.value is None:
            assert result.status == "timeout" and result.message
        else:
            assert result.status == "feasible"
            assert best is not None and result.value >= best.value


@given(problems(max_ops=6), st.integers(0, 2))
def test_random_orders_depend_on_the_seed_alone(problem: Problem, seed: int) -> None:
    options = SolveOptions(seed=seed)
    first, second = (RandomOrdersSolver(4).solve(problem, options) for _ in range(2))
    assert first.stage_of == second.stage_of


def test_split_refuses_an_order_that_is_not_topological() -> None:
    graph = _chain(3)
    with pytest.raises(BadInputError, match="not a topological order"):
        split_order(Problem.of(graph, 2), np.array([2, 1, 0]))
    with pytest.raises(BadInputError, match="at least 1"):
        RandomOrdersSolver(0)


@given(graphs(max_ops=9), st.data())
def test_compiler_rule_is_legal_for_every_k(graph: DnnGraph, data: st.DataObject) -> None:
    num_stages = data.draw(st.integers(1, graph.num_ops))
    assert first_violation(graph, compiler_segments(graph, num_stages), num_stages) is None


def test_compiler_rule_fills_stages_up_to_the_average() -> None:
    graph = _chain(6, [10, 10, 10, 10, 10, 10])
    assert compiler_segments(graph, 3).tolist() == [0, 0, 1, 1, 2, 2]
    graph = _chain(6, [50, 1, 1, 1, 1, 6])
    assert compiler_segments(graph, 3).tolist() == [0, 1, 1, 1, 1, 2]


def test_compiler_order_runs_dead_ends_late_and_small_children_first() -> None:
    # 0 feeds 1, 2 and 3; nobody reads 2; 1 and 3 feed 4, which nobody reads either: what is put off last runs last.
    graph = _graph(5, [(0, (1, 2, 3)), (1, (4,)), (3, (4,))])
    assert compiler_order(graph).tolist() == [0, 1, 3, 2, 4]


def _edgeless(n: int) -> DnnGraph:
    return _graph(n, [])


def _chain(n: int, sizes: list[int] | None = None) -> DnnGraph:
    return _graph(n, [(v, (v + 1,)) for v in range(n - 1)], sizes)


def _graph(n: int, edges: list[tuple[int, tuple[int, ...]]], sizes: list[int] | None = None) -> DnnGraph:
    readers = dict(edges)
    return DnnGraph(
        name="hand-made",
        source="json",
        op_names=tuple(f"op{v}" for v in range(n)),
        op_kinds=("conv2d",) * n,
        param_bytes=np.array(sizes or [1] * n),
        macs=np.zeros(n, dtype=np.int64),
        compiled_bytes=np.full(n, -1),
        always_streamed_bytes=np.zeros(n, dtype=np.int64),
        op_time_us=np.full(n, np.nan),
        tensor_names=tuple(f"t{v}" for v in range(n)),
        tensor_bytes=np.ones(n, dtype=np.int64),
        tensor_producer=np.arange(n),
        tensor_consumers=tuple(readers.get(v, ()) for v in range(n)),
        tensor_is_output=np.array([v not in readers for v in range(n)]),
    )
