from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.constraints import Constraints, Implication, Pair, Pin
from respect_core.errors import BadInputError
from respect_core.graph import MAX_TOTAL, UNKNOWN, DnnGraph
from respect_core.objective import OBJECTIVES, Objective
from respect_core.solve.exact import ExactSolver, first_bound
from respect_core.solve.exact_balance import even_out
from respect_core.solve.exact_chains import NONE
from respect_core.solve.exact_cuts import least_sum_by_cuts
from respect_core.solve.exact_levels import LimitError, build_levels
from respect_core.solve.exact_loads import PeakSearch, loaded_part
from respect_core.solve.exact_model import InfeasibleError, build_model
from respect_core.solve.exact_pack import label_packed, pack_graphs
from respect_core.solve.exact_phases import Phases
from respect_core.solve.ilp import IlpSolver
from respect_core.solve.orders import file_order
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.split import split_order
from respect_core.sources.catalog import load_model
from respect_core.sources.synthetic import FAMILIES, SyntheticSpec, generate_graph
from tests.oracles import brute_force
from tests.strategies import graphs, problems

PROVEN_PEAKS = {
    "Xception": (5_965_744, 5_216_744, 4_706_112),
    "ResNet50": (6_571_008, 5_469_672, 4_748_544),
    "DenseNet201": (5_318_888, 4_096_488, 3_577_960),
    "InceptionResNetV2": (14_049_056, 11_288_160, 9_528_352),
}
NEVER = np.zeros(1, dtype=np.int64)


def chained(n: int, edges: list[tuple[int, int]], weights: list[int], sizes: list[int]) -> DnnGraph:
    """A graph with one tensor an op."""
    return DnnGraph(
        name="plain", source="json", op_names=tuple(f"op{v}" for v in range(n)), op_kinds=("conv2d",) * n,
        param_bytes=np.array(weights), macs=np.array(weights), compiled_bytes=np.full(n, UNKNOWN),
        always_streamed_bytes=np.zeros(n, dtype=np.int64), op_time_us=np.full(n, np.nan),
        tensor_names=tuple(f"t{v}" for v in range(n)), tensor_bytes=np.array(sizes),
        tensor_producer=np.arange(n), tensor_consumers=tuple(tuple(c for p, c in edges if p == v) for v in range(n)),
        tensor_is_output=np.array([all(p != v for p, _ in edges) for v in range(n)]),
    )  # fmt: skip


def assert_equals_brute_force(problem: Problem) -> None:
    best = brute_force(problem)
    found = ExactSolver().solve(problem, SolveOptions())
    if best is None:
        assert (found.status, found.stage_of, found.lower_bound) == ("infeasible", None, None)
        assert "contradict" in found.message
    else:
        assert (found.status, found.value, found.gap) == ("optimal", best.value, 0.0)
        assert found.canonical
        assert found.stage_of == best.stage_of


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=100)
@given(data=st.data())
def test_equals_brute_force(objective: Objective, data: st.DataObject) -> None:
    assert_equals_brute_force(data.draw(problems(objectives=(objective,), constrained=False)))


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=100)
@given(data=st.data())
def test_equals_brute_force_under_constraints(objective: Objective, data: st.DataObject) -> None:
    assert_equals_brute_force(data.draw(problems(objectives=(objective,), constrained=True)))


@settings(max_examples=60)
@given(problem=problems(largest=3), ratio=st.sampled_from([0, 1, 2, 3]))
def test_small_ratios_trade_peak_for_crossings(problem: Problem, ratio: int) -> None:
    assert_equals_brute_force(replace(problem, objective="weighted", ratio=ratio))


@pytest.mark.parametrize("ratio", [1, 2, 3])
def test_a_smaller_peak_found_while_trading_leaves_no_states_of_larger_stages_behind(ratio: int) -> None:
    graph = chained(5, [(0, 1), (0, 2), (0, 3), (0, 4), (3, 4)], [3, 2, 2, 1, 1], [1] * 5)
    assert_equals_brute_force(Problem.of(graph, 4, "weighted", ratio=ratio))


@settings(max_examples=80)
@given(problem=problems(), max_sets=st.integers(0, 6), time_limit_s=st.sampled_from([0.0, 60.0]))
def test_limits_never_yield_a_false_claim(problem: Problem, max_sets: int, time_limit_s: float) -> None:
    best = brute_force(problem)
    found = ExactSolver(max_sets).solve(problem, SolveOptions(time_limit_s=time_limit_s))
    if best is None:
        assert found.status in ("infeasible", "timeout")
        return
    assert found.status in ("optimal", "feasible", "timeout")
    if found.status == "optimal":
        assert found.value == best.value
    assert not found.canonical or found.stage_of == best.stage_of
    assert found.lower_bound is not None
    assert found.lower_bound <= best.value[0]
    assert found.value is None or found.value >= best.value


@settings(max_examples=80)
@given(problem=problems(objectives=("peak-memory", "weighted"), constrained=False))
def test_phases_for_many_sets_agree_with_the_plain_ones(problem: Problem) -> None:
    """What only runs where there are too many down-sets finds the same as listing them all."""
    model = build_model(problem)
    total = int(model.sums.sum())
    whole = PeakSearch(model, first_bound(model), NEVER)
    assert whole.run(total, 10**6) is not None
    if model.sums.any():
        loaded = PeakSearch(loaded_part(model), first_bound(model), NEVER)
        assert loaded.run(total, 10**6) is not None
        assert loaded.bound <= whole.bound
    levels = build_levels(model, whole.bound, 10**6, NEVER)
    assert levels is not None
    states = Phases(model, levels, NEVER).least_sum(whole.bound, int(NONE))
    by_cuts = least_sum_by_cuts(model, whole.bound, int(NONE), 10**6, NEVER)
    assert states is not None
    assert by_cuts is not None
    chain = by_cuts[0].canonical_chain(by_cuts[1], whole.bound)
    assert chain.value == int(states[-1][2].min())
    same = Phases(model, levels, NEVER).canonical_chain(states, whole.bound)
    assert chain.canonical
    assert np.array_equal(chain.stage_of_node, same.stage_of_node)
    assert least_sum_by_cuts(model, whole.bound, chain.value - 1, 10**6, NEVER) is None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equals_integer_programming_on_thirty_ops(family: str, objective: Objective) -> None:
    for index, num_stages in ((0, 4), (1, 6)):
        graph = generate_graph(SyntheticSpec(family=family, seed=3), index)
        constraints = Constraints() if index == 0 else Constraints(outputs_last=True, inputs_first=True)
        problem = Problem.of(graph, num_stages, objective, constraints=constraints)
        found = ExactSolver().solve(problem, SolveOptions())
        other = IlpSolver().solve(problem, SolveOptions(canonical=True, time_limit_s=60))
        assert found.status == "optimal"
        assert found.canonical
        if other.status == "optimal":
            assert found.value == other.value
            if other.canonical:
                assert found.stage_of == other.stage_of
        else:
            assert other.value is not None
            assert found.value is not None
            assert found.value <= other.value


@pytest.mark.parametrize("name", PROVEN_PEAKS)
def test_known_peaks_of_networks(name: str) -> None:
    graph = load_model(name)
    found = [ExactSolver().solve(Problem.of(graph, k), SolveOptions()) for k in (4, 5, 6)]
    assert tuple(result.value[0] for result in found if result.value) == PROVEN_PEAKS[name]
    assert all(result.status == "optimal" and result.canonical for result in found)


def test_constraints_of_every_kind_are_obeyed_on_a_network() -> None:
    graph = load_model("ResNet50")
    a, b, c = 60, 90, 120
    constraints = Constraints(
        outputs_last=True,
        inputs_first=True,
        pins=(Pin(a, 1),),
        same_stage=(Pair(b, b + 3),),
        different_stages=(Pair(b, c),),
        implications=(Implication(a, 1, c, 3), Implication(c, 3, b, 2)),
    )
    for objective in OBJECTIVES:
        problem = Problem.of(graph, 4, objective, constraints=constraints)
        found = ExactSolver().solve(problem, SolveOptions())
        assert found.status == "optimal"
        assert found.stage_of is not None
        assert (found.stage_of[a], found.stage_of[b], found.stage_of[c]) == (1, 2, 3)
        other = IlpSolver().solve(problem, SolveOptions(time_limit_s=60))
        assert other.status != "optimal" or other.value == found.value


def test_infeasible_names_the_conflict_and_nothing_else() -> None:
    graph = load_model("ResNet50")
    constraints = Constraints(outputs_last=True, pins=(Pin(5, 1), Pin(90, 3), Pin(120, 2)))
    found = ExactSolver().solve(Problem.of(graph, 4, constraints=constraints), SolveOptions())
    assert found.status == "infeasible"
    assert repr(graph.op_names[90]) in found.message
    assert repr(graph.op_names[120]) in found.message
    assert repr(graph.op_names[5]) not in found.message


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("num_stages", [1, 2, 5, 9])
@pytest.mark.parametrize("weight", [0, 7, MAX_TOTAL // 9])
@pytest.mark.parametrize("shape", ["chain", "no edges"])
def test_plain_shapes(shape: str, weight: int, num_stages: int, objective: Objective) -> None:
    """Chains, no edges, one stage, as many stages as ops, equal, zero and the largest weights."""
    n = 9 if shape == "chain" else 6
    num_stages = min(num_stages, n)
    edges = [(v, v + 1) for v in range(n - 1)] if shape == "chain" else []
    problem = Problem.of(chained(n, edges, [weight] * n, [weight] * n), num_stages, objective)
    found = ExactSolver().solve(problem, SolveOptions())
    best = brute_force(problem)
    assert best is not None
    assert (found.status, found.value, found.stage_of) == ("optimal", best.value, best.stage_of)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_time_gives_a_schedule_and_a_bound(objective: Objective) -> None:
    problem = Problem.of(load_model("NASNetMobile"), 5, objective)
    found = ExactSolver().solve(problem, SolveOptions(time_limit_s=0))
    assert found.status == "feasible"
    assert found.lower_bound is not None
    assert found.value is not None
    assert 0 < found.lower_bound <= found.value[0]


def test_contradictions_are_found_without_a_search() -> None:
    graph = chained(4, [(0, 1), (1, 2), (2, 3)], [1] * 4, [1] * 4)
    for constraints in (
        Constraints(same_stage=(Pair(0, 3),)),
        Constraints(pins=(Pin(1, 1), Pin(2, 0))),
        Constraints(same_stage=(Pair(0, 1),), different_stages=(Pair(0, 1),)),
    ):
        with pytest.raises(InfeasibleError):
            build_model(Problem.of(graph, 2, constraints=constraints))


def test_too_many_sets_are_reported() -> None:
    model = build_model(Problem.of(chained(12, [], [1] * 12, [1] * 12), 3))
    with pytest.raises(LimitError) as caught:
        build_levels(model, 5, 10, NEVER)
    assert not caught.value.out_of_time
    with pytest.raises(LimitError) as caught:
        build_levels(model, 5, 10**6, np.ones(1, dtype=np.int64))
    assert caught.value.out_of_time


@settings(max_examples=40)
@given(data=st.data())
def test_batches_equal_brute_force(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(graphs(2, 6), min_size=1, max_size=2))
    counts = data.draw(st.lists(st.integers(1, min(4, *(graph.num_ops for graph in drawn))), min_size=1, max_size=2))
    labels = label_packed(pack_graphs(drawn), counts)
    start = 0
    for g, graph in enumerate(drawn):
        for row, num_stages in enumerate(counts):
            best = brute_force(Problem.of(graph, num_stages))
            assert best is not None
            if not labels.is_solved[row, g]:  # the smallest peak of the ops with parameters leaves a stage empty
                assert num_stages > 1
                continue
            assert (int(labels.peak_bytes[row, g]), int(labels.communication_bytes[row, g])) == best.value
            assert tuple(labels.stages[row, start : start + graph.num_ops].tolist()) == best.stage_of
        start += graph.num_ops


@pytest.mark.parametrize("family", FAMILIES)
def test_batches_equal_the_solver_on_thirty_ops(family: str) -> None:
    drawn = [generate_graph(SyntheticSpec(family=family, seed=7), index) for index in range(25)]
    labels = label_packed(pack_graphs(drawn), (4, 6))
    assert labels.is_solved.all()
    for g, graph in enumerate(drawn):
        for row, num_stages in enumerate((4, 6)):
            found = ExactSolver().solve(Problem.of(graph, num_stages), SolveOptions(time_limit_s=60))
            assert found.status == "optimal"
            assert found.value == (int(labels.peak_bytes[row, g]), int(labels.communication_bytes[row, g]))
            assert found.stage_of == tuple(labels.stages[row, 30 * g : 30 * g + 30].tolist())


def test_batches_know_their_limits() -> None:
    graph = chained(12, [], [1] * 12, [1] * 12)
    assert not label_packed(pack_graphs([graph]), [3], max_sets=20).is_solved.any()
    assert label_packed(pack_graphs([]), [3]).is_solved.shape == (1, 0)
    with pytest.raises(BadInputError, match="12 ops"):
        label_packed(pack_graphs([graph]), [13])
    with pytest.raises(BadInputError, match="65 ops"):
        pack_graphs([chained(65, [], [1] * 65, [1] * 65)])
    wide = chained(64, [(v, v + 1) for v in range(63)], list(range(64)), list(range(1, 65)))
    labels = label_packed(pack_graphs([wide]), [4])
    found = ExactSolver().solve(Problem.of(wide, 4), SolveOptions())
    assert labels.is_solved.all()
    assert found.stage_of == tuple(labels.stages[0].tolist())


@settings(max_examples=60)
@given(problem=problems(max_ops=7, objectives=("peak-memory",), constrained=False))
def test_evening_out_stays_legal_and_never_hurts(problem: Problem) -> None:
    graph = problem.graph
    start = split_order(problem, file_order(graph))
    assert start is not None
    parent_start = np.zeros(graph.num_ops + 1, dtype=np.int64)
    np.cumsum([len(parents) for parents in graph.parents], out=parent_start[1:])
    parent = np.array([u for parents in graph.parents for u in parents], dtype=np.int64)
    stage_of = start.copy()
    even_out(parent_start, parent, graph.param_bytes, problem.num_stages, stage_of, NEVER)
    before, after = problem.evaluate(start).param_bytes, problem.evaluate(stage_of).param_bytes
    assert after.max() <= before.max()


def test_wide_graphs_have_a_small_gap() -> None:
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=300), 1)
    found = ExactSolver(max_sets=20_000).solve(Problem.of(graph, 4), SolveOptions(time_limit_s=5))
    assert found.gap is not None
    assert found.gap < 0.01


@pytest.fixture
def general_search(monkeypatch: pytest.MonkeyPatch) -> ExactSolver:
    """Return a solver that goes the general way at once, without the compiled search for plain problems."""
    monkeypatch.setattr("respect_core.solve.exact.solve_plain", lambda problem, stop: (None, 0))
    return ExactSolver()


@pytest.mark.parametrize("family", FAMILIES)
def test_both_searches_for_plain_problems_agree(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(6):
        graph = generate_graph(SyntheticSpec(family=family, num_ops=26, seed=5), index)
        for num_stages in (1, 2, 5, 9):
            problem = Problem.of(graph, num_stages)
            plain = ExactSolver().solve(problem, SolveOptions())
            with monkeypatch.context() as patch:
                patch.setattr("respect_core.solve.exact.solve_plain", lambda problem, stop: (None, 0))
                general = ExactSolver().solve(problem, SolveOptions())
            assert (plain.status, plain.value, plain.stage_of) == (general.status, general.value, general.stage_of)


@pytest.mark.parametrize(("model", "peaks"), sorted(PROVEN_PEAKS.items()))
def test_the_general_search_reaches_the_known_peaks(
    model: str, peaks: tuple[int, int, int], general_search: ExactSolver
) -> None:
    for num_stages, peak in zip((4, 5, 6), peaks, strict=True):
        found = general_search.solve(Problem.of(load_model(model), num_stages), SolveOptions())
        assert (found.status, found.numbers and found.numbers.peak_param_bytes) == ("optimal", peak)


@settings(max_examples=60)
@given(problem=problems(max_ops=6, objectives=("peak-memory",), constrained=False))
def test_the_general_search_equals_brute_force_on_plain_problems(problem: Problem) -> None:
    best = brute_force(problem)
    assert best is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("respect_core.solve.exact.solve_plain", lambda problem, stop: (None, 0))
        found = ExactSolver().solve(problem, SolveOptions())
    assert (found.value, found.stage_of) == (best.value, best.stage_of)
