"""Balanced segmentation: cuts between depths, balanced as brute force would, refined for less host memory."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from respect_core.calibration.facts import facts_of_graph
from respect_core.calibration.model import streamed
from respect_core.device import DeviceProfile
from respect_core.graph import DnnGraph
from respect_core.solve.balanced import BalancedSolver, balanced_bounds, depth_param_bytes
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.catalog import load_model
from tests.strategies import problems

sizes = st.lists(st.integers(0, 9), min_size=1, max_size=9)


@given(sizes, st.integers(1, 5))
def test_the_largest_segment_is_as_small_as_any_cut_allows(values: list[int], num_stages: int) -> None:
    num_stages = min(num_stages, len(values))
    found = balanced_bounds(np.array(values), num_stages)
    best = min(
        max(sum(values[a:b]) for a, b in itertools.pairwise((0, *cuts, len(values))))
        for cuts in itertools.combinations(range(1, len(values)), num_stages - 1)
    )
    assert found[0] == 0 and found[-1] == len(values) and len(found) == num_stages + 1
    assert all(a < b for a, b in itertools.pairwise(found))
    assert max(sum(values[a:b]) for a, b in itertools.pairwise(found)) == best


def host_mib(graph: DnnGraph, stage_of: np.ndarray, num_stages: int, profile: DeviceProfile) -> list[float]:
    constants = {
        "capacity_mib": profile.capacity_mib, "shared_capacity_mib": profile.shared_capacity_mib, "activation_mib": 0.0
    }  # fmt: skip
    return [streamed(facts, constants).spilled_mib for facts in facts_of_graph(graph, stage_of, num_stages)]


@given(problems(max_ops=7, constrained=False))
def test_ops_of_a_depth_share_a_stage_and_host_memory_never_grows(problem: Problem) -> None:
    graph, num_stages = problem.graph, problem.num_stages
    found = BalancedSolver().solve(problem, SolveOptions())
    depths = depth_param_bytes(graph)
    if depths.size < num_stages:
        assert found.stage_of is None and "depths" in found.message
        return
    assert found.stage_of is not None
    stages = np.array(found.stage_of)
    for level in range(1, depths.size + 1):
        assert np.unique(stages[graph.levels == level]).size <= 1
    bounds = balanced_bounds(depths, num_stages)
    plain = np.searchsorted(bounds[1:-1], graph.levels - 1, side="right")
    before, after = (host_mib(graph, cut, num_stages, problem.profile) for cut in (plain, stages))
    assert max(after) <= max(before) + 1e-5


def test_refinement_lowers_the_host_memory_of_a_real_net() -> None:
    """InceptionResNetV2 over six TPUs: equal parameters do not cache equally well, for layers are cached whole."""
    graph = load_model("InceptionResNetV2-int8")
    problem = Problem.of(graph, 6, "throughput")
    found = BalancedSolver().solve(problem, SolveOptions())
    assert found.stage_of is not None and found.numbers is not None
    bounds = balanced_bounds(depth_param_bytes(graph), 6)
    plain = np.searchsorted(bounds[1:-1], graph.levels - 1, side="right")
    before, after = (host_mib(graph, cut, 6, problem.profile) for cut in (plain, np.array(found.stage_of)))
    assert max(after) < 0.9 * max(before)
    assert found.numbers.bottleneck_ns < problem.evaluate(plain).bottleneck_ns


def test_a_net_that_fits_is_left_balanced() -> None:
    graph = load_model("ResNet50-int8")
    found = BalancedSolver().solve(Problem.of(graph, 4, "throughput"), SolveOptions())
    bounds = balanced_bounds(depth_param_bytes(graph), 4)
    assert found.stage_of == tuple(np.searchsorted(bounds[1:-1], graph.levels - 1, side="right").tolist())
