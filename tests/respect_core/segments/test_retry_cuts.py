from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from respect_core.constraints import Constraints
from respect_core.errors import BadInputError
from respect_core.schedule import first_violation
from respect_core.segments.retry import CutAttempt, failed_ops, propose_cuts, retry_cuts, schedule_order
from respect_core.solve.orders import SIMPLE_ORDERS, BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from tests.respect_core.tables.table_data import small_graph
from tests.strategies import problems, stage_vectors


def contiguous_cuts(order: Sequence[int], num_stages: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut an order into stages."""
    n = len(order)
    for bounds in itertools.combinations(range(1, n), num_stages - 1):
        stage_of = [0] * n
        for position, v in enumerate(order):
            stage_of[v] = sum(position >= bound for bound in bounds)
        yield tuple(stage_of)


def solved(problem: Problem) -> tuple[int, ...] | None:
    return BestOrderSolver().solve(problem, SolveOptions()).stage_of


def attempt(problem: Problem, stage_of: Sequence[int], failed: Sequence[int]) -> CutAttempt:
    value = problem.value(problem.evaluate(stage_of))
    return CutAttempt(stage_of=tuple(stage_of), value=value, failed=tuple(failed))


@settings(max_examples=60)
@given(problems(min_ops=2, max_ops=5), st.data())
def test_the_first_proposal_is_the_best_cut_without_the_failed_segment(problem: Problem, data: st.DataObject) -> None:
    """Against every contiguous cut of the orders that are looked at."""
    stage_of = solved(problem)
    assume(stage_of is not None)
    assert stage_of is not None
    stage = data.draw(st.integers(0, problem.num_stages - 1))
    tried = attempt(problem, stage_of, [stage])
    (ops,) = failed_ops(problem, [tried])
    proposals = propose_cuts(problem, [tried])
    if len(ops) == 1:
        assert proposals == []
        return
    graph = problem.graph
    orders = [schedule_order(problem, stage_of), *(order(graph) for order in SIMPLE_ORDERS.values())]
    right = [
        problem.value(problem.evaluate(cut))
        for order in orders
        for cut in contiguous_cuts(order.tolist(), problem.num_stages)
        if first_violation(graph, cut, problem.num_stages, problem.constraints) is None and cut[ops[0]] != cut[ops[-1]]
    ]
    assert bool(proposals) or not right
    if right and proposals:
        assert proposals[0][0] <= min(right)


@given(problems(min_ops=2, max_ops=7), st.data())
def test_proposals_are_legal_new_and_avoid_all_that_failed(problem: Problem, data: st.DataObject) -> None:
    attempts = []
    for _ in range(data.draw(st.integers(1, 4))):
        stage_of = data.draw(stage_vectors(problem.graph, problem.num_stages))
        assume(first_violation(problem.graph, stage_of, problem.num_stages, problem.constraints) is None)
        failed = data.draw(st.sets(st.integers(0, problem.num_stages - 1), min_size=1))
        attempts.append(attempt(problem, stage_of, sorted(failed)))
    proposals = propose_cuts(problem, attempts)
    assert proposals == sorted(proposals)
    assert len({stage_of for _, stage_of in proposals}) == len(proposals)
    for value, proposed in proposals:
        assert problem.value(problem.evaluate(proposed)) == value
        assert proposed not in [one.stage_of for one in attempts]
        for one in attempts:
            for stage in one.failed:
                ops = [v for v, k in enumerate(one.stage_of) if k == stage]
                assert len({proposed[v] for v in ops}) > 1


@given(problems(min_ops=3, max_ops=7, max_stages=4, constrained=False), st.data())
def test_retrying_ends_with_cuts_that_compile_or_says_why_not(problem: Problem, data: st.DataObject) -> None:
    """A compiler that fails on every segment with two certain ops."""
    stage_of = solved(problem)
    assert stage_of is not None
    bad = data.draw(st.sets(st.integers(0, problem.graph.num_ops - 1), min_size=1, max_size=2))
    retries = data.draw(st.integers(0, 6))
    calls: list[tuple[int, ...]] = []

    def failing(stages: Sequence[int]) -> list[int]:
        found = {stages[v] for v in bad}
        return sorted(found) if len(found) == 1 else []

    def compile_schedule(stages: tuple[int, ...]) -> list[int]:
        calls.append(stages)
        return failing(stages)

    outcome = retry_cuts(problem, stage_of, failing(stage_of), compile_schedule, retries)
    assert len(calls) <= retries
    assert [one.stage_of for one in outcome.attempts] == [stage_of, *calls]
    assert len(set(calls)) == len(calls)
    assert outcome.success == (failing(outcome.stage_of) == [])
    assert outcome.success == (outcome.message == "")
    if not outcome.success:
        assert "other cut" in outcome.message


def chain_problem(num_ops: int = 40, num_stages: int = 4) -> Problem:
    return Problem.of(small_graph("chain", seed=1, num_ops=num_ops), num_stages, "throughput")


def test_more_of_a_failed_segment_leaves_with_every_try() -> None:
    """A fault that only a segment of few ops avoids is found within a few tries."""
    problem = chain_problem()
    stage_of = solved(problem)
    assert stage_of is not None

    def failing(stages: tuple[int, ...]) -> list[int]:
        return [0] if stages.count(0) > 4 else []

    outcome = retry_cuts(problem, stage_of, failing(stage_of), failing, 6)
    assert outcome.success
    assert len(outcome.attempts) <= 7
    sizes = [one.stage_of.count(0) for one in outcome.attempts]
    assert all(later < earlier for earlier, later in itertools.pairwise(sizes))


def test_an_op_that_fails_alone_is_named() -> None:
    problem = Problem.of(small_graph("g", seed=1), 6, "throughput")
    stage_of = tuple(np.argsort(problem.graph.topological_order).tolist())
    outcome = retry_cuts(problem, stage_of, [2], lambda _: pytest.fail("nothing to compile"), 5)
    assert not outcome.success
    assert outcome.message == "op 'op2' does not compile even alone: no other cut can help"


def test_constraints_hold_for_proposals_too() -> None:
    graph = small_graph("g", seed=5, num_ops=12)
    problem = Problem.of(graph, 3, "throughput", constraints=Constraints(outputs_last=True, inputs_first=True))
    stage_of = solved(problem)
    assert stage_of is not None
    for _, proposed in propose_cuts(problem, [attempt(problem, stage_of, [1])]):
        assert first_violation(graph, proposed, 3, problem.constraints) is None


def test_no_failure_is_no_reason_to_cut_elsewhere() -> None:
    problem = chain_problem()
    stage_of = solved(problem)
    assert stage_of is not None
    with pytest.raises(BadInputError, match="no segment failed"):
        propose_cuts(problem, [attempt(problem, stage_of, [])])
    outcome = retry_cuts(problem, stage_of, [], lambda _: pytest.fail("nothing to compile"), 3)
    assert outcome.success and outcome.stage_of == stage_of
