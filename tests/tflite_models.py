"""Small TFLite files, written through the schema package's own builders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import tflite


@dataclass(frozen=True, kw_only=True)
class T:
    """A tensor to write; `data` makes it a constant in a buffer of its own."""

    name: str | bytes | None
    shape: tuple[int, ...] = (1, 4)
    type: int = tflite.TensorType.INT8
    data: bytes | None = None
    buffer: int | None = None
    """Index of the buffer instead: 0 is the empty one, k the k-th one of those with data."""
    variable: bool = False
    sparse: bool = False
    external_buffer: int = 0


@dataclass(frozen=True, kw_only=True)
class O:  # noqa: E742
    """An op to write."""

    builtin: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    custom: str | None = None


@dataclass(frozen=True, kw_only=True)
class M:
    """A model to write."""

    tensors: Sequence[T]
    ops: Sequence[O]
    inputs: tuple[int, ...] = (0,)
    outputs: tuple[int, ...] = ()
    subgraphs: int = 1
    old_codes: bool = False
    """Write operator codes as writers of before 2020 did."""
    external: tuple[int, int] = field(default=(0, 0))
    """Offset and size that the last buffer gives for data outside of the flatbuffer."""


def write_model(model: M) -> bytes:
    """Return the bytes of a TFLite file."""
    b = flatbuffers.Builder(1024)
    datas = [b"", *(t.data for t in model.tensors if t.data is not None)]
    buffers = []
    for i, data in enumerate(datas):
        vector = b.CreateByteVector(data) if data else None
        tflite.BufferStart(b)
        if vector is not None:
            tflite.BufferAddData(b, vector)
        if i == len(datas) - 1 and model.external[0]:
            tflite.BufferAddOffset(b, model.external[0])
            tflite.BufferAddSize(b, model.external[1])
        buffers.append(tflite.BufferEnd(b))
    codes = sorted({(op.builtin, op.custom) for op in model.ops}, key=str)
    graphs = [_subgraph(b, model, codes) for _ in range(model.subgraphs)]
    code_tables = [_code(b, *code, old=model.old_codes) for code in codes]
    vectors = {
        "codes": _tables(b, tflite.ModelStartOperatorCodesVector, code_tables),
        "graphs": _tables(b, tflite.ModelStartSubgraphsVector, graphs),
        "buffers": _tables(b, tflite.ModelStartBuffersVector, buffers),
    }
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, vectors["codes"])
    tflite.ModelAddSubgraphs(b, vectors["graphs"])
    tflite.ModelAddBuffers(b, vectors["buffers"])
    b.Finish(tflite.ModelEnd(b), file_identifier=b"TFL3")
    return bytes(b.Output())


def _subgraph(b: Any, model: M, codes: list[tuple[int, str | None]]) -> int:
    tensors, given = [], 0
    for t in model.tensors:
        given += t.data is not None
        buffer = t.buffer if t.buffer is not None else given if t.data is not None else 0
        tensors.append(_tensor(b, t, buffer))
    ops = [_op(b, op, codes.index((op.builtin, op.custom))) for op in model.ops]
    tensor_vector = _tables(b, tflite.SubGraphStartTensorsVector, tensors)
    op_vector = _tables(b, tflite.SubGraphStartOperatorsVector, ops)
    inputs = _ints(b, tflite.SubGraphStartInputsVector, model.inputs)
    outputs = _ints(b, tflite.SubGraphStartOutputsVector, model.outputs)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, tensor_vector)
    tflite.SubGraphAddInputs(b, inputs)
    tflite.SubGraphAddOutputs(b, outputs)
    tflite.SubGraphAddOperators(b, op_vector)
    return int(tflite.SubGraphEnd(b))


def _tensor(b: Any, t: T, buffer: int) -> int:
    name = None if t.name is None else b.CreateString(t.name)
    shape = _ints(b, tflite.TensorStartShapeVector, t.shape)
    sparsity = None
    if t.sparse:
        tflite.SparsityParametersStart(b)
        sparsity = tflite.SparsityParametersEnd(b)
    b.StartObject(11)  # one field more than the schema package knows
    b.PrependUint32Slot(10, t.external_buffer, 0)
    tflite.TensorAddShape(b, shape)
    tflite.TensorAddType(b, t.type)
    tflite.TensorAddBuffer(b, buffer)
    if name is not None:
        tflite.TensorAddName(b, name)
    if sparsity is not None:
        tflite.TensorAddSparsity(b, sparsity)
    tflite.TensorAddIsVariable(b, t.variable)
    return int(tflite.TensorEnd(b))


def _op(b: Any, op: O, code: int) -> int:
    inputs = _ints(b, tflite.OperatorStartInputsVector, op.inputs)
    outputs = _ints(b, tflite.OperatorStartOutputsVector, op.outputs)
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code)
    tflite.OperatorAddInputs(b, inputs)
    tflite.OperatorAddOutputs(b, outputs)
    return int(tflite.OperatorEnd(b))


def _code(b: Any, builtin: int, custom: str | None, *, old: bool) -> int:
    text = None if custom is None else b.CreateString(custom)
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(builtin, 127))
    if not old:
        tflite.OperatorCodeAddBuiltinCode(b, builtin)
    if text is not None:
        tflite.OperatorCodeAddCustomCode(b, text)
    return int(tflite.OperatorCodeEnd(b))


def _ints(b: Any, start: Callable[[Any, int], Any], values: Sequence[int]) -> int:
    start(b, len(values))
    for value in reversed(values):
        b.PrependInt32(value)
    return int(b.EndVector())


def _tables(b: Any, start: Callable[[Any, int], Any], offsets: Sequence[int]) -> int:
    start(b, len(offsets))
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


INT32 = tflite.TensorType.INT32
OP = tflite.BuiltinOperator

SMALL_CNN = M(
    tensors=(
        T(name="image", shape=(1, 8, 8, 3)),
        T(name="k1", shape=(16, 3, 3, 3), data=bytes(16 * 27)),
        T(name="b1", shape=(16,), type=INT32, data=bytes(64)),
        T(name="c1", shape=(1, 8, 8, 16)),
        T(name="k2", shape=(1, 3, 3, 16), data=bytes(144)),
        T(name="c2", shape=(1, 4, 4, 16)),
        T(name="scale", shape=(16,), data=bytes(16)),
        T(name="c3", shape=(1, 4, 4, 16)),
        T(name="flat", shape=(1, 256)),
        T(name="k4", shape=(10, 256), data=bytes(2560)),
        T(name="logits", shape=(1, 10)),
    ),
    ops=(
        O(builtin=OP.CONV_2D, inputs=(0, 1, 2), outputs=(3,)),
        O(builtin=OP.DEPTHWISE_CONV_2D, inputs=(3, 4, -1), outputs=(5,)),
        O(builtin=OP.MUL, inputs=(5, 6), outputs=(7,)),
        O(builtin=OP.RESHAPE, inputs=(7,), outputs=(8,)),
        O(builtin=OP.FULLY_CONNECTED, inputs=(8, 9, -1), outputs=(10,)),
    ),
    outputs=(10,),
)
"""A chain of five ops: every kind with a formula of its own."""
