"""`TableSchema`: the one description of a table from which writer, checks and card are derived."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from respect_core.errors import BadInputError

TABLE_KEY: Final = b"respect.table"
VERSION_KEY: Final = b"respect.schema_version"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column: its type, unit, meaning and range."""

    name: str
    type: pa.DataType
    doc: str
    unit: str | None = None
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] | None = None
    """The only values of a text column."""

    @property
    def field(self) -> pa.Field:
        """The column for Arrow."""
        return pa.field(self.name, self.type, nullable=self.nullable, metadata={"doc": self.doc})

    @property
    def is_list(self) -> bool:
        """True for a column of lists; ranges then hold for the entries."""
        return bool(pa.types.is_list(self.type))

    @property
    def range_text(self) -> str:
        """The allowed values in words, empty if there is no rule."""
        if self.allowed:
            return ", ".join(f"`{value}`" for value in self.allowed)
        low = "" if self.minimum is None else f">= {self.minimum:g}"
        high = "" if self.maximum is None else f"<= {self.maximum:g}"
        return " and ".join(part for part in (low, high) if part)


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """A table: its columns, its unique key and its meaning.

    Raises:
        BadInputError: Two columns of one name, or a key that is not a column.
    """

    name: str
    version: int
    doc: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """Columns that together are unique."""
    sort: tuple[str, ...] = ()
    """Columns by which rows are sorted in a part; the key if empty."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise BadInputError(f"table {self.name!r} has two columns of one name")
        for wanted in (*self.key, *self.sort):
            if wanted not in names:
                raise BadInputError(f"table {self.name!r}: key column {wanted!r} does not exist")

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return [column.name for column in self.columns]

    @property
    def arrow(self) -> pa.Schema:
        """The explicit Arrow schema of every part."""
        metadata = {TABLE_KEY: self.name.encode(), VERSION_KEY: str(self.version).encode()}
        return pa.schema([column.field for column in self.columns], metadata=metadata)

    def table(self, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Build a typed table of rows, sorted by the table's order.

        Raises:
            BadInputError: A row lacks a column or has one too many, or a value does not fit its type.
        """
        rows = list(rows)
        wanted = set(self.column_names)
        for number, row in enumerate(rows):
            if set(row) != wanted:
                odd = sorted(wanted ^ set(row))
                raise BadInputError(f"table {self.name!r}, row {number}: columns missing or unknown: {', '.join(odd)}")
        try:
            columns = [_array(c, [row[c.name] for row in rows]) for c in self.columns]
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise BadInputError(f"table {self.name!r}: a value does not fit its column ({error})") from error
        return self.sorted(pa.Table.from_arrays(columns, schema=self.arrow))

    def table_of(self, columns: Mapping[str, Any]) -> pa.Table:
        """Build a typed table of whole columns, Arrow or NumPy arrays, in the order of their rows.

        Raises:
            BadInputError: A column is missing or one too many, or values do not fit their type.
        """
        odd = sorted(set(columns) ^ set(self.column_names))
        if odd:
            raise BadInputError(f"table {self.name!r}: columns missing or unknown: {', '.join(odd)}")
        try:
            arrays = [_column(columns[column.name]).cast(column.type) for column in self.columns]
            return pa.Table.from_arrays(arrays, schema=self.arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BadInputError(f"table {self.name!r}: a value does not fit its column ({error})") from error

    def sorted(self, table: pa.Table) -> pa.Table:
        """Sort rows by the table's order."""
        keys = [(name, "ascending") for name in (self.sort or self.key)]
        return table.sort_by(keys) if table.num_rows else table

    def matches(self, schema: pa.Schema) -> str | None:
        """Return None if a file's schema is this table's, else what differs."""
        metadata = schema.metadata or {}
        table = metadata.get(TABLE_KEY, b"").decode(errors="replace")
        version = metadata.get(VERSION_KEY, b"").decode(errors="replace")
        if table != self.name:
            return f"it holds table {table!r}, expected {self.name!r}" if table else "no table of this project wrote it"
        if version != str(self.version):
            return f"it has schema version {version or 'none'}, expected {self.version}"
        if not schema.equals(self.arrow, check_metadata=False):
            odd = [n for n in self.column_names if n not in schema.names]
            odd += [n for n in schema.names if n not in self.column_names]
            return f"its columns differ ({', '.join(odd) or 'types or order'})"
        return None

    def card(self) -> str:
        """Return the table's description in Markdown: meaning, key and one row a column."""
        lines = [
            f"# {self.name}",
            "",
            self.doc,
            "",
            f"Schema version {self.version}. Unique within a partition: {', '.join(f'`{k}`' for k in self.key)}.",
            "Partitions are folders named `set=...` or `run=...`; most readers show that as one more column.",
            "",
            "| column | type | unit | null | range | meaning |",
            "|---|---|---|---|---|---|",
        ]
        for c in self.columns:
            null = "yes" if c.nullable else ""
            lines.append(f"| `{c.name}` | {c.type} | {c.unit or ''} | {null} | {c.range_text} | {c.doc} |")
        return "\n".join([*lines, ""])


def _column(values: Any) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values)


def _array(column: Column, values: list[Any]) -> pa.Array:
    whole = column.type.value_type if column.is_list else column.type
    if pa.types.is_integer(whole):
        entries = itertools.chain.from_iterable(v for v in values if v is not None) if column.is_list else values
        odd = next((v for v in entries if isinstance(v, float | np.floating)), None)
        if odd is not None:  # Arrow would cut it off in silence
            raise pa.ArrowInvalid(f"{column.name} is {odd}, a whole number is needed")
    return pa.array(values, type=column.type)


def text(name: str, doc: str, *, allowed: Sequence[str] | None = None, nullable: bool = False) -> Column:
    """Return a text column."""
    return Column(name=name, type=pa.string(), doc=doc, allowed=tuple(allowed) if allowed else None, nullable=nullable)


def flag(name: str, doc: str) -> Column:
    """Return a yes/no column."""
    return Column(name=name, type=pa.bool_(), doc=doc)


def count(
    name: str, doc: str, *, minimum: int | None = 0, maximum: int | None = None, nullable: bool = False
) -> Column:
    """Return an int32 column of counts or indices."""
    return Column(name=name, type=pa.int32(), doc=doc, minimum=minimum, maximum=maximum, nullable=nullable)


def size(name: str, doc: str, *, unit: str = "byte", nullable: bool = False) -> Column:
    """Return an int64 column of bytes or MACs, at least 0."""
    return Column(name=name, type=pa.int64(), doc=doc, unit=unit, minimum=0, nullable=nullable)


def real(name: str, doc: str, *, unit: str | None = None, minimum: float | None = 0, nullable: bool = False) -> Column:
    """Return a float64 column, at least 0 unless said otherwise."""
    return Column(name=name, type=pa.float64(), doc=doc, unit=unit, minimum=minimum, nullable=nullable)


def items(name: str, entry: pa.DataType, doc: str, *, unit: str | None = None, nullable: bool = False) -> Column:
    """Return a column of lists whose entries are at least 0."""
    return Column(name=name, type=pa.list_(entry), doc=doc, unit=unit, minimum=0, nullable=nullable)
