"""Cutting a TFLite model into one file a stage, and writing it with its ops in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, DnnGraph, IntArray
from respect_core.schedule import check_schedule
from respect_core.segments.model_file import TfliteModel
from respect_core.segments.writer import Part, write_part
from respect_core.sources.tflite import naming


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The file of one stage."""

    stage: int
    ops: tuple[int, ...]
    """Ops of the graph, in the order in which the file runs them."""
    inputs: tuple[str, ...]
    """Names of the tensors that are given to it, in the order of the file."""
    outputs: tuple[str, ...]
    """Names of the tensors that it makes for others, in the order of the file."""
    file_name: str
    content: bytes = field(repr=False)


def segment_file_name(stem: str, stage: int, num_stages: int) -> str:
    """Return the name that the commercial compiler gives to a segment's file.

    >>> segment_file_name("net", 0, 3)
    'net_segment_0_of_3.tflite'
    """
    return f"{stem}_segment_{stage}_of_{num_stages}.tflite"


def slice_model(
    model: TfliteModel,
    stage_of: Sequence[int] | IntArray,
    num_stages: int,
    *,
    op_order: Sequence[int] | IntArray | None = None,
) -> list[Segment]:
    """Cut a model into one file a stage.

    The tensors between the files are called as in the graph (`TfliteModel` says where that differs from the file).
    Their order in a file is: the model's own inputs, or outputs, in the model's order; then the others as they come in
    the file. A tensor that several later stages read is an output of the stage that makes it and an input of each of
    them. An input of the model that no op reads is an input of stage 0. An input that is also an output of the model is
    passed on by the last stage, which has it as both, and is an input of stage 0 too. What an op makes and nobody reads
    stays inside. A state (an LSTM's variable tensor) is inside of the file of its op and goes on over inferences there.

    Args:
        model: The model.
        stage_of: Stage of every op: any legal schedule, contiguous or not. Shape (n,).
        num_stages: Number of stages K.
        op_order: A topological order of all ops, which the ops inside of each file keep; that of the file if None.

    Returns:
        A segment for each of the stages 0..K-1.

    Raises:
        InvalidScheduleError: The schedule is not legal.
        BadInputError: ``op_order`` is no topological order, or K is not in 1..n.
        InputFileError: The file holds something that cannot be written; the op or tensor is named.
    """
    check_schedule(model.graph, stage_of, num_stages)
    order = _checked_order(model.graph, op_order)
    stages = np.asarray(stage_of).tolist()
    ops: list[list[int]] = [[] for _ in range(num_stages)]
    for v in order:
        ops[stages[v]].append(v)
    names = model.graph.tensor_names
    new_names = {model.tensor_index[g]: name for g, name in model.renamed.items()}
    segments = []
    for stage, (inputs, outputs) in enumerate(_boundaries(model, stages, num_stages)):
        part = Part(
            ops=tuple(ops[stage]),
            inputs=tuple(model.tensor_index[g] for g in inputs),
            outputs=tuple(model.tensor_index[g] for g in outputs),
            names=new_names,
        )
        segments.append(
            Segment(
                stage=stage,
                ops=part.ops,
                inputs=tuple(names[g] for g in inputs),
                outputs=tuple(names[g] for g in outputs),
                file_name=segment_file_name(model.name, stage, num_stages),
                content=_written(model, part),
            )
        )
    return segments


def reorder_model(model: TfliteModel, order: Sequence[int] | IntArray) -> bytes:
    """Return the model's file with its ops in another order; names, inputs and outputs are as before.

    Tensors and buffers that no op uses are left out.

    Args:
        model: The model.
        order: A topological order of the ops. Shape (n,).

    Raises:
        BadInputError: ``order`` is no topological order of the ops.
        InputFileError: The file holds something that cannot be written; the op or tensor is named.
    """
    file = model.content.file
    part = Part(ops=_checked_order(model.graph, order), inputs=file.inputs, outputs=file.outputs)
    return _written(model, part)


def _written(model: TfliteModel, part: Part) -> bytes:
    with naming(model.path, model.content.file):
        return write_part(model.content, part)


def _checked_order(graph: DnnGraph, order: Sequence[int] | IntArray | None) -> tuple[int, ...]:
    if order is None:
        return tuple(range(graph.num_ops))
    if not graph.is_topological(order):
        raise BadInputError(
            f"graph {graph.name!r}: the order of {len(order)} ops is no topological order of its {graph.num_ops} ops"
        )
    return tuple(np.asarray(order).tolist())


def _boundaries(model: TfliteModel, stages: list[int], num_stages: int) -> list[tuple[list[int], list[int]]]:
    """Return the tensors of the graph that each stage is given and makes for others, in their order in the file."""
    graph = model.graph
    given: list[set[int]] = [set() for _ in range(num_stages)]
    sent: list[set[int]] = [set() for _ in range(num_stages)]
    is_output = graph.tensor_is_output.tolist()
    for g, producer in enumerate(graph.tensor_producer.tolist()):
        readers = {stages[v] for v in graph.tensor_consumers[g]}
        if producer != UNKNOWN:
            made_in = stages[producer]
            readers.discard(made_in)
            if readers or is_output[g]:
                sent[made_in].add(g)
        elif is_output[g]:
            readers |= {0, num_stages - 1}
            sent[-1].add(g)
        for stage in readers or ({0} if producer == UNKNOWN else ()):
            given[stage].add(g)
    return [(_ordered(model.inputs, a), _ordered(model.outputs, b)) for a, b in zip(given, sent, strict=True)]


def _ordered(first: tuple[int, ...], chosen: set[int]) -> list[int]:
    own = [g for g in first if g in chosen]
    return own + sorted(chosen.difference(own))
