"""From staged tables to published partitions: audit every table of a set, then publish them all, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from prefect.artifacts import create_markdown_artifact

from respect_core.errors import QualityError
from respect_core.tables.domain_checks import DomainColumns
from respect_core.tables.table import TableSchema
from tasks.audit_report import AuditReport
from tasks.home import Home
from tasks.quality import Domain, audit

Checks: TypeAlias = Mapping[str, Callable[[Mapping[str, pa.Table]], DomainColumns]]
"""For a table's name, how its domain columns follow from the tables of the set."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published partition, as tasks pass it on."""

    table: str
    partition: str
    rows: int
    digest: str
    reused: bool
    """True where it was published before and nothing had to be done."""


def published(home: Home, schema: TableSchema, partition: str) -> Published | None:
    """Return a partition if it is published and whole.

    Raises:
        CorruptDatasetError: It is published and a file of it is missing or changed, or there is a foreign file.
    """
    dataset = home.dataset(schema)
    found = dataset.partitions().get(partition)
    if found is None:
        return None
    dataset.check(found)
    return Published(table=schema.name, partition=partition, rows=found.rows, digest=found.digest, reused=True)


def unpublished(home: Home, schemas: Sequence[TableSchema], partition: str) -> list[TableSchema]:
    """Return the tables of a set that do not have the partition yet."""
    return [schema for schema in schemas if published(home, schema, partition) is None]


def publish_all(
    home: Home,
    schemas: Sequence[TableSchema],
    partition: str,
    fingerprint: str,
    facts: dict[str, Any],
    checks: Checks,
) -> list[Published]:
    """Audit the staged partition of several tables as a whole and publish it; for sets that fit into memory.

    Args:
        home: The home folder.
        schemas: Tables in the order of publishing; one that a killed run had published already is left as it is.
        partition: Name of the partition, the same in every table.
        fingerprint: What the staged parts were made with.
        facts: Settings for the manifests.
        checks: Domain checks by table name.

    Returns:
        One entry a table.

    Raises:
        QualityError: A rule is broken in one of the tables: none is published, all parts are moved aside.
        CorruptDatasetError: A dataset holds a changed or foreign file; nothing is overwritten.
    """
    open_ = unpublished(home, schemas, partition)
    stagings = {schema.name: home.dataset(schema).stage(partition, fingerprint) for schema in open_}
    tables = {
        schema.name: stagings[schema.name].read() if schema in open_ else home.dataset(schema).read(partition)
        for schema in schemas
    }
    reports = audit_set(open_, tables, checks)
    show(partition, reports)
    if not all(report.passed for report in reports):
        refuse(reports, [str(home.dataset(schema).reject(stagings[schema.name])) for schema in open_])
    return publish_staged(home, schemas, partition, fingerprint, facts)


def audit_set(schemas: Sequence[TableSchema], tables: Mapping[str, pa.Table], checks: Checks) -> list[AuditReport]:
    """Audit tables that belong together; domain checks may look at all of them."""
    return [audit(schema, tables[schema.name], _domain(checks, schema, tables)) for schema in schemas]


def refuse(reports: Sequence[AuditReport], kept_at: Sequence[str]) -> None:
    """Raise the `QualityError` of the reports that did not pass, if there are any."""
    failed = [report for report in reports if not report.passed]
    if failed:
        lines = [line for report in failed for line in report.lines]
        raise QualityError(failed[0].table, lines, ", ".join(kept_at))


def publish_staged(
    home: Home, schemas: Sequence[TableSchema], partition: str, fingerprint: str, facts: dict[str, Any]
) -> list[Published]:
    """Publish what is staged and has passed its audit; tables that have the partition are left as they are.

    Raises:
        CorruptDatasetError: A dataset holds a changed or foreign file; nothing is overwritten.
    """
    for schema in unpublished(home, schemas, partition):
        dataset = home.dataset(schema)
        dataset.publish(dataset.stage(partition, fingerprint), facts)
    results = [published(home, schema, partition) for schema in schemas]
    return [
        Published(table=r.table, partition=r.partition, rows=r.rows, digest=r.digest, reused=False)
        for r in results
        if r
    ]


def show(partition: str, reports: Sequence[AuditReport]) -> None:
    """Leave the audits as an artifact of the flow run."""
    if reports:
        show_text(partition, reports[-1].table, "\n".join(report.markdown() for report in reports))


def show_text(partition: str, table: str, text: str) -> None:
    """Leave a text about the checks of a table as an artifact of the flow run."""
    create_markdown_artifact(
        f"Partition `{partition}`\n\n{text}", key=f"checks-{table.replace('_', '-')}", description=partition
    )


def _domain(checks: Checks, schema: TableSchema, tables: Mapping[str, pa.Table]) -> Domain:
    check = checks.get(schema.name)
    return None if check is None else lambda _: check(tables)
