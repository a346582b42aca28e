"""Great Expectations: a suite derived from each table's schema, and audits of tables against it."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from respect_core.tables.domain_checks import DomainColumns
from respect_core.tables.table import TableSchema
from tasks.audit_frame import audit_frame, computed_names
from tasks.audit_report import AuditReport, Failure, Unchecked
from tasks.quality_rules import Rule, broken_rows, domain_rules, schema_rules

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite

Domain: TypeAlias = DomainColumns | Callable[[pa.Table], DomainColumns] | None
"""Domain columns of a table, or how they are computed once its columns are known to be right."""

EXAMPLES: Final = 3
"""Rows that a failure names."""


def suite_for(
    schema: TableSchema, domain: DomainColumns | None = None, extra: Iterable[str] | None = None
) -> ExpectationSuite:
    """Derive the expectation suite of a table.

    Args:
        schema: The table's schema.
        domain: Domain columns, each of which becomes an expectation.
        extra: Computed columns that follow the table's own in the audited frame; all of them by default.

    Returns:
        Stock expectations; the name of each rule is in its expectation's `meta`.
    """
    gx = _import_gx()
    rules = [*schema_rules(schema), *domain_rules(domain.columns if domain else {})]
    if extra is None:
        extra = [*computed_names(schema), *(rule.columns[0] for rule in rules if rule.is_domain)]
    suite: ExpectationSuite = gx.ExpectationSuite(name=f"{schema.name}-v{schema.version}")
    for rule in rules:
        suite.add_expectation(_expectation(rule, extra))
    return suite


def audit(schema: TableSchema, table: pa.Table, domain: Domain = None) -> AuditReport:
    """Check a table against its schema and its domain rules.

    Args:
        schema: What the table should be.
        table: The rows; anything may be wrong with them.
        domain: Domain columns, or a function of ``table`` that computes them; it is called only where the columns and
            types are right and there are rows, and its own failure is reported as a rule that could not be checked.

    Returns:
        The report; nothing is raised because of what the table holds.
    """
    start = time.perf_counter()
    unchecked: list[Unchecked] = []
    columns, why = _domain_columns(schema, table, domain)
    if why:
        unchecked.append(Unchecked(rule="domain", why=why))
    rules = [*schema_rules(schema), *domain_rules(columns.columns)]
    failures, missed = _validate(
        schema, rules, audit_frame(schema, table, columns.columns), table.column_names, columns
    )
    return AuditReport(
        table=schema.name,
        rows=table.num_rows,
        rules=tuple(rule.name for rule in rules),
        failures=tuple(failures),
        unchecked=(*missed, *unchecked),
        seconds=time.perf_counter() - start,
    )


def _domain_columns(schema: TableSchema, table: pa.Table, domain: Domain) -> tuple[DomainColumns, str]:
    """Return the domain columns, and why there are none where they could not be computed."""
    none = DomainColumns(columns={})
    if domain is None:
        return none, ""
    if not isinstance(domain, DomainColumns):
        expected = [(field.name, field.type) for field in schema.arrow]
        if [(field.name, field.type) for field in table.schema] != expected:
            return none, "the table's columns are not those of its schema"
        if not table.num_rows:
            return none, "the table is empty"
        try:
            domain = domain(table)
        except Exception as error:  # whatever is wrong with the rows must not stop the audit of the other rules
            return none, f"{type(error).__name__}: {error}"
    odd = [name for name, column in domain.columns.items() if len(column) != table.num_rows]
    return (none, f"{odd[0]} has another length than the table") if odd else (domain, "")


def _validate(
    schema: TableSchema, rules: list[Rule], frame: pd.DataFrame, present: list[str], domain: DomainColumns
) -> tuple[list[Failure], list[Unchecked]]:
    gx = _import_gx()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("memory").add_dataframe_asset(schema.name)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    suite = suite_for(schema, domain, [name for name in frame.columns if name not in present])
    by_name = {rule.name: rule for rule in rules}
    failures: dict[str, Failure] = {}
    unchecked: dict[str, Unchecked] = {}
    for result in batch.validate(suite, result_format="SUMMARY").results:
        if result.success:
            continue
        rule = by_name[result.expectation_config.meta["rule"]]
        why = _exception(result.exception_info)
        missing = [name for name in rule.columns if name not in frame.columns]
        if missing and rule.kind != "columns":
            wrong = "of a wrong type" if rule.shown in present else "missing"
            reason = f"column {rule.shown or missing[0]} is {wrong}"
            unchecked[rule.name] = Unchecked(rule=rule.name, why=reason)
        elif why:
            unchecked[rule.name] = Unchecked(rule=rule.name, why=why)
        else:
            failures[rule.name] = _failure(schema, rule, frame, present, result.result)
    order = list(by_name)
    return sorted(failures.values(), key=lambda f: order.index(f.rule)), sorted(
        unchecked.values(), key=lambda u: order.index(u.rule)
    )


def _expectation(rule: Rule, extra: Iterable[str]) -> Any:
    """Return the stock expectation of a rule; ``extra`` columns follow those of the schema."""
    import great_expectations.expectations as gxe

    meta = {"rule": rule.name}
    if rule.kind == "columns":
        return gxe.ExpectTableColumnsToMatchOrderedList(column_list=[*rule.columns, *extra], meta=meta)
    if rule.kind == "not_empty":
        return gxe.ExpectTableRowCountToBeBetween(min_value=1, meta=meta)
    if rule.kind == "unique" and len(rule.columns) > 1:
        return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(rule.columns), meta=meta)
    column = rule.columns[0]
    if rule.kind == "unique":
        return gxe.ExpectColumnValuesToBeUnique(column=column, meta=meta)
    if rule.kind == "type":
        return gxe.ExpectColumnValuesToBeOfType(column=column, type_=rule.type_name, meta=meta)
    if rule.kind == "not_null":
        return gxe.ExpectColumnValuesToNotBeNull(column=column, meta=meta)
    if rule.kind == "null":
        return gxe.ExpectColumnValuesToBeNull(column=column, meta=meta)
    if rule.kind == "between":
        return gxe.ExpectColumnValuesToBeBetween(
            column=column, min_value=rule.minimum, max_value=rule.maximum, meta=meta
        )
    allowed: list[Any] = [True] if rule.kind == "true" else list(rule.allowed)
    return gxe.ExpectColumnValuesToBeInSet(column=column, value_set=allowed, meta=meta)


def _failure(
    schema: TableSchema, rule: Rule, frame: pd.DataFrame, present: list[str], result: dict[str, Any]
) -> Failure:
    if rule.kind == "columns":
        found = f"found {', '.join(present)}, expected {', '.join(schema.column_names)}"
        return Failure(rule=rule.name, column=None, count=0, examples=(found,))
    if rule.kind in ("not_empty", "type"):
        expected = rule.type_name or "at least one row"
        found = f"found {result.get('observed_value')}, expected {expected}"
        return Failure(rule=rule.name, column=rule.shown, count=0, examples=(found,))
    broken = np.flatnonzero(broken_rows(rule, frame))
    examples = tuple(_example(schema, rule, frame, int(row)) for row in broken[:EXAMPLES])
    return Failure(rule=rule.name, column=rule.shown, count=int(broken.size), examples=examples)


def _example(schema: TableSchema, rule: Rule, frame: pd.DataFrame, row: int) -> str:
    """Name a row by its key, and show the value that breaks the rule."""
    key = ", ".join(f"{name} {frame[name].iat[row]}" for name in schema.key if name in frame.columns)
    if rule.kind == "null":
        return f"{key}: {frame[rule.columns[0]].iat[row]}"
    if rule.shown is None or rule.shown in schema.key:
        return key
    value = frame[rule.shown].iat[row]
    return f"{key}: {rule.shown} is {value}"


def _exception(info: Any) -> str:
    """Return the message of an exception inside an expectation, empty if there was none."""
    found = [info] if "raised_exception" in info else list(info.values())
    for entry in found:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            return str(entry.get("exception_message") or "an exception without a message").strip().splitlines()[-1]
    return ""


def _import_gx() -> Any:
    """Import Great Expectations, its analytics off unless the user has switched them on."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        # It imports the modules `sre_constants` and `sre_parse`, which Python deprecates.
        warnings.filterwarnings("ignore", r"module 'sre_\w+' is deprecated", DeprecationWarning)
        import great_expectations as gx
    # The second logger sets its own level and tells of a temporary folder for every audit.
    for name in ("great_expectations", "great_expectations.data_context.types.base"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return gx
