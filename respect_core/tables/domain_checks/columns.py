"""`DomainColumns`: computed columns beside a table's own, and how they are made of NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from respect_core.errors import BadInputError
from respect_core.graph import BoolArray, IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class DomainColumns:
    """One computed column a rule, each with one entry a row of the table.

    A column of booleans must be true in every row; null means that the rule does not apply there, or that another
    rule, which is broken, must hold first. A column of texts must be null in every row; a text says what is wrong.

    Raises:
        BadInputError: A column of another type, or columns of different lengths.
    """

    columns: Mapping[str, pa.Array]

    def __post_init__(self) -> None:
        for name, column in self.columns.items():
            if column.type not in (pa.bool_(), pa.string()):
                raise BadInputError(f"domain rule {name!r} is of type {column.type}, expected bool or string")
        if len({len(column) for column in self.columns.values()}) > 1:
            raise BadInputError(f"domain rules {', '.join(self.columns)} have different lengths")


def holds(truth: BoolArray, applies: BoolArray | None = None) -> pa.Array:
    """Return a boolean column, null where ``applies`` is false. Both of shape (rows,)."""
    return pa.array(truth, type=pa.bool_(), mask=None if applies is None else ~applies)


def complaints(texts: Sequence[str | None]) -> pa.Array:
    """Return a column of texts, null where nothing is wrong."""
    return pa.array(texts, type=pa.string())


def numbers(table: pa.Table, name: str, missing: float = 0) -> NDArray[Any]:
    """Return a numeric or boolean column with ``missing`` for null. Shape (rows,)."""
    column = table[name]
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(missing, type=column.type))
    return np.asarray(column.to_numpy())


def is_null(table: pa.Table, name: str) -> BoolArray:
    """Tell where a column is null. Shape (rows,)."""
    return np.asarray(pc.is_null(table[name]).to_numpy(), dtype=np.bool_)


def equals(table: pa.Table, name: str, value: str) -> BoolArray:
    """Tell where a text column has one value. Shape (rows,)."""
    return np.asarray(pc.fill_null(pc.equal(table[name], value), False).to_numpy())


def list_entries(table: pa.Table, name: str) -> tuple[IntArray, IntArray, IntArray]:
    """Take a column of lists of whole numbers apart; null entries become -1.

    Returns:
        The entries, the row of each entry, and the length of each row's list (0 for null).
    """
    column = table[name].combine_chunks()
    entries = pc.fill_null(pc.list_flatten(column), -1).to_numpy(zero_copy_only=False)
    rows = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return np.asarray(entries, np.int64), np.asarray(rows, np.int64), np.asarray(lengths, np.int64)


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return ``starts[i], starts[i] + 1, ...`` of each length, one after the other. Shape (lengths.sum(),)."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    shifts: IntArray = np.repeat(starts - (ends - lengths), lengths)
    return np.arange(total, dtype=np.int64) + shifts


def unique_in_graph(table: pa.Table, name: str) -> pa.Array:
    """Tell where a graph's rows have no two equal values of column ``name``."""
    keys = ["graph_id", name]
    frame = pa.table({key: table[key].combine_chunks().dictionary_encode() for key in keys}).to_pandas()
    return holds(~frame.duplicated(keys, keep=False).to_numpy())
