"""The profiling partitioner: published golden vectors, its search against brute force, and what it says it costs."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_runners.job import GRAPH_FILE, read_job, write_job
from hardware_runners.protocol import TimingPlan
from hardware_runners.simulated import SimulatedRunner, profile_constants
from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, DnnGraph, IntArray
from respect_core.solve.compiler_rule import compiler_order
from respect_core.solve.profiling import (
    COMPILE_S,
    Latency,
    Profiler,
    ProfilingSolver,
    modelled_latency,
    partition_by_profiling,
    runs_within,
)
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.registry import get_solver
from respect_core.sources.catalog import load_model
from respect_core.sources.graph_json import graph_to_json
from tests.strategies import problems


@pytest.mark.parametrize(("target", "stages", "expected"), [(50_000, 2, [50, 82]), (30_000, 4, [30, 30, 30, 42])])
def test_golden_vectors(target: int, stages: int, expected: list[int]) -> None:
    """Published: 1000 ns an op, 132 ops."""
    assert runs_within(132, stages, target, Profiler(lambda _, length: 1000 * length)) == expected


op_times = st.lists(st.integers(0, 9), min_size=1, max_size=9)


@given(op_times, st.integers(1, 4), st.integers(0, 30))
def test_runs_meet_the_target_longest_first(times: list[int], num_stages: int, target: int) -> None:
    """Against all compositions: of those whose segments but the last meet the target, the lexicographically largest."""
    n = len(times)
    num_stages = min(num_stages, n)
    found = runs_within(n, num_stages, target, Profiler(lambda start, length: sum(times[start : start + length])))
    allowed = []
    for cuts in itertools.combinations(range(1, n), num_stages - 1):
        bounds = (0, *cuts, n)
        lengths = [b - a for a, b in itertools.pairwise(bounds)]
        if all(sum(times[a:b]) <= target for a, b in itertools.pairwise(bounds[:-1])):
            allowed.append(lengths)
    assert found == (max(allowed) if allowed else None)


def test_a_run_is_shortened_where_the_rest_then_fails() -> None:
    """The longest first run (2 ops) would make the second start at an op that meets no target."""
    times = {(0, 1): 1, (0, 2): 2, (1, 1): 1, (1, 2): 1, (2, 1): 99}
    found = runs_within(4, 3, 2, Profiler(lambda start, length: times.get((start, length), 99)))
    assert found == [1, 2, 1]


@given(op_times, st.integers(1, 4), st.sampled_from([0.5, 1, 3]))
def test_the_bisection_ends_with_the_last_target_that_the_last_segment_met(
    times: list[int], num_stages: int, threshold: float
) -> None:
    num_stages = min(num_stages, len(times))
    start = [1] * (num_stages - 1) + [len(times) - num_stages + 1]
    profiler = Profiler(lambda at, length: float(sum(times[at : at + length])))
    found = partition_by_profiling(start, profiler, threshold)
    assert sum(found.lengths) == len(times) and len(found.lengths) == num_stages and min(found.lengths) >= 1
    if found.target_ns is None:
        assert list(found.lengths) == start
    else:
        assert profiler(len(times) - found.lengths[-1], found.lengths[-1]) <= found.target_ns


@pytest.mark.parametrize(("lengths", "threshold"), [([], 1), ([1, 0], 1), ([1], 0)])
def test_nothing_to_partition_is_refused(lengths: list[int], threshold: float) -> None:
    with pytest.raises(BadInputError, match="must be positive"):
        partition_by_profiling(lengths, Profiler(lambda *_: 1.0), threshold)


def test_a_segment_is_timed_once_and_the_cost_is_stated() -> None:
    asked: list[tuple[int, int]] = []

    def latency(start: int, length: int) -> float:
        asked.append((start, length))
        return 1e6 * length

    profiler = Profiler(latency)
    partition_by_profiling([40, 60], profiler)
    assert len(asked) == len(set(asked)) == profiler.num_candidates > 3
    assert profiler.device_seconds(2.7) == pytest.approx(
        len(asked) * (COMPILE_S + 2.7) + 11 * sum(length for _, length in asked) / 1000
    )


@given(problems(max_ops=7, constrained=False, objectives=("throughput",)), st.data())
def test_the_modelled_latency_of_runs_is_the_stage_time(problem: Problem, data: st.DataObject) -> None:
    order = compiler_order(problem.graph)
    n, k = problem.graph.num_ops, problem.num_stages
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1), min_size=k - 1, max_size=k - 1)) if k > 1 else [])
    bounds = [0, *cuts, n]
    stage_of = np.empty(n, dtype=np.int64)
    stage_of[order] = np.repeat(np.arange(k), np.diff(bounds))
    latency = modelled_latency(problem, order)
    found = [latency(first, end - first) for first, end in itertools.pairwise(bounds)]
    assert found == problem.evaluate(stage_of).time_ns.tolist()


def test_it_is_faster_than_the_rule_on_a_densenet_and_says_what_it_cost() -> None:
    problem = Problem.of(load_model("DenseNet121-int8"), 4, "throughput", device="pcie")
    rule = get_solver("compiler-rule").solve(problem, SolveOptions())
    found = get_solver("profiling").solve(problem, SolveOptions())
    assert found.status == "feasible" and found.value is not None and rule.value is not None
    assert found.value[0] < 0.8 * rule.value[0]
    assert "candidates compiled and timed: on a device about" in found.message


def test_a_runner_can_drive_it(tmp_path: Path) -> None:
    """Every candidate becomes a job of one stage that a runner times."""
    graph = load_model("MobileNetV2-int8")
    problem = Problem.of(graph, 3, "throughput")

    def timed_by_a_runner(problem: Problem, order: IntArray) -> Latency:
        def latency(start: int, length: int) -> float:
            part = chain_part(problem.graph, order[start : start + length])
            folder = tmp_path / f"{start}-{length}"
            write_job(
                folder, model=part.name, num_stages=1, objective="throughput", solver="profiling",
                stage_of=[0] * part.num_ops, profile=profile_constants(problem.profile),
                files={GRAPH_FILE: graph_to_json(part).encode()},
            )  # fmt: skip
            with SimulatedRunner() as runner:
                return (
                    runner.time(read_job(folder), TimingPlan(warm_up=0, repeats=1, items=0)).mean_latency_us or 0
                ) * 1e3

        return latency

    found = ProfilingSolver(timed_by_a_runner).solve(problem, SolveOptions())
    assert found.stage_of == ProfilingSolver().solve(problem, SolveOptions()).stage_of


def chain_part(graph: DnnGraph, ops: IntArray) -> DnnGraph:
    """Return the graph of some ops alone: tensors from outside become inputs, those read outside outputs."""
    index = {int(v): i for i, v in enumerate(sorted(ops.tolist()))}
    chosen = list(index)
    kept = [
        t for t in range(graph.num_tensors)
        if int(graph.tensor_producer[t]) in index or any(v in index for v in graph.tensor_consumers[t])
    ]  # fmt: skip
    return DnnGraph(
        name="part", source="json",
        op_names=tuple(graph.op_names[v] for v in chosen), op_kinds=tuple(graph.op_kinds[v] for v in chosen),
        param_bytes=graph.param_bytes[chosen], macs=graph.macs[chosen], compiled_bytes=graph.compiled_bytes[chosen],
        always_streamed_bytes=graph.always_streamed_bytes[chosen], op_time_us=graph.op_time_us[chosen],
        tensor_names=tuple(graph.tensor_names[t] for t in kept), tensor_bytes=graph.tensor_bytes[kept],
        tensor_producer=np.array([index.get(int(graph.tensor_producer[t]), UNKNOWN) for t in kept]),
        tensor_consumers=tuple(tuple(index[v] for v in graph.tensor_consumers[t] if v in index) for t in kept),
        tensor_is_output=np.array([
            int(graph.tensor_producer[t]) in index
            and (bool(graph.tensor_is_output[t]) or any(v not in index for v in graph.tensor_consumers[t]))
            for t in kept
        ]),
    )  # fmt: skip


@given(problems(max_ops=6))
def test_every_problem_ends_with_a_legal_schedule_or_the_reason(problem: Problem) -> None:
    for name in ("profiling", "balanced"):
        found = get_solver(name).solve(problem, SolveOptions())
        assert found.status == ("timeout" if found.stage_of is None else "feasible")
        assert found.stage_of is not None or "ignores constraints" in found.message or "depths" in found.message
