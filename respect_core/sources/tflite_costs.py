"""What an op of a TFLite file is and costs: its canonical kind, MACs and bytes on the device, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from respect_core.errors import BadInputError
from respect_core.graph import MAX_TOTAL, UNKNOWN
from respect_core.kinds import DEPTHWISE

COMPILED_MODEL: Final = "edgetpu-custom-op"
"""Custom code of the op into which the commercial compiler folds what runs on the device."""

MUL_BYTES_PER_CHANNEL: Final = 32
"""Bytes that an unfolded batch normalisation's multiplication streams a channel, on every inference (fitted)."""

_KIND_OF: Final = {
    "CONV_2D": "conv2d",
    "DEPTHWISE_CONV_2D": "depthwise_conv2d",
    "CONCATENATION": "concat",
    "MAX_POOL_2D": "max_pool",
    "AVERAGE_POOL_2D": "average_pool",
    "PADV2": "pad",
    "MIRROR_PAD": "pad",
    "L2_NORMALIZATION": "normalization",
    "LOCAL_RESPONSE_NORMALIZATION": "normalization",
} | dict.fromkeys(
    (
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "RELU_0_TO_1",
        "LOGISTIC",
        "TANH",
        "PRELU",
        "LEAKY_RELU",
        "ELU",
        "GELU",
        "HARD_SWISH",
    ),
    "activation",
)

_BITS: Final = {
    "INT4": 4,
    "INT8": 8,
    "UINT8": 8,
    "BOOL": 8,
    "INT16": 16,
    "UINT16": 16,
    "FLOAT16": 16,
    "BFLOAT16": 16,
    "INT32": 32,
    "UINT32": 32,
    "FLOAT32": 32,
    "INT64": 64,
    "UINT64": 64,
    "FLOAT64": 64,
    "COMPLEX64": 64,
    "COMPLEX128": 128,
}

_QUANTISED: Final = frozenset({"INT8", "UINT8"})


def kind_of(builtin: str, custom_code: str) -> str:
    """Return the canonical kind of a builtin operator; others keep their name, in lower case.

    Args:
        builtin: Name of the builtin operator, `CUSTOM` for a custom one.
        custom_code: Name of the custom operator, which then is part of the kind.
    """
    if builtin == "CUSTOM":
        return f"custom:{custom_code}"
    return _KIND_OF.get(builtin, builtin.lower())


def num_elements(shape: Sequence[int]) -> int:
    """Multiply the dimensions; no dimensions at all are a scalar, of one element.

    Raises:
        BadInputError: A dimension is negative (not known before the model runs), or there are over 2**53 elements.
    """
    lowest = min(shape, default=0)
    if lowest < 0:
        raise BadInputError(f"dimension {lowest} of shape {shape_text(shape)}: its size must be fixed")
    if 0 in shape:
        return 0
    product = 1
    for size in shape:
        product *= size
        if product > MAX_TOTAL:
            raise BadInputError(f"shape {shape_text(shape)} has more than 2**53 elements")
    return product


def num_bytes(shape: Sequence[int], type_name: str) -> int:
    """Return the bytes of a dense tensor; two values of four bits share a byte.

    Raises:
        BadInputError: The type has no fixed size (strings, resources, variants), or `num_elements` refuses the shape.
    """
    bits = _BITS.get(type_name)
    if bits is None:
        raise BadInputError(f"type {type_name} has no fixed size, allowed are {', '.join(_BITS)}")
    return -(-num_elements(shape) * bits // 8)


def macs_of(kind: str, filter_shape: Sequence[int], output_shape: Sequence[int]) -> int:
    """Return the multiply-accumulate operations of a convolution, depthwise convolution or fully connected op.

    Every output value takes one for each weight of its filter: Kh x Kw x Cin, Kh x Kw and Cin.

    Args:
        kind: Canonical kind; all others cost 0.
        filter_shape: (Cout, Kh, Kw, Cin), for depthwise (1, Kh, Kw, Cout), for fully connected (Cout, Cin).
        output_shape: Of the first output.

    Raises:
        BadInputError: The filter does not have as many dimensions, or the product is beyond 2**53.
    """
    if kind not in _FILTER_RANK:
        return 0
    _check_filter(kind, filter_shape)
    per_value = math.prod(filter_shape[1:3] if kind in DEPTHWISE else filter_shape[1:])
    macs = num_elements(output_shape) * per_value
    if macs > MAX_TOTAL:
        raise BadInputError(f"{macs} multiply-accumulate operations, at most 2**53 are allowed")
    return macs


def compiled_bytes_of(kind: str, filter_shape: Sequence[int], filter_type: str) -> int:
    """Return the bytes that an op's constants take on the device, `UNKNOWN` where no formula is known.

    Input channels are padded to a multiple of 64, up to 4 of them (an image) to 4, and each output channel takes 8
    bytes more for bias and scale: Cout x (Kh x Kw x padded Cin + 8), depthwise Kh x Kw x ceil64(C) + 8 C. Fitted to
    the sizes that the commercial compiler reports (median error below 1 %). Only 8-bit weights are compiled.

    Raises:
        BadInputError: The filter does not have the dimensions that its kind needs.
    """
    if kind not in _FILTER_RANK or filter_type not in _QUANTISED:
        return UNKNOWN
    _check_filter(kind, filter_shape)
    if kind in DEPTHWISE:
        _, height, width, channels = filter_shape
        return height * width * _ceil64(channels) + 8 * channels
    outputs, *window, inputs = filter_shape
    padded = _IMAGE_CHANNELS if inputs <= _IMAGE_CHANNELS and kind != "fully_connected" else _ceil64(inputs)
    return outputs * (math.prod(window) * padded + 8)


def mul_streamed_bytes(constant_shape: Sequence[int], output_shape: Sequence[int]) -> int:
    """Return the bytes that a multiplication by a constant streams on every inference.

    They are 32 a channel where the constant has one value a channel (the last dimension), else 0.
    """
    if not constant_shape or not output_shape or constant_shape[-1] != output_shape[-1]:
        return 0
    per_channel = all(size == 1 for size in constant_shape[:-1])
    return MUL_BYTES_PER_CHANNEL * constant_shape[-1] if per_channel else 0


_IMAGE_CHANNELS: Final = 4

_FILTER_RANK: Final = {"conv2d": 4, "depthwise_conv2d": 4, "fully_connected": 2}


def _check_filter(kind: str, shape: Sequence[int]) -> None:
    rank = _FILTER_RANK[kind]
    if len(shape) != rank or min(shape) < 1 or (kind in DEPTHWISE and shape[0] != 1):
        lead = "1, " if kind in DEPTHWISE else ""
        raise BadInputError(
            f"filter of shape {shape_text(shape)}, kind {kind} needs {rank} positive dimensions ({lead}...)"
        )
    num_elements(shape)


def _ceil64(count: int) -> int:
    return -(-count // 64) * 64


def shape_text(shape: Sequence[int]) -> str:
    """Write a shape for a message, its first dimensions if there are many."""
    shown = ", ".join(map(str, shape[:8]))
    return f"({shown}, ...)" if len(shape) > 8 else f"({shown})"
