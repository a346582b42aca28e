from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from ai_edge_litert import schema_py_generated as tflite
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from flows.cli import app
from respect_core.errors import InputFileError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.sources.catalog import resolve_model
from respect_core.sources.tflite import read_tflite
from respect_core.sources.tflite_file import MAX_FILE_BYTES
from tests.same_graph import differences
from tests.tflite_models import INT32, OP, SMALL_CNN, M, O, T, write_model


def read(model: M, folder: Path, name: str = "net") -> DnnGraph:
    path = folder / f"{name}.tflite"
    path.write_bytes(write_model(model))
    return read_tflite(path)


def test_a_small_network_by_hand(tmp_path: Path) -> None:
    graph = read(SMALL_CNN, tmp_path)
    assert (graph.name, graph.source) == ("net", "tflite")
    assert graph.op_names == ("c1", "c2", "c3", "flat", "logits")
    assert graph.op_kinds == ("conv2d", "depthwise_conv2d", "mul", "reshape", "fully_connected")
    assert graph.param_bytes.tolist() == [16 * 27 + 64, 144, 16, 0, 2560]
    assert graph.macs.tolist() == [8 * 8 * 16 * 27, 4 * 4 * 16 * 9, 0, 0, 2560]
    assert graph.compiled_bytes.tolist() == [16 * (9 * 4 + 8), 9 * 64 + 8 * 16, 0, UNKNOWN, 10 * (256 + 8)]
    assert graph.always_streamed_bytes.tolist() == [0, 0, 32 * 16, 0, 0]
    assert graph.tensor_names == ("image", "c1", "c2", "c3", "flat", "logits")
    assert graph.tensor_bytes.tolist() == [192, 1024, 256, 256, 256, 10]
    assert graph.tensor_producer.tolist() == [UNKNOWN, 0, 1, 2, 3, 4]
    assert graph.tensor_consumers == ((0,), (1,), (2,), (3,), (4,), ())
    assert graph.tensor_is_output.tolist() == [False] * 5 + [True]
    assert differences(resolve_model(str(tmp_path / "net.tflite")), graph) == []


def test_operator_codes_of_old_writers(tmp_path: Path) -> None:
    assert differences(read(SMALL_CNN, tmp_path), read(replace(SMALL_CNN, old_codes=True), tmp_path)) == []


@st.composite
def models(draw: st.DrawFn) -> M:
    """Random models: constants shared and read twice, optional inputs, several inputs and outputs, custom ops."""
    num_inputs = draw(st.integers(1, 3))
    types = st.sampled_from([tflite.TensorType.INT8, tflite.TensorType.INT16, tflite.TensorType.FLOAT32])
    shapes = st.lists(st.integers(1, 5), max_size=4).map(tuple)
    tensors = [T(name=f"in{i}", shape=draw(shapes), type=draw(types)) for i in range(num_inputs)]
    for i in range(draw(st.integers(0, 4))):
        count = draw(st.integers(1, 9))
        tensors.append(T(name=f"const{i}", shape=(count,), data=bytes(count)))
    ops = []
    for _ in range(draw(st.integers(1, 8))):
        read = draw(st.lists(st.integers(-1, len(tensors) - 1), min_size=1, max_size=4))
        made = range(len(tensors), len(tensors) + draw(st.integers(1, 3)))
        tensors += [T(name=f"t{t}", shape=draw(shapes), type=draw(types)) for t in made]
        custom = draw(st.sampled_from([None, None, "Mine"]))
        ops.append(O(builtin=OP.CUSTOM if custom else OP.ADD_N, inputs=tuple(read), outputs=tuple(made), custom=custom))
    outputs = draw(st.lists(st.sampled_from([t for op in ops for t in op.outputs]), unique=True))
    return M(tensors=tensors, ops=ops, inputs=tuple(range(num_inputs)), outputs=tuple(outputs))


@given(model=models())
def test_what_was_written_is_read(model: M, tmp_path_factory: pytest.TempPathFactory) -> None:
    graph = read(model, tmp_path_factory.getbasetemp())
    sizes = {tflite.TensorType.INT8: 1, tflite.TensorType.INT16: 2, tflite.TensorType.FLOAT32: 4}
    constant = {t for t, tensor in enumerate(model.tensors) if tensor.data is not None}
    flowing = [t for t in range(len(model.tensors)) if t not in constant]
    assert graph.tensor_names == tuple(model.tensors[t].name for t in flowing)
    assert graph.op_names == tuple(model.tensors[op.outputs[0]].name for op in model.ops)
    for v, op in enumerate(model.ops):
        data = [len(model.tensors[t].data or b"") for t in op.inputs if t in constant]
        assert graph.param_bytes[v] == (0 if op.custom else sum(data))
        assert graph.op_kinds[v] == ("custom:Mine" if op.custom else "add_n")
    for at, t in enumerate(flowing):
        size = sizes[model.tensors[t].type]
        for dimension in model.tensors[t].shape:
            size *= dimension
        assert graph.tensor_bytes[at] == size
        assert graph.tensor_producer[at] == next((v for v, op in enumerate(model.ops) if t in op.outputs), UNKNOWN)
        assert graph.tensor_consumers[at] == tuple(v for v, op in enumerate(model.ops) if t in op.inputs)
        assert graph.tensor_is_output[at] == (t in model.outputs)
    assert graph.is_topological(range(graph.num_ops))


def chain(*tensors: T, builtin: int = OP.RELU) -> M:
    """Return ops that each read the tensor before and make the next."""
    ops = tuple(O(builtin=builtin, inputs=(a,), outputs=(b,)) for a, b in pairwise(range(len(tensors))))
    return M(tensors=tensors, ops=ops, outputs=(len(tensors) - 1,))


def test_names_are_made_unique_and_never_empty(tmp_path: Path) -> None:
    graph = read(chain(T(name=None), T(name="a"), T(name="a"), T(name="a_2"), T(name=""), T(name=b"\xff")), tmp_path)
    assert graph.tensor_names == ("tensor_0", "a", "a_3", "a_2", "tensor_4", "\ufffd")
    assert graph.op_names == graph.tensor_names[1:]


@pytest.mark.parametrize(
    ("type_", "size"),
    [
        (tflite.TensorType.INT4, 8), (tflite.TensorType.INT8, 15), (tflite.TensorType.UINT8, 15),
        (tflite.TensorType.BOOL, 15), (tflite.TensorType.INT16, 30), (tflite.TensorType.FLOAT16, 30),
        (tflite.TensorType.INT32, 60), (tflite.TensorType.FLOAT32, 60), (tflite.TensorType.INT64, 120),
        (tflite.TensorType.COMPLEX128, 240),
    ],
)  # fmt: skip
def test_bytes_of_every_type(type_: int, size: int, tmp_path: Path) -> None:
    graph = read(chain(T(name="a", shape=(3, 5), type=type_), T(name="b", shape=(), type=type_)), tmp_path)
    assert graph.tensor_bytes[0] == size


def test_a_constant_counts_once_a_use(tmp_path: Path) -> None:
    tensors = (T(name="x"), T(name="c", data=bytes(4)), T(name="y"), T(name="same", buffer=1), T(name="z"))
    ops = (
        O(builtin=OP.ADD, inputs=(0, 1), outputs=(2,)),
        O(builtin=OP.ADD_N, inputs=(2, 1, 1, 3), outputs=(4,)),
    )
    assert read(M(tensors=tensors, ops=ops, outputs=(4,)), tmp_path).param_bytes.tolist() == [4, 12]


def test_a_tensor_without_elements_is_a_constant(tmp_path: Path) -> None:
    tensors = (T(name="x", shape=(1,)), T(name="no_dims", shape=(0,), type=INT32), T(name="y", shape=()))
    model = M(tensors=tensors, ops=(O(builtin=OP.RESHAPE, inputs=(0, 1), outputs=(2,)),), outputs=(2,))
    graph = read(model, tmp_path)
    assert graph.tensor_names == ("x", "y")
    assert graph.param_bytes.tolist() == [0]


def lstm(*readers: int) -> M:
    tensors = (T(name="x"), T(name="state", variable=True), T(name="y"), T(name="z"))
    ops = tuple(
        O(builtin=OP.SVDF, inputs=(v + 1 if v else 0, *((1,) if v in readers else ())), outputs=(v + 2,))
        for v in range(2)
    )
    return M(tensors=tensors, ops=ops, outputs=(3,))


def test_a_state_is_neither_constant_nor_edge(tmp_path: Path) -> None:
    graph = read(lstm(0), tmp_path)
    assert graph.tensor_names == ("x", "y", "z")
    assert graph.param_bytes.tolist() == [0, 0]
    with pytest.raises(InputFileError, match=r"op 'z' .*shares the variable tensor 'state' with another op"):
        read(lstm(0, 1), tmp_path)


def test_a_graph_input_may_be_an_output(tmp_path: Path) -> None:
    graph = read(replace(SMALL_CNN, outputs=(0, 10)), tmp_path)
    assert graph.tensor_is_output.tolist() == [True, *[False] * 4, True]


def edited(index: int, **change: object) -> M:
    tensors = list(SMALL_CNN.tensors)
    tensors[index] = replace(tensors[index], **change)  # type: ignore[arg-type]
    return replace(SMALL_CNN, tensors=tensors)


def with_op(index: int, **change: object) -> M:
    ops = list(SMALL_CNN.ops)
    ops[index] = replace(ops[index], **change)  # type: ignore[arg-type]
    return replace(SMALL_CNN, ops=ops)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (replace(SMALL_CNN, subgraphs=2), "it has 2 subgraphs, only models with exactly one"),
        (replace(SMALL_CNN, subgraphs=0), "it has 0 subgraphs"),
        (replace(SMALL_CNN, ops=()), "it has no ops"),
        (replace(SMALL_CNN, inputs=(11,)), r"graph inputs name tensor 11, tensors are 0\.\.10"),
        (replace(SMALL_CNN, inputs=(-1,)), "graph inputs name tensor -1"),
        (replace(SMALL_CNN, inputs=()), "op 'c1' .*reads tensor 'image', which is no constant, no graph input and"),
        (replace(SMALL_CNN, inputs=(0, 1)), "tensor 'k1' is constant, it cannot be given"),
        (replace(SMALL_CNN, inputs=(0, 5)), "op 'c2' .*makes tensor 'c2', which is a graph input"),
        (replace(SMALL_CNN, outputs=(1,)), "no op makes tensor 'k1'"),
        (replace(SMALL_CNN, external=(4096, 2560)), "tensor 'k4': its data lie outside of the flatbuffer"),
        (edited(4, buffer=9), "tensor 'k2': it refers to buffer 9, which is missing: the file has 6"),
        (edited(4, external_buffer=3), "tensor 'k2': its data lie in an external buffer"),
        (edited(4, variable=True), "op 'c2' .*its variable tensor 'k2' has data"),
        (edited(4, sparse=True), "tensor 'k2': it is sparse"),
        (edited(4, shape=(1, 3, 3, 8)), "'k2' has 144 bytes of data, its shape and type need 72"),
        (edited(4, shape=(2, 3, 3, 8)), r"op 'c2' .*filter of shape \(2, 3, 3, 8\), kind depthwise_conv2d needs"),
        (edited(9, shape=(10, 16, 16)), r"op 'logits' .*filter of shape \(10, 16, 16\), kind fully_connected needs 2"),
        (edited(5, shape=(-1, 4, 4, 16)), r"op 'c2' .*dimension -1 of shape \(-1, 4, 4, 16\): its size must be fixed"),
        (edited(7, shape=(0, 4)), r"tensor 'c3': shape \(0, 4\) has a dimension 0"),
        (edited(7, shape=(2**31 - 1,) * 9), r"tensor 'c3': shape \(.*, \.\.\.\) has more than 2\*\*53 elements"),
        (edited(7, type=tflite.TensorType.STRING), "tensor 'c3': type STRING has no fixed size"),
        (edited(7, type=99), "tensor 'c3': type number 99"),
        (with_op(1, outputs=(3,)), "makes tensor 'c1', which another op makes too"),
        (with_op(1, outputs=(4,)), "op 'k2' .*tensor 'k2' is constant, it cannot be given or made"),
        (with_op(0, inputs=(5, 1, 2)), "op 'c1' .*reads tensor 'c2', which this or a later op makes"),
        (with_op(2, inputs=(7, 6)), "op 'c3' .*reads tensor 'c3', which this or a later op makes"),
        (with_op(3, inputs=(12,)), "op number 3: its inputs name tensor 12"),
        (with_op(4, inputs=(8,)), "op 'logits' .*has no filter"),
        (with_op(3, builtin=OP.CUSTOM, custom="edgetpu-custom-op"), "op 'flat' .*already compiled for the Edge TPU"),
    ],
)
def test_what_cannot_be_read_is_named(model: M, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=why) as caught:
        read(model, tmp_path)
    assert str(caught.value).startswith(str(tmp_path / "net.tflite"))


def test_an_operator_younger_than_the_schema_keeps_its_number(tmp_path: Path) -> None:
    assert read(with_op(3, builtin=999), tmp_path).op_kinds[3] == "builtin_999"


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    for data in (b"", b"TFL3", b"\x1c\0\0\0TFL2" + bytes(99)):
        path.write_bytes(data)
        with pytest.raises(InputFileError, match=r"a\.tflite.*not a TFLite file"):
            read_tflite(path)
    for place in (tmp_path, tmp_path / "missing.tflite", tmp_path / ("x" * 5000), Path("a\0b")):
        with pytest.raises(InputFileError, match="the model cannot be read"):
            read_tflite(place)
    os.mkfifo(tmp_path / "pipe.tflite")
    with pytest.raises(InputFileError, match="not a regular file"):
        read_tflite(tmp_path / "pipe.tflite")


def test_a_file_of_two_gibibytes_is_not_even_opened(tmp_path: Path) -> None:
    path = tmp_path / "large.tflite"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES)  # a hole: takes no room
    with pytest.raises(InputFileError, match="2147483648 bytes, TFLite files of 2 GiB or more are not supported"):
        read_tflite(path)


def test_the_command_line_schedules_a_file(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(write_model(SMALL_CNN))
    command = ["schedule", str(path), "--stages", "3", "--solver", "compiler-rule", "--json"]
    found = CliRunner().invoke(app, command, env={"RESPECT_HOME": str(tmp_path / "home")})
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert (answer["model"], answer["num_ops"], answer["param_bytes"]) == ("net", 5, [656, 0, 2560])


def test_claims_beyond_the_file_cost_neither_time_nor_memory(tmp_path: Path) -> None:
    """A thousand tensors that share one text of a megabyte: each copy would be read anew."""
    name = "x" * 2**20
    tensors = [T(name=name), *(T(name="y") for _ in range(1000))]
    ops = tuple(O(builtin=OP.RELU, inputs=(v,), outputs=(v + 1,)) for v in range(1000))
    data = bytearray(write_model(M(tensors=tensors, ops=ops, outputs=(1000,))))
    table = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    text = data.index(name.encode()) - 4
    for t in range(1001):
        tab = table.Tensors(t)._tab
        at = tab.Pos + tab.Offset(10)
        if text > at:
            data[at : at + 4] = (text - at).to_bytes(4, "little")
    path = tmp_path / "a.tflite"
    path.write_bytes(data)
    with pytest.raises(InputFileError, match="the file is damaged: it claims a text of 1048576 bytes"):
        read_tflite(path)
