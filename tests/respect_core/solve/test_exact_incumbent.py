"""What the exact search returns without a proof: more time never ends worse, and large graphs keep to it."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.schedule import first_violation
from respect_core.solve import exact
from respect_core.solve.exact import ExactSolver
from respect_core.solve.exact_incumbent import Incumbent
from respect_core.solve.orders import SIMPLE_ORDERS, OrderSolver
from respect_core.solve.protocol import Problem, SolveOptions, Stopwatch

FEW_SETS = ExactSolver(max_sets=64)
"""Gives up at once on the graphs below."""


def banded_graph(num_ops, seed, span, most_params, most_bytes):
    """Draw a graph whose ops read up to three of the ``span`` ops before them."""
    rng = np.random.default_rng(seed)
    readers = [[] for _ in range(num_ops)]
    for v in range(1, num_ops):
        for u in sorted(set((v - 1 - rng.integers(0, min(v, span), size=rng.integers(1, 4))).tolist())):
            readers[u].append(v)
    return DnnGraph(
        name="banded",
        source="synthetic",
        op_names=tuple(f"op{v}" for v in range(num_ops)),
        op_kinds=("conv2d",) * num_ops,
        param_bytes=rng.integers(0, most_params, num_ops),
        macs=np.zeros(num_ops, np.int64),
        compiled_bytes=np.full(num_ops, UNKNOWN),
        always_streamed_bytes=np.zeros(num_ops, np.int64),
        op_time_us=np.full(num_ops, np.nan),
        tensor_names=tuple(f"t{v}" for v in range(num_ops)),
        tensor_bytes=rng.integers(1, most_bytes, num_ops),
        tensor_producer=np.arange(num_ops),
        tensor_consumers=tuple(map(tuple, readers)),
        tensor_is_output=np.array([not mine for mine in readers]),
    )


banded_graphs = st.builds(
    banded_graph,
    num_ops=st.sampled_from([60, 150]),
    seed=st.integers(0, 2**32 - 1),
    span=st.sampled_from([3, 8, 20]),
    most_params=st.sampled_from([4, 20, 1000]),
    most_bytes=st.sampled_from([3, 50]),
)


@given(banded_graphs, st.integers(2, 5), st.sampled_from(["peak-memory", "weighted", "throughput"]))
@settings(max_examples=30, deadline=None)
def test_more_time_never_ends_worse(graph, num_stages, objective):
    problem = Problem.of(graph, num_stages, objective)
    at_once = FEW_SETS.solve(problem, SolveOptions(time_limit_s=0.0))
    later = FEW_SETS.solve(problem, SolveOptions(time_limit_s=60.0))
    assert first_violation(graph, later.stage_of, num_stages) is None
    assert later.value <= at_once.value


@given(banded_graphs, st.integers(2, 5))
@settings(max_examples=15, deadline=None)
def test_evened_out_schedules_are_legal_and_no_worse_than_the_simple_orders(graph, num_stages):
    problem = Problem.of(graph, num_stages)
    known = Incumbent(problem, SolveOptions(), Stopwatch(60.0), np.zeros(1, np.int64))
    known.even_out_orders()
    assert first_violation(graph, known.stage_of, num_stages) is None
    assert known.value == problem.value(problem.evaluate(known.stage_of))
    for name, order in SIMPLE_ORDERS.items():
        assert known.value <= OrderSolver(name, order).solve(problem, SolveOptions()).value


@pytest.mark.parametrize(("num_ops", "limit_s", "watched"), [(60, 60.0, False), (60, 1.0, True), (600, 60.0, True)])
def test_first_attempts_are_watched_where_they_may_outlast_the_limit(monkeypatch, num_ops, limit_s, watched):
    seen = []

    class UnfinishedError(Exception):
        pass

    def solve_plain(problem, stop):
        raise UnfinishedError

    def deadline(search, seconds):
        seen.append(seconds is not None)
        return real(search, seconds)

    real = exact._Search._deadline
    monkeypatch.setattr(exact._Search, "_deadline", deadline)
    monkeypatch.setattr(exact, "solve_plain", solve_plain)
    with pytest.raises(UnfinishedError):
        ExactSolver().solve(Problem.of(banded_graph(num_ops, 0, 3, 20, 9), 3), SolveOptions(time_limit_s=limit_s))
    assert seen == [watched]
