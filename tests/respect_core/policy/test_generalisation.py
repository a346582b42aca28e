"""The generalisation test: graphs of their kind, and gaps that brute force agrees with."""

from __future__ import annotations

import numpy as np
import pytest

from respect_core.policy.generalisation import SEED, WEIGHTS, GraphKind, Point, draw_graph, few_sweeps, sweeps
from respect_core.policy.generalisation_rows import NUM_SAMPLES, generalisation_rows
from respect_core.policy.solver import PolicySolver
from respect_core.solve.local_search_run import LocalSearch, Starts
from respect_core.solve.protocol import Problem, Stopwatch
from respect_core.tables.domain_checks import generalisation_checks
from respect_core.tables.generalisation import GENERALISATION, METHODS, POLICY, SIMPLE_ORDERS
from tests.oracles import brute_force


@pytest.fixture(scope="module")
def policy() -> PolicySolver:
    return PolicySolver(PolicySolver.pretrained().checkpoint, num_samples=NUM_SAMPLES)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_drawn_graphs_are_of_their_kind(weights: str) -> None:
    kind = GraphKind(num_ops=40, window=4, in_degrees=(3, 3), weights=weights)
    graph = draw_graph(kind, 1, 2)
    again = draw_graph(kind, 1, 2)
    spans = graph.edges[:, 1] - graph.edges[:, 0]
    assert graph.num_ops == 40 and spans.min() >= 1 and spans.max() <= 4
    assert max(len(parents) for parents in graph.parents) <= 3
    assert np.array_equal(graph.param_bytes, again.param_bytes) and np.array_equal(graph.edges, again.edges)


def test_every_sweep_has_points_of_different_labels() -> None:
    for points in (*sweeps().values(), *few_sweeps().values()):
        assert len({point.label for point in points}) == len(points) > 1


def test_gaps_are_those_to_the_optimum(policy: PolicySolver) -> None:
    kind, stages = GraphKind(num_ops=8), (2, 3)
    rows = generalisation_rows(
        policy, "ops", [Point(label="8", kind=kind, stages=stages)], num_graphs=4, time_limit_s=9
    )
    table = GENERALISATION.table(rows)
    assert table.num_rows == len(METHODS)
    assert all(all(column.to_pylist()) for column in generalisation_checks(table).columns.values())
    by_method = {row["method"]: row for row in rows}
    assert {row["num_proven"] for row in rows} == {4}
    assert {row["policy"] for row in rows} == {policy.version}
    assert by_method[POLICY]["worst_gap"] == 0 <= by_method[SIMPLE_ORDERS]["mean_gap"]
    gaps = []
    for index in range(4):
        problem = Problem.of(draw_graph(kind, SEED, index), stages[index % 2])
        best = brute_force(problem)
        assert best is not None
        search = LocalSearch(problem, 0)
        search.run(Starts(improve=False), Stopwatch(9))
        assert search.peak is not None
        gaps.append(search.peak / max(problem.evaluate(best.stage_of).param_bytes) - 1)
    assert by_method[SIMPLE_ORDERS]["mean_gap"] == pytest.approx(np.mean(gaps))
    assert by_method[SIMPLE_ORDERS]["worst_gap"] == pytest.approx(max(gaps))


def test_without_time_for_proofs_gaps_count_to_a_bound(policy: PolicySolver) -> None:
    points = few_sweeps()["stages K (60 ops)"][-1:]
    rows = generalisation_rows(policy, "stages K (60 ops)", points, num_graphs=1, time_limit_s=0)
    proven = generalisation_rows(policy, "stages K (60 ops)", points, num_graphs=1, time_limit_s=20)
    assert rows[0]["num_proven"] == 0 < proven[0]["num_proven"]
    for loose, tight in zip(rows, proven, strict=True):
        assert loose["mean_gap"] >= tight["mean_gap"] >= 0


def test_graphs_without_parameters_have_no_gap(policy: PolicySolver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WEIGHTS, "sparse", lambda rng, n: np.zeros(n, dtype=np.int64))
    point = Point(label="sparse", kind=GraphKind(num_ops=10, weights="sparse"), stages=(2,))
    rows = generalisation_rows(policy, "weights", [point], num_graphs=1, time_limit_s=1)
    assert [(row["mean_gap"], row["num_proven"]) for row in rows] == [(0.0, 1)] * len(METHODS)
