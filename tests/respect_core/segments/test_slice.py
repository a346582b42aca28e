"""Slicing small written models: each run in the interpreter, and each rule by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tflite
from hypothesis import given
from hypothesis import strategies as st

from respect_core.constraints import Constraints
from respect_core.errors import BadInputError, InputFileError, InvalidScheduleError
from respect_core.schedule import first_violation
from respect_core.segments.dataflow import first_dataflow_fault
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.slice import Segment, reorder_model, segment_file_name, slice_model
from tests.litert_chain import Running, random_values, run_chained, same_bits
from tests.random_schedules import cut, random_order
from tests.segment_objects import differing_fields
from tests.tflite_models import INT32, OP, SMALL_CNN, M, O, RunnableModel, T, random_runnable, write_model


def opened(model: M, folder: Path) -> TfliteModel:
    path = folder / "net.tflite"
    path.write_bytes(write_model(model))
    return open_model(path)


def unpacked(content: bytes) -> tflite.ModelT:
    return tflite.ModelT.InitFromPackedBuf(content)


def tensor_names(content: bytes) -> list[str]:
    return [tensor.name.decode() for tensor in unpacked(content).subgraphs[0].tensors]


def check_runs_alike(model: TfliteModel, segments: list[Segment], seed: int) -> None:
    """Compare every tensor that is passed with the same tensor inside of the whole model."""
    whole = Running(model.data, model.input_names, model.output_names, keep_all=True, check_names=False)
    given_values = random_values(whole, np.random.default_rng(seed))
    whole.run(given_values)
    chain = [Running(segment.content, segment.inputs, segment.outputs) for segment in segments]
    held = run_chained(chain, given_values)
    assert held.keys() >= set(model.output_names)
    for g, name in enumerate(model.graph.tensor_names):
        if name in held:
            assert same_bits(held[name], whole.tensor(model.tensor_index[g])), name


@given(seed=st.integers(0, 10**9), num_ops=st.integers(1, 12), data=st.data())
def test_random_models_and_schedules(
    seed: int, num_ops: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(seed)
    written = random_runnable(rng, num_ops, names=data.draw(st.sampled_from([(), ("twice", "t1:0")])))
    model = opened(written, tmp_path_factory.getbasetemp())
    graph = model.graph
    num_stages = data.draw(st.integers(1, min(num_ops, 5)))
    order = random_order(graph, rng)
    stage_of = cut(order, num_stages, rng)
    segments = slice_model(model, stage_of, num_stages, op_order=data.draw(st.sampled_from([None, order])))
    check_runs_alike(model, segments, seed)
    for segment in segments:
        assert differing_fields(unpacked(model.data), renamed_back(segment, model), segment.ops) == []
    pycoral = Constraints(outputs_last=True, inputs_first=True)
    fault = first_dataflow_fault(segments, model.input_names, model.output_names)
    if fault is None:
        assert first_violation(graph, stage_of, num_stages, pycoral) is None
    elif first_violation(graph, stage_of, num_stages, pycoral) is None:
        assert "makes no tensor for others" in fault or "at once its input" in fault


def renamed_back(segment: Segment, model: TfliteModel) -> tflite.ModelT:
    """Return a segment's objects with the names that its tensors have in the model's file."""
    part = unpacked(segment.content)
    new_names = {name.encode(): g for g, name in model.renamed.items()}
    for tensor in part.subgraphs[0].tensors:
        if tensor.name in new_names:
            tensor.name = model.content.tensors[model.tensor_index[new_names[tensor.name]]].raw_name
    return part


@given(seed=st.integers(0, 10**9), num_ops=st.integers(1, 12))
def test_random_models_in_random_orders(seed: int, num_ops: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.getbasetemp()
    model = opened(random_runnable(rng, num_ops), folder)
    order = random_order(model.graph, rng)
    again = folder / "again.tflite"
    again.write_bytes(reorder_model(model, order))
    reordered = open_model(again)
    assert reordered.graph.op_names == tuple(model.graph.op_names[v] for v in order)
    assert (reordered.input_names, reordered.output_names) == (model.input_names, model.output_names)
    assert reordered.storage_bytes == model.storage_bytes
    whole, other = (Running(m.data, m.input_names, m.output_names) for m in (model, reordered))
    given_values = random_values(whole, np.random.default_rng(seed))
    expected, found = whole.run(given_values), other.run(given_values)
    assert all(same_bits(found[name], values) for name, values in expected.items())


# -- boundaries ------------------------------------------------------------------------------------------------------


def two_lanes(**more: object) -> M:
    """Return a model whose tensors go over several stages: 0 split -> 1, 2; 3 = 1 + x; 4 = 2 + 2; 5 = concat."""
    net = RunnableModel(random.Random(0))
    y, x = net.given("y", 2), net.given("x", 4)
    unread = net.given("unread", 2)
    left, right = net.split(("left", "right"), x)
    a = net.add("a", left, y)
    b = net.add("b", right, right)
    net.relu("dead", b)
    out = net.concat("out", a, b)
    last = net.add("last", out, x)
    assert unread == 2
    return net.model((last, a), **more)  # type: ignore[arg-type]


def test_boundary_tensors_and_their_order(tmp_path: Path) -> None:
    model = opened(two_lanes(), tmp_path)
    assert model.graph.op_names == ("left", "a", "b", "dead", "out", "last")
    segments = slice_model(model, [0, 1, 0, 1, 2, 2], 3)
    assert [segment.inputs for segment in segments] == [("x", "unread"), ("y", "left", "b"), ("x", "a", "b")]
    assert [segment.outputs for segment in segments] == [("left", "b"), ("a",), ("last",)]
    assert [segment.ops for segment in segments] == [(0, 2), (1, 3), (4, 5)]
    assert [segment.file_name for segment in segments] == [segment_file_name("net", k, 3) for k in range(3)]
    # the constant of the split comes along; what nobody reads stays inside
    assert tensor_names(segments[0].content) == ["x", "unread", "numbers", "left", "right", "b"]
    assert tensor_names(segments[1].content) == ["y", "left", "a", "b", "dead"]
    check_runs_alike(model, segments, 1)
    assert slice_model(model, [0, 1, 0, 1, 2, 2], 3) == segments


def test_the_order_of_ops_inside_of_segments(tmp_path: Path) -> None:
    model = opened(two_lanes(), tmp_path)
    segments = slice_model(model, [0, 1, 0, 1, 2, 2], 3, op_order=[0, 2, 3, 1, 4, 5])
    assert [segment.ops for segment in segments] == [(0, 2), (3, 1), (4, 5)]
    check_runs_alike(model, segments, 2)
    with pytest.raises(BadInputError, match="the order of 6 ops is no topological order of its 6 ops"):
        slice_model(model, [0] * 6, 1, op_order=[1, 0, 2, 3, 4, 5])
    with pytest.raises(BadInputError, match="no topological order"):
        reorder_model(model, [0, 1])
    with pytest.raises(InvalidScheduleError, match=r"'left' in stage 1 feeds op 'a' in the earlier stage 0"):
        slice_model(model, [1, 0, 0, 0, 1, 1], 2)


def test_an_input_that_is_an_output_is_passed_on(tmp_path: Path) -> None:
    net = RunnableModel(random.Random(0))
    x, y = net.given("x", 2), net.given("y", 2)
    made = net.relu("made", net.relu("mid", y))
    model = opened(net.model((x, made)), tmp_path)
    segments = slice_model(model, [0, 1], 2)
    assert [segment.inputs for segment in segments] == [("x", "y"), ("x", "mid")]
    assert [segment.outputs for segment in segments] == [("mid",), ("x", "made")]
    check_runs_alike(model, segments, 3)
    fault = first_dataflow_fault(segments, model.input_names, model.output_names)
    assert fault == "tensor 'x' is an output of net_segment_1_of_2.tflite and at once its input"


def test_names_that_come_twice_are_numbered_in_the_segments(tmp_path: Path) -> None:
    net = RunnableModel(random.Random(0))
    x = net.given("a", 2)
    out = net.relu("a", net.relu("a", x))
    model = opened(net.model((out,)), tmp_path)
    assert model.renamed == {1: "a_2", 2: "a_3"}
    segments = slice_model(model, [0, 1], 2)
    assert [segment.inputs for segment in segments] == [("a",), ("a_2",)]
    assert [segment.outputs for segment in segments] == [("a_2",), ("a_3",)]
    check_runs_alike(model, segments, 4)
    assert tensor_names(reorder_model(model, [0, 1])) == ["a", "a", "a"]


def test_names_that_no_one_can_say_are_replaced(tmp_path: Path) -> None:
    chain = (T(name=None, scale=(1.0,)), T(name=b"\xff", scale=(1.0,)), T(name="", scale=(1.0,)))
    ops = tuple(O(builtin=OP.RELU, inputs=(v,), outputs=(v + 1,)) for v in range(2))
    model = opened(M(tensors=chain, ops=ops, outputs=(2,)), tmp_path)
    segments = slice_model(model, [0, 1], 2)
    assert [segment.inputs for segment in segments] == [("tensor_0",), ("\ufffd",)]
    check_runs_alike(model, segments, 5)


# -- what a file keeps -----------------------------------------------------------------------------------------------


def test_description_metadata_and_signatures(tmp_path: Path) -> None:
    kept = {"min_runtime_version": b"1.5.0", "TFLITE_METADATA": bytes(40)}
    by_index = {"model_control_dependencies": b"123", "OfflineMemoryAllocation": b"456"}
    written = two_lanes(
        description="two lanes",
        metadata={"model_control_dependencies": b"123", **kept, **by_index},
        signatures={
            "serve": ({"first": 0, "left": 1, "third": 2}, {"result": 10, "second": 6}),
            "other": ({}, {"late": 10}),
        },
    )
    model = opened(written, tmp_path)
    segments = slice_model(model, [0, 1, 0, 1, 2, 2], 3)
    for segment in segments:
        part = unpacked(segment.content)
        assert part.version == 3
        assert part.description == b"two lanes"
        assert part.subgraphs[0].name == b"main"
        assert {m.name.decode(): bytes(part.buffers[m.buffer].data) for m in part.metadata} == kept
    found = [signatures(segment.content) for segment in segments]
    assert found[0] == {"serve": ({"left": "x", "third": "unread"}, {"left": "left", "b": "b"})}
    assert found[1] == {"serve": ({"first": "y", "left": "left", "b": "b"}, {"second": "a"})}
    assert found[2] == {
        "serve": ({"left": "x", "a": "a", "b": "b"}, {"result": "last"}),
        "other": ({"a": "a", "b": "b"}, {"late": "last"}),
    }
    assert signatures(reorder_model(model, range(6))) == signatures(model.data)


def test_a_segment_can_be_run_by_its_signature(tmp_path: Path) -> None:
    model = opened(two_lanes(signatures={"serve": ({"first": 0, "second": 1}, {"result": 10})}), tmp_path)
    last = slice_model(model, [0, 1, 0, 1, 2, 2], 3)[2]
    running = Running(last.content, last.inputs, last.outputs)
    given_values = random_values(running, np.random.default_rng(9))
    expected = running.run(given_values)["last"]
    runner = running.interpreter.get_signature_runner("serve")
    found = runner(second=given_values["x"], a=given_values["a"], b=given_values["b"])
    assert same_bits(found["result"], expected)


def signatures(content: bytes) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """Return the tensors behind the names of every signature."""
    names = tensor_names(content)

    def entries(maps: list[tflite.TensorMapT] | None) -> dict[str, str]:
        return {entry.name.decode(): names[entry.tensorIndex] for entry in maps or []}

    return {s.signatureKey.decode(): (entries(s.inputs), entries(s.outputs)) for s in unpacked(content).signatureDefs}


def test_a_shared_buffer_is_written_once_a_file(tmp_path: Path) -> None:
    net = RunnableModel(random.Random(0))
    x = net.given("x", 2)
    first = net.constant((1, 2, 2, 2))
    a = net.add("a", x, first)
    b = net.add("b", a, net.constant((1, 2, 2, 2), shared=1))
    out = net.add("out", b, net.constant((1, 2, 2, 2)))
    model = opened(net.model((out,)), tmp_path)
    assert model.graph.param_bytes.tolist() == [8, 8, 8]
    assert model.op_storage_bytes == (8, 0, 8)
    assert model.storage_bytes == 16
    together, apart = slice_model(model, [0, 0, 1], 2)
    assert len(unpacked(together.content).buffers) == 2
    assert len(unpacked(apart.content).buffers) == 2
    alone = slice_model(model, [0, 1, 1], 2)
    assert [len(unpacked(segment.content).buffers) for segment in alone] == [2, 3]
    check_runs_alike(model, alone, 6)


def test_data_are_aligned_and_only_used_parts_are_kept(tmp_path: Path) -> None:
    model = opened(replace(SMALL_CNN, tensors=(*SMALL_CNN.tensors, T(name="unused", data=bytes(99)))), tmp_path)
    for segment in slice_model(model, [0, 0, 1, 2, 3], 4):
        table = tflite.Model.GetRootAs(segment.content, 0)
        codes = {op.opcodeIndex for op in unpacked(segment.content).subgraphs[0].operators}
        assert codes == set(range(table.OperatorCodesLength()))
        assert "unused" not in tensor_names(segment.content)
        for i in range(table.BuffersLength()):
            buffer = table.Buffers(i)
            assert buffer.DataIsNone() == (i == 0)
            if i:
                assert buffer._tab.Vector(buffer._tab.Offset(4)) % 16 == 0


def test_a_constant_of_no_bytes_stays_a_constant(tmp_path: Path) -> None:
    """A scalar is made by a shape without elements, in a buffer with an empty vector."""
    tensors = (
        T(name="x", shape=(1, 1), scale=(1.0,)),
        T(name="y", shape=(1, 1), scale=(1.0,)),
        T(name="no_dims", shape=(0,), type=INT32, data=b""),
        T(name="z", shape=(), scale=(1.0,)),
    )
    ops = (
        O(builtin=OP.RELU, inputs=(0,), outputs=(1,)),
        O(builtin=OP.RESHAPE, inputs=(1, 2), outputs=(3,), options=tflite.ReshapeOptionsT()),
    )
    model = opened(M(tensors=tensors, ops=ops, outputs=(3,)), tmp_path)
    segments = slice_model(model, [0, 1], 2)
    assert not tflite.Model.GetRootAs(segments[1].content, 0).Buffers(1).DataIsNone()
    check_runs_alike(model, segments, 7)


def test_intermediates_and_custom_ops_are_kept(tmp_path: Path) -> None:
    tensors = (T(name="x"), T(name="inner", scale=(0.5,)), T(name="y"), T(name="z"))
    ops = (
        O(builtin=OP.CUSTOM, custom="Mine", inputs=(0, -1), outputs=(2, -1), intermediates=(1, -1)),
        O(builtin=OP.CUSTOM, custom="Other", inputs=(2,), outputs=(3,)),
    )
    model = opened(M(tensors=tensors, ops=ops, outputs=(3,)), tmp_path)
    first, second = slice_model(model, [0, 1], 2)
    op = unpacked(first.content).subgraphs[0].operators[0]
    assert (op.inputs.tolist(), op.outputs.tolist(), op.intermediates.tolist()) == ([0, -1], [2, -1], [1, -1])
    assert [code.customCode for code in unpacked(second.content).operatorCodes] == [b"Other"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tensor": 5, "variants": 1}, "tensor 'c2': it is a variant of other tensors"),
        ({"op": 2, "large_options": 64}, "op number 2: its options lie outside of the flatbuffer"),
    ],
)
def test_what_cannot_be_written_is_named(change: dict[str, int], why: str, tmp_path: Path) -> None:
    tensors, ops = list(SMALL_CNN.tensors), list(SMALL_CNN.ops)
    for what, rows in (("tensor", tensors), ("op", ops)):
        if what in change:
            index = change.pop(what)
            rows[index] = replace(rows[index], **change)  # type: ignore[type-var]
    model = opened(replace(SMALL_CNN, tensors=tensors, ops=ops), tmp_path)
    with pytest.raises(InputFileError, match=why) as caught:
        slice_model(model, [0, 0, 1, 1, 1], 2)
    assert caught.value.path == str(tmp_path / "net.tflite")


def test_a_float_model_can_be_sliced(tmp_path: Path) -> None:
    kind = tflite.TensorType.FLOAT32
    tensors = (
        T(name="x", type=kind),
        T(name="r", type=kind),
        T(name="w", shape=(4, 4), type=kind, data=np.arange(16, dtype=np.float32).tobytes()),
        T(name="y", type=kind),
    )
    ops = (
        O(builtin=OP.RELU, inputs=(0,), outputs=(1,)),
        O(builtin=OP.FULLY_CONNECTED, inputs=(1, 2, -1), outputs=(3,), options=tflite.FullyConnectedOptionsT()),
    )
    model = opened(M(tensors=tensors, ops=ops, outputs=(3,)), tmp_path)
    check_runs_alike(model, slice_model(model, [0, 1], 2), 8)
