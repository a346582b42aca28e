"""Read a TFLite file into a `DnnGraph`: an op graph, whose bytes are those of the constants that the ops read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from respect_core.errors import BadInputError, InputFileError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.json_text import shown
from respect_core.sources.tflite_costs import (
    COMPILED_MODEL,
    compiled_bytes_of,
    kind_of,
    macs_of,
    mul_streamed_bytes,
    num_bytes,
    shape_text,
)
from respect_core.sources.tflite_file import READ_ERRORS, FileOp, FileTensor, TfliteFile, file_content


def read_tflite(path: str | Path) -> DnnGraph:
    """Read a TFLite file.

    Ops keep the order of the file and are named after their first output; names that come twice get a number. There is
    a tensor for every tensor that is no constant and is a graph input or made by an op, in the file's order. A
    dimension that may vary (`shape_signature`) counts as the file's `shape` says, which is 1. `param_bytes` are the
    data bytes of all constant inputs, counted once a use, 0 for a custom op: what the commercial compiler counts. A
    variable tensor that no op makes (an LSTM's state) belongs to its one reader: it is neither a constant nor an edge.
    `compiled_bytes` and `always_streamed_bytes` follow the performance model where it has a formula.

    Args:
        path: The file.

    Returns:
        The graph, named after the file, of source `tflite`; its ops are in a topological order.

    Raises:
        InputFileError: The file cannot be read, is damaged, already compiled, or uses what is not supported; the
            offending op or tensor is named.
    """
    return read_content(path).graph


@dataclass(frozen=True, kw_only=True, eq=False)
class TfliteContent:
    """What reading a file gives besides the graph; g is a tensor of the graph, t one of the file."""

    graph: DnnGraph
    file: TfliteFile
    tensor_index: tuple[int, ...]
    """t of every g, ascending."""
    tensors: Mapping[int, FileTensor]
    """Every t that an op names, or that the caller gives or gets."""
    storage_bytes: tuple[int, ...]
    """Bytes of constants that each op adds to the file: a buffer counts once, with the first op that reads it."""


def read_content(path: str | Path) -> TfliteContent:
    """Read a TFLite file like `read_tflite`, and keep what cutting it needs.

    Raises:
        InputFileError: As `read_tflite`.
    """
    path = Path(path)
    return content_of(path, file_content(path))


def content_of(path: Path, data: bytes) -> TfliteContent:
    """Read the bytes of a TFLite file that need not lie there yet.

    Args:
        path: What the graph is named after, and what messages call the file.
        data: The bytes.

    Raises:
        InputFileError: As `read_tflite`.
    """
    with naming(path, data) as file:
        return _Reader(file).content(path.stem)


@contextmanager
def naming(path: Path, source: bytes | TfliteFile) -> Iterator[TfliteFile]:
    """Turn whatever a bad file raises into an `InputFileError` that names the file and what was being read.

    Args:
        path: The file, for the message.
        source: Its bytes, or what is already made of them.
    """
    file = source if isinstance(source, TfliteFile) else None
    try:
        file = TfliteFile(source) if isinstance(source, bytes) else source
        yield file
    except BadInputError as error:
        where = f"{file.place}: " if file and file.place else ""
        raise InputFileError(path, f"{where}{error}") from error
    except READ_ERRORS as error:
        where = file.place if file else "the model"
        raise InputFileError(path, f"the TFLite file is damaged or truncated, {where} cannot be read") from error


@dataclass
class _Numbers:
    """The numbers of the ops, in their order."""

    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    param_bytes: list[int] = field(default_factory=list)
    macs: list[int] = field(default_factory=list)
    compiled: list[int] = field(default_factory=list)
    streamed: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)


class _Reader:
    """Makes the graph of a file; `file.place` always says what is being looked at."""

    def __init__(self, file: TfliteFile) -> None:
        self._file = file
        self._tensors: dict[int, FileTensor] = {}
        self._made_by: dict[int, int] = {}
        self._readers: dict[int, list[int]] = {}
        self._ops = _Numbers()
        self._stored: set[int] = set()

    def content(self, name: str) -> TfliteContent:
        graph = self._graph(name)
        flowing = sorted(set(self._file.inputs) | self._made_by.keys())
        return TfliteContent(
            graph=graph,
            file=self._file,
            tensor_index=tuple(flowing),
            tensors=self._tensors,
            storage_bytes=tuple(self._ops.stored),
        )

    def _graph(self, name: str) -> DnnGraph:
        file = self._file
        inputs, outputs = set(file.inputs), set(file.outputs)
        if not file.ops:
            raise BadInputError("it has no ops")
        for v, op in enumerate(file.ops):
            file.place = self._place(v, op)
            if op.builtin == "CUSTOM" and op.custom_code == COMPILED_MODEL:
                raise BadInputError("the model is already compiled for the Edge TPU, give the one before compilation")
            for t in op.outputs:
                self._add_output(t, v, inputs)
        for v, op in enumerate(file.ops):
            self._add_inputs(v, op, inputs)
            self._add_numbers(op)
        file.place = "the graph outputs"
        for t in sorted(outputs - inputs - self._made_by.keys()):
            raise BadInputError(f"no op makes tensor {shown(self._tensor(t).name)}")
        for t in sorted(inputs):
            self._check_flows(t)
        return self._build(name, sorted(inputs | self._made_by.keys()), outputs)

    def _build(self, name: str, flowing: list[int], outputs: set[int]) -> DnnGraph:
        ops = self._ops
        sizes = [self._bytes(t) for t in flowing]
        self._file.place = ""
        return DnnGraph(
            name=name,
            source="tflite",
            op_names=_unique(ops.names),
            op_kinds=tuple(ops.kinds),
            param_bytes=np.array(ops.param_bytes, dtype=np.int64),
            macs=np.array(ops.macs, dtype=np.int64),
            compiled_bytes=np.array(ops.compiled, dtype=np.int64),
            always_streamed_bytes=np.array(ops.streamed, dtype=np.int64),
            op_time_us=np.full(len(ops.names), np.nan),
            tensor_names=_unique([self._tensor(t).name for t in flowing]),
            tensor_bytes=np.array(sizes, dtype=np.int64),
            tensor_producer=np.array([self._made_by.get(t, UNKNOWN) for t in flowing], dtype=np.int64),
            tensor_consumers=tuple(tuple(self._readers.get(t, ())) for t in flowing),
            tensor_is_output=np.array([t in outputs for t in flowing], dtype=np.bool_),
        )

    # -- tensors -------------------------------------------------------------------------------------------------

    def _tensor(self, t: int) -> FileTensor:
        if t not in self._tensors:
            place = self._file.place
            self._tensors[t] = self._file.tensor(t)
            self._file.place = place
        return self._tensors[t]

    def _bytes(self, t: int) -> int:
        tensor = self._tensor(t)
        self._file.place = f"tensor {shown(tensor.name)}"
        size = num_bytes(tensor.shape, tensor.type_name)
        if not size:
            raise BadInputError(f"shape {shape_text(tensor.shape)} has a dimension 0: its size must be fixed")
        return size

    def _check_flows(self, t: int) -> None:
        if self._tensor(t).data_bytes:
            raise BadInputError(f"tensor {shown(self._tensor(t).name)} is constant, it cannot be given or made")

    # -- ops -----------------------------------------------------------------------------------------------------

    def _place(self, v: int, op: FileOp) -> str:
        made = [t for t in op.outputs if t >= 0]
        name = self._tensor(made[0]).name if made else f"number {v}"
        return f"op {shown(name)} ({kind_of(op.builtin, op.custom_code)})"

    def _add_output(self, t: int, v: int, inputs: set[int]) -> None:
        if t < 0:
            return
        name = self._tensor(t).name
        if t in self._made_by:
            raise BadInputError(f"it makes tensor {shown(name)}, which another op makes too")
        if t in inputs:
            raise BadInputError(f"it makes tensor {shown(name)}, which is a graph input")
        self._check_flows(t)
        self._made_by[t] = v

    def _add_inputs(self, v: int, op: FileOp, inputs: set[int]) -> None:
        self._file.place = self._place(v, op)
        for t in op.inputs:
            if t < 0:
                continue
            made_by = self._made_by.get(t, UNKNOWN)
            if made_by >= v:
                raise BadInputError(
                    f"it reads tensor {shown(self._tensor(t).name)}, which this or a later op makes: ops must be "
                    "in the order in which they run, without cycles"
                )
            if made_by == UNKNOWN and t not in inputs:
                self._check_source(t, v)
            self._readers.setdefault(t, []).append(v)
        for t in op.intermediates:
            if t >= 0:
                self._tensor(t)

    def _check_source(self, t: int, v: int) -> None:
        """Refuse a tensor that gets its value from nowhere, and a state that two ops share."""
        tensor = self._tensor(t)
        if tensor.is_variable:
            if tensor.data_bytes:
                raise BadInputError(f"its variable tensor {shown(tensor.name)} has data: not supported")
            if self._readers.get(t, [v])[0] != v:
                raise BadInputError(
                    f"it shares the variable tensor {shown(tensor.name)} with another op: not supported"
                )
        elif not tensor.data_bytes and 0 not in tensor.shape:  # a constant without elements needs no data
            raise BadInputError(
                f"it reads tensor {shown(tensor.name)}, which is no constant, no graph input and made by no op"
            )

    def _add_numbers(self, op: FileOp) -> None:
        read = [t for t in op.inputs if t >= 0]
        constants = [t for t in read if t not in self._made_by and self._tensor(t).data_bytes]
        for t in constants:
            self._check_data(self._tensor(t))
        made = [t for t in op.outputs if t >= 0]
        ops, kind = self._ops, kind_of(op.builtin, op.custom_code)
        ops.names.append(self._tensor(made[0]).name if made else f"{kind}_{len(ops.names)}")
        ops.kinds.append(kind)
        buffers = {self._tensor(t).buffer: self._tensor(t).data_bytes for t in constants}
        ops.stored.append(sum(size for buffer, size in buffers.items() if buffer not in self._stored))
        self._stored.update(buffers)
        custom = op.builtin == "CUSTOM"
        ops.param_bytes.append(0 if custom else sum(self._tensor(t).data_bytes for t in constants))
        ops.macs.append(0)
        ops.compiled.append(UNKNOWN)
        ops.streamed.append(0)
        if not made:
            return
        output = self._tensor(made[0])
        if kind in {"conv2d", "depthwise_conv2d", "fully_connected"}:
            if len(op.inputs) < 2 or op.inputs[1] < 0:
                raise BadInputError("it has no filter")
            weights = self._tensor(op.inputs[1])
            ops.macs[-1] = macs_of(kind, weights.shape, output.shape)
            if op.inputs[1] in constants:
                ops.compiled[-1] = compiled_bytes_of(kind, weights.shape, weights.type_name)
        elif kind == "mul" and constants:
            ops.streamed[-1] = mul_streamed_bytes(self._tensor(constants[0]).shape, output.shape)
            if ops.streamed[-1]:  # none of it stays on the chip
                ops.compiled[-1] = 0

    def _check_data(self, tensor: FileTensor) -> None:
        if tensor.type_name in {"STRING", "RESOURCE", "VARIANT"}:
            return
        expected = num_bytes(tensor.shape, tensor.type_name)
        if tensor.data_bytes != expected:
            raise BadInputError(
                f"its constant {shown(tensor.name)} has {tensor.data_bytes} bytes of data, its shape and type need "
                f"{expected}"
            )


def _unique(names: list[str]) -> tuple[str, ...]:
    """Append a number to the second and later of equal names."""
    taken, count = set(names), Counter[str]()
    out: list[str] = []
    for name in names:
        count[name] += 1
        if count[name] == 1:
            out.append(name)
            continue
        while (numbered := f"{name}_{count[name]}") in taken:
            count[name] += 1
        taken.add(numbered)
        out.append(numbered)
    return tuple(out)
