"""The local search is legal, counts what `evaluate` counts, and never ends worse than it started."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from respect_core.errors import BadInputError
from respect_core.schedule import first_violation
from respect_core.solve.local_search import LocalSearchSolver
from respect_core.solve.local_search_crossings import communication_of, lower_communication
from respect_core.solve.local_search_graph import search_graph, turned_round, work_for
from respect_core.solve.local_search_moves import descend, gather, put, shift
from respect_core.solve.local_search_orders import (
    FIT,
    RANDOM,
    SCORED,
    dfs_order_into,
    draw_order,
    kahn_order_into,
    order_space,
    split_at_peak,
)
from respect_core.solve.local_search_quicken import lower_latency, quicken_all
from respect_core.solve.local_search_random import below, gumbel_table, random_state
from respect_core.solve.local_search_run import LocalSearch, Starts, load_bound, order_by_stage
from respect_core.solve.local_search_sets import collect_sets, listed, nearest_set
from respect_core.solve.local_search_time import count_times, move_op, stage_time, stage_times, time_model
from respect_core.solve.orders import SIMPLE_ORDERS, BestOrderSolver, random_order
from respect_core.solve.protocol import Problem, SolveOptions, Solver, Stopwatch
from respect_core.solve.split import split_order
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.oracles import brute_force
from tests.strategies import graphs, problems

SOLVER = LocalSearchSolver(num_starts=16)


def legal_stages(data, problem):
    """Cut a drawn topological order anywhere."""
    graph, K = problem.graph, problem.num_stages
    order = random_order(graph, np.random.default_rng(data.draw(st.integers(0, 99))))
    cuts = data.draw(st.lists(st.integers(1, graph.num_ops - 1), min_size=K - 1, max_size=K - 1, unique=True))
    stages = np.empty(graph.num_ops, np.int64)
    stages[order] = np.searchsorted(np.sort(np.array(cuts, np.int64)), np.arange(graph.num_ops), side="right")
    assert first_violation(graph, stages, K) is None
    return stages


def counted(problem, stages):
    load, count = np.zeros(problem.num_stages, np.int64), np.bincount(stages, minlength=problem.num_stages)
    np.add.at(load, stages, problem.graph.param_bytes)
    return load, count.astype(np.int64)


@given(problems(max_ops=6), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_every_schedule_is_legal_and_no_better_than_the_optimum(problem, seed):
    found = SOLVER.solve(problem, SolveOptions(seed=seed))
    best = brute_force(problem)
    if found.stage_of is None:
        assert found.status == "timeout" and "contiguous split" in found.message
        return
    assert first_violation(problem.graph, found.stage_of, problem.num_stages, problem.constraints) is None
    assert found.status == "feasible" and best is not None and found.value >= best.value


@given(problems(max_ops=7, constrained=False), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_it_never_is_worse_than_the_simple_orders(problem, seed):
    simple = BestOrderSolver().solve(problem, SolveOptions())
    found = SOLVER.solve(problem, SolveOptions(seed=seed))
    assert found.value[0] <= simple.value[0] or problem.objective == "throughput"
    again = SOLVER.solve(problem, SolveOptions(seed=seed))
    assert again.stage_of == found.stage_of


@given(problems(min_ops=2, max_ops=6, constrained=False, objectives=("peak-memory",)))
@settings(max_examples=60, deadline=None)
def test_many_starts_find_the_optimal_peak_of_tiny_graphs(problem):
    found = LocalSearchSolver(num_starts=200).solve(problem, SolveOptions())
    assert found.value[0] == brute_force(problem).value[0]


@given(
    graphs(max_ops=9), st.integers(0, 5), st.sampled_from([RANDOM, FIT, SCORED]), st.integers(0, 20_000), st.booleans()
)
@settings(deadline=None)
def test_drawn_orders_are_topological(graph, seed, how, budget, backwards):
    space = order_space(graph.num_ops)
    scores = np.random.default_rng(seed).normal(size=6 * graph.num_ops)
    arrays, gumbel = search_graph(graph), gumbel_table()
    draw_order(arrays, how, budget, 3, scores, 1.0, gumbel, random_state(seed), space, backwards)
    assert graph.is_topological(space.order)
    other, turned = order_space(graph.num_ops), turned_round(arrays)
    assert [x.tolist() for x in turned_round(turned)[1:3]] == [x.tolist() for x in arrays[1:3]]
    draw_order(turned, how, budget, 3, scores, 1.0, gumbel, random_state(seed), other, not backwards)
    assert other.order[::-1].tolist() == space.order.tolist()


@given(graphs(max_ops=9))
@settings(deadline=None)
def test_compiled_simple_orders_equal_the_plain_ones(graph):
    space = order_space(graph.num_ops)
    kahn_order_into(search_graph(graph), space)
    assert space.order.tolist() == SIMPLE_ORDERS["order-kahn"](graph).tolist()
    dfs_order_into(search_graph(graph), space)
    assert space.order.tolist() == SIMPLE_ORDERS["order-dfs"](graph).tolist()


@given(problems(max_ops=8, constrained=False, objectives=("peak-memory",)), st.integers(0, 5))
@settings(deadline=None)
def test_the_split_has_the_smallest_peak_of_its_order(problem, seed):
    graph, K = problem.graph, problem.num_stages
    space, stages = order_space(graph.num_ops), np.zeros(graph.num_ops, np.int64)
    load, count = np.zeros(K, np.int64), np.zeros(K, np.int64)
    draw_order(search_graph(graph), RANDOM, 0, K, np.zeros(0), 0.0, gumbel_table(), random_state(seed), space)
    split_at_peak(search_graph(graph), K, space, stages, load, count)
    best = problem.evaluate(split_order(problem, space.order))
    numbers = problem.evaluate(stages)
    assert numbers.peak_param_bytes == best.peak_param_bytes == load.max()
    assert load.tolist() == numbers.param_bytes.tolist() and count.sum() == graph.num_ops


@given(problems(min_ops=2, max_ops=8, constrained=False), st.data())
@settings(deadline=None)
def test_a_set_moves_legally(problem, data):
    graph, stages = problem.graph, legal_stages(data, problem)
    arrays, work = search_graph(graph), work_for(search_graph(graph))
    root, direction = data.draw(st.integers(0, graph.num_ops - 1)), data.draw(st.integers(0, 1))
    if stages[root] in (0, problem.num_stages - 1):
        direction = 0 if stages[root] == 0 else 1
    target = int(stages[root]) + (1 if direction == 0 else -1)
    if target == problem.num_stages:
        return  # a single stage
    moved = stages.copy()
    size, weight = gather(
        arrays.weight, arrays.first, arrays.near, arrays.window, stages, work, root, direction, 2**60, 0
    )
    put(moved, work, 0, size, target)
    assert points_forwards(graph, moved)
    assert size == (moved != stages).sum() and weight == graph.param_bytes[moved != stages].sum()
    shifted, (load, count) = stages.copy(), counted(problem, stages)
    shift(arrays.weight, arrays.first, arrays.near, shifted, work, load, count, root, target)
    assert shifted.tolist() == moved.tolist()
    assert [load.tolist(), count.tolist()] == [x.tolist() for x in counted(problem, moved)]


@given(problems(min_ops=2, max_ops=8, constrained=False), st.data())
@settings(deadline=None)
def test_the_listed_sets_are_those_that_may_leave_and_tell_what_may_change_places(problem, data):
    graph, stages, n = problem.graph, legal_stages(data, problem), problem.graph.num_ops
    if problem.num_stages == 1:
        return
    arrays, work = search_graph(graph), work_for(search_graph(graph))
    core = (arrays.weight, arrays.first, arrays.near, arrays.window)
    up = data.draw(st.booleans())
    low = data.draw(st.integers(0, problem.num_stages - 2))
    source, target = (low, low + 1) if up else (low + 1, low)
    limit = data.draw(st.integers(0, int(graph.param_bytes.sum()) + 1))
    num_b = collect_sets(*core, arrays.order, stages, work, target, source, limit, 1)
    num_a = collect_sets(*core, arrays.order, stages, work, source, target, limit, 0)
    sides = []
    for side, size, stage in ((0, num_a, source), (1, num_b, target)):
        direction = 0 if up == (side == 0) else 1
        sets = {v: gather(*core, stages, work, v, direction, limit, 0)[1] for v in np.flatnonzero(stages == stage)}
        roots = work[listed(n, side) : listed(n, side) + size].tolist()
        assert set(roots) == {v for v, weight in sets.items() if weight > 0}
        assert work[5 * n + np.array(roots, dtype=int)].tolist() == sorted(sets[v] for v in roots)
        assert all(work[5 * n + v] == sets[v] for v in roots)
        sides.append(roots)
    for a in sides[0]:
        for b in sides[1]:
            moved, (load, count) = stages.copy(), counted(problem, stages)
            twin = stages.copy()
            shift(*core[:3], moved, work, load, count, a, target)
            shift(*core[:3], twin, work, load, count, b, source)
            both = np.where(moved != stages, moved, twin)
            assert points_forwards(graph, both) == (int(work[6 * n + a]) & int(work[4 * n + b]) == 0)


@given(problems(min_ops=2, max_ops=8, constrained=False), st.data())
@settings(deadline=None)
def test_the_nearest_set_is_the_nearest(problem, data):
    graph, stages, n = problem.graph, legal_stages(data, problem), problem.graph.num_ops
    if problem.num_stages == 1:
        return
    arrays, work = search_graph(graph), work_for(search_graph(graph))
    size = collect_sets(
        arrays.weight, arrays.first, arrays.near, arrays.window, arrays.order, stages, work, 1, 0, 2**60, 1
    )
    twice, clash = data.draw(st.integers(-5, 2 * int(graph.param_bytes.sum()) + 5)), data.draw(st.integers(0, 7))
    closest = data.draw(st.integers(0, 2**40))
    free = [v for v in work[listed(n, 1) : listed(n, 1) + size].tolist() if work[4 * n + v] & clash == 0]
    best = min([closest, *(abs(2 * int(work[5 * n + v]) - twice) for v in free)])
    found, distance = nearest_set(work, n, 1, size, clash, twice, closest)
    assert distance == best and (found >= 0) == (best < closest)
    assert found < 0 or (found in free and abs(2 * work[5 * n + found] - twice) == best)


def points_forwards(graph, stages):
    return bool((stages[graph.edges[:, 0]] <= stages[graph.edges[:, 1]]).all())


@given(problems(min_ops=2, max_ops=8, constrained=False), st.data())
@settings(deadline=None)
def test_evening_out_keeps_the_schedule_legal_and_lowers_the_peak(problem, data):
    graph, stages = problem.graph, legal_stages(data, problem)
    load, count = counted(problem, stages)
    before, arrays, work = int(load.max()), search_graph(graph), work_for(search_graph(graph))
    closed = np.zeros(problem.num_stages, np.int64)
    core = (arrays.weight, arrays.first, arrays.near, arrays.window, arrays.order)
    peak = descend(*core, stages, work, load, count, closed, 0, 10**6)
    numbers = problem.evaluate(stages)
    assert peak == numbers.peak_param_bytes <= before
    assert load.tolist() == numbers.param_bytes.tolist()
    assert count.tolist() == np.bincount(stages, minlength=problem.num_stages).tolist()
    communication = numbers.communication_bytes
    assert communication_of(arrays, stages) == communication
    assert points_forwards(graph, stages)
    gained = lower_communication(arrays, stages, load, count, peak, work)
    numbers = problem.evaluate(stages)
    assert numbers.communication_bytes == communication - gained and numbers.peak_param_bytes <= peak


@given(problems(min_ops=2, max_ops=8, constrained=False), st.data())
@settings(deadline=None)
def test_times_follow_moves_and_only_fall(problem, data):
    graph, stages, K = problem.graph, legal_stages(data, problem), problem.num_stages
    arrays, work, model = search_graph(graph), work_for(search_graph(graph)), time_model(graph, problem.terms)
    times = stage_times(graph.num_tensors, K)
    count_times(arrays, model, stages, times)
    assert times.time.tolist() == problem.evaluate(stages).time_ns.tolist()
    op, target = data.draw(st.integers(0, graph.num_ops - 1)), data.draw(st.integers(0, K - 1))
    source = int(stages[op])
    move_op(arrays, model, stages, times, op, source, target)
    if first_violation(graph, stages, K) is None:
        assert [stage_time(model, times, k) for k in range(K)] == problem.evaluate(stages).time_ns.tolist()
    move_op(arrays, model, stages, times, op, target, source)
    assert [stage_time(model, times, k) for k in range(K)] == times.time.tolist()
    before, count = problem.evaluate(stages), np.bincount(stages, minlength=K).astype(np.int64)
    longest = quicken_all(arrays, model, stages, times, count, 10**9, np.zeros(K, np.int64), work)
    after = problem.evaluate(stages)
    assert after.time_ns.tolist() == times.time.tolist() and after.bottleneck_ns == longest <= before.bottleneck_ns
    lower_latency(arrays, model, stages, times, count, work)
    last = problem.evaluate(stages)
    assert last.bottleneck_ns <= longest and last.latency_ns <= after.latency_ns


@pytest.mark.parametrize("objective", ["peak-memory", "throughput", "weighted"])
def test_starts_that_are_improved_beat_the_same_orders_unimproved(objective):
    gained = 0
    for i in range(6):
        problem = Problem.of(generate_graph(SyntheticSpec(family="wide"), i), 5, objective)
        values = []
        for improve in (False, True):
            search = LocalSearch(problem, 3)
            values.append(search.value(search.run(Starts(random=1, simple=False, improve=improve), Stopwatch(9.0))))
        gained += values[1] < values[0]
        assert values[1] <= values[0]
    assert gained


def test_more_starts_are_no_worse_and_a_deadline_of_nothing_still_gives_a_schedule():
    problem = Problem.of(generate_graph(SyntheticSpec(family="wide", num_ops=60), 1), 5)
    few, many = (LocalSearchSolver(n).solve(problem, SolveOptions()) for n in (4, 400))
    assert many.value <= few.value
    assert SOLVER.solve(problem, SolveOptions(time_limit_s=0.0)).status == "feasible"
    assert isinstance(SOLVER, Solver)


def test_single_ops_and_graphs_without_edges():
    for n in (1, 2, 5):
        problem = Problem.of(generate_graph(SyntheticSpec(family="wide", num_ops=n), 0), 1)
        assert SOLVER.solve(problem, SolveOptions()).stage_of == (0,) * n


@given(st.integers(0, 2**62), st.integers(1, 2**31 - 1))
def test_draws_stay_below_their_limit(seed, limit):
    state = random_state(seed)
    assert all(0 <= below(state, limit) < limit for _ in range(20))


def test_small_draws_are_even():
    state = random_state(1)
    seen = np.bincount([below(state, 6) for _ in range(6000)], minlength=6)
    assert seen.size == 6 and (abs(seen - 1000) < 150).all()


def test_nonsense_is_refused():
    with pytest.raises(BadInputError, match="at least 1"):
        LocalSearchSolver(0)
    with pytest.raises(BadInputError, match="random"):
        Starts(random=-1)
    with pytest.raises(BadInputError, match="scores"):
        Starts(scored=1)
    with pytest.raises(BadInputError, match="temperature"):
        Starts(temperature=float("nan"))


def test_an_order_by_stage_is_topological():
    problem = Problem.of(generate_graph(SyntheticSpec(family="local"), 2), 4)
    found = SOLVER.solve(problem, SolveOptions())
    order = order_by_stage(problem, np.array(found.stage_of))
    assert problem.graph.is_topological(order)
    assert (np.diff(np.array(found.stage_of)[order]) >= 0).all()
    assert found.value[0] >= load_bound(problem.graph.param_bytes, 4)


def test_wide_stages_of_more_ops_than_bits_stay_legal():
    problem = Problem.of(generate_graph(SyntheticSpec(family="wide", num_ops=400), 3), 3)
    found = LocalSearchSolver(num_starts=8).solve(problem, SolveOptions())
    assert first_violation(problem.graph, found.stage_of, 3) is None
    assert found.value[0] == problem.evaluate(np.array(found.stage_of)).peak_param_bytes
