"""What a TFLite file says about the ops that rewriting is about, which its graph does not know."""

from __future__ import annotations

from typing import Any, Final

from respect_core.memory.rewrite import CHANNEL_WISE, KERNEL_WISE
from respect_core.memory.rules import CONCATENATIONS
from respect_core.segments.model_file import TfliteModel
from respect_core.sources.tflite import naming

SUMMABLE_ACTIVATIONS: Final = {0: "NONE", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6"}
"""Fused activations, by number, that an `ADD` can apply as well."""

NOT_BIT_EQUAL: Final = (
    "rewriting an 8-bit model would not be bit-equal: each partial convolution would round its result to 8 bits before "
    "they are summed up"
)


def concat_layout(model: TfliteModel) -> dict[str, tuple[str, ...]]:
    """Return the names of the tensors that each concatenation joins, in their order, by its name."""
    graph, place = model.graph, model.graph_tensor
    return {
        graph.op_names[v]: tuple(graph.tensor_names[place[t]] for t in op.inputs if t in place)
        for v, op in enumerate(model.content.file.ops)
        if graph.op_kinds[v] in CONCATENATIONS
    }


def is_quantised(model: TfliteModel) -> bool:
    """Tell whether all concatenations of a model, if it has any, join something else than float32."""
    types = [model.tensor_types[t] for v, t in _made(model) if model.graph.op_kinds[v] in CONCATENATIONS]
    return bool(types) and "FLOAT32" not in types


def _made(model: TfliteModel) -> list[tuple[int, int]]:
    """Return every (op, tensor that it makes) of the graph."""
    return [(v, t) for t, v in enumerate(model.graph.tensor_producer.tolist()) if v >= 0]


def beside_joints(model: TfliteModel) -> frozenset[str]:
    """Return the names of the concatenations and of the ops that read what they make."""
    graph = model.graph
    joints = {v for v, kind in enumerate(graph.op_kinds) if kind in CONCATENATIONS}
    readers = {r for v, t in _made(model) if v in joints for r in graph.tensor_consumers[t]}
    return frozenset(graph.op_names[v] for v in joints | readers)


def refusals(model: TfliteModel, *, for_file: bool) -> dict[str, str]:
    """Return why ops must stay as they are, by their name.

    Args:
        model: The model.
        for_file: Whether a file is to be written, for which the values must be float32 and the weights constants; else
            only the costs are asked for, and the channels must be those that rewriting takes for granted.
    """
    graph = model.graph
    found = {}
    with naming(model.path, model.content.file):
        for v, kind in enumerate(graph.op_kinds):
            why = ""
            if kind in CONCATENATIONS:
                why = _why_not_joint(model, v)
            elif kind in CHANNEL_WISE:
                why = _why_not_sum(model, v)
            elif kind in KERNEL_WISE and kind != "depthwise_conv2d" and len(model.content.file.ops[v].inputs) > 1:
                why = "it has parameters of its own"
            if for_file and kind in CONCATENATIONS | CHANNEL_WISE | KERNEL_WISE:
                why = why or _why_not_float(model, v)
            if why:
                found[graph.op_names[v]] = why
    return found


def op_options(model: TfliteModel, v: int) -> Any:
    """Return the options of an op as an object of the schema module, None if it has none."""
    from ai_edge_litert.schema_py_generated import OperatorT

    model.content.file.place = f"op number {v}"
    return OperatorT.InitFromObj(model.content.file.subgraph.Operators(v)).builtinOptions


def _why_not_joint(model: TfliteModel, v: int) -> str:
    op, options = model.content.file.ops[v], op_options(model, v)
    rank = len(model.content.tensors[op.outputs[0]].shape)
    if options is None or options.axis not in (-1, rank - 1):
        return f"it does not join channels, the last of {rank} dimensions"
    return "an activation is fused to it" if options.fusedActivationFunction else ""


def _why_not_sum(model: TfliteModel, v: int) -> str:
    op, tensors = model.content.file.ops[v], model.content.tensors
    options = op_options(model, v)
    channels, weights = tensors[op.inputs[0]].shape[-1], tensors[op.inputs[1]].shape
    if weights[-1] != channels:
        return f"it has groups: its filters take {weights[-1]} of {channels} channels"
    if options is None or options.fusedActivationFunction not in SUMMABLE_ACTIVATIONS:
        return f"its fused activation is none of {', '.join(SUMMABLE_ACTIVATIONS.values())}"
    return ""


def _why_not_float(model: TfliteModel, v: int) -> str:
    op, tensors = model.content.file.ops[v], model.content.tensors
    kind = model.graph.op_kinds[v]
    used = [tensors[t] for t in (*op.inputs, *op.outputs) if t >= 0]
    odd = next((tensor for tensor in used if tensor.type_name != "FLOAT32"), None)
    if odd is not None:
        return f"its tensor {odd.name!r} is {odd.type_name}, files are rewritten in FLOAT32 only"
    parameters = () if kind in CONCATENATIONS else [t for t in op.inputs[1:] if t >= 0]
    dynamic = next((tensors[t] for t in parameters if t in model.graph_tensor or not tensors[t].data_bytes), None)
    return "" if dynamic is None else f"its parameter {dynamic.name!r} is no constant"
