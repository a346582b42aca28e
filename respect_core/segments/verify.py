"""Whether the segments of a model compute exactly what the model computes, tensor by tensor and bit by bit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from respect_core.errors import VerificationError
from respect_core.json_text import shown
from respect_core.segments.interpreter import (
    KERNELS,
    Array,
    ModelRunner,
    TensorSpec,
    runtime_version,
    tensor_specs,
)
from respect_core.segments.model_file import TfliteModel
from respect_core.segments.slice import Segment


@dataclass(frozen=True, kw_only=True)
class ChainPart:
    """One segment as the chain needs it; it goes to another process."""

    stage: int
    content: bytes
    inputs: tuple[str, ...]
    """Names of the tensors that it takes, in the order of the segment's file."""
    outputs: tuple[str, ...]
    op_names: tuple[str, ...] = ()
    """Names of its ops in the order of the segment's file, for messages."""


@dataclass(frozen=True, kw_only=True)
class WholeModel:
    """The uncut model as verification needs it."""

    path: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    op_names: tuple[str, ...]
    tensor_index: Mapping[str, int]
    """Number in the file of every tensor that a segment gives, by its name."""
    is_stateful: bool
    """Whether it keeps a state from one item to the next."""

    @property
    def ends(self) -> tuple[list[int], list[int]]:
        """Numbers in the file of the inputs and of the outputs."""
        inputs, outputs = ([self.tensor_index[spec.name] for spec in specs] for specs in (self.inputs, self.outputs))
        return inputs, outputs


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What was run and found equal."""

    num_items: int
    """Items that were run, one after the other."""
    num_runs: int
    """Runs of every item: two with a state in between reset, else one."""
    num_tensors: int
    """Tensors that were compared for each item: every output of every segment and of the model."""
    num_bytes: int
    """Bytes that were compared in all."""
    is_stateful: bool
    kernels: str
    runtime: str
    seconds: float
    outputs: tuple[Array, ...]
    """What the model gives for the items: one array an output, the first axis counts the items."""


def whole_model(model: TfliteModel) -> WholeModel:
    """Return what verification needs of a model; raises `InputFileError` for a tensor of a type that NumPy lacks."""
    specs = tensor_specs(model)
    return WholeModel(
        path=model.path,
        inputs=tuple(specs[name] for name in model.input_names),
        outputs=tuple(specs[name] for name in model.output_names),
        op_names=model.graph.op_names,
        tensor_index=dict(zip(model.graph.tensor_names, model.tensor_index, strict=True)),
        is_stateful=any(tensor.is_variable for tensor in model.content.tensors.values()),
    )


def chain_parts(model: TfliteModel, segments: Sequence[Segment]) -> list[ChainPart]:
    """Return the segments of a model as the chain needs them."""
    return [
        ChainPart(
            stage=segment.stage,
            content=segment.content,
            inputs=segment.inputs,
            outputs=segment.outputs,
            op_names=tuple(model.graph.op_names[v] for v in segment.ops),
        )
        for segment in segments
    ]


class Chain:
    """Segments run one after the other; every tensor that a segment gives is kept for later ones, as a host does."""

    def __init__(self, parts: Sequence[ChainPart]) -> None:
        """Load all segments; raises `ModelCannotRunError` where one cannot be."""
        self._parts = [
            (part, ModelRunner(part.content, f"the segment of stage {part.stage}", part.op_names)) for part in parts
        ]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one item.

        Args:
            inputs: The model's inputs by name.

        Returns:
            The inputs and everything that a segment gives, by name.

        Raises:
            VerificationError: A segment takes a tensor that is neither.
            ModelCannotRunError: A segment fails.
        """
        known = dict(inputs)
        for part, runner in self._parts:
            for name in part.inputs:
                if name not in known:
                    raise VerificationError(
                        f"stage {part.stage} takes tensor {shown(name)}, which no earlier stage gives"
                    )
            given = runner.run([known[name] for name in part.inputs])
            known.update(zip(part.outputs, given, strict=True))
        return known

    def reset(self) -> None:
        """Reset the state of every segment."""
        for _, runner in self._parts:
            runner.reset()


def run_model(model: Path | bytes, items: Sequence[Array], what: str = "the model") -> tuple[Array, ...]:
    """Run a model on items, in order and from a fresh state.

    Args:
        model: The file, or its content.
        items: One array an input; the first axis counts the items N.
        what: What to call it in messages.

    Returns:
        One array an output, the first axis counts the items.

    Raises:
        ModelCannotRunError: The interpreter cannot run it; the op is named.
    """
    runner = ModelRunner(model, what)
    return _stacked(runner.run(item) for item in _each(items))


def run_chain(
    parts: Sequence[ChainPart], inputs: Sequence[str], items: Sequence[Array], outputs: Sequence[str]
) -> tuple[Array, ...]:
    """Run the segments of a model on items, in order and from a fresh state.

    Args:
        parts: The segments, in order.
        inputs: Names of the model's inputs.
        items: One array an input; the first axis counts the items N.
        outputs: Names of the tensors to return.

    Returns:
        One array an output, the first axis counts the items.

    Raises:
        VerificationError: The segments do not chain.
        ModelCannotRunError: The interpreter cannot run one of them.
    """
    chain = Chain(parts)
    found = (chain.run(dict(zip(inputs, item, strict=True))) for item in _each(items))
    return _stacked(tuple(known[name] for name in outputs) for known in found)


def verify_segments(whole: WholeModel, parts: Sequence[ChainPart], items: Sequence[Array]) -> Verification:
    """Run the uncut model and its segments, and compare what every segment and the model give.

    Equal means equal type, shape and bytes, so a NaN equals itself. The items are run in order without a reset in
    between, so that a state is carried along; then, if there is one, it is reset and they are run once more.

    Args:
        whole: The uncut model.
        parts: Its segments, in order.
        items: One array an input of the model; the first axis counts the items N, at least 1.

    Returns:
        What was compared.

    Raises:
        VerificationError: Something differs, or a model's output is given by no segment: the first tensor in the order
            of the stages is named, with its stage.
        ModelCannotRunError: The interpreter cannot run the model or a segment; the op is named.
    """
    start = time.perf_counter()
    model = ModelRunner(whole.path, str(whole.path), whole.op_names, keep_tensors=True, ends=whole.ends)
    chain = Chain(parts)
    names = [spec.name for spec in whole.inputs]
    runs = 2 if whole.is_stateful else 1
    outputs: list[tuple[Array, ...]] = []
    num_bytes = 0
    for run in range(runs):
        for number, item in enumerate(_each(items)):
            expected = model.run(item)
            found = chain.run(dict(zip(names, item, strict=True)))
            where = f"item {number}" + (" after a reset" if run else "")
            num_bytes += _compare(whole, parts, model, expected, found, where)
            if not run:
                outputs.append(expected)
        model.reset()
        chain.reset()
    return Verification(
        num_items=len(outputs),
        num_runs=runs,
        num_tensors=sum(len(part.outputs) for part in parts) + len(whole.outputs),
        num_bytes=num_bytes,
        is_stateful=whole.is_stateful,
        kernels=KERNELS,
        runtime=runtime_version(),
        seconds=time.perf_counter() - start,
        outputs=_stacked(outputs),
    )


def _each(items: Sequence[Array]) -> Iterable[tuple[Array, ...]]:
    """Return the inputs of every item; a model without inputs has one item."""
    return zip(*items, strict=True) if items else [()]


def _compare(
    whole: WholeModel,
    parts: Sequence[ChainPart],
    model: ModelRunner,
    expected: Sequence[Array],
    found: Mapping[str, Array],
    where: str,
) -> int:
    """Compare one item and return the bytes that were equal; stages come first, so that the first culprit is named."""
    num_bytes = 0
    for part in parts:
        for name in part.outputs:
            difference = _difference(model.tensor(whole.tensor_index[name]), found[name])
            if difference:
                raise VerificationError(
                    f"stage {part.stage} does not compute what the model computes: its output {shown(name)} "
                    f"{difference} ({where}); all stages before it are equal"
                )
            num_bytes += found[name].nbytes
    for spec, value in zip(whole.outputs, expected, strict=True):
        if spec.name not in found:
            raise VerificationError(f"no stage gives the model's output {shown(spec.name)}")
        difference = _difference(value, found[spec.name])
        if difference:
            raise VerificationError(f"the model's output {shown(spec.name)} {difference} ({where})")
        num_bytes += value.nbytes
    return num_bytes


def _difference(expected: Array, found: Array) -> str:
    """Say how two arrays differ, empty if their type, shape and bytes are equal."""
    if (expected.dtype, expected.shape) != (found.dtype, found.shape):
        return f"is {found.dtype.name} {list(found.shape)}, the model's is {expected.dtype.name} {list(expected.shape)}"
    one, other = _as_bytes(expected), _as_bytes(found)
    if np.array_equal(one, other):
        return ""
    differing = int(np.count_nonzero((one != other).reshape(max(1, expected.size), -1).any(axis=1)))
    return f"differs in {differing} of {expected.size} elements"


def _as_bytes(array: Array) -> Array:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8)


def _stacked(found: Iterable[Sequence[Any]]) -> tuple[Array, ...]:
    return tuple(np.stack(values) for values in zip(*found, strict=True))
