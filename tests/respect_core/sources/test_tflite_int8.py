"""Which models count as fully int8, and which op and tensor is named otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ai_edge_litert import schema_py_generated as tflite

from respect_core.segments.model_file import TfliteModel, open_model
from tests.tflite_models import OP, SMALL_CNN, M, O, T, write_model


def opened(model: M, folder: Path) -> TfliteModel:
    path = folder / "net.tflite"
    path.write_bytes(write_model(model))
    return open_model(path)


FLOAT = tflite.TensorType.FLOAT32
HALF = tflite.TensorType.FLOAT16
INT16 = tflite.TensorType.INT16


def dense(activations: int, weights: int) -> M:
    """Return a fully connected op of these types."""
    size = 16 * {FLOAT: 4, HALF: 2}.get(weights, 1)
    tensors = (
        T(name="x", type=activations),
        T(name="w", shape=(4, 4), type=weights, data=bytes(size)),
        T(name="y", type=activations),
    )
    own = O(builtin=OP.FULLY_CONNECTED, inputs=(0, 1, -1), outputs=(2,))
    return M(tensors=tensors, ops=(own,), outputs=(2,))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (SMALL_CNN, None),
        (dense(FLOAT, FLOAT), r"op 'y' \(fully_connected\) computes in FLOAT32 \(tensor 'x'\)"),
        (dense(FLOAT, tflite.TensorType.INT8), r"op 'y' .*8-bit weights but computes in FLOAT32.*dynamic range"),
        (dense(INT16, tflite.TensorType.INT8), r"op 'y' .*computes in 16-bit integers \(tensor 'x'\)"),
    ],
)
def test_models_that_are_not_int8(model: M, why: str | None, tmp_path: Path) -> None:
    found = opened(model, tmp_path)
    assert found.is_float == (why is not None)
    if why is None:
        assert found.not_int8 is None
    else:
        assert found.not_int8 is not None
        assert re.match(why, found.not_int8)


def test_float_ends_are_allowed_and_float_weights_are_not(tmp_path: Path) -> None:
    tensors = (T(name="x", type=FLOAT), T(name="q"), T(name="r"), T(name="y", type=FLOAT))
    ops = (
        O(builtin=OP.QUANTIZE, inputs=(0,), outputs=(1,)),
        O(builtin=OP.RELU, inputs=(1,), outputs=(2,)),
        O(builtin=OP.DEQUANTIZE, inputs=(2,), outputs=(3,)),
    )
    ends = opened(M(tensors=tensors, ops=ops, outputs=(3,)), tmp_path)
    assert ends.not_int8 is None
    assert ends.tensor_types == ("FLOAT32", "INT8", "INT8", "FLOAT32")
    assert ends.tensor_shapes == ((1, 4),) * 4
    halves = (T(name="h", shape=(4, 4), type=HALF, data=bytes(32)), T(name="w", shape=(4, 4), type=FLOAT))
    tensors = (T(name="x", type=FLOAT), *halves, T(name="y", type=FLOAT))
    ops = (
        O(builtin=OP.DEQUANTIZE, inputs=(1,), outputs=(2,)),
        O(builtin=OP.FULLY_CONNECTED, inputs=(0, 2, -1), outputs=(3,)),
    )
    found = opened(M(tensors=tensors, ops=ops, outputs=(3,)), tmp_path)
    assert found.not_int8 == "op 'y' (fully_connected) computes in FLOAT32 (tensor 'x')"
