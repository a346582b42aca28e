"""Tables and vectors of a TFLite file, read through LiteRT's own schema module with every length checked.

The schema module trusts the file: it checks no offset and no length, and a damaged one shows as one of many errors of
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

SHARING: Final = 4
"""Vectors may share bytes, but all of them together may not exceed the file this many times."""

_MAX_BUDGET: Final = 2**26
"""Bytes of vectors and texts, data apart, that are read at most: a bound for the memory whatever the file claims."""

_TABLE_BYTES: Final = 64
"""Charged for each tensor and op."""


@dataclass(frozen=True, kw_only=True)
class FileTensor:
    """A tensor of the file."""

    name: str
    raw_name: bytes
    """As it is in the file: may be missing (empty) or not be UTF-8."""
    shape: tuple[int, ...]
    type_name: str
    is_variable: bool
    """Its value stays from one inference to the next, as an LSTM's state does."""
    data_bytes: int
    """Bytes of data that the file holds for it, 0 for none."""
    buffer: int
    """Index of the buffer with its data; tensors may share one, and 0 is the empty one."""


@dataclass(frozen=True, kw_only=True)
class FileOp:
    """An op of the file."""

    builtin: str
    """Name of the builtin operator, `CUSTOM` for a custom one, `BUILTIN_n` for one the schema does not know."""
    custom_code: str
    inputs: tuple[int, ...]
    """Indices of tensors, -1 for an optional input left out."""
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...] = ()
    """Tensors that only describe what happens inside of the op, as an LSTM's gates do: their types and scales."""


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
        data: The bytes of the file.
        model: The schema's `Model` table, unchecked.
        subgraph: The schema's table of the only subgraph, unchecked.
    """

    def __init__(self, data: bytes) -> None:
        """Check the frame of the file; ops and tensors are read when asked for.

        Raises:
            BadInputError: It is no TFLite file, or has not exactly one subgraph.
        """
        self.place = "the model"
        if data[4:8] != IDENTIFIER:
            raise BadInputError(f"it is not a TFLite file: bytes 4 to 7 are not {IDENTIFIER.decode()}")
        from ai_edge_litert.schema_py_generated import Model

        self.data = data
        self._budget = min(SHARING * len(data), _MAX_BUDGET)
        self.model: Any = Model.GetRootAs(data, 0)
        count = self.charged(self.model.SubgraphsLength(), "subgraphs")
        if count != 1:
            raise BadInputError(f"it has {count} subgraphs, only models with exactly one are supported")
        self.subgraph: Any = self.model.Subgraphs(0)
        self.num_buffers = self.charged(self.model.BuffersLength(), "buffers")
        self._num_codes = self.charged(self.model.OperatorCodesLength(), "operator codes")

    @cached_property
    def num_tensors(self) -> int:
        """Number of tensors, used or not."""
        return self.charged(self.subgraph.TensorsLength(), "tensors", _TABLE_BYTES)

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """Tensors that the caller gives."""
        return self._indices(self.subgraph.InputsLength(), self.subgraph.InputsAsNumpy, "graph inputs")

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """Tensors that the caller gets."""
        return self._indices(self.subgraph.OutputsLength(), self.subgraph.OutputsAsNumpy, "graph outputs")

    @cached_property
    def ops(self) -> tuple[FileOp, ...]:
        """All ops in the order in which they run."""
        count = self.charged(self.subgraph.OperatorsLength(), "ops", _TABLE_BYTES)
        return tuple(self._op(i) for i in range(count))

    def tensor(self, index: int) -> FileTensor:
        """Read one tensor.

        Raises:
            BadInputError: It is sparse, or its data are missing or lie outside of the flatbuffer.
        """
        self.place = f"tensor number {index}"
        table = self.subgraph.Tensors(index)
        raw_name = self._text(table.Name())
        name = raw_name.decode(errors="replace") or f"tensor_{index}"
        self.place = f"tensor {shown(name)}"
        shape = self._vector(table.ShapeLength(), table.ShapeAsNumpy, "dimensions")
        if table.Sparsity() is not None:
            raise BadInputError("it is sparse, only dense tensors are supported")
        if table.ExternalBuffer():
            raise BadInputError("its data lie in an external buffer, which is not supported")
        code = table.Type()
        return FileTensor(
            name=name,
            raw_name=raw_name,
            shape=shape,
            type_name=_type_names().get(code, f"number {code}"),
            is_variable=table.IsVariable(),
            data_bytes=self.data_bytes(table.Buffer()),
            buffer=table.Buffer(),
        )

    def data_bytes(self, buffer: int) -> int:
        """Return the bytes of data in a buffer, all of which lie in the file.

        Raises:
            BadInputError: There is no such buffer, or its data are missing or lie outside of the flatbuffer.
        """
        if buffer >= self.num_buffers:
            raise BadInputError(f"it refers to buffer {buffer}, which is missing: the file has {self.num_buffers}")
        table = self.model.Buffers(buffer)
        # Smaller offsets are placeholders of writers that fill them in later.
        if table.Offset() > 1:
            raise BadInputError("its data lie outside of the flatbuffer (external buffer), which is not supported")
        count: int = table.DataLength()
        start = table._tab.Vector(table._tab.Offset(4)) if count else 0
        if start + count > len(self.model._tab.Bytes):
            raise BadInputError(f"its data of {count} bytes go beyond the end of the file")
        return count

    def _op(self, index: int) -> FileOp:
        self.place = f"op number {index}"
        table = self.subgraph.Operators(index)
        code_index = table.OpcodeIndex()
        if code_index >= self._num_codes:
            raise BadInputError(f"its operator code is number {code_index}, the file has {self._num_codes}")
        code = self.model.OperatorCodes(code_index)
        # Files of before 2020 have only the deprecated field, of a byte; in later ones it holds at most 127.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        return FileOp(
            builtin=_builtin_names().get(number, f"BUILTIN_{number}"),
            custom_code=self._text(code.CustomCode()).decode(errors="replace"),
            inputs=self._indices(table.InputsLength(), table.InputsAsNumpy, "inputs", optional=True),
            outputs=self._indices(table.OutputsLength(), table.OutputsAsNumpy, "outputs", optional=True),
            intermediates=self._indices(
                table.IntermediatesLength(), table.IntermediatesAsNumpy, "intermediates", optional=True
            ),
        )

    def _indices(self, length: int, values: Any, what: str, *, optional: bool = False) -> tuple[int, ...]:
        found = self._vector(length, values, what)
        for index in found:
            if not (-1 if optional else 0) <= index < self.num_tensors:
                raise BadInputError(f"its {what} name tensor {index}, tensors are 0..{self.num_tensors - 1}")
        return found

    def _vector(self, length: int, values: Any, what: str) -> tuple[int, ...]:
        return tuple(values().tolist()) if self.charged(length, what) else ()

    def charged(self, length: int, what: str, each: int = 4) -> int:
        """Return a length that the file claims, after charging ``each`` bytes an element against the budget.

        Raises:
            BadInputError: There cannot be as many.
        """
        self._budget -= each * length
        if self._budget < 0:
            raise BadInputError(f"the file is damaged: it claims {length} {what}, more than there can be")
        return length

    def _text(self, text: bytes | None) -> bytes:
        if text is None:
            return b""
        self._budget -= len(text)
        if self._budget < 0:
            raise BadInputError(f"the file is damaged: it claims a text of {len(text)} bytes")
        return text


@cache
def _type_names() -> dict[int, str]:
    from ai_edge_litert.schema_py_generated import TensorType

    return {code: name for name, code in vars(TensorType).items() if not name.startswith("_")}


@cache
def _builtin_names() -> dict[int, str]:
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    return {code: name for name, code in vars(BuiltinOperator).items() if not name.startswith("_")}
