"""The data frame that Great Expectations looks at: a table, and computed columns for what stock expectations miss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from respect_core.graph import BoolArray, FloatArray, IntArray
from respect_core.tables.table import Column, TableSchema
from tasks.quality_rules import has_range, is_real

if TYPE_CHECKING:
    import pandas as pd


def computed_names(schema: TableSchema) -> list[str]:
    """Return the names of the computed columns of a right table, in the frame's order."""
    return [*flags(schema, schema.arrow.empty_table()), *extremes(schema, schema.arrow.empty_table())]


def audit_frame(schema: TableSchema, table: pa.Table, domain: Mapping[str, pa.Array]) -> pd.DataFrame:
    """Return table, computed and domain columns as one frame.

    Args:
        schema: What the table should be.
        table: The rows; columns may be missing, foreign or of a wrong type.
        domain: Domain columns by rule; they are named ``domain.RULE`` in the frame.

    Returns:
        The table's columns with types that keep null apart from zero and NaN, then `flags` and `extremes`, then the
        domain columns.
    """
    import pandas as pd

    nullable = {
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
        pa.string(): pd.StringDtype("pyarrow"),
    }

    def frame_of(arrow: pa.Table) -> pd.DataFrame:
        out: pd.DataFrame = arrow.to_pandas(types_mapper=lambda kind: nullable.get(kind, pd.ArrowDtype(kind)))
        return out

    named = {f"domain.{name}": column for name, column in domain.items()}
    parts = [
        frame_of(table),
        frame_of(pa.table(flags(schema, table))),
        pd.DataFrame(extremes(schema, table)),
        frame_of(pa.table(named)),
    ]
    return pd.concat([part for part in parts if len(part.columns)], axis="columns")


def flags(schema: TableSchema, table: pa.Table) -> dict[str, pa.Array]:
    """Compute of lists their entries' type and whether none is null, of real numbers whether they are finite."""
    out: dict[str, pa.Array] = {}
    for column, values in _present(schema, table):
        if column.is_list:
            right = values.type == column.type
            complaint = None if right else f"the type is {values.type}, expected {column.type}"
            out[f"{column.name}.entry_type"] = pa.repeat(pa.scalar(complaint, pa.string()), len(values))
        if values.type != column.type:
            continue
        if column.is_list:
            entries, rows = _entries(values)
            out[f"{column.name}.entries_not_null"] = pa.array(_all(rows, pc.is_valid(entries), len(values)))
            if is_real(column):
                finite = pc.fill_null(pc.is_finite(entries), True)
                out[f"{column.name}.finite"] = pa.array(_all(rows, finite, len(values)))
        elif is_real(column):
            out[f"{column.name}.finite"] = pc.is_finite(values)
    return out


def extremes(schema: TableSchema, table: pa.Table) -> dict[str, FloatArray]:
    """Return the numbers that have a range, and the smallest and largest entries of lists that do; NaN for null.

    Great Expectations compares float64 and int64 columns at once and all others row by row in Python.
    """
    out: dict[str, FloatArray] = {}
    for column, values in _present(schema, table):
        if not has_range(column) or values.type != column.type:
            continue
        if column.is_list:
            entries, rows = _entries(values)
            out[f"{column.name}.smallest"] = _extreme(entries, rows, len(values), np.fmin)
            out[f"{column.name}.largest"] = _extreme(entries, rows, len(values), np.fmax)
        else:
            out[f"{column.name}.value"] = _reals(values)
    return out


def _present(schema: TableSchema, table: pa.Table) -> list[tuple[Column, pa.Array]]:
    return [(c, table[c.name].combine_chunks()) for c in schema.columns if c.name in table.column_names]


def _entries(lists: pa.ListArray) -> tuple[pa.Array, IntArray]:
    """Return all entries, and the row of each."""
    rows: IntArray = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    return pc.list_flatten(lists), rows


def _reals(values: pa.Array) -> FloatArray:
    """Return numbers as float64, NaN for null; what rounding changes lies far from any bound of a range."""
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _extreme(entries: pa.Array, rows: IntArray, count: int, smaller: np.ufunc) -> FloatArray:
    out = np.full(count, np.nan)
    if len(entries):
        first = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        out[rows[first]] = smaller.reduceat(_reals(entries), first)
    return out


def _all(rows: IntArray, truth: pa.Array, count: int) -> BoolArray:
    """Tell for each of ``count`` lists whether ``truth`` holds for all its entries."""
    bad = rows[~np.asarray(truth)]
    return np.asarray(np.bincount(bad, minlength=count) == 0)
