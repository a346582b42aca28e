from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.device import DeviceProfile, load_profile
from respect_core.errors import BadInputError, InvalidScheduleError, UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.objective import OBJECTIVES, check_objective, evaluate, time_terms
from respect_core.solve.protocol import Problem
from tests.oracles import Oracle, legal_schedules
from tests.strategies import problems


@given(problems(max_ops=7, constrained=False), st.data())
def test_every_number_equals_the_definition(problem: Problem, data: st.DataObject) -> None:
    schedules = list(legal_schedules(problem))
    stage_of = data.draw(st.sampled_from(schedules))
    expected = Oracle(problem.graph, problem.profile).numbers(stage_of, problem.num_stages)
    found = problem.evaluate(stage_of)
    assert found.param_bytes.tolist() == expected.param_bytes
    assert found.boundary_bytes.tolist() == expected.boundary_bytes
    assert found.input_bytes.tolist() == expected.input_bytes
    assert found.output_bytes.tolist() == expected.output_bytes
    assert found.time_ns.tolist() == expected.time_ns
    assert found.crossings == expected.crossings
    for objective in OBJECTIVES:
        assert found.value(objective, problem.ratio) == expected.value(objective, problem.ratio)


@given(problems(constrained=False), st.data())
def test_what_is_summed_is_conserved(problem: Problem, data: st.DataObject) -> None:
    stage_of = data.draw(st.sampled_from(list(legal_schedules(problem))))
    numbers = problem.evaluate(stage_of)
    assert numbers.param_bytes.sum() == problem.graph.param_bytes.sum()
    assert numbers.peak_param_bytes * problem.num_stages >= problem.graph.param_bytes.sum()
    assert numbers.bottleneck_ns <= numbers.latency_ns <= numbers.bottleneck_ns * problem.num_stages
    assert numbers.boundary_bytes.shape == (problem.num_stages - 1,)


def test_an_illegal_schedule_has_no_numbers() -> None:
    graph = _chain(3, byte=7)
    with pytest.raises(InvalidScheduleError, match="'op1' in stage 1 feeds op 'op2' in the earlier stage 0"):
        evaluate(graph, [0, 1, 0], 2, load_profile("usb3"))


def test_a_skip_tensor_is_fetched_and_sent_once() -> None:
    """One tensor of 7 bytes read in stages 1 and 2: sent once by 0, fetched by both; it crosses two boundaries."""
    graph = DnnGraph(
        name="skip", source="json", op_names=("a", "b", "c"), op_kinds=("conv2d",) * 3,
        param_bytes=np.array([1, 2, 3]), macs=np.zeros(3, dtype=np.int64),
        compiled_bytes=np.full(3, -1), always_streamed_bytes=np.zeros(3, dtype=np.int64),
        op_time_us=np.full(3, np.nan), tensor_names=("x", "t", "u", "y"), tensor_bytes=np.array([100, 7, 20, 50]),
        tensor_producer=np.array([-1, 0, 1, 2]), tensor_consumers=((0,), (1, 2), (2,), ()),
        tensor_is_output=np.array([False, False, False, True]),
    )  # fmt: skip
    numbers = evaluate(graph, [0, 1, 2], 3, load_profile("usb3"))
    assert numbers.input_bytes.tolist() == [100, 7, 27]
    assert numbers.output_bytes.tolist() == [7, 20, 50]
    assert numbers.boundary_bytes.tolist() == [7, 27]
    assert numbers.crossings == 4


@pytest.mark.parametrize(
    ("compute", "streaming", "always", "occupied", "expected"),
    [
        (100, 50, 0, 0, 1100),  # all fits
        (100, 260, 0, 0, 1000 + 100 + 60 - 30),  # 60 spill beyond the capacity, half of them hidden
        (100, 200, 0, 80, 1000 + 100 + 30 - 15),  # inputs leave room for 170
        (100, 200, 11, 400, 1000 + 100 + 211 - 50),  # inputs leave no room, and room is never negative
        (7, 0, 11, 0, 1000 + 7 + 11 - 3),  # the hidden part is rounded down
    ],
)
def test_stage_time_by_hand(compute: int, streaming: int, always: int, occupied: int, expected: int) -> None:
    profile = DeviceProfile(
        name="round", overhead_ms=0.001, input_ms_per_mib=0, output_ms_per_mib=0, compute_ms_per_gmac=1,
        mul_concat_ms_per_mib=0, depthwise_ms_per_mib=0, add_pad_pool_ms_per_mib=0,
        streaming_ms_per_mib=1.048576, capacity_mib=200 / 2**20, shared_capacity_mib=250 / 2**20, overlap=0.5,
    )  # fmt: skip
    terms = time_terms(_chain(1, byte=0), profile)
    assert (terms.capacity_ns, terms.shared_capacity_ns, terms.overhead_ns) == (200, 250, 1000)
    assert terms.stage_time(compute, streaming, always, 0, 0, occupied) == expected


def test_terms_are_rounded_half_even_once() -> None:
    profile = load_profile("usb3")
    graph = _chain(2, byte=2**20)
    terms = time_terms(graph, profile)
    assert terms.input_ns.tolist() == [8_000_000, 8_000_000]
    assert terms.streaming_ns.tolist() == [2_370_000, 2_370_000]


def test_a_measured_time_replaces_the_estimate() -> None:
    graph = _chain(2, byte=0, macs=10**9, time_us=(np.nan, 12.3456))
    assert time_terms(graph, load_profile("usb3")).compute_ns.tolist() == [1_100_000, 12_346]


def test_times_beyond_the_range_are_refused() -> None:
    slow = replace(load_profile("usb3"), name="slow", input_ms_per_mib=100)
    with pytest.raises(BadInputError, match=r"'chain' would take \d+ ns under profile 'slow', at most 2\*\*58"):
        time_terms(_chain(2, byte=2**52), slow)


def test_large_numbers_do_not_overflow() -> None:
    graph = _chain(3, byte=2**50)
    profile = load_profile("usb3")
    fast = DeviceProfile(
        name="fast", overhead_ms=0, input_ms_per_mib=0.001, output_ms_per_mib=0.001, compute_ms_per_gmac=0,
        mul_concat_ms_per_mib=0, depthwise_ms_per_mib=0, add_pad_pool_ms_per_mib=0, streaming_ms_per_mib=0.001,
        capacity_mib=profile.capacity_mib, shared_capacity_mib=profile.shared_capacity_mib, overlap=0.5,
    )  # fmt: skip
    numbers = evaluate(graph, [0, 1, 2], 3, fast)
    expected = Oracle(graph, fast).numbers([0, 1, 2], 3)
    assert numbers.time_ns.tolist() == expected.time_ns
    assert numbers.value("weighted", 512) == (512 * 2**50 + 2,)


def test_unknown_objective_is_named() -> None:
    assert [check_objective(name) for name in OBJECTIVES] == list(OBJECTIVES)
    with pytest.raises(UnknownNameError, match=r"unknown objective 'speed': choose from peak-memory, throughput"):
        check_objective("speed")


def _chain(n: int, *, byte: int, macs: int = 0, time_us: tuple[float, ...] | None = None) -> DnnGraph:
    return DnnGraph(
        name="chain", source="json", op_names=tuple(f"op{v}" for v in range(n)), op_kinds=("conv2d",) * n,
        param_bytes=np.full(n, byte), macs=np.full(n, macs), compiled_bytes=np.full(n, -1),
        always_streamed_bytes=np.zeros(n, dtype=np.int64),
        op_time_us=np.full(n, np.nan) if time_us is None else np.array(time_us),
        tensor_names=tuple(f"t{v}" for v in range(n)), tensor_bytes=np.full(n, byte), tensor_producer=np.arange(n),
        tensor_consumers=tuple((v + 1,) if v + 1 < n else () for v in range(n)),
        tensor_is_output=np.array([False] * (n - 1) + [True]),
    )  # fmt: skip
