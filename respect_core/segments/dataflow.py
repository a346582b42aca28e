"""What the Coral pipeline runner needs of a chain of segments, checked by name before anything runs.

The runner (pycoral's `PipelinedModelRunner`) holds all tensors by name and aborts the whole process where one is
missing or left over, so each fault is named here first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from respect_core.errors import InvalidScheduleError


class ChainLink(Protocol):
    """What is looked at of a segment; `Segment` is one."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tensors that are given to it."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the tensors that it makes for others."""
        ...

    @property
    def file_name(self) -> str:
        """Its file, for messages."""
        ...


ANY_RUNNER: Final = "allow other runners (--any-runner) or choose another schedule"
"""The way out of every fault."""


def first_dataflow_fault(
    segments: Sequence[ChainLink], graph_inputs: Sequence[str], graph_outputs: Sequence[str]
) -> str | None:
    """Name the first thing that keeps the Coral pipeline runner from running a chain of segments.

    The rules: tensor names are unique within the inputs and the outputs of a file, no two files make the same one, and
    none passes on its own input; each input of a file is an input of the model and of segment 0, or an output of an
    earlier file; each output of a file but the last is read by a later one; each file has outputs; every input of the
    model is an input of segment 0, and every output of the model is one of the last segment, which has no others.

    A schedule that obeys the constraints `outputs_last` and `inputs_first` passes them, unless an op that nobody reads
    leaves its stage without outputs.

    Args:
        segments: The segments of the stages 0..K-1.
        graph_inputs: Names of the model's inputs (`TfliteModel.input_names`).
        graph_outputs: Names of the model's outputs (`TfliteModel.output_names`).

    Returns:
        None for a chain that the runner can run, else one sentence that names the tensor and the file.
    """
    return (
        _first_repeated(segments)
        or _first_missing(segments, graph_inputs)
        or _first_left_over(segments)
        or _first_misplaced(segments, graph_inputs, graph_outputs)
    )


def check_dataflow(segments: Sequence[ChainLink], graph_inputs: Sequence[str], graph_outputs: Sequence[str]) -> None:
    """Raise `InvalidScheduleError` with the first fault and a way out, if there is one.

    Args:
        segments: The segments of the stages 0..K-1.
        graph_inputs: Names of the model's inputs.
        graph_outputs: Names of the model's outputs.
    """
    fault = first_dataflow_fault(segments, graph_inputs, graph_outputs)
    if fault is not None:
        raise InvalidScheduleError(f"the Coral pipeline runner cannot run these segments: {fault}; {ANY_RUNNER}")


def _first_repeated(segments: Sequence[ChainLink]) -> str | None:
    maker: dict[str, str] = {}
    for segment in segments:
        for what, names in (("inputs", segment.inputs), ("outputs", segment.outputs)):
            name, count = Counter(names).most_common(1)[0] if names else ("", 0)
            if count > 1:
                return f"tensor {name!r} comes {count} times among the {what} of {segment.file_name}"
        for name in segment.outputs:
            if name in segment.inputs:
                return f"tensor {name!r} is an output of {segment.file_name} and at once its input"
            if name in maker:
                return f"tensor {name!r} is made by {maker[name]} and by {segment.file_name}"
            maker[name] = segment.file_name
    return None


def _first_missing(segments: Sequence[ChainLink], graph_inputs: Sequence[str]) -> str | None:
    held = set(segments[0].inputs)
    for segment in segments:
        for name in segment.inputs:
            if name in held:
                continue
            if name in graph_inputs:
                return (
                    f"tensor {name!r} is an input of the model that {segment.file_name} needs, but not an input of "
                    f"{segments[0].file_name}, to which all inputs are given"
                )
            return f"tensor {name!r} is an input of {segment.file_name}, but no earlier segment makes it"
        held.update(segment.outputs)
    return None


def _first_left_over(segments: Sequence[ChainLink]) -> str | None:
    for k, segment in enumerate(segments):
        if not segment.outputs:
            return f"{segment.file_name} makes no tensor for others"
        read_later = {name for later in segments[k + 1 :] for name in later.inputs}
        for name in segment.outputs:
            if k < len(segments) - 1 and name not in read_later:
                return f"tensor {name!r}, an output of {segment.file_name}, is read by no later segment"
    return None


def _first_misplaced(
    segments: Sequence[ChainLink], graph_inputs: Sequence[str], graph_outputs: Sequence[str]
) -> str | None:
    first, last = segments[0], segments[-1]
    for name in graph_inputs:
        if name not in first.inputs:
            return f"tensor {name!r} is an input of the model but not of {first.file_name}"
    for name in first.inputs:
        if name not in graph_inputs:
            return f"tensor {name!r} is an input of {first.file_name} but not of the model"
    for name in graph_outputs:
        if name not in last.outputs:
            return f"tensor {name!r} is an output of the model but not of {last.file_name}, the last segment"
    for name in last.outputs:
        if name not in graph_outputs:
            return f"tensor {name!r} is an output of {last.file_name}, the last segment, but not of the model"
    return None
