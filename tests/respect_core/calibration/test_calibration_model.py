"""The finer model against the smooth one, by hand, and as arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.calibration.capacity import settle_placing
from respect_core.calibration.design import FITTED, PLACING, STREAMING, Design
from respect_core.calibration.facts import Layer, StageFacts, facts_of_graph
from respect_core.calibration.model import latency_ms, period_ms, repetitions, stage_ms, streamed
from respect_core.calibration.observations import Observation
from respect_core.device_constants import load_known_profile
from respect_core.solve.protocol import Problem
from tests.oracles import legal_schedules
from tests.strategies import problems

PCIE = load_known_profile("pcie").values()
small = st.floats(0, 10)


@st.composite
def stages(draw: st.DrawFn) -> StageFacts:
    layers = draw(st.lists(st.builds(Layer, compiled_mib=small, activation_mib=small), max_size=5))
    return draw(
        st.builds(
            StageFacts, input_mib=small, output_mib=small, gmac=small, mul_concat_mib=small, depthwise_mib=small,
            add_pad_pool_mib=small, always_streamed_mib=small, measured_ms=small, layers=st.just(tuple(layers)),
        )
    )  # fmt: skip


@given(problems(max_ops=6, constrained=False), st.data())
def test_the_finer_model_is_the_smooth_one_where_nothing_is_cached_or_everything(
    problem: Problem, data: st.DataObject
) -> None:
    """With all memory or none, whole layers and single bytes are the same; only the rounding of terms differs."""
    stage_of = data.draw(st.sampled_from(list(legal_schedules(problem))))
    profile = problem.profile
    total = int(problem.graph.param_bytes.sum() + problem.graph.compiled_bytes.clip(0).sum())
    for capacity in (0.0, 2.0 * (total + int(problem.graph.tensor_bytes.sum()) + 1) / 2**20):
        at = replace(profile, capacity_mib=capacity, shared_capacity_mib=capacity)
        constants = {name: float(getattr(at, name)) for name in at.__dataclass_fields__ if name != "name"}
        facts = facts_of_graph(problem.graph, stage_of, problem.num_stages)
        numbers = replace(problem, profile=at).evaluate(stage_of)
        found = [stage_ms(stage, constants | {"activation_mib": 1e9}) for stage in facts]
        terms = 5 * (problem.graph.num_ops + problem.graph.num_tensors) + 5
        assert found == pytest.approx([ns / 1e6 for ns in numbers.time_ns.tolist()], abs=terms * 1e-6)


def test_layers_are_cached_whole_largest_first() -> None:
    layers = tuple(Layer(compiled_mib=size, activation_mib=0.1) for size in (2.0, 5.0, 3.0, 1.0))
    facts = StageFacts(input_mib=0.0, output_mib=0.0, layers=layers)
    assert streamed(facts, PCIE).spilled_mib == 3.0 + 1.0  # 5 fits into 7.7, then 3 does not, 2 does, 1 does not
    crowded = StageFacts(input_mib=4.0, output_mib=0.0, layers=layers)
    assert streamed(crowded, PCIE).spilled_mib == 5.0 + 2.0  # into 8.5 - 4 fit 3 and 1
    tight = StageFacts(input_mib=8.5, output_mib=0.0, layers=layers)
    assert streamed(tight, PCIE).spilled_mib == facts.compiled_mib == 11.0


def test_a_streamed_layer_with_large_activations_is_streamed_again() -> None:
    assert [repetitions(size, 1.66) for size in (0.0, 1.66, 1.67, 5.0)] == [1, 1, 2, 4]
    facts = StageFacts(input_mib=9.0, output_mib=0.0, layers=(Layer(compiled_mib=2.0, activation_mib=5.0),))
    assert streamed(facts, PCIE).moved_mib == 8.0


@given(st.lists(stages(), min_size=1, max_size=4), st.booleans())
def test_period_and_latency_are_the_largest_and_the_sum(line: list[StageFacts], host_threads: bool) -> None:
    times = [stage_ms(stage, PCIE) for stage in line]
    floor = 0.244 * len(line) if host_threads and len(line) > 1 else 0.0
    assert period_ms(line, PCIE, host_threads=host_threads) == max(*times, floor, 0.0)
    assert latency_ms(line, PCIE) == pytest.approx(sum(times))


rows_drawn = st.tuples(
    st.lists(stages(), min_size=1, max_size=3),
    st.sampled_from(["latency", "period"]),
    st.booleans(),
    st.sampled_from([None, 1, 2, 50]),
    st.sampled_from(["usb3", "pcie"]),
)


@given(st.lists(rows_drawn, min_size=1, max_size=5))
def test_the_design_predicts_what_the_model_says(drawn: list[tuple]) -> None:
    rows = [
        observation(tuple(line), measured=measured, host_threads=threads, batch=batch, link=link)
        for line, measured, threads, batch, link in drawn
    ]
    values = {link: load_known_profile(link).values() for link in ("usb3", "pcie")}
    theta = np.array([values[name.partition("@")[2] or "pcie"][name.partition("@")[0]] for name in FITTED])
    found = Design(rows, {name: PCIE[name] for name in PLACING}).predict(theta)
    for row, predicted in zip(rows, found.tolist(), strict=True):
        constants = values[row.link]
        expected = latency_ms(row.stages, constants)
        if row.measured == "period":
            period = period_ms(row.stages, constants, host_threads=row.host_threads)
            expected = period + (max(0.0, expected - period) / row.batch if row.batch else 0.0)
        assert predicted == pytest.approx(expected)


def observation(line: tuple[StageFacts, ...], **facts: object) -> Observation:
    values: dict = {
        "row": "r", "source": "s", "model": "m", "family": "m", "link": "pcie", "is_link_stated": True,
        "measured": "latency", "batch": None, "host_threads": False, "time_ms": 1.0, "facts_from": "test",
    }  # fmt: skip
    return Observation(stages=line, **(values | facts))


def test_reported_streaming_settles_the_memory_sizes() -> None:
    """A layer of 7.65 MiB that was streamed says that the memory is smaller than 7.65, in 7.6 to 7.7."""
    known = load_known_profile("pcie")
    line = (StageFacts(input_mib=0.0, output_mib=0.0, layers=(Layer(compiled_mib=7.65, activation_mib=0.0),)),)
    found = settle_placing([observation(line, reported_spill_mib=(7.65,))], known)
    assert 7.6 <= found.values["capacity_mib"] < 7.65 and found.ranges["capacity_mib"][1] < 7.65
    assert (found.num_reported, found.num_explained) == (1, 1)
    kept = settle_placing([observation(line)], known)
    assert kept.values["capacity_mib"] == 7.7 and kept.num_reported == 0
    assert STREAMING not in kept.values
