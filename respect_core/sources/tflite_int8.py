"""Whether a TFLite model is fully int8: what the Edge TPU's compiler takes, said op by op."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from respect_core.json_text import shown
from respect_core.sources.tflite_costs import kind_of
from respect_core.sources.tflite_file import FileOp, FileTensor

FLOATS: Final = frozenset({"FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT64", "COMPLEX64", "COMPLEX128"})

_BYTES: Final = frozenset({"INT8", "UINT8"})

_BRIDGES: Final = frozenset({"QUANTIZE", "DEQUANTIZE", "CUSTOM"})
"""Ops that may have floats on one side; a custom op stays on the CPU and may do as it likes."""


def why_not_int8(
    ops: Sequence[FileOp], names: Sequence[str], tensors: Mapping[int, FileTensor], flowing: Collection[int]
) -> str | None:
    """Name the first op that is not computed in 8-bit integers.

    Integers of other widths may flow (indices, shapes), but not 16-bit activations beside 8-bit weights. What an op
    only describes (an LSTM's intermediates) or keeps as its state is not looked at. Floats at the model's ends are
    allowed where `QUANTIZE` and `DEQUANTIZE` stand between them and the rest.

    Args:
        ops: The ops of the file.
        names: A name for every op.
        tensors: Every tensor that they read or make.
        flowing: Tensors that are given or made, i.e. neither constants nor states.

    Returns:
        None for a model that is fully int8, else a clause that names the op and the tensor.
    """
    for op, name in zip(ops, names, strict=True):
        if op.builtin in _BRIDGES:
            continue
        read = [tensors[t] for t in op.inputs if t >= 0]
        moving = [tensors[t] for t in (*op.inputs, *op.outputs) if t >= 0 and t in flowing]
        weights = [tensor for tensor in read if tensor.data_bytes]
        where = f"op {shown(name)} ({kind_of(op.builtin, op.custom_code)})"
        for tensor in moving:
            if tensor.type_name in FLOATS and any(weight.type_name in _BYTES for weight in weights):
                return (
                    f"{where} has 8-bit weights but computes in {tensor.type_name} (tensor {shown(tensor.name)}): the "
                    "model is quantised in its dynamic range only"
                )
        for tensor in (*moving, *weights):
            if tensor.type_name in FLOATS:
                return f"{where} computes in {tensor.type_name} (tensor {shown(tensor.name)})"
        for tensor in moving:
            if tensor.type_name == "INT16" and any(weight.type_name in _BYTES for weight in weights):
                return f"{where} computes in 16-bit integers (tensor {shown(tensor.name)})"
    return None
