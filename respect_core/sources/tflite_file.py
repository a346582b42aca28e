"""Tables and vectors of a TFLite file, read through the `tflite` schema package with every length checked.

The schema package trusts the file: it checks no offset and no length, and a damaged one shows as one of many errors of
Python's own or as a vector of billions. Hence each vector and text is charged against a budget of bytes, and whoever
reads turns `READ_ERRORS` into an `InputFileError`.
"""

from __future__ import annotations

import stat
import struct
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from respect_core.errors import BadInputError, InputFileError
from respect_core.json_text import shown

IDENTIFIER: Final = b"TFL3"

MAX_FILE_BYTES: Final = 2**31
"""A flatbuffer's offsets reach no further; larger models keep their data outside of it."""

READ_ERRORS: Final = (struct.error, IndexError, TypeError, ValueError, OverflowError, BufferError)
"""What the schema package raises where an offset or length of the file is wrong."""

_SHARING: Final = 4
"""Vectors may share bytes, but all of them together may not exceed the file this many times."""

_MAX_BUDGET: Final = 2**26
"""Bytes of vectors and texts, data apart, that are read at most: a bound for the memory whatever the file claims."""

_TABLE_BYTES: Final = 64
"""Charged for each tensor and op."""

_EXTERNAL_BUFFER_SLOT: Final = 24
"""Slot of a tensor's `external_buffer`, which is younger than the schema package."""


@dataclass(frozen=True, kw_only=True)
class FileTensor:
    """A tensor of the file."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    is_variable: bool
    """Its value stays from one inference to the next, as an LSTM's state does."""
    data_bytes: int
    """Bytes of data that the file holds for it, 0 for none."""


@dataclass(frozen=True, kw_only=True)
class FileOp:
    """An op of the file."""

    builtin: str
    """Name of the builtin operator, `CUSTOM` for a custom one, `BUILTIN_n` for one the schema does not know."""
    custom_code: str
    inputs: tuple[int, ...]
    """Indices of tensors, -1 for an optional input left out."""
    outputs: tuple[int, ...]


def file_content(path: Path) -> bytes:
    """Return the bytes of a file that is not too large to be a flatbuffer.

    Raises:
        InputFileError: It cannot be read, is no regular file, or has 2 GiB or more.
    """
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise InputFileError(path, "the model cannot be read (it is not a regular file)")
        if info.st_size >= MAX_FILE_BYTES:
            raise InputFileError(
                path, f"the model has {info.st_size} bytes, TFLite files of 2 GiB or more are not supported"
            )
        return path.read_bytes()
    except OSError as error:
        raise InputFileError(path, f"the model cannot be read ({error.strerror})") from error
    except ValueError as error:
        if isinstance(error, InputFileError):
            raise
        raise InputFileError(path, f"the model cannot be read ({error})") from error


class TfliteFile:
    """The content of a TFLite file with one subgraph.

    Attributes:
        place: What is being read, for messages.
    """

    def __init__(self, data: bytes) -> None:
        """Check the frame of the file; ops and tensors are read when asked for.

        Raises:
            BadInputError: It is no TFLite file, or has not exactly one subgraph.
        """
        self.place = "the model"
        if data[4:8] != IDENTIFIER:
            raise BadInputError(f"it is not a TFLite file: bytes 4 to 7 are not {IDENTIFIER.decode()}")
        from tflite.Model import Model

        self._budget = min(_SHARING * len(data), _MAX_BUDGET)
        self._model: Any = Model.GetRootAs(data, 0)
        count = self._length(self._model.SubgraphsLength(), "subgraphs")
        if count != 1:
            raise BadInputError(f"it has {count} subgraphs, only models with exactly one are supported")
        self._graph: Any = self._model.Subgraphs(0)
        self._num_buffers = self._length(self._model.BuffersLength(), "buffers")
        self._num_codes = self._length(self._model.OperatorCodesLength(), "operator codes")

    @cached_property
    def num_tensors(self) -> int:
        """Number of tensors, used or not."""
        return self._length(self._graph.TensorsLength(), "tensors", _TABLE_BYTES)

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """Tensors that the caller gives."""
        return self._indices(self._graph.InputsLength(), self._graph.InputsAsNumpy, "graph inputs")

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """Tensors that the caller gets."""
        return self._indices(self._graph.OutputsLength(), self._graph.OutputsAsNumpy, "graph outputs")

    @cached_property
    def ops(self) -> tuple[FileOp, ...]:
        """All ops in the order in which they run."""
        count = self._length(self._graph.OperatorsLength(), "ops", _TABLE_BYTES)
        return tuple(self._op(i) for i in range(count))

    def tensor(self, index: int) -> FileTensor:
        """Read one tensor.

        Raises:
            BadInputError: It is sparse, or its data are missing or lie outside of the flatbuffer.
        """
        self.place = f"tensor number {index}"
        table = self._graph.Tensors(index)
        name = self._text(table.Name()) or f"tensor_{index}"
        self.place = f"tensor {shown(name)}"
        shape = self._vector(table.ShapeLength(), table.ShapeAsNumpy, "dimensions")
        if table.Sparsity() is not None:
            raise BadInputError("it is sparse, only dense tensors are supported")
        if _number(table._tab, _EXTERNAL_BUFFER_SLOT):
            raise BadInputError("its data lie in an external buffer, which is not supported")
        code = table.Type()
        return FileTensor(
            name=name,
            shape=shape,
            type_name=_type_names().get(code, f"number {code}"),
            is_variable=table.IsVariable(),
            data_bytes=self._data_bytes(table.Buffer()),
        )

    def _data_bytes(self, buffer: int) -> int:
        if buffer >= self._num_buffers:
            raise BadInputError(f"it refers to buffer {buffer}, which is missing: the file has {self._num_buffers}")
        table = self._model.Buffers(buffer)
        # Smaller offsets are placeholders of writers that fill them in later.
        if table.Offset() > 1:
            raise BadInputError("its data lie outside of the flatbuffer (external buffer), which is not supported")
        count: int = table.DataLength()
        start = table._tab.Vector(table._tab.Offset(4)) if count else 0
        if start + count > len(self._model._tab.Bytes):
            raise BadInputError(f"its data of {count} bytes go beyond the end of the file")
        return count

    def _op(self, index: int) -> FileOp:
        from tflite.utils import BUILTIN_OPCODE2NAME

        self.place = f"op number {index}"
        table = self._graph.Operators(index)
        code_index = table.OpcodeIndex()
        if code_index >= self._num_codes:
            raise BadInputError(f"its operator code is number {code_index}, the file has {self._num_codes}")
        code = self._model.OperatorCodes(code_index)
        # Files of before 2020 have only the deprecated field, of a byte; in later ones it holds at most 127.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        return FileOp(
            builtin=BUILTIN_OPCODE2NAME.get(number, f"BUILTIN_{number}"),
            custom_code=self._text(code.CustomCode()),
            inputs=self._indices(table.InputsLength(), table.InputsAsNumpy, "inputs", optional=True),
            outputs=self._indices(table.OutputsLength(), table.OutputsAsNumpy, "outputs", optional=True),
        )

    def _indices(self, length: int, values: Any, what: str, *, optional: bool = False) -> tuple[int, ...]:
        found = self._vector(length, values, what)
        for index in found:
            if not (-1 if optional else 0) <= index < self.num_tensors:
                raise BadInputError(f"its {what} name tensor {index}, tensors are 0..{self.num_tensors - 1}")
        return found

    def _vector(self, length: int, values: Any, what: str) -> tuple[int, ...]:
        return tuple(values().tolist()) if self._length(length, what) else ()

    def _length(self, length: int, what: str, each: int = 4) -> int:
        self._budget -= each * length
        if self._budget < 0:
            raise BadInputError(f"the file is damaged: it claims {length} {what}, more than there can be")
        return length

    def _text(self, text: bytes | None) -> str:
        if text is None:
            return ""
        self._budget -= len(text)
        if self._budget < 0:
            raise BadInputError(f"the file is damaged: it claims a text of {len(text)} bytes")
        return text.decode(errors="replace")


def _number(table: Any, slot: int) -> int:
    """Return an unsigned number of four bytes of a table, 0 where it is left out."""
    from flatbuffers.number_types import Uint32Flags

    offset = table.Offset(slot)
    return int(table.Get(Uint32Flags, table.Pos + offset)) if offset else 0


@cache
def _type_names() -> dict[int, str]:
    from tflite.TensorType import TensorType

    return {code: name for name, code in vars(TensorType).items() if not name.startswith("_")}
