"""Sets of tables too large to be looked at whole: made, written and audited shard by shard, then compacted.

Below a home folder, beside what `respect_core.tables.dataset` keeps there::

    staging/TABLE/PARTITION-shards/part-00012.parquet      written, read back, audited; kept until all is published
    staging/TABLE/PARTITION-unchecked-00012/               being written or audited; never counts as done
    staging/TABLE/PARTITION/part-00000.parquet             compacted, about to be published
    rejected/TABLE/PARTITION-unchecked-00012-1/            did not pass its audit
"""

from __future__ import annotations

import gc
import resource
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from respect_core.errors import QualityError
from respect_core.tables.compaction import compact
from respect_core.tables.staging import Staging
from respect_core.tables.table import TableSchema
from tasks.audit_report import AuditReport, Failure
from tasks.home import Home
from tasks.publishing import Checks, Published, audit_set, publish_staged, refuse, show, show_text, unpublished


@dataclass(frozen=True, kw_only=True)
class ShardedSet:
    """Tables that are published together under one name, in shards that each own a range of graph numbers."""

    schemas: tuple[TableSchema, ...]
    """In the order of publishing."""
    partition: str
    fingerprint: str
    num_shards: int

    def staging(self, home: Home, schema: TableSchema) -> Staging:
        """Return where finished shards of a table wait for the others."""
        return home.dataset(schema).stage(f"{self.partition}-shards", self.fingerprint)

    def unchecked(self, home: Home, schema: TableSchema, shard: int) -> Staging:
        """Return where a shard of a table lies until it has passed its audit."""
        return home.dataset(schema).stage(f"{self.partition}-unchecked-{shard:05d}", self.fingerprint)

    def is_finished(self, home: Home, shard: int) -> bool:
        """Tell whether an interrupted run has made, checked and kept a shard of every table that needs it."""
        missing = unpublished(home, self.schemas, self.partition)
        return all(self.staging(home, schema).finished(shard) for schema in missing)


@dataclass(frozen=True, kw_only=True)
class ShardReport:
    """What became of one shard that was made anew, and what it cost."""

    shard: int
    audits: tuple[AuditReport, ...]
    kept_at: tuple[str, ...]
    """Where its files are if they did not pass."""
    make_s: float
    """Seconds of generating or labelling, reading included."""
    write_s: float
    audit_s: float
    cpu_s: float
    """CPU seconds of everything, waiting excluded."""
    peak_bytes: int
    """Largest resident memory of the process so far."""


class ShardClock:
    """Measures a shard from its start on."""

    def __init__(self) -> None:
        self.start, self._cpu = time.perf_counter(), time.process_time()
        self._marks = [self.start]

    def mark(self) -> None:
        """End a phase: making, writing, auditing."""
        self._marks.append(time.perf_counter())

    def report(self, shard: int, audits: list[AuditReport], kept_at: tuple[str, ...] = ()) -> ShardReport:
        """Return the report after three phases."""
        make, write, check = (b - a for a, b in zip(self._marks, self._marks[1:], strict=False))
        unit = 1 if sys.platform == "darwin" else 1024
        return ShardReport(
            shard=shard,
            audits=tuple(audits),
            kept_at=kept_at,
            make_s=make,
            write_s=write,
            audit_s=check,
            cpu_s=time.process_time() - self._cpu,
            peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
        )


def stage_shard(
    home: Home,
    work: ShardedSet,
    shard: int,
    tables: Mapping[str, pa.Table],
    checks: Checks,
    rows: Mapping[str, int],
    clock: ShardClock,
) -> ShardReport:
    """Write one shard of every table, audit what the files hold, and keep it for publishing or move it aside.

    Args:
        home: The home folder.
        work: The set.
        shard: Number of the shard.
        tables: The rows by table name.
        checks: Domain checks by table name.
        rows: How many rows tables must have, by table name.
        clock: Started before the rows were made.

    Returns:
        The report; the shard counts as finished exactly where all its audits passed.
    """
    clock.mark()
    places = {schema.name: work.unchecked(home, schema, shard) for schema in work.schemas}
    files = {name: place.write(shard, tables[name]).path for name, place in places.items()}
    clock.mark()
    written = {name: place.read() for name, place in places.items()}
    audits = audit_set(work.schemas, written, checks)
    # Great Expectations leaves cycles that hold whole tables; a process that goes on to the next shard would pile them.
    gc.collect()
    pa.default_memory_pool().release_unused()
    audits += [
        _wrong_count(name, written[name].num_rows, count)
        for name, count in rows.items()
        if written[name].num_rows != count
    ]
    clock.mark()
    if not all(audit.passed for audit in audits):
        kept = tuple(str(home.dataset(s).reject(places[s.name])) for s in work.schemas)
        return clock.report(shard, audits, kept)
    for schema in work.schemas:
        files[schema.name].replace(work.staging(home, schema).part_path(shard))
        shutil.rmtree(places[schema.name].folder, ignore_errors=True)
    return clock.report(shard, audits)


def accept(work: ShardedSet, report: ShardReport) -> ShardReport:
    """Return the report of a shard that passed.

    Raises:
        QualityError: It did not; an artifact of the flow run shows which rules and rows.
    """
    if not all(audit.passed for audit in report.audits):
        show(work.partition, report.audits)
        refuse(report.audits, report.kept_at)
    return report


def publish_shards(home: Home, work: ShardedSet, facts: dict[str, Any], rows: Mapping[str, int]) -> list[Published]:
    """Check what only the whole set can show, compact its shards and publish it.

    Every shard has passed its audit and holds only graphs of its own range, so ids are unique in the whole if no
    shard is there twice; here it is made sure that none is missing and that the rows add up.

    Args:
        home: The home folder.
        work: The set.
        facts: Settings for the manifests.
        rows: How many rows tables must have in all, by table name.

    Returns:
        One entry a table.

    Raises:
        QualityError: A shard is missing or rows do not add up; nothing is published.
        CorruptDatasetError: A dataset holds a changed or foreign file; nothing is overwritten.
    """
    lines = []
    for schema in unpublished(home, work.schemas, work.partition):
        staging = work.staging(home, schema)
        missing = [shard for shard in range(work.num_shards) if not staging.finished(shard)]
        if missing:
            raise QualityError(schema.name, [f"rule parts.complete is broken: shards {missing[:5]} are not there"])
        parts = [staging.part_path(shard) for shard in range(work.num_shards)]
        found = sum(pq.read_metadata(path).num_rows for path in parts)
        if found != rows.get(schema.name, found):
            refuse([_wrong_count(schema.name, found, rows[schema.name])], [str(staging.folder)])
        compact(parts, home.dataset(schema).stage(work.partition, work.fingerprint))
        lines.append(f"`{schema.name}`: {found} rows in {work.num_shards} shards, each of which passed its audit.")
    if lines:
        show_text(work.partition, work.schemas[-1].name, "\n\n".join(lines))
    results = publish_staged(home, work.schemas, work.partition, work.fingerprint, facts)
    drop_shards(home, work)
    return results


def drop_shards(home: Home, work: ShardedSet) -> None:
    """Remove the shards of a set that is published; a killed run may have left them."""
    for schema in work.schemas:
        parent = home.dataset(schema).home / "staging" / schema.name
        for folder in (parent / f"{work.partition}-shards", *parent.glob(f"{work.partition}-unchecked-*")):
            shutil.rmtree(folder, ignore_errors=True)


def _wrong_count(table: str, found: int, expected: int) -> AuditReport:
    failure = Failure(
        rule="table.row_count", column=None, count=0, examples=(f"found {found} rows, expected {expected}",)
    )
    return AuditReport(table=table, rows=found, rules=(failure.rule,), failures=(failure,), unchecked=(), seconds=0.0)
