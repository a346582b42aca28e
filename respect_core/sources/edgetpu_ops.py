"""Which ops of a TFLite file run on the Edge TPU by the published rules, and where that stops.

``python -m respect_core.sources.edgetpu_ops --out docs/edgetpu_ops.md`` writes the rules as documentation.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from respect_core.errors import InvalidGraphError
from respect_core.json_text import shown
from respect_core.sources.edgetpu_facts import OpFacts, TensorFacts
from respect_core.sources.edgetpu_rules import LATEST_RUNTIME, NOTES, REQUIREMENTS, RULES, why_not_mapped
from respect_core.sources.tflite import TfliteContent
from respect_core.sources.tflite_file import READ_ERRORS, FileOp

_MOST_VALUES: Final = 32
"""Elements of a constant that are read as values: axes, strides and paddings have no more."""

_INTEGERS: Final = {"INT8": "<i1", "UINT8": "u1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8"}

_FUSED: Final = ("FusedActivationFunction",)
_DILATIONS: Final = ("DilationWFactor", "DilationHFactor")

_OPTIONS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "CONV_2D": ("Conv2DOptions", _DILATIONS),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", _DILATIONS),
    "AVERAGE_POOL_2D": ("Pool2DOptions", _FUSED),
    "MAX_POOL_2D": ("Pool2DOptions", _FUSED),
    "CONCATENATION": ("ConcatenationOptions", _FUSED),
    "FULLY_CONNECTED": ("FullyConnectedOptions", ("WeightsFormat",)),
    "PACK": ("PackOptions", ("Axis",)),
    "STRIDED_SLICE": ("StridedSliceOptions", ("EllipsisMask", "NewAxisMask")),
}
"""Table of the schema with an operator's options, and those of them that rules need."""


@dataclass(frozen=True, kw_only=True)
class OpSupport:
    """Whether an op runs on the Edge TPU."""

    op: int
    """Index of the op."""
    name: str
    kind: str
    """The builtin operator, e.g. `CONV_2D`, or the custom one's name."""
    supported: bool
    reason: str
    """Why not; empty where it is supported."""


@dataclass(frozen=True, kw_only=True)
class FirstUnmapped:
    """The first op of a model that does not run on the Edge TPU, and what that does to the others."""

    support: OpSupport
    cut_after: str | None
    """The op before it in the order of the file, None where it is the first."""
    supported_before: int
    """Supported ops before it."""
    supported_after: int
    """Supported ops after it."""
    then: FirstUnmapped | None = None
    """Where it begins the model and so costs nothing: the first one behind a supported op."""

    @property
    def message(self) -> str:
        """The op, the reason and the way out in one sentence."""
        found = self.support
        text = f"op {shown(found.name)} ({found.kind}) does not run on the Edge TPU: {found.reason}"
        if self.supported_before == 0:
            text += "; it runs on the CPU before the Edge TPU's part"
            return f"{text}; {self.then.message}" if self.then else text
        if self.supported_after == 0:
            return f"{text}; it runs on the CPU after the Edge TPU's part"
        return (
            f"{text}; compiled in one piece, the {self.supported_after} supported ops after it would stay on the CPU "
            f"too: cut the model before it, with a stage that ends in op {shown(self.cut_after or '')}, or replace it"
        )


def op_support(content: TfliteContent, *, runtime: int = LATEST_RUNTIME) -> tuple[OpSupport, ...]:
    """Judge every op of a file by the published rules.

    Args:
        content: The file, from `read_content` (`TfliteModel.content`).
        runtime: Version of the Edge TPU runtime that the model is compiled for.

    Returns:
        One entry an op, in the order of the file.

    Raises:
        InvalidGraphError: An op's options are damaged; the op is named.
    """
    facts = op_facts(content)
    reasons = [why_not_mapped(op, runtime) for op in facts]
    return tuple(
        OpSupport(op=v, name=content.graph.op_names[v], kind=op.kind, supported=why is None, reason=why or "")
        for v, (op, why) in enumerate(zip(facts, reasons, strict=True))
    )


def first_unmapped(content: TfliteContent, *, runtime: int = LATEST_RUNTIME) -> FirstUnmapped | None:
    """Return the first op that does not run on the Edge TPU, None where all do.

    The compiler maps one piece of a model: what comes after the first unmapped op stays on the CPU, supported or not.

    Raises:
        InvalidGraphError: As `op_support`.
    """
    return first_unmapped_of(op_support(content, runtime=runtime))


def first_unmapped_of(support: tuple[OpSupport, ...]) -> FirstUnmapped | None:
    """Return the first op that is not supported, from what `op_support` says."""
    index = next((v for v, one in enumerate(support) if not one.supported), None)
    if index is None:
        return None
    found = _unmapped(support, index)
    if found.supported_before:
        return found
    leading = next((v for v, one in enumerate(support) if one.supported), len(support))
    behind = next((v for v, one in enumerate(support) if v > leading and not one.supported), None)
    return found if behind is None else replace(found, then=_unmapped(support, behind))


def _unmapped(support: tuple[OpSupport, ...], index: int) -> FirstUnmapped:
    return FirstUnmapped(
        support=support[index],
        cut_after=support[index - 1].name if index else None,
        supported_before=sum(one.supported for one in support[:index]),
        supported_after=sum(one.supported for one in support[index:]),
    )


# -- reading -----------------------------------------------------------------------------------------------------------


def op_facts(content: TfliteContent) -> tuple[OpFacts, ...]:
    """Return what the rules look at of every op.

    Raises:
        InvalidGraphError: An op's options are damaged; the op is named.
    """
    found = []
    for v, op in enumerate(content.file.ops):
        try:
            found.append(_facts(content, v, op))
        except READ_ERRORS as error:
            name = shown(content.graph.op_names[v])
            raise InvalidGraphError(content.graph.name, f"the options of op {name} are damaged") from error
    return tuple(found)


def _facts(content: TfliteContent, index: int, op: FileOp) -> OpFacts:
    is_concatenation = op.builtin == "CONCATENATION"
    return OpFacts(
        builtin=op.builtin,
        custom_code=op.custom_code,
        inputs=tuple(None if t < 0 else _tensor(content, t, zeros=is_concatenation) for t in op.inputs),
        outputs=tuple(_tensor(content, t) for t in op.outputs if t >= 0),
        options=_options(content, index, op),
    )


def _options(content: TfliteContent, index: int, op: FileOp) -> dict[str, int]:
    if op.builtin not in _OPTIONS:
        return {}
    from ai_edge_litert import schema_py_generated as schema

    class_name, wanted = _OPTIONS[op.builtin]
    table = content.file.subgraph.Operators(index).BuiltinOptions()
    if table is None:
        return {}
    options: Any = getattr(schema, class_name)()
    options.Init(table.Bytes, table.Pos)
    readers: list[tuple[str, Callable[[], int]]] = [(name, getattr(options, name)) for name in wanted]
    return {name: int(read()) for name, read in readers}


def _tensor(content: TfliteContent, t: int, *, zeros: bool = False) -> TensorFacts:
    tensor = content.tensors[t]
    is_constant = tensor.data_bytes > 0
    values = is_zero = None
    if is_constant and tensor.type_name in _INTEGERS:
        dtype = np.dtype(_INTEGERS[tensor.type_name])
        if tensor.data_bytes <= _MOST_VALUES * dtype.itemsize:
            values = tuple(_data(content, tensor.buffer).view(dtype).tolist())
        if zeros:
            is_zero = bool(np.all(_data(content, tensor.buffer).view(dtype) == _zero_point(content, t)))
    return TensorFacts(
        name=tensor.name,
        shape=tensor.shape,
        type_name=tensor.type_name,
        is_constant=is_constant,
        is_variable=tensor.is_variable,
        values=values,
        is_zero=bool(is_zero),
    )


def _data(content: TfliteContent, buffer: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    found: np.ndarray[Any, np.dtype[np.uint8]] = content.file.model.Buffers(buffer).DataAsNumpy()
    return found


def _zero_point(content: TfliteContent, t: int) -> int:
    quantisation = content.file.subgraph.Tensors(t).Quantization()
    if quantisation is None or not quantisation.ZeroPointLength():
        return 0
    return int(quantisation.ZeroPoint(0))


# -- documentation -----------------------------------------------------------------------------------------------------


def documentation() -> str:
    """Return the rules in Markdown."""
    lines = [
        "# Which ops the Edge TPU runs",
        "",
        "Written by `python -m respect_core.sources.edgetpu_ops --out docs/edgetpu_ops.md` from the table that also",
        "judges models and words the reasons, after Coral's documentation of supported operations. The compiler may",
        "keep further ops on the CPU without saying why.",
        "",
        "Of every op:",
        "",
        *(f"- {requirement.text}" for requirement in REQUIREMENTS),
        "",
        f"The runtime is that of the device's library; compiler 16.0 targets version {LATEST_RUNTIME}. A model is",
        "compiled in one piece: what comes after the first op that is not supported stays on the CPU.",
        "",
        "| operation | in TFLite | runtime | restriction |",
        "|---|---|---|---|",
    ]
    for rule in RULES:
        builtins = ", ".join(f"`{name}`" for name in rule.builtins)
        since = "all" if rule.since is None else f"{rule.since} on"
        restriction = rule.restriction
        if rule.older is not None:
            stricter = f"Before runtime {rule.older.before}: {_lower_first(rule.older.restriction)}"
            restriction = f"{restriction} {stricter}".strip()
        lines.append(f"| {rule.name} | {builtins} | {since} | {restriction} |")
    lines += ["", "Everything else stays on the CPU; of some ops it is known why:", ""]
    lines += [f"- `{name}`: {why}." for name, why in NOTES.items()]
    return "\n".join([*lines, ""])


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def main() -> None:
    """Write the documentation where the command line says."""
    from respect_core.tables.files import write_atomically

    parser = argparse.ArgumentParser(prog="python -m respect_core.sources.edgetpu_ops", description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the Markdown file")
    text = documentation()
    write_atomically(parser.parse_args().out, lambda temporary: temporary.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    main()
