"""The rules that follow from a table's schema and its domain columns, as plain data, and the rows that break them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pyarrow as pa

from respect_core.graph import BoolArray
from respect_core.tables.table import Column, TableSchema

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["columns", "not_empty", "type", "not_null", "null", "between", "in_set", "unique", "true"]

_PANDAS_NAMES: Final = {pa.string(): "str", pa.bool_(): "bool"}
"""Names of types where the data frame's differs from Arrow's."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule; `tasks.quality` turns each into one expectation."""

    name: str
    """``WHAT.RULE``: a column of the schema, `table` or `key`, and what must hold; a domain rule's own name."""
    kind: Kind
    columns: tuple[str, ...] = ()
    """Columns of the data frame that the rule looks at; for `columns` all in order."""
    shown: str | None = None
    """Column of the table whose value an example shows."""
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] = ()
    type_name: str = ""
    is_domain: bool = False


def schema_rules(schema: TableSchema) -> list[Rule]:
    """Derive the rules of a schema; some look at computed columns of the audited frame."""
    rules = [
        Rule(name="table.columns", kind="columns", columns=tuple(schema.column_names)),
        Rule(name="table.not_empty", kind="not_empty"),
        Rule(name="key.unique", kind="unique", columns=schema.key),
    ]
    for column in schema.columns:
        rules += _column_rules(column)
    return rules


def _column_rules(column: Column) -> list[Rule]:
    name, rules = column.name, []
    type_name = (
        "list" if column.is_list else _PANDAS_NAMES.get(column.type, str(column.type).replace("double", "float64"))
    )
    rules.append(Rule(name=f"{name}.type", kind="type", columns=(name,), shown=name, type_name=type_name))
    if not column.nullable:
        rules.append(Rule(name=f"{name}.not_null", kind="not_null", columns=(name,), shown=name))
    ranged = has_range(column)
    if column.is_list:
        rules.append(Rule(name=f"{name}.entry_type", kind="null", columns=(f"{name}.entry_type",), shown=name))
        inside = f"{name}.entries_not_null"
        rules.append(Rule(name=inside, kind="true", columns=(inside,), shown=name))
        if ranged:
            rules += [_between(column, f"{name}.{end}_in_range", f"{name}.{end}") for end in ("smallest", "largest")]
    elif ranged:
        rules.append(_between(column, f"{name}.in_range", f"{name}.value"))
    if column.allowed:
        rules.append(
            Rule(name=f"{name}.allowed", kind="in_set", columns=(name,), shown=name, allowed=tuple(column.allowed))
        )
    if is_real(column):
        rules.append(Rule(name=f"{name}.finite", kind="true", columns=(f"{name}.finite",), shown=name))
    return rules


def _between(column: Column, rule: str, looked_at: str) -> Rule:
    return Rule(
        name=rule,
        kind="between",
        columns=(looked_at,),
        shown=column.name,
        minimum=column.minimum,
        maximum=column.maximum,
    )


def domain_rules(columns: Mapping[str, pa.Array]) -> list[Rule]:
    """Return one rule a domain column: true where it is boolean, null where it is a text."""
    return [
        Rule(
            name=name, kind="true" if column.type == pa.bool_() else "null", columns=(f"domain.{name}",), is_domain=True
        )
        for name, column in columns.items()
    ]


def is_real(column: Column) -> bool:
    """Tell whether a column holds real numbers or lists of them."""
    kind = column.type.value_type if column.is_list else column.type
    return bool(pa.types.is_floating(kind))


def has_range(column: Column) -> bool:
    """Tell whether a column's numbers, or its lists' entries, have a smallest or largest allowed value."""
    return column.minimum is not None or column.maximum is not None


def broken_rows(rule: Rule, frame: pd.DataFrame) -> BoolArray:
    """Return which rows break a rule. Shape (rows,); all false for a rule of the whole table."""
    if rule.kind in ("columns", "not_empty", "type"):
        return np.zeros(len(frame), dtype=np.bool_)
    if rule.kind == "unique":
        return np.asarray(frame.duplicated(list(rule.columns), keep=False))
    column = frame[rule.columns[0]]
    present = column.notna()
    if rule.kind == "not_null":
        bad = ~present
    elif rule.kind == "null":
        bad = present
    elif rule.kind == "in_set":
        bad = present & ~column.isin(rule.allowed)
    elif rule.kind == "true":
        bad = present & ~column.fillna(True)
    else:
        bad = present & False
        if rule.minimum is not None:
            bad |= column < rule.minimum
        if rule.maximum is not None:
            bad |= column > rule.maximum
    return np.asarray(bad.fillna(False).to_numpy(dtype=np.bool_))
