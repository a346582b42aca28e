"""Real models: the commercial compiler's own segments, every number of stages, and random legal schedules."""

from __future__ import annotations

import random
from functools import cache
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tflite
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.constraints import Constraints
from respect_core.graph import DnnGraph
from respect_core.schedule import first_violation
from respect_core.segments.dataflow import first_dataflow_fault
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.slice import Segment, reorder_model, slice_model
from respect_core.solve.compiler_rule import compiler_segments
from tests.conftest import SHARED
from tests.litert_chain import Running, random_values, run_chained, same_bits
from tests.random_schedules import cut, random_order
from tests.segment_objects import differing_fields

pytestmark = pytest.mark.shared

MODELS = SHARED / "data" / "models"
BIRDS = "mobilenet_v2_1.0_224_inat_bird_quant"
DECODER = "posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite"
VALID = (
    "deeplabv3_mnv2_dm05_pascal_quant.tflite",
    "keras_lstm_mnist_ptq.tflite",
    "mobilenet_v1_0.25_128_quant.tflite",
    f"{BIRDS}.tflite",
    f"{BIRDS}_segment_0_of_3.tflite",
    f"{BIRDS}_segment_1_of_3.tflite",
    f"{BIRDS}_segment_2_of_3.tflite",
    DECODER,
    "split_concat.tflite",
    "swiftnet_hpd_uint8.lite",
)


def last_stage_is_the_decoder(graph: DnnGraph) -> list[int]:
    return [int(kind.startswith("custom:")) for kind in graph.op_kinds]


@cache
def opened(name: str) -> TfliteModel:
    """Open a model; of the one with a custom op that no interpreter has, what comes before that op."""
    model = open_model(MODELS / name)
    if name != DECODER:
        return model
    with TemporaryDirectory() as folder:
        path = Path(folder) / "posenet_without_decoder.tflite"
        path.write_bytes(slice_model(model, last_stage_is_the_decoder(model.graph), 2)[0].content)
        return open_model(path)


@cache
def whole(name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return random inputs of a model and the values of all its tensors for them."""
    model = opened(name)
    running = Running(model.data, model.input_names, model.output_names, keep_all=True)
    given = random_values(running, np.random.default_rng(7))
    running.run(given)
    pairs = zip(model.graph.tensor_names, model.tensor_index, strict=True)
    return given, {tensor: running.tensor(t) for tensor, t in pairs}


def check_chain(name: str, segments: list[Segment]) -> None:
    given, expected = whole(name)
    running = [Running(segment.content, segment.inputs, segment.outputs) for segment in segments]
    held = run_chained(running, given)
    assert held.keys() >= set(opened(name).output_names)
    for tensor, values in held.items():
        assert same_bits(expected[tensor], values), (name, tensor)


def test_the_segments_are_those_of_the_commercial_compiler() -> None:
    model = open_model(MODELS / f"{BIRDS}.tflite")
    segments = slice_model(model, compiler_segments(model.graph, 3), 3)
    assert [len(segment.ops) for segment in segments] == [54, 7, 4]
    loads = [int(model.graph.param_bytes[list(segment.ops)].sum()) for segment in segments]
    assert loads == [1_040_704, 802_560, 1_653_780]
    for segment in segments:
        reference = open_model(MODELS / segment.file_name)
        assert segment.inputs == reference.input_names
        assert segment.outputs == reference.output_names
        assert {model.graph.op_names[v] for v in segment.ops} == set(reference.graph.op_names)
        # The compiler leaves metadata out and keeps an empty buffer for each tensor.
        assert len(segment.content) == pytest.approx((MODELS / segment.file_name).stat().st_size, abs=4096)
    assert first_dataflow_fault(segments, model.input_names, model.output_names) is None


@pytest.mark.parametrize("name", VALID)
def test_every_number_of_stages_is_bit_identical(name: str) -> None:
    model = opened(name)
    for num_stages in range(2, min(8, model.graph.num_ops) + 1):
        check_chain(name, slice_model(model, compiler_segments(model.graph, num_stages), num_stages))


@settings(max_examples=25)
@given(data=st.data())
def test_random_legal_schedules_are_bit_identical(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(VALID))
    rng = random.Random(data.draw(st.integers(0, 10**6)))
    model = opened(name)
    num_stages = data.draw(st.integers(2, min(6, model.graph.num_ops)))
    order = random_order(model.graph, rng)
    stage_of = cut(order, num_stages, rng)
    op_order = data.draw(st.sampled_from([None, order, random_order(model.graph, rng)]))
    segments = slice_model(model, stage_of, num_stages, op_order=op_order)
    assert sorted(v for segment in segments for v in segment.ops) == list(range(model.graph.num_ops))
    for segment in segments:
        expected = [v for v in op_order or range(model.graph.num_ops) if stage_of[v] == segment.stage]
        assert list(segment.ops) == expected
    check_chain(name, segments)
    pycoral = Constraints(outputs_last=True, inputs_first=True)
    if first_violation(model.graph, stage_of, num_stages, pycoral) is None:
        assert first_dataflow_fault(segments, model.input_names, model.output_names) is None
    else:
        assert first_dataflow_fault(segments, model.input_names, model.output_names)


@settings(max_examples=15)
@given(name=st.sampled_from(VALID), seed=st.integers(0, 10**6))
def test_reordered_models_are_bit_identical(name: str, seed: int) -> None:
    model = opened(name)
    order = random_order(model.graph, random.Random(seed))
    given, expected = whole(name)
    content = reorder_model(model, order)
    found = Running(content, model.input_names, model.output_names).run(given)
    assert all(same_bits(expected[tensor], values) for tensor, values in found.items())
    model_t = tflite.ModelT.InitFromPackedBuf(content)
    firsts = [model_t.subgraphs[0].tensors[op.outputs[0]].name for op in model_t.subgraphs[0].operators]
    assert [first.decode() for first in firsts] == [model.graph.op_names[v] for v in order]


@pytest.mark.parametrize("name", VALID)
def test_nothing_of_an_op_or_a_tensor_is_lost(name: str) -> None:
    model = open_model(MODELS / name)
    original = tflite.ModelT.InitFromPackedBuf(model.data)
    num_stages = min(4, model.graph.num_ops)
    for segment in slice_model(model, compiler_segments(model.graph, num_stages), num_stages):
        part = tflite.ModelT.InitFromPackedBuf(segment.content)
        assert differing_fields(original, part, segment.ops) == []


def test_a_model_whose_outputs_cannot_be_last_is_refused_by_name() -> None:
    """Three ops, each of which makes a graph output: only with other runners can they be three stages."""
    model = open_model(MODELS / "split_concat.tflite")
    faults = set()
    for stage_of in product(range(3), repeat=3):
        if first_violation(model.graph, stage_of, 3) is None:
            segments = slice_model(model, stage_of, 3)
            check_chain("split_concat.tflite", segments)
            faults.add(first_dataflow_fault(segments, model.input_names, model.output_names))
            assert first_violation(model.graph, stage_of, 3, Constraints(outputs_last=True)) is not None
    assert faults
    for fault in faults:
        assert fault is not None
        assert any(repr(name) in fault for name in model.output_names + model.input_names)


def test_a_state_goes_on_over_inferences() -> None:
    model = opened("keras_lstm_mnist_ptq.tflite")
    rng = np.random.default_rng(3)
    for num_stages in (2, 6):
        for cuts in list(combinations(range(1, 6), num_stages - 1))[:3]:
            stage_of = [sum(v >= at for at in cuts) for v in range(6)]
            segments = slice_model(model, stage_of, num_stages)
            chain = [Running(segment.content, segment.inputs, segment.outputs) for segment in segments]
            alone = Running(model.data, model.input_names, model.output_names)
            for _ in range(3):
                given = random_values(alone, rng)
                expected = alone.run(given)
                held = run_chained(chain, given)
                assert all(same_bits(held[tensor], values) for tensor, values in expected.items())


def test_a_custom_op_is_cut_out_with_its_options() -> None:
    model = open_model(MODELS / DECODER)
    segments = slice_model(model, last_stage_is_the_decoder(model.graph), 2)
    (decoder,) = segments[1].ops
    assert segments[1].inputs == segments[0].outputs
    assert segments[1].outputs == model.output_names
    op = tflite.ModelT.InitFromPackedBuf(segments[1].content).subgraphs[0].operators[0]
    original = tflite.ModelT.InitFromPackedBuf(model.data).subgraphs[0].operators[decoder]
    assert bytes(op.customOptions) == bytes(original.customOptions)


@pytest.mark.parametrize("name", VALID)
def test_the_models_are_int8(name: str) -> None:
    model = open_model(MODELS / name)
    assert model.not_int8 is None
    assert not model.is_float
    assert not model.renamed
    assert 0 < model.storage_bytes <= len(model.data)
    assert len(model.op_storage_bytes) == model.graph.num_ops
