"""Writing some of a TFLite file's ops as a file of their own, through the object API of LiteRT's schema module.

Only the tables of what is written are unpacked, and vectors stay views of the file's bytes: data are copied once, into
the builder, which is made large enough at once. A new file thus costs its own size twice for a moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from respect_core.errors import BadInputError
from respect_core.json_text import shown
from respect_core.sources.tflite import TfliteContent
from respect_core.sources.tflite_file import MAX_FILE_BYTES, SHARING
from respect_core.sources.tflite_pack import data_buffer, packed

ORDER_METADATA: Final = (b"model_control_dependencies", b"OfflineMemoryAllocation")
"""Metadata that speak of ops or tensors by index: they are about the whole file in its own order and are left out."""

_SPARE: Final = 2**16
"""Bytes beyond `SHARING` times the file that a part may need: for names and tables of tiny files."""

_TABLE_BYTES: Final = 512
"""More than a tensor with its quantisation, or an op with its options, takes without the vectors and texts."""

_ENTRY_BYTES: Final = 16
"""The least that an entry of a vector of tables takes in an honest file."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a new file holds of another one; t is the index of a tensor there."""

    ops: tuple[int, ...]
    """Indices of the ops, in the order in which they run."""
    inputs: tuple[int, ...]
    """Every t that the caller gives, in this order."""
    outputs: tuple[int, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    """New name of every t that does not keep its own."""


def write_part(content: TfliteContent, part: Part) -> bytes:
    """Write a part of a file as a file.

    It has the ops of the part, the tensors that they or the part name (in the order of the file, with names,
    quantisation, shapes, signature of shapes and all other fields), each buffer of theirs once, the operator codes they
    need, and the file's version, description, subgraph name and metadata but for `ORDER_METADATA`. A signature is kept
    where the part gives or gets one of its tensors; inputs and outputs that the whole file does not have are then added
    to it under their own names. What lies behind the model in its file (a ZIP archive of labels) is not kept.

    Raises:
        BadInputError: The file holds something that cannot be written; `content.file.place` says where.
        struct.error, ...: Any of `READ_ERRORS`, where the file is damaged.
    """
    return _Writer(content, part).content()


class _Writer:
    def __init__(self, content: TfliteContent, part: Part) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._schema: Any = schema
        self._file, self._tensors, self._part = content.file, content.tensors, part
        file = content.file
        self._room = SHARING * len(file.data) + _SPARE
        self._size = 0
        used = {*part.inputs, *part.outputs}
        for v in part.ops:
            op = file.ops[v]
            used.update(t for t in (*op.inputs, *op.outputs, *op.intermediates) if t >= 0)
        self._place_of = {t: i for i, t in enumerate(sorted(used))}
        self._codes: dict[int, int] = {}
        self._buffers: list[Any] = []
        self._buffer_at: dict[int, int] = {}

    def content(self) -> bytes:
        schema, file = self._schema, self._file
        self._buffers.append(data_buffer(None))
        tensors = [self._tensor(t) for t in self._place_of]
        file.place = "the model's metadata"
        metadata, at = self._metadata()
        ops = [self._op(v, at) for v in self._part.ops]
        file.place = "the model's operator codes"
        codes = [self._unpacked(schema.OperatorCodeT, file.model.OperatorCodes(i)) for i in self._codes]
        file.place = "the model's signatures"
        signatures = self._signatures()
        file.place = "the model's description"
        graph = schema.SubGraphT(
            tensors=tensors,
            inputs=self._mapped(self._part.inputs),
            outputs=self._mapped(self._part.outputs),
            operators=ops,
            name=self._charged(file.subgraph.Name()),
            debugMetadataIndex=at.get(file.subgraph.DebugMetadataIndex(), -1),
        )
        model = schema.ModelT(
            version=file.model.Version(),
            operatorCodes=codes,
            subgraphs=[graph],
            description=self._charged(file.model.Description()),
            buffers=self._buffers,
            metadata=metadata,
            signatureDefs=signatures,
        )
        file.place = ""
        return self._packed(model)

    # -- tables --------------------------------------------------------------------------------------------------

    def _tensor(self, t: int) -> Any:
        file = self._file
        file.place = f"tensor {shown(self._tensors[t].name)}"
        table = file.subgraph.Tensors(t)
        if table.VariantTensorsLength():
            raise BadInputError("it is a variant of other tensors, which is not supported")
        tensor = self._unpacked(self._schema.TensorT, table)
        tensor.buffer = self._buffer(tensor.buffer)
        if t in self._part.names:
            tensor.name = self._charged(self._part.names[t].encode())
        return tensor

    def _op(self, v: int, metadata_at: Mapping[int, int]) -> Any:
        self._file.place = f"op number {v}"
        table, read = self._file.subgraph.Operators(v), self._file.ops[v]
        op = self._unpacked(self._schema.OperatorT, table)
        for kind, options in (
            (op.builtinOptionsType, op.builtinOptions),
            (op.builtinOptions2Type, op.builtinOptions2),
        ):
            if kind and options is None:
                raise BadInputError(f"its options are missing or of kind {kind}, which is not supported")
        if op.largeCustomOptionsOffset > 1:
            raise BadInputError("its options lie outside of the flatbuffer, which is not supported")
        op.opcodeIndex = self._codes.setdefault(op.opcodeIndex, len(self._codes))
        op.inputs, op.outputs = self._mapped(read.inputs), self._mapped(read.outputs)
        if op.intermediates is not None:
            op.intermediates = self._mapped(read.intermediates)
        op.debugMetadataIndex = metadata_at.get(op.debugMetadataIndex, -1)
        return op

    def _metadata(self) -> tuple[list[Any] | None, dict[int, int]]:
        """Return the metadata that are kept, and where those of the file are among them."""
        model = self._file.model
        if model.MetadataIsNone():
            return None, {}
        self._charge(_ENTRY_BYTES * model.MetadataLength())
        kept: list[Any] = []
        at = {}
        for i in range(model.MetadataLength()):
            entry = self._unpacked(self._schema.MetadataT, model.Metadata(i))
            if entry.name in ORDER_METADATA:
                continue
            at[i] = len(kept)
            entry.buffer = self._buffer(entry.buffer)
            kept.append(entry)
        return kept, at

    def _signatures(self) -> list[Any] | None:
        file, part = self._file, self._part
        if file.model.SignatureDefsIsNone():
            return None
        self._charge(_ENTRY_BYTES * file.model.SignatureDefsLength())
        kept: list[Any] = []
        for i in range(file.model.SignatureDefsLength()):
            table = file.model.SignatureDefs(i)
            self._charge(_ENTRY_BYTES * (table.InputsLength() + table.OutputsLength()))
            signature = self._unpacked(self._schema.SignatureDefT, table)
            inputs = self._entries(signature.inputs or [], part.inputs)
            outputs = self._entries(signature.outputs or [], part.outputs)
            if inputs or outputs:
                signature.inputs = inputs + self._additions(inputs, part.inputs, file.inputs)
                signature.outputs = outputs + self._additions(outputs, part.outputs, file.outputs)
                kept.append(signature)
        return kept

    def _entries(self, entries: Iterable[Any], chosen: tuple[int, ...]) -> list[Any]:
        """Return the entries whose tensor is among the chosen ones, with its index in the part."""
        kept = [entry for entry in entries if entry.tensorIndex in chosen]
        for entry in kept:
            entry.tensorIndex = self._place_of[entry.tensorIndex]
        return kept

    def _additions(self, entries: Iterable[Any], chosen: tuple[int, ...], whole: tuple[int, ...]) -> list[Any]:
        """Return entries for those chosen tensors that only the part gives or gets."""
        taken = {bytes(entry.name or b"") for entry in entries}
        made = []
        for t in chosen:
            if t in whole:
                continue
            name = self._part.names.get(t, self._tensors[t].name).encode()
            while name in taken:
                name += b"_"
            taken.add(name)
            made.append(self._schema.TensorMapT(name=self._charged(name), tensorIndex=self._place_of[t]))
        return made

    def _mapped(self, tensors: tuple[int, ...]) -> NDArray[np.int32]:
        return np.array([self._place_of.get(t, -1) for t in tensors], dtype=np.int32)

    # -- data ----------------------------------------------------------------------------------------------------

    def _buffer(self, index: int) -> int:
        """Return the place of a buffer in the part; 0 is the one without data, as the schema demands.

        A buffer with a vector of no data is not the same: it makes its tensor a constant.
        """
        if index not in self._buffer_at:
            self._file.data_bytes(index)
            table = self._file.model.Buffers(index)
            self._buffer_at[index] = 0
            if not table.DataIsNone():
                self._buffer_at[index] = len(self._buffers)
                buffer = data_buffer(table.DataAsNumpy())
                self._charge(_payload(buffer))
                self._buffers.append(buffer)
        return self._buffer_at[index]

    # -- size ----------------------------------------------------------------------------------------------------

    def _unpacked(self, kind: Any, table: Any) -> Any:
        found = kind.InitFromObj(table)
        self._charge(_payload(found))
        return found

    def _charged(self, text: bytes | None) -> bytes | None:
        self._charge(len(text or b""))
        return text

    def _charge(self, count: int) -> None:
        """Refuse what no honest file claims: tables that share so many bytes that copies of them have no bounds."""
        self._size += count
        if self._size > self._room:
            raise BadInputError(f"the file is damaged: its tables claim over {self._room} bytes together")

    def _packed(self, model: Any) -> bytes:
        tables = len(self._place_of) + len(self._part.ops) + len(self._buffers)
        size = self._size + _TABLE_BYTES * (tables + len(self._codes) + 2)
        if size >= MAX_FILE_BYTES:
            raise BadInputError(f"a part of it takes {size} bytes, 2 GiB or more are not supported")
        return packed(model, size)


def _payload(value: Any) -> int:
    """Return the bytes of the vectors and texts of an unpacked value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (bytes, str)):
        return len(value)
    if isinstance(value, list):
        return sum(map(_payload, value)) + 4 * len(value)
    return sum(map(_payload, getattr(value, "__dict__", {}).values()))
