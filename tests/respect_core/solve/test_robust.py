"""Robust schedules: loops against the definition, exactness on small graphs, and gains on scenarios never seen."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.constraints import Constraints, Pin
from respect_core.device_constants import CONSTANTS, Constant, KnownProfile, load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.errors import BadInputError, UnknownNameError
from respect_core.schedule import first_violation
from respect_core.solve.compiler_rule import compiler_order, compiler_segments
from respect_core.solve.orders import SIMPLE_ORDERS, random_order
from respect_core.solve.protocol import Problem, SolveOptions, Stopwatch
from respect_core.solve.registry import get_solver
from respect_core.solve.robust import MEASURES, RobustSolver, check_measure, judge, known_profile_of, nominal_schedule
from respect_core.solve.robust_report import outlook, outlook_row
from respect_core.solve.robust_scenarios import Scenarios, bottlenecks, stage_times
from respect_core.solve.robust_search import Reference, order_around, regret_of
from respect_core.sources.catalog import load_model
from tests.oracles import legal_schedules
from tests.strategies import problems

timed = problems(max_ops=6, constrained=False, objectives=("throughput",))


def around(problem: Problem, spread: float = 0.5) -> KnownProfile:
    """Return the problem's profile with ranges of a half around each constant."""
    constants = {}
    for name in CONSTANTS:
        value = float(getattr(problem.profile, name))
        high = min(1.0, value * (1 + spread)) if name == "overlap" else value * (1 + spread)
        constants[name] = Constant(name=name, value=value, low=value * (1 - spread), high=max(high, value))
    constants["host_thread_ms"] = Constant(name="host_thread_ms", value=0.0, low=0.0, high=0.0)
    return KnownProfile(profile=problem.profile, constants=constants)


@given(timed, st.data())
def test_times_in_scenarios_are_those_of_the_objective(problem: Problem, data: st.DataObject) -> None:
    stage_of = data.draw(st.sampled_from(list(legal_schedules(problem))))
    profiles = draw_scenarios(around(problem), 3, data.draw(st.integers(0, 99)))
    times = stage_times(problem, stage_of, Scenarios.of(profiles))
    for row, profile in zip(times, profiles, strict=True):
        exact = replace(problem, profile=profile).evaluate(stage_of).time_ns / 1e6
        # Terms are rounded to nanoseconds there, and capacities to whole bytes (up to 14 ns of streaming).
        assert row == pytest.approx(exact, abs=5e-5, rel=1e-6)


def contiguous(problem: Problem, order: np.ndarray) -> list[np.ndarray]:
    n, k = problem.graph.num_ops, problem.num_stages
    out = []
    for cuts in itertools.combinations(range(1, n), k - 1):
        stage_of = np.empty(n, dtype=np.int64)
        stage_of[order] = np.repeat(np.arange(k), np.diff((0, *cuts, n)))
        out.append(stage_of)
    return out


@given(timed, st.integers(0, 9))
@settings(max_examples=60)
def test_an_order_is_cut_exactly(problem: Problem, seed: int) -> None:
    """Against all contiguous cuts: every scenario's optimum, and the cut with the smallest largest regret."""
    order = random_order(problem.graph, np.random.default_rng(seed))
    scenarios = Scenarios.of([problem.profile, *draw_scenarios(around(problem), 5, seed)])
    cuts = contiguous(problem, order)
    times = np.array([bottlenecks(problem, cut, scenarios) for cut in cuts])
    reference = Reference(problem, scenarios, [cuts[-1]], Stopwatch(60))
    prepared = reference.order(order)
    worst = times.max(axis=0) + 1.0
    assert prepared.optima(scenarios, worst) == pytest.approx(times.min(axis=0))
    best = np.maximum(times.min(axis=0), 1e-9)
    found = prepared.best_cut(scenarios.constants, best)
    assert found is not None
    regrets = (times / best).max(axis=1)
    mine = (bottlenecks(problem, found, scenarios) / best).max()
    assert mine == pytest.approx(regrets.min())


@given(timed, st.integers(0, 9))
@settings(max_examples=40)
def test_the_reference_is_the_best_of_its_orders_and_schedules(problem: Problem, seed: int) -> None:
    start = contiguous(problem, problem.graph.topological_order)[-1]
    scenarios = Scenarios.of(draw_scenarios(around(problem), 4, seed))
    reference = Reference(problem, scenarios, [start], Stopwatch(60))
    orders = [make(problem.graph) for make in SIMPLE_ORDERS.values()]
    orders += [compiler_order(problem.graph), order_around(problem, start)]
    best = np.min([bottlenecks(problem, cut, scenarios) for o in orders for cut in contiguous(problem, o)], axis=0)
    best = np.minimum(best, bottlenecks(problem, start, scenarios))
    assert reference.bottleneck_ms == pytest.approx(np.maximum(best, 1e-9))


@given(problems(max_ops=6), st.sampled_from(MEASURES))
@settings(max_examples=60)
def test_a_robust_schedule_is_legal_and_no_worse_than_the_nominal_one(problem: Problem, measure: str) -> None:
    solver = RobustSolver(check_measure(measure), around(problem), 10)
    found = solver.solve(problem, SolveOptions(time_limit_s=20))
    nominal = nominal_schedule(replace(problem, objective="throughput"), 5.0)
    assert (found.stage_of is None) == (nominal is None)
    if found.stage_of is None or nominal is None:
        return
    assert first_violation(problem.graph, found.stage_of, problem.num_stages, problem.constraints) is None
    scenarios = Scenarios.of([problem.profile, *draw_scenarios(around(problem), 10, 0)])
    timed_problem = replace(problem, objective="throughput")
    reference = Reference(timed_problem, scenarios, [nominal], Stopwatch(60))
    if not (reference.bottleneck_ms > 0).all():
        return
    mine, its = (regret_of(reference.regrets(cut), check_measure(measure)) for cut in (found.stage_of, nominal))
    assert mine <= its + 1e-9


@given(timed, st.data())
def test_an_order_around_a_schedule_keeps_its_stages_together(problem: Problem, data: st.DataObject) -> None:
    stage_of = data.draw(st.sampled_from(list(legal_schedules(problem))))
    for rng in (None, np.random.default_rng(0)):
        order = order_around(problem, stage_of, rng)
        assert problem.graph.is_topological(order)
        assert (np.diff(np.array(stage_of)[order]) >= 0).all()


def test_regret_measures() -> None:
    regrets = np.array([1.0, 3.0, 2.0, *[1.5] * 17])
    assert regret_of(regrets, "max") == 3.0
    assert regret_of(regrets, "p90") == 1.5  # 18 of 20 are at most 1.5
    with pytest.raises(UnknownNameError, match="p50"):
        check_measure("p50")


@pytest.mark.parametrize("measure", MEASURES)
def test_it_pays_on_scenarios_that_were_never_seen(measure: str) -> None:
    """A real net: in 200 other scenarios the robust cut loses less than the nominal one, and far less than the rule."""
    graph = load_model("ResNet152-int8")
    problem = Problem.of(graph, 6, "throughput", device="pcie")
    found = get_solver(f"robust-{measure}").solve(problem, SolveOptions(time_limit_s=30))
    nominal = nominal_schedule(problem, 10)
    assert found.stage_of is not None and nominal is not None and "200 scenarios" in found.message
    cuts = {"robust": np.array(found.stage_of), "nominal": nominal, "rule": compiler_segments(graph, 6)}
    judged = judge(problem, load_known_profile("pcie"), cuts, seed=1)
    names = {"max": "largest", "p90": "percentile90"}
    robust, its, rule = (getattr(judged[name], names[measure]) for name in cuts)
    assert robust < 0.7 * its < rule
    assert all(r.largest >= r.percentile90 >= r.median >= 0 for r in judged.values())


def test_the_same_seed_gives_the_same_schedule() -> None:
    problem = Problem.of(load_model("ResNet50-int8"), 4, "throughput", device="pcie")
    first, again = (RobustSolver("max", num_scenarios=50).solve(problem, SolveOptions(seed=3)) for _ in range(2))
    assert first.stage_of == again.stage_of and first.message == again.message


def test_unknown_ranges_are_refused() -> None:
    problem = Problem.of(load_model("ResNet50-int8"), 2, "throughput")
    odd = replace(problem, profile=replace(problem.profile, name="mine"))
    with pytest.raises(BadInputError, match="ranges of profile 'mine'"):
        known_profile_of(odd)


def test_the_outlook_states_ranges_and_when_fewer_tpus_do() -> None:
    graph = load_model("MobileNetV2-int8")
    problem = Problem.of(graph, 4, "throughput")
    stage_of = nominal_schedule(problem, 5)
    assert stage_of is not None
    found = outlook(problem, stage_of, load_known_profile("usb3"), 100, 1)
    nominal = problem.evaluate(stage_of)
    assert "a pipeline of 2 TPUs" in found.advice and "will not beat" in found.advice
    for limits, time in zip(found.stage_ms, (nominal.time_ns / 1e6).tolist(), strict=True):
        assert limits[0] < limits[1] and limits[0] < 1.2 * time
    assert found.bottleneck_ms[0] < nominal.bottleneck_ns / 1e6 < found.bottleneck_ms[1] * 1.1
    assert [other.num_stages for other in found.smaller] == [1, 2, 3]
    assert found.host_threads_ms == pytest.approx(4 * 0.244)
    row = outlook_row(found)
    assert len(row["time_us_range"]) == 4 and row["advice"] == found.advice


def test_a_pipeline_that_pays_gets_no_advice() -> None:
    problem = Problem.of(load_model("ResNet152-int8"), 3, "throughput", device="pcie")
    stage_of = nominal_schedule(problem, 5)
    assert stage_of is not None
    found = outlook(problem, stage_of, load_known_profile("pcie"), 20, 1)
    assert found.advice == "" and found.smaller[0].as_good == 0.0


def test_a_pipeline_slower_than_one_tpu_says_so() -> None:
    """Transfers that dwarf all else: cutting only adds some."""
    graph = load_model("MobileNetV2-int8")
    problem = Problem.of(graph, 2, "throughput")
    slow = replace(problem, profile=replace(problem.profile, output_ms_per_mib=900.0))
    stage_of = np.zeros(graph.num_ops, dtype=np.int64)
    stage_of[graph.topological_order[5:]] = 1
    found = outlook(slow, stage_of, replace(load_known_profile("usb3"), profile=slow.profile), 10, 1)
    assert "will not beat a single TPU" in found.advice


def test_constraints_on_stages_leave_smaller_pipelines_out() -> None:
    graph = load_model("MobileNetV2-int8")
    last = int(graph.topological_order[-1])
    problem = replace(Problem.of(graph, 3, "throughput"), constraints=Constraints(pins=(Pin(last, 2),)))
    stage_of = nominal_schedule(problem, 5)
    assert stage_of is not None
    assert outlook(problem, stage_of, load_known_profile("usb3"), 5, 0).smaller == ()


def test_a_huge_graph_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("respect_core.solve.robust.MOST_OPS", 10)
    monkeypatch.setattr("respect_core.solve.robust_report.MOST_OPS", 10)
    problem = Problem.of(load_model("MobileNetV2-int8"), 3, "throughput")
    found = RobustSolver("max").solve(problem, SolveOptions())
    assert found.status == "timeout" and "up to 10 ops, the graph has 65" in found.message
    stage_of = problem.graph.levels * 3 // (problem.graph.depth + 2)
    assert outlook(problem, stage_of, load_known_profile("usb3"), 5, 0).smaller == ()
