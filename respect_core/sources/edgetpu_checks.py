"""The restrictions of the Edge TPU as functions: each returns what breaks it in an op, None where nothing does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from respect_core.sources.edgetpu_facts import OpFacts, TensorFacts

MOST_SOFTMAX: Final = 16_000

_ACTIVATIONS: Final = frozenset({"INT8", "UINT8"})
_CONSTANTS: Final = frozenset({"INT8", "UINT8", "INT16", "INT32", "INT64"})
_STATES: Final = frozenset({"INT8", "UINT8", "INT16"})


# -- of all ops --------------------------------------------------------------------------------------------------------


def quantised(op: OpFacts) -> str | None:
    """Find a tensor of a type that the device does not compute with."""
    for tensor in (*op.inputs, *op.outputs):
        if tensor is None:
            continue
        allowed = _CONSTANTS if tensor.is_constant else _STATES if tensor.is_variable else _ACTIVATIONS
        if tensor.type_name not in allowed:
            return f"tensor {tensor.name!r} is {tensor.type_name}"
    return None


def fixed_size(op: OpFacts) -> str | None:
    """Find a dimension that is left open."""
    for tensor in _flowing(op):
        if min(tensor.shape, default=1) < 1:
            return f"the size of tensor {tensor.name!r} is not fixed: its shape is {_text(tensor.shape)}"
    return None


def three_dimensions(op: OpFacts) -> str | None:
    """Find a dimension larger than 1 outside of the innermost three."""
    for tensor in _flowing(op):
        if max(tensor.shape[:-3], default=1) > 1:
            return f"tensor {tensor.name!r} has shape {_text(tensor.shape)}"
    return None


_PARAMETERS: Final = {"CONV_2D": (1, 2), "DEPTHWISE_CONV_2D": (1, 2), "FULLY_CONNECTED": (1, 2), "TRANSPOSE_CONV": (1,)}
"""Positions of weights and biases among the inputs."""


def constant_parameters(op: OpFacts) -> str | None:
    """Find weights or biases that are no constants of the file."""
    for position in _PARAMETERS.get(op.builtin, ()):
        tensor = op.input(position)
        if tensor is not None and not tensor.is_constant:
            return f"its parameter {tensor.name!r} is no constant"
    return None


# -- of single ops -----------------------------------------------------------------------------------------------------

_ACTIVATION_NAMES: Final = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}


def no_fused_activation(op: OpFacts) -> str | None:
    """Find an activation function that is part of the op."""
    code = op.option("FusedActivationFunction")
    return f"it has the fused activation function {_ACTIVATION_NAMES.get(code, code)}" if code else None


def _zero_padding_only(op: OpFacts) -> str | None:
    constants = [tensor for tensor in op.inputs if tensor is not None and tensor.is_constant]
    if constants and (len(op.inputs) != 2 or not constants[0].is_zero):
        return (
            f"it joins the constant {constants[0].name!r}: only two inputs of which one is all zeros may be joined so"
        )
    return None


def concatenation(op: OpFacts) -> str | None:
    """Find anything but a plain concatenation and padding by zeros."""
    return no_fused_activation(op) or _zero_padding_only(op)


def same_dilation(op: OpFacts) -> str | None:
    """Compare the dilations of the two directions."""
    across, down = op.option("DilationWFactor", 1), op.option("DilationHFactor", 1)
    return None if across == down else f"its dilation is {across} in x and {down} in y"


def no_dilation(op: OpFacts) -> str | None:
    """Find a dilation other than 1."""
    across, down = op.option("DilationWFactor", 1), op.option("DilationHFactor", 1)
    return None if across == down == 1 else f"its dilation is {across} in x and {down} in y"


def fully_connected(op: OpFacts) -> str | None:
    """Find shuffled weights, and more than one row of output."""
    if op.option("WeightsFormat"):
        return "its weights are not in the default format"
    return _one_dimensional(op.outputs[:1], "output")


def softmax(op: OpFacts) -> str | None:
    """Find more than one row, or too many elements."""
    given = op.input(0)
    if given is None:
        return None
    if math.prod(given.shape) > MOST_SOFTMAX:
        return f"tensor {given.name!r} has {math.prod(given.shape)} elements"
    return _one_dimensional([given], "input")


def prelu(op: OpFacts) -> str | None:
    """Find more than one slope a channel."""
    alpha = op.input(1)
    return None if alpha is None else _one_dimensional([alpha], "alpha")


def _one_dimensional(tensors: Sequence[TensorFacts], what: str) -> str | None:
    wide = next((tensor for tensor in tensors if max(tensor.shape[:-1], default=1) > 1), None)
    return None if wide is None else f"its {what} {wide.name!r} has shape {_text(wide.shape)}"


def _axes(op: OpFacts, position: int) -> tuple[int, tuple[int, ...] | None]:
    """Return the rank of the first input and the axes that an input names, counted from the front."""
    given, axes = op.input(0), op.input(position)
    rank = len(given.shape) if given is not None else 0
    if axes is None or axes.values is None or rank == 0:
        return rank, None
    return rank, tuple(axis % rank for axis in axes.values)


def not_over_batch(op: OpFacts) -> str | None:
    """Find the batch among the axes that are reduced."""
    rank, axes = _axes(op, 1)
    return "it reduces the batch dimension" if axes and rank > 1 and 0 in axes else None


def mean(op: OpFacts) -> str | None:
    """Find the batch among the axes, or channels that are no multiple of 4."""
    rank, axes = _axes(op, 1)
    given = op.input(0)
    if given is not None and axes and rank > 1 and rank - 1 in axes and given.shape[-1] % 4:
        return f"it reduces z, which has {given.shape[-1]} elements"
    return not_over_batch(op)


def mean_of_images(op: OpFacts) -> str | None:
    """Find other axes than height and width."""
    rank, axes = _axes(op, 1)
    return "it reduces more than x and y" if axes and not set(axes) <= {rank - 3, rank - 2} else None


def pack(op: OpFacts) -> str | None:
    """Find out whether the new axis is the batch."""
    rank = len(op.outputs[0].shape) if op.outputs else 0
    return "it packs along the batch dimension" if rank and op.option("Axis") % rank == 0 else None


def _paddings(op: OpFacts) -> list[int] | None:
    """Return how much is padded along every dimension."""
    amounts = op.input(1)
    if amounts is None or amounts.values is None:
        return None
    return [before + after for before, after in zip(amounts.values[::2], amounts.values[1::2], strict=False)]


def pad(op: OpFacts) -> str | None:
    """Find padding of the batch."""
    amounts = _paddings(op)
    return "it pads the batch dimension" if amounts and len(amounts) > 1 and amounts[0] else None


def pad_of_images(op: OpFacts) -> str | None:
    """Find padding of more than height and width."""
    amounts = _paddings(op) or []
    padded = [axis for axis, amount in enumerate(amounts) if amount]
    return "it pads more than x and y" if set(padded) - {len(amounts) - 3, len(amounts) - 2} else None


def split(op: OpFacts) -> str | None:
    """Find out whether the axis is the batch."""
    axis, given = op.input(0), op.input(1)
    if axis is None or given is None or not axis.values or not given.shape:
        return None
    return "it splits the batch dimension" if axis.values[0] % len(given.shape) == 0 else None


def squeeze(op: OpFacts) -> str | None:
    """Find dimensions removed behind one that is kept."""
    given = op.input(0)
    if given is None or not op.outputs:
        return None
    kept = op.outputs[0].shape
    leading = given.shape[: len(given.shape) - len(kept)]
    same = given.shape[len(leading) :] == kept and max(leading, default=1) == 1
    return None if same else f"it removes other than leading dimensions of shape {_text(given.shape)}"


def strided_slice(op: OpFacts) -> str | None:
    """Find gaps, an ellipsis or new axes."""
    strides = op.input(3)
    if strides is not None and strides.values is not None and set(strides.values) - {1}:
        return f"its strides are {_text(strides.values)}"
    for name, what in (("EllipsisMask", "ellipsis"), ("NewAxisMask", "new axis")):
        if op.option(name):
            return f"it has an {what} mask" if what[0] in "aeiou" else f"it has a {what} mask"
    return None


def _flowing(op: OpFacts) -> list[TensorFacts]:
    return [t for t in (*op.inputs, *op.outputs) if t is not None and not t.is_constant and not t.is_variable]


def _text(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values[:8]))}{', ...' if len(values) > 8 else ''})"
