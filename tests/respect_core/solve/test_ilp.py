from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.constraints import Constraints, Implication, Pair, Pin
from respect_core.device import load_profile
from respect_core.errors import BadInputError, UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.objective import OBJECTIVES, Objective
from respect_core.solve.conflicts import combined, rules_of, smallest_conflict
from respect_core.solve.domains import Domains, merge_ops
from respect_core.solve.ilp import IlpSolver
from respect_core.solve.ilp_model import FORMULATIONS, Formulation
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.catalog import load_model
from tests.oracles import Oracle, brute_force, legal_schedules
from tests.strategies import problems

PROVEN_PEAKS = {
    "Xception": (5_965_744, 5_216_744, 4_706_112),
    "ResNet50": (6_571_008, 5_469_672, 4_748_544),
    "DenseNet201": (5_318_888, 4_096_488, 3_577_960),
    "InceptionResNetV2": (14_049_056, 11_288_160, 9_528_352),
}


def small_graph(
    edges: list[tuple[int, int]], weights: list[int], sizes: list[int] | None = None, name: str = "small"
) -> DnnGraph:
    """A graph with one tensor an op."""
    n = len(weights)
    return DnnGraph(
        name=name, source="json", op_names=tuple(f"op{v}" for v in range(n)), op_kinds=("conv2d",) * n,
        param_bytes=np.array(weights), macs=np.array(weights), compiled_bytes=np.full(n, -1),
        always_streamed_bytes=np.zeros(n, dtype=np.int64), op_time_us=np.full(n, np.nan),
        tensor_names=tuple(f"t{v}" for v in range(n)), tensor_bytes=np.array(sizes or weights),
        tensor_producer=np.arange(n), tensor_consumers=tuple(tuple(c for p, c in edges if p == v) for v in range(n)),
        tensor_is_output=np.array([all(p != v for p, _ in edges) for v in range(n)]),
    )  # fmt: skip


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("load_windows", [True, False])
@settings(max_examples=60)
@given(problem=problems())
def test_equals_brute_force(formulation: Formulation, load_windows: bool, problem: Problem) -> None:
    """Values, infeasibility and the smallest optimal stage vector, for every objective and constraint."""
    best = brute_force(problem)
    solver = IlpSolver(formulation, hint=load_windows, load_windows=load_windows)
    found = solver.solve(problem, SolveOptions(canonical=True))
    if best is None:
        assert (found.status, found.stage_of, found.lower_bound) == ("infeasible", None, None)
        assert "contradict" in found.message
    else:
        assert (found.status, found.value, found.gap) == ("optimal", best.value, 0.0)
        assert found.canonical
        assert found.stage_of == best.stage_of


@settings(max_examples=60)
@given(problems(), st.sampled_from([0.0, 1e-4, 1e-3, 3e-3]), st.booleans())
def test_at_a_deadline_the_bound_is_valid(problem: Problem, seconds: float, hint: bool) -> None:
    best = brute_force(problem)
    found = IlpSolver(hint=hint).solve(problem, SolveOptions(time_limit_s=seconds))
    if found.status == "infeasible":
        assert best is None
    if best is None:
        assert found.stage_of is None
        return
    if found.lower_bound is not None:
        assert found.lower_bound <= best.value[0]
    if found.value is not None:
        assert found.value >= best.value
    if found.status == "optimal":
        assert found.value == best.value


@given(problems(constrained=False))
def test_without_time_the_best_order_is_returned(problem: Problem) -> None:
    found = IlpSolver().solve(problem, SolveOptions(time_limit_s=0))
    assert found.status in ("feasible", "optimal")
    assert found.lower_bound is not None
    blind = IlpSolver(hint=False).solve(problem, SolveOptions(time_limit_s=0))
    assert blind.status in ("timeout", "optimal")


@settings(max_examples=60)
@given(problems(), st.data())
def test_windows_keep_every_schedule_within_the_limit(problem: Problem, data: st.DataObject) -> None:
    schedules = list(legal_schedules(problem))
    blocks = merge_ops(problem)
    domains = Domains(problem, blocks)
    if not schedules:
        return
    stage_of = data.draw(st.sampled_from(schedules))
    value = Oracle(problem.graph, problem.profile).numbers(stage_of, problem.num_stages).value(
        problem.objective, problem.ratio
    )  # fmt: skip
    for limit in (None, value[0], value[0] + 1):
        windows = domains.windows(limit)
        assert windows is not None
        for ops, low, high in zip(blocks.members, *(w.tolist() for w in windows), strict=True):
            assert {low <= stage_of[v] <= high for v in ops} == {True}
    assert domains.lower_bound is not None
    assert domains.simple_bound <= domains.lower_bound <= value[0]


@pytest.mark.parametrize("name", PROVEN_PEAKS)
def test_peaks_of_committed_models_are_proven(name: str) -> None:
    graph = load_model(name)
    for num_stages, peak in zip((4, 5, 6), PROVEN_PEAKS[name], strict=True):
        found = IlpSolver().solve(Problem.of(graph, num_stages), SolveOptions(time_limit_s=300))
        assert (found.status, found.lower_bound) == ("optimal", peak)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("edges", "weights", "num_stages"),
    [
        ([], [5], 1),  # one op
        ([(0, 1), (1, 2), (2, 3)], [3, 1, 4, 1], 1),  # one stage
        ([(0, 1), (1, 2), (2, 3)], [3, 1, 4, 1], 4),  # a chain, one op a stage
        ([], [2, 7, 1, 8, 2], 3),  # no edges
        ([(0, 2), (1, 2), (2, 3)], [0, 0, 0, 0], 2),  # all-zero weights
        ([(0, 2), (1, 2), (2, 3), (2, 4)], [6, 6, 6, 6, 6], 3),  # equal weights
        ([(0, 1), (1, 2), (1, 3)], [2**50 - 1, 2**50, 2**50 - 3, 2**51 + 1], 3),  # near the limit of a graph
    ],
)
def test_edge_cases(objective: Objective, edges: list[tuple[int, int]], weights: list[int], num_stages: int) -> None:
    fast = replace(
        load_profile("usb3"), input_ms_per_mib=1e-3, output_ms_per_mib=1e-3, streaming_ms_per_mib=1e-3,
        compute_ms_per_gmac=1e-3,
    )  # fmt: skip
    problem = Problem(graph=small_graph(edges, weights), num_stages=num_stages, objective=objective, profile=fast)
    best = brute_force(problem)
    assert best is not None
    for formulation in FORMULATIONS:
        found = IlpSolver(formulation).solve(problem, SolveOptions(canonical=True))
        assert (found.status, found.value, found.stage_of) == ("optimal", best.value, best.stage_of)


def test_weights_with_a_common_divisor_are_scaled() -> None:
    """A thousand boundaries crossed by 2**52 bytes: too much for the solver's numbers unless divided by the gcd."""
    n = 1030
    chain = [(v, v + 1) for v in range(n - 1)]
    even = small_graph(chain, [1] * n, [2**52 if v in (0, n - 1) else 0 for v in range(n)])
    found = IlpSolver().solve(Problem.of(even, n - 1), SolveOptions())
    assert found.status == "optimal"
    odd = small_graph(chain, [1] * n, [2**52 - v if v < 2 else 0 for v in range(n)], name="heavy")
    with pytest.raises(BadInputError, match=r"graph 'heavy' is too heavy for the solver 'ilp'.*at most 2\*\*61"):
        IlpSolver().solve(Problem.of(odd, n - 1), SolveOptions())


def test_unrepresentable_weighted_sums_are_refused() -> None:
    graph = small_graph([(0, 1)], [2**52, 2**52 - 1], [1, 1], name="heavy")
    problem = replace(Problem.of(graph, 2, "weighted"), ratio=512)
    with pytest.raises(BadInputError, match=r"'heavy' is too heavy for the solver 'ilp'"):
        IlpSolver().solve(problem, SolveOptions())
    assert IlpSolver().solve(replace(problem, ratio=100), SolveOptions()).value == (100 * 2**52 + 1,)


DIAMOND = small_graph([(0, 1), (0, 2), (1, 3), (2, 3)], [1, 2, 3, 4], name="diamond")


@pytest.mark.parametrize(
    ("rules", "named", "innocent"),
    [
        (
            Constraints(pins=(Pin(0, 0), Pin(1, 1), Pin(2, 0)), same_stage=(Pair(1, 2),), outputs_last=True),
            ["'op1' is pinned to stage 1", "'op2' is pinned to stage 0", "ops 'op1' and 'op2' share a stage"],
            ["op0", "outputs_last"],
        ),
        (
            Constraints(colocate_children=True, different_stages=(Pair(0, 3), Pair(1, 2))),
            ["colocate_children", "'op1' and 'op2' are in different stages"],
            ["op0"],
        ),
        (
            Constraints(pins=(Pin(0, 0), Pin(1, 0)), implications=(Implication(0, 0, 2, 1), Implication(2, 1, 1, 1))),
            ["'op1' is pinned", "if op 'op0' is in stage 0", "if op 'op2' is in stage 1"],
            [],
        ),
        (
            Constraints(same_stage=(Pair(0, 3), Pair(1, 2))),
            ["ops 'op0' and 'op3' share a stage"],
            ["'op1'"],
        ),
    ],
)
def test_a_conflict_is_named(rules: Constraints, named: list[str], innocent: list[str]) -> None:
    found = IlpSolver().solve(Problem.of(DIAMOND, 2, constraints=rules), SolveOptions())
    assert found.status == "infeasible"
    assert "graph 'diamond' has no schedule with 2 stages: " in found.message
    assert "contradict" in found.message
    for text in named:
        assert text in found.message
    for text in innocent:
        assert text not in found.message


@settings(max_examples=60)
@given(problems(constrained=True), st.data())
def test_a_conflict_is_as_small_as_can_be(problem: Problem, data: st.DataObject) -> None:
    rules = rules_of(problem)
    assert combined(rules) == problem.constraints

    def is_impossible(constraints: Constraints) -> bool:
        return next(iter(legal_schedules(replace(problem, constraints=constraints))), None) is None

    if not is_impossible(problem.constraints):
        return
    needed, is_smallest = smallest_conflict(rules, is_impossible)
    assert is_smallest
    assert is_impossible(combined(needed))
    for rule in needed:
        assert not is_impossible(combined(tuple(other for other in needed if other is not rule)))
    unsure, is_smallest = smallest_conflict(rules, lambda _: None)
    assert unsure == rules
    assert is_smallest == (len(rules) == 1)


def test_the_formulation_is_checked() -> None:
    with pytest.raises(UnknownNameError, match="unknown formulation 'cubic': choose from prefix, assignment"):
        IlpSolver("cubic")  # type: ignore[arg-type]


def test_the_same_seed_gives_the_same_schedule() -> None:
    problem = Problem.of(load_model("Xception"), 4, "throughput")
    first, second = (IlpSolver().solve(problem, SolveOptions(seed=7, time_limit_s=300)) for _ in range(2))
    assert first.stage_of == second.stage_of
    assert first.status == "optimal"
