"""The parts of stage times and the boundary tensors agree with the numbers that schedules are judged by."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from respect_core.device import load_profile
from respect_core.errors import InvalidScheduleError
from respect_core.graph import DnnGraph
from respect_core.objective import evaluate
from respect_core.report.view_loads import boundary_tensors, stage_loads
from respect_core.sources.catalog import resolve_model
from tests.respect_core.report.view_input import five_ops, schedule_for
from tests.strategies import graphs, profiles


@given(graphs(max_ops=12), st.data())
def test_parts_add_up_to_what_evaluate_says(graph: DnnGraph, data: st.DataObject) -> None:
    num_stages = data.draw(st.integers(1, graph.num_ops))
    profile = data.draw(profiles(graph))
    stage_of = schedule_for(graph, num_stages).stage_of
    loads = stage_loads(graph, stage_of, num_stages, profile)
    numbers = evaluate(graph, stage_of, num_stages, profile)
    assert [load.time_ns for load in loads] == numbers.time_ns.tolist()
    assert [load.param_bytes for load in loads] == numbers.param_bytes.tolist()
    assert [load.input_bytes for load in loads] == numbers.input_bytes.tolist()
    assert [load.output_bytes for load in loads] == numbers.output_bytes.tolist()
    assert [load.num_ops for load in loads] == [stage_of.count(k) for k in range(num_stages)]
    for load in loads:
        assert 0 <= load.hidden_ns <= min(load.compute_ns, load.streaming_ns)
        assert load.streamed_bytes >= 0


@given(graphs(max_ops=12), st.data())
def test_boundary_tensors_are_those_that_cross(graph: DnnGraph, data: st.DataObject) -> None:
    num_stages = data.draw(st.integers(1, graph.num_ops))
    profile = data.draw(profiles(graph))
    stage_of = schedule_for(graph, num_stages).stage_of
    found = boundary_tensors(graph, stage_of, profile)
    over = [sum(b.num_bytes for b in found if b.made_in <= d < b.read_in[-1]) for d in range(num_stages - 1)]
    assert over == evaluate(graph, stage_of, num_stages, profile).boundary_bytes.tolist()
    assert [b.made_in for b in found] == sorted(b.made_in for b in found)


def test_a_tensor_pays_once_for_sending_and_once_a_stage_for_receiving() -> None:
    found = boundary_tensors(five_ops(), (0, 1, 2, 2, 2), load_profile("usb3"))
    told = [(b.tensor, b.producer, b.made_in, b.read_in, b.num_bytes) for b in found]
    assert told == [(0, 0, 0, (1, 2), 150528), (1, 1, 1, (2,), 65536)]
    per_byte = 8e6 / 2**20
    assert [b.cost_ns for b in found] == [pytest.approx(3 * 150528 * per_byte, abs=2), 1_000_000]


def test_what_does_not_fit_is_streamed() -> None:
    loads = stage_loads(five_ops(), (0, 0, 1, 1, 1), 2, load_profile("usb3"))
    assert loads[0].resident_bytes == 9_500_000
    assert loads[0].streamed_bytes == 9_500_000 - int(7.7 * 2**20)
    assert loads[1].streamed_bytes == 64


def test_streamed_bytes_and_times_tell_the_same() -> None:
    graph = resolve_model("InceptionResNetV2")
    profile = load_profile("pcie")
    for load in stage_loads(graph, schedule_for(graph, 3).stage_of, 3, profile):
        assert load.streaming_ns == pytest.approx(
            load.streamed_bytes * profile.streaming_ms_per_mib * 1e6 / 2**20, abs=999
        )


def test_an_illegal_schedule_is_refused() -> None:
    with pytest.raises(InvalidScheduleError, match="stem"):
        stage_loads(five_ops(), (1, 0, 1, 1, 1), 2, load_profile("usb3"))
