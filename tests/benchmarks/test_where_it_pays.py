"""What the studies of time and generalisation rest on: traces that are true, intervals that hold the mean."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from respect_core.objective import OBJECTIVES, Objective
from respect_core.solve.exact import ExactSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.benchmarks.where_it_pays_methods import METHODS, Study, Trace
from tests.benchmarks.where_it_pays_statistics import Mean, mean_of, percent, renew


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_method_beats_the_proven_optimum_and_time_never_hurts(objective: Objective) -> None:
    budgets = (0.002, 0.01)
    problem = Problem.of(generate_graph(SyntheticSpec(family="local", num_ops=12, seed=3), 1), 3, objective)
    optimum = ExactSolver().solve(problem, SolveOptions()).value
    study = Study(budgets)
    for _ in range(2):  # the first run loads code
        traces, reference = study.traces(problem, 0, 30.0)
    assert optimum is not None and reference.status == "optimal" and list(traces) == list(METHODS)
    for trace in traces.values():
        values = [value for spent, value in trace.points]
        assert values and min(values) >= optimum[0]
        late, early = trace.at(budgets[1]), trace.at(budgets[0])
        assert early is None or (late is not None and late <= early)
    assert traces["exact"].proof_s is not None
    assert min(value for _, value in traces["exact"].points) == optimum[0]


def test_a_trace_knows_what_was_ready_in_time() -> None:
    trace = Trace(points=[(0.2, 9), (0.4, 5), (0.5, 7)])
    assert [trace.at(s) for s in (0.1, 0.3, 0.4, 1.0)] == [None, 9, 5, 5]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
@settings(max_examples=30, deadline=None)
def test_intervals_lie_within_the_values_and_are_repeatable(values: list[float]) -> None:
    found = mean_of(np.array(values))
    assert min(values) - 1e-12 <= found.low <= found.high <= max(values) + 1e-12
    assert found == mean_of(np.array(values))
    if len(set(values)) == 1:
        assert found.low == pytest.approx(found.mean) and found.high == pytest.approx(found.mean)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    intervals = [mean_of(rng.random(60)) for _ in range(200)]
    assert 0.88 <= np.mean([interval.low <= 0.5 <= interval.high for interval in intervals]) <= 0.99


def test_percentages_show_small_gaps() -> None:
    assert percent(Mean(mean=0.0, low=0.0, high=0.0)) == "0"
    assert percent(Mean(mean=0.00012, low=0.0, high=0.0002)) == "0.012 (0.000..0.020)"
    assert percent(Mean(mean=0.25, low=0.2, high=0.3)) == "25.0 (20.0..30.0)"


def test_only_what_lies_between_the_markers_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- a -->\nafter\n", encoding="utf-8")
    for lines in (["new", "er"], ["new"]):
        renew(page, {"a": lines})
    assert page.read_text(encoding="utf-8") == "before\n<!-- a -->\nnew\n<!-- a -->\nafter\n"
    with pytest.raises(ValueError, match="<!-- b -->"):
        renew(page, {"b": []})
