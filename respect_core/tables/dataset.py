"""`Dataset`: a table on disk. Parts are staged outside it, checked, published by rename, the manifest last.

Under a home folder::

    datasets/TABLE/data/PARTITION/part-00000.parquet   what readers glob
    datasets/TABLE/manifest.json, README.md            beside the data: digests, and the table's card
    staging/TABLE/PARTITION/part-00000.parquet         work in progress, resumed after a kill
    rejected/TABLE/PARTITION-N/                        what failed its checks, kept for a look
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from respect_core.errors import BadInputError, CorruptDatasetError
from respect_core.tables.files import sha256_of, sync, write_atomically, writing
from respect_core.tables.manifest import Part, Partition, read_manifest, write_manifest
from respect_core.tables.table import TableSchema

FINGERPRINT_KEY = b"respect.fingerprint"


@dataclass(frozen=True, kw_only=True)
class StagedPart:
    """A finished part that is not published yet."""

    path: Path
    rows: int
    reused: bool
    """True where an earlier, interrupted run had written it already."""


class Staging:
    """The folder in which one partition of one table is put together."""

    def __init__(self, schema: TableSchema, folder: Path, fingerprint: str) -> None:
        self.schema, self.folder, self.fingerprint = schema, folder, fingerprint

    def part_path(self, index: int) -> Path:
        """Return where part ``index`` lies."""
        return self.folder / f"part-{index:05d}.parquet"

    def finished(self, index: int) -> StagedPart | None:
        """Return part ``index`` if an earlier run with the same fingerprint finished it."""
        path = self.part_path(index)
        try:
            footer = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            return None
        metadata = footer.schema.to_arrow_schema().metadata or {}
        same = metadata.get(FINGERPRINT_KEY, b"").decode(errors="replace") == self.fingerprint
        if not same or self.schema.matches(footer.schema.to_arrow_schema()):
            return None
        return StagedPart(path=path, rows=footer.num_rows, reused=True)

    def write(self, index: int, table: pa.Table) -> StagedPart:
        """Write one part: temporary name, flush, rename.

        Raises:
            BadInputError: ``table`` does not have this table's schema.
            UnwritableError: The disk is full or the folder cannot be written.
        """
        why = self.schema.matches(table.schema)
        if why:
            raise BadInputError(f"a part of table {self.schema.name!r} cannot be written: {why}")
        metadata = {**table.schema.metadata, FINGERPRINT_KEY: self.fingerprint.encode()}
        table = table.replace_schema_metadata(metadata)
        path = self.part_path(index)
        write_atomically(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))
        return StagedPart(path=path, rows=table.num_rows, reused=False)

    def parts(self) -> list[Path]:
        """Return the finished parts in order."""
        return sorted(self.folder.glob("part-*.parquet"))

    def read(self) -> pa.Table:
        """Return all finished parts as one table."""
        tables = [pq.read_table(path) for path in self.parts()]
        return pa.concat_tables(tables) if tables else self.schema.table([])


class Dataset:
    """One table under a home folder."""

    def __init__(self, home: Path, schema: TableSchema) -> None:
        self.home, self.schema = home, schema
        self.root = home / "datasets" / schema.name
        self.data = self.root / "data"
        self._manifest = self.root / "manifest.json"
        self._journal = self.root / "publishing.json"

    # -- reading -------------------------------------------------------------------------------------------------

    def partitions(self) -> dict[str, Partition]:
        """Return what is published, by partition name, oldest first."""
        return read_manifest(self._manifest, self.schema.name)

    def partition(self, name: str) -> Partition:
        """Return one published partition.

        Raises:
            BadInputError: It is not published; the names that are, are listed.
        """
        known = self.partitions()
        if name not in known:
            raise BadInputError(
                f"table {self.schema.name!r} has no partition {name!r}, published are: {', '.join(known) or 'none'}"
            )
        return known[name]

    def paths(self, partition: Partition) -> list[Path]:
        """Return the files of a partition after checking that each is whole.

        Raises:
            CorruptDatasetError: A file is missing, cut short or foreign; it is named.
        """
        found = []
        for part in partition.parts:
            path = self.data / part.file
            if not path.exists():
                raise CorruptDatasetError(f"{path} is missing, the manifest lists it: restore it or remove the dataset")
            if path.stat().st_size != part.bytes:
                raise CorruptDatasetError(
                    f"{path} has {path.stat().st_size} bytes, {part.bytes} were published: restore it from a copy"
                )
            try:
                why = self.schema.matches(pq.read_schema(path))
            except (OSError, pa.ArrowException) as error:
                raise CorruptDatasetError(f"{path} is not a readable Parquet file ({error})") from error
            if why:
                raise CorruptDatasetError(f"{path} does not belong to table {self.schema.name!r}: {why}")
            found.append(path)
        return found

    def read(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a published partition.

        Raises:
            BadInputError: There is no such partition.
            CorruptDatasetError: One of its files is not what was published.
        """
        paths = self.paths(self.partition(name))
        try:
            tables = [pq.read_table(path, columns=list(columns) if columns else None) for path in paths]
        except (OSError, pa.ArrowException) as error:
            raise CorruptDatasetError(f"partition {name!r} of {self.root} cannot be read ({error})") from error
        return pa.concat_tables(tables).replace_schema_metadata(self.schema.arrow.metadata)

    def verify(self) -> None:
        """Check every published file against its digest and refuse files that nobody published.

        Raises:
            CorruptDatasetError: The first file that is missing, changed or foreign is named.
        """
        listed = set()
        for partition in self.partitions().values():
            for part, path in zip(partition.parts, self.paths(partition), strict=True):
                if sha256_of(path) != part.sha256:
                    raise CorruptDatasetError(f"{path} was changed after it was published: restore it from a copy")
                listed.add(path)
        unfinished = self.data / self._unfinished() if self._journal.exists() else None
        for path in sorted(self.data.rglob("*")) if self.data.exists() else []:
            if path.is_file() and path not in listed and (unfinished is None or unfinished not in path.parents):
                raise CorruptDatasetError(f"{path} is a foreign file, no manifest lists it: move it away")

    # -- writing -------------------------------------------------------------------------------------------------

    def stage(self, name: str, fingerprint: str) -> Staging:
        """Open the staging folder of a partition; parts of an interrupted run with this fingerprint are kept."""
        self.recover()
        folder = self.home / "staging" / self.schema.name / name
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob(".*.tmp"):
                leftover.unlink(missing_ok=True)
        return Staging(self.schema, folder, fingerprint)

    def publish(self, staging: Staging, facts: dict[str, Any]) -> Partition:
        """Move a checked partition into the dataset: one rename, the manifest last.

        Raises:
            BadInputError: Nothing is staged, or the partition is published already.
            CorruptDatasetError: The dataset holds a changed or foreign file; nothing is overwritten.
        """
        name = staging.folder.name
        self.verify()
        with writing(self.root):
            self.data.mkdir(parents=True, exist_ok=True)
        with FileLock(self.root / ".lock"):
            known = self.partitions()
            if name in known:
                raise BadInputError(f"table {self.schema.name!r}: partition {name!r} is published already")
            paths = staging.parts()
            if not paths:
                raise BadInputError(f"table {self.schema.name!r}: partition {name!r} has no part to publish")
            parts = tuple(
                Part(
                    file=f"{name}/{path.name}",
                    rows=pq.read_metadata(path).num_rows,
                    bytes=path.stat().st_size,
                    sha256=sha256_of(path),
                )
                for path in paths
            )
            partition = Partition(
                name=name,
                fingerprint=staging.fingerprint,
                published_at=datetime.now(UTC).isoformat(timespec="seconds"),
                facts=facts,
                parts=parts,
            )
            with writing(self.root):
                journal = json.dumps({"partition": name})
                write_atomically(self._journal, lambda temporary: temporary.write_text(journal, encoding="utf-8"))
                staging.folder.rename(self.data / name)
                sync(self.data)
                card = self.schema.card()
                write_atomically(self.root / "README.md", lambda t: t.write_text(card, encoding="utf-8"))
                write_manifest(self._manifest, self.schema.name, self.schema.version, {**known, name: partition})
                self._journal.unlink()
        return partition

    def reject(self, staging: Staging) -> Path:
        """Move parts that failed their checks aside, where no reader looks, and return where they are."""
        rejected = self.home / "rejected" / self.schema.name
        with writing(rejected):
            rejected.mkdir(parents=True, exist_ok=True)
            number = 1 + len(list(rejected.glob(f"{staging.folder.name}-*")))
            target = rejected / f"{staging.folder.name}-{number}"
            staging.folder.rename(target)
        return target

    def recover(self) -> None:
        """Finish what a killed `publish` began: parts renamed but not in the manifest go back to staging."""
        if not self._journal.exists():
            return
        with FileLock(self.root / ".lock"):
            if not self._journal.exists():
                return
            name = self._unfinished()
            moved = self.data / name
            if name not in self.partitions() and moved.is_dir():
                target = self.home / "staging" / self.schema.name / name
                with writing(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with contextlib.suppress(FileNotFoundError):
                        shutil.rmtree(target)
                    moved.rename(target)
            self._journal.unlink(missing_ok=True)

    def _unfinished(self) -> str:
        try:
            return str(json.loads(self._journal.read_text(encoding="utf-8"))["partition"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptDatasetError(f"{self._journal} is damaged ({error}): remove it") from error
