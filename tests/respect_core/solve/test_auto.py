"""`auto` proves what it can in time, and otherwise returns the best schedule with the bound that was proven."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from respect_core.constraints import Constraints, Pin
from respect_core.objective import OBJECTIVES, Objective
from respect_core.schedule import first_violation
from respect_core.solve.auto import MOST_RESERVED_S, RESERVED_PART, AutoSolver
from respect_core.solve.exact import ExactSolver
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, gap_of, result_of
from respect_core.sources.catalog import load_model
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.oracles import brute_force
from tests.strategies import problems

NO_TIME = SolveOptions(time_limit_s=0.0)


class Recorded:
    """Stands in for the policy: notes its options, and returns a schedule that is handed in (or none)."""

    name = "recorded"
    version = "7"

    def __init__(self, stage_of: tuple[int, ...] | None = None) -> None:
        self.stage_of = stage_of
        self.options: list[SolveOptions] = []

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        self.options.append(options)
        fits = self.stage_of is not None and len(self.stage_of) == problem.graph.num_ops
        stage_of = self.stage_of if fits else None
        status = "timeout" if stage_of is None else "feasible"
        return result_of(self, problem, stage_of, status=status, solve_seconds=0.0)


def hard_problem(objective: Objective = "throughput") -> Problem:
    """Return a problem that takes the exact search longer than these tests give it."""
    return Problem.of(generate_graph(SyntheticSpec(family="wide", num_ops=60, seed=5), 0), 4, objective)


@given(problems(max_ops=6))
@settings(max_examples=60, deadline=None)
def test_small_problems_are_proven_or_proven_impossible(problem: Problem) -> None:
    found = AutoSolver().solve(problem, SolveOptions())
    best = brute_force(problem)
    if best is None:
        assert found.status == "infeasible" and found.stage_of is None and found.message
    else:
        assert (found.status, found.value, found.gap) == ("optimal", best.value, 0.0)
        assert found.canonical and found.version.startswith("3 (exact")


@given(problems(max_ops=6), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_without_time_every_schedule_is_legal_and_its_bound_holds(problem: Problem, seed: int) -> None:
    found = AutoSolver().solve(problem, SolveOptions(time_limit_s=0.0, seed=seed))
    best = brute_force(problem)
    if found.stage_of is None:
        assert found.status in ("timeout", "infeasible")
        assert found.status == "timeout" or best is None
        return
    assert best is not None
    assert first_violation(problem.graph, found.stage_of, problem.num_stages, problem.constraints) is None
    assert found.value is not None and found.value >= best.value
    if found.lower_bound is not None:
        assert found.lower_bound <= best.value[0]
        assert found.gap == gap_of(found.value[0], found.lower_bound)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_is_no_worse_than_its_parts_without_a_proof(objective: Objective) -> None:
    problem = hard_problem(objective)
    found = AutoSolver().solve(problem, NO_TIME)
    exact = ExactSolver().solve(problem, NO_TIME)
    orders = BestOrderSolver().solve(problem, SolveOptions())
    assert found.status == "feasible" and found.lower_bound is not None and found.gap is not None
    assert found.value is not None and orders.value is not None
    assert found.value <= min(orders.value, exact.value or orders.value)


def test_the_best_schedule_is_kept_and_its_solver_named() -> None:
    problem = hard_problem()
    best = AutoSolver().solve(problem, SolveOptions(time_limit_s=0.5))
    found = AutoSolver(policy=lambda: Recorded(best.stage_of)).solve(problem, NO_TIME)
    assert found.value is not None and best.value is not None and found.value <= best.value
    if found.stage_of == best.stage_of:
        assert found.version == "3 (recorded 7)"
    assert found.status == "feasible" and found.solver == "auto"


def test_where_no_policy_can_be_opened_the_others_serve() -> None:
    assert AutoSolver(policy=lambda: None).solve(hard_problem(), NO_TIME).status == "feasible"
    assert AutoSolver(policy=Recorded).solve(hard_problem(), NO_TIME).status == "feasible"


@pytest.mark.parametrize("limit_s", [0.0, 0.25])
def test_the_policy_gets_what_is_left_of_the_limit_and_the_seed(limit_s: float) -> None:
    recorded = Recorded()
    options = SolveOptions(time_limit_s=limit_s, seed=11)
    AutoSolver(policy=lambda: recorded).solve(hard_problem(), options)
    assert recorded.options[-1].seed == 11  # the first call loads its code, on a problem of four ops
    assert 0 <= recorded.options[-1].time_limit_s <= limit_s


def test_the_exact_search_is_asked_first_and_gets_most_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    solve = ExactSolver.solve

    def noted(self: ExactSolver, problem: Problem, options: SolveOptions) -> SolveResult:
        limits.append(options.time_limit_s)
        return solve(self, problem, options)

    monkeypatch.setattr(ExactSolver, "solve", noted)

    def never() -> None:
        raise AssertionError("the policy was opened although the optimum is proven")

    problem = Problem.of(load_model("ResNet50-notop"), 4, "peak-memory")
    for limit_s in (1.0, 600.0):
        found = AutoSolver(policy=never).solve(problem, SolveOptions(time_limit_s=limit_s))
        assert found.status == "optimal"
        assert limits[-1] == limit_s - min(RESERVED_PART * limit_s, MOST_RESERVED_S)


def test_contradicting_constraints_are_reported_as_the_exact_search_finds_them() -> None:
    graph = load_model("ResNet50-notop")
    both = Constraints(pins=(Pin(op=3, stage=2), Pin(op=4, stage=1)))
    problem = Problem.of(graph, 4, "throughput", constraints=both)
    found = AutoSolver().solve(problem, SolveOptions(time_limit_s=20.0))
    assert found.status == "infeasible" and found.stage_of is None and "op" in found.message
