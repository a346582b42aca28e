"""Which TFLite ops the Edge TPU runs, as data: one table that judges ops, words the reasons and fills the docs.

Source: Coral's page "TensorFlow models on the Edge TPU", its requirements and its table of supported operations, and
what users of the compiler report. The compiler may keep further ops on the CPU for reasons that it does not publish.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from respect_core.sources import edgetpu_checks as checks
from respect_core.sources.edgetpu_facts import Check, OpFacts

LATEST_RUNTIME: Final = 14
"""Version of the Edge TPU runtime that the last compiler (16.0) targets."""


def _fine(_: OpFacts) -> str | None:
    return None


def _broken(what: str | None, rule: str) -> str | None:
    """Put what breaks a rule and the rule's own words into one reason."""
    return None if what is None else f"{what} (rule: {rule})"


def _inside(sentences: str) -> str:
    """Return sentences so that they can go on inside of one."""
    text = sentences.rstrip(".")
    return text[:1].lower() + text[1:]


@dataclass(frozen=True, kw_only=True)
class Older:
    """A stricter rule that runtimes before some version have."""

    before: int
    restriction: str
    check: Check


@dataclass(frozen=True, kw_only=True)
class OpRule:
    """One row of the table: an operation, since when it runs on the Edge TPU, and under which restriction."""

    name: str
    """As Coral's documentation calls it."""
    builtins: tuple[str, ...]
    """Builtin operators of TFLite that are this operation."""
    since: int | None = None
    """First runtime version with it, None for all."""
    restriction: str = ""
    """In words; empty where there is none. Where `check` cannot see it from the file, it begins with "May"."""
    check: Check = _fine
    older: Older | None = None
    usually_on_cpu: str = ""
    """Why it counts as unsupported although it is listed; empty for most."""

    def why_not(self, op: OpFacts, runtime: int) -> str | None:
        """Return why an op of this rule does not run on the Edge TPU, None where it does."""
        if self.since is not None and runtime < self.since:
            return f"it needs Edge TPU runtime {self.since} or later, asked for is {runtime}"
        if self.usually_on_cpu:
            return self.usually_on_cpu
        if self.older is not None and runtime < self.older.before:
            return _broken(
                self.older.check(op), f"before runtime {self.older.before}: {_inside(self.older.restriction)}"
            )
        return _broken(self.check(op), _inside(self.restriction))


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What every op must fulfil."""

    text: str
    check: Check

    def why_not(self, op: OpFacts) -> str | None:
        """Return what breaks it, None where nothing does."""
        return _broken(self.check(op), _inside(self.text))


REQUIREMENTS: Final = (
    Requirement(
        text="Tensors are 8-bit integers; constants may have 16, 32 or 64 bits, and an LSTM's states 16.",
        check=checks.quantised,
    ),
    Requirement(text="Sizes of tensors are fixed.", check=checks.fixed_size),
    Requirement(
        text="Only the innermost three dimensions of a tensor are larger than 1: the batch is 1.",
        check=checks.three_dimensions,
    ),
    Requirement(text="Weights and biases are constants.", check=checks.constant_parameters),
)

_NO_FUSED: Final = "No fused activation function."
_DILATION: Final = "The dilation is the same in x and y."
_NOT_BATCH: Final = "Not over the batch dimension."
_RESIZED: Final = "May stay on the CPU for some sizes, where precision would suffer. Tensors have three dimensions."

RULES: Final = (
    OpRule(name="Add", builtins=("ADD",)),
    OpRule(
        name="AveragePool2d", builtins=("AVERAGE_POOL_2D",), restriction=_NO_FUSED, check=checks.no_fused_activation
    ),
    OpRule(
        name="Concatenation",
        builtins=("CONCATENATION",),
        restriction=f"{_NO_FUSED} A constant may only be joined to one other input, and must be all zeros.",
        check=checks.concatenation,
    ),
    OpRule(name="Conv2d", builtins=("CONV_2D",), restriction=_DILATION, check=checks.same_dilation),
    OpRule(
        name="DepthwiseConv2d",
        builtins=("DEPTHWISE_CONV_2D",),
        restriction=_DILATION,
        check=checks.same_dilation,
        older=Older(before=13, restriction="No dilation.", check=checks.no_dilation),
    ),
    OpRule(name="ExpandDims", builtins=("EXPAND_DIMS",), since=13),
    OpRule(
        name="FullyConnected",
        builtins=("FULLY_CONNECTED",),
        restriction="Weights in the default format. The output has one dimension.",
        check=checks.fully_connected,
    ),
    OpRule(name="L2Normalization", builtins=("L2_NORMALIZATION",)),
    OpRule(name="Logistic", builtins=("LOGISTIC",)),
    OpRule(
        name="LSTM",
        builtins=("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"),
        since=14,
        restriction="In one direction only.",
    ),
    OpRule(name="Maximum", builtins=("MAXIMUM",)),
    OpRule(name="MaxPool2d", builtins=("MAX_POOL_2D",), restriction=_NO_FUSED, check=checks.no_fused_activation),
    OpRule(
        name="Mean",
        builtins=("MEAN",),
        restriction=f"{_NOT_BATCH} Where it reduces z, that has a multiple of 4 elements.",
        check=checks.mean,
        older=Older(before=13, restriction="Over x and y only.", check=checks.mean_of_images),
    ),
    OpRule(name="Minimum", builtins=("MINIMUM",)),
    OpRule(name="Mul", builtins=("MUL",)),
    OpRule(name="Pack", builtins=("PACK",), since=13, restriction="Not along the batch dimension.", check=checks.pack),
    OpRule(
        name="Pad",
        builtins=("PAD",),
        restriction="Not along the batch dimension.",
        check=checks.pad,
        older=Older(before=13, restriction="Along x and y only.", check=checks.pad_of_images),
    ),
    OpRule(
        name="PReLU",
        builtins=("PRELU",),
        since=13,
        restriction="Alpha has one dimension: in Keras, `shared_axes=[1, 2]`.",
        check=checks.prelu,
    ),
    OpRule(name="Quantize", builtins=("QUANTIZE",), since=13),
    OpRule(name="ReduceMax", builtins=("REDUCE_MAX",), since=14, restriction=_NOT_BATCH, check=checks.not_over_batch),
    OpRule(name="ReduceMin", builtins=("REDUCE_MIN",), since=14, restriction=_NOT_BATCH, check=checks.not_over_batch),
    OpRule(name="ReLU", builtins=("RELU",)),
    OpRule(name="ReLU6", builtins=("RELU6",)),
    OpRule(name="ReLUN1To1", builtins=("RELU_N1_TO_1",)),
    OpRule(name="Reshape", builtins=("RESHAPE",), restriction="May stay on the CPU for large tensors."),
    OpRule(name="ResizeBilinear", builtins=("RESIZE_BILINEAR",), restriction=_RESIZED),
    OpRule(name="ResizeNearestNeighbor", builtins=("RESIZE_NEAREST_NEIGHBOR",), restriction=_RESIZED),
    OpRule(name="Rsqrt", builtins=("RSQRT",), since=14),
    OpRule(name="Slice", builtins=("SLICE",)),
    OpRule(
        name="Softmax",
        builtins=("SOFTMAX",),
        restriction=f"The input has one dimension of at most {checks.MOST_SOFTMAX} elements.",
        check=checks.softmax,
    ),
    OpRule(name="SpaceToDepth", builtins=("SPACE_TO_DEPTH",)),
    OpRule(name="Split", builtins=("SPLIT",), restriction="Not along the batch dimension.", check=checks.split),
    OpRule(
        name="Squeeze",
        builtins=("SQUEEZE",),
        older=Older(before=13, restriction="Leading dimensions of 1 only.", check=checks.squeeze),
    ),
    OpRule(
        name="StridedSlice",
        builtins=("STRIDED_SLICE",),
        restriction="All strides are 1, with neither an ellipsis mask nor a new axis mask.",
        check=checks.strided_slice,
    ),
    OpRule(name="Sub", builtins=("SUB",)),
    OpRule(name="Sum", builtins=("SUM",), since=13, restriction=_NOT_BATCH, check=checks.not_over_batch),
    OpRule(name="SquaredDifference", builtins=("SQUARED_DIFFERENCE",), since=14),
    OpRule(name="Tanh", builtins=("TANH",)),
    OpRule(
        name="Transpose",
        builtins=("TRANSPOSE",),
        since=14,
        restriction="Listed, but in practice it usually stays on the CPU; it counts as unsupported here.",
        usually_on_cpu="the compiler usually leaves it on the CPU",
    ),
    OpRule(name="TransposeConv", builtins=("TRANSPOSE_CONV",), since=13),
)
"""Every operation that the Edge TPU runs."""

NOTES: Final[Mapping[str, str]] = {
    "CUSTOM": "custom ops, detection post-processing among them, run on the CPU",
    "DEQUANTIZE": "it makes floating-point numbers, the Edge TPU takes 8-bit integers",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "only LSTMs in one direction are supported",
}
"""Reasons for some of the ops that no rule lists."""

RULE_OF: Final[Mapping[str, OpRule]] = {builtin: rule for rule in RULES for builtin in rule.builtins}


def why_not_mapped(op: OpFacts, runtime: int = LATEST_RUNTIME) -> str | None:
    """Return why an op does not run on the Edge TPU by the published rules, None where it does.

    Args:
        op: The op.
        runtime: Version of the Edge TPU runtime that the model is compiled for.
    """
    rule = RULE_OF.get(op.builtin)
    if rule is None:
        return NOTES.get(op.builtin, "the Edge TPU has no such operation")
    broken = (requirement.why_not(op) for requirement in REQUIREMENTS)
    return next((why for why in broken if why), None) or rule.why_not(op, runtime)
