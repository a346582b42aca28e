"""`TfliteModel`: a TFLite file that was read and checked once, ready to be cut, reordered or run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from respect_core.graph import DnnGraph
from respect_core.sources.tflite import TfliteContent, read_content
from respect_core.sources.tflite_int8 import why_not_int8


@dataclass(frozen=True, kw_only=True, eq=False)
class TfliteModel:
    """A TFLite file and its graph; g is a tensor of the graph, t one of the file.

    Op v of the graph is operator v of the file. Pipelines chain segments by the names of tensors, so each must have one
    of its own: that of the graph, which is the file's but where that is missing, no UTF-8 or comes twice among the
    tensors that flow. The segments' files use it; `renamed` says which tensors that changes.
    """

    path: Path
    content: TfliteContent

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return self.content.file.data

    @property
    def graph(self) -> DnnGraph:
        """The graph, as `read_tflite` returns it."""
        return self.content.graph

    @property
    def tensor_index(self) -> tuple[int, ...]:
        """Every t that flows, ascending; position g."""
        return self.content.tensor_index

    @cached_property
    def graph_tensor(self) -> dict[int, int]:
        """Position g of every t that flows."""
        return {t: g for g, t in enumerate(self.tensor_index)}

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """Every g that the caller gives, in the order of the file."""
        return tuple(self.graph_tensor[t] for t in dict.fromkeys(self.content.file.inputs))

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """Every g that the caller gets, in the order of the file; one that the file lists twice comes once."""
        return tuple(self.graph_tensor[t] for t in dict.fromkeys(self.content.file.outputs))

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of `inputs`."""
        return tuple(self.graph.tensor_names[g] for g in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of `outputs`."""
        return tuple(self.graph.tensor_names[g] for g in self.outputs)

    @cached_property
    def tensor_types(self) -> tuple[str, ...]:
        """Name of the schema's type of every g, as `INT8`."""
        return tuple(self.content.tensors[t].type_name for t in self.tensor_index)

    @cached_property
    def tensor_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of every g."""
        return tuple(self.content.tensors[t].shape for t in self.tensor_index)

    @cached_property
    def renamed(self) -> dict[int, str]:
        """The name of every g that is not called as in the file."""
        file_names = (self.content.tensors[t].raw_name for t in self.tensor_index)
        pairs = enumerate(zip(self.graph.tensor_names, file_names, strict=True))
        return {g: name for g, (name, raw) in pairs if name.encode() != raw}

    # -- what the file holds -------------------------------------------------------------------------------------

    @property
    def op_storage_bytes(self) -> tuple[int, ...]:
        """Bytes of constants that every op adds to the file.

        Other than `graph.param_bytes`, which counts a constant once a use, a buffer counts once: with the first op that
        reads it.
        """
        return self.content.storage_bytes

    @property
    def storage_bytes(self) -> int:
        """Bytes of all constants that ops read, each buffer once."""
        return sum(self.op_storage_bytes)

    @cached_property
    def not_int8(self) -> str | None:
        """Why the model is not fully int8: the first op that is not, and its tensor; None for a model that is."""
        content = self.content
        return why_not_int8(content.file.ops, self.graph.op_names, content.tensors, self.graph_tensor)

    @property
    def is_float(self) -> bool:
        """Whether an op computes in anything but 8-bit integers; `not_int8` says which."""
        return self.not_int8 is not None


def open_model(path: str | Path) -> TfliteModel:
    """Read and check a TFLite file.

    Raises:
        InputFileError: The file cannot be read, is damaged, already compiled, or uses what is not supported; the
            offending op or tensor is named.
    """
    path = Path(path)
    return TfliteModel(path=path, content=read_content(path))
