"""`Dataset`: a table on disk. Parts are staged outside it, checked, published by rename, the manifest last.

Under a home folder::

    datasets/TABLE/data/PARTITION/part-00000.parquet   what readers glob
    datasets/TABLE/manifest.json, README.md            beside the data: digests, and the table's card
    staging/TABLE/PARTITION/part-00000.parquet         work in progress, resumed after a kill
    rejected/TABLE/PARTITION-N/                        what failed its checks, kept for a look
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock

from respect_core.errors import BadInputError, CorruptDatasetError
from respect_core.tables.files import sha256_of, sync, write_atomically, writing
from respect_core.tables.manifest import Part, Partition, read_manifest, write_manifest
from respect_core.tables.staging import Staging
from respect_core.tables.table import TableSchema


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
        partition = self.partition(name)
        paths = self.paths(partition)
        _check_digests(partition, paths)
        try:
            tables = [pq.read_table(path, columns=list(columns) if columns else None) for path in paths]
        except (OSError, pa.ArrowException) as error:
            raise CorruptDatasetError(f"partition {name!r} of {self.root} cannot be read ({error})") from error
        return pa.concat_tables(tables).replace_schema_metadata(self.schema.arrow.metadata)

    def check(self, partition: Partition) -> None:
        """Check the files of one partition against their digests and refuse files that nobody published.

        Raises:
            CorruptDatasetError: The first file that is missing, changed or foreign is named.
        """
        self._verify(only=partition.name)

    def verify(self) -> None:
        """Check every published file against its digest and refuse files that nobody published.

        Raises:
            CorruptDatasetError: The first file that is missing, changed or foreign is named.
        """
        self._verify(only=None)

    def _verify(self, only: str | None) -> None:
        # In this order another process that publishes meanwhile does no harm: a file that lies in the data folder
        # is named by the journal until the manifest lists it.
        present = [path for path in sorted(self.data.rglob("*")) if path.is_file()] if self.data.exists() else []
        name = self._unfinished()
        unfinished = None if name is None else self.data / name
        listed = set()
        for partition in self.partitions().values():
            listed |= {self.data / part.file for part in partition.parts}
            if only in (None, partition.name):
                _check_digests(partition, self.paths(partition))
        for path in present:
            known = path in listed or (unfinished is not None and unfinished in path.parents)
            if not known and path.exists():
                raise CorruptDatasetError(f"{path} is a foreign file, no manifest lists it: move it away")

    # -- writing -------------------------------------------------------------------------------------------------

    def stage(self, name: str, fingerprint: str) -> Staging:
        """Open the staging folder of a partition; parts of an interrupted run with this fingerprint are kept.

        Raises:
            BadInputError: The folder would be named after a column, and no reader could open the table as a whole.
        """
        key = name.partition("=")[0]
        if key in self.schema.column_names:
            raise BadInputError(f"partition {name!r} is named after the column {key!r} of table {self.schema.name!r}")
        self.recover()
        folder = self.home / "staging" / self.schema.name / name
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return Staging(self.schema, folder, fingerprint)

    def publish(self, staging: Staging, facts: dict[str, Any]) -> Partition:
        """Move a checked partition into the dataset: one rename, the manifest last.

        Raises:
            BadInputError: Nothing is staged, or the partition is published already.
            CorruptDatasetError: The dataset holds a changed or foreign file; nothing is overwritten.
        """
        name = staging.folder.name
        with self._locked():
            self._recover()
            self.verify()
            known = self.partitions()
            if name in known:
                raise BadInputError(f"table {self.schema.name!r}: partition {name!r} is published already")
            staging.drop_leftovers()
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
            try:
                self._move_in(staging, {**known, name: partition})
            except BaseException:
                with contextlib.suppress(OSError):  # a later run recovers what cannot be undone now
                    self._recover()
                raise
        return partition

    def _move_in(self, staging: Staging, partitions: dict[str, Partition]) -> None:
        """Rename the staged folder into the data, then replace the manifest; the journal spans both."""
        name, card = staging.folder.name, self.schema.card()
        journal = json.dumps({"partition": name})
        with writing(self.root):
            self.data.mkdir(parents=True, exist_ok=True)
            write_atomically(self._journal, lambda temporary: temporary.write_text(journal, encoding="utf-8"))
            staging.folder.rename(self.data / name)
            sync(self.data)
            write_atomically(self.root / "README.md", lambda temporary: temporary.write_text(card, encoding="utf-8"))
            write_manifest(self._manifest, self.schema.name, self.schema.version, partitions)
            self._journal.unlink()

    def reject(self, staging: Staging) -> Path:
        """Move parts that failed their checks aside, where no reader looks, and return where they are."""
        rejected = self.home / "rejected" / self.schema.name
        with writing(rejected):
            rejected.mkdir(parents=True, exist_ok=True)
            names = (f"{staging.folder.name}-{number}" for number in itertools.count(1))
            target = next(rejected / name for name in names if not (rejected / name).exists())
            staging.folder.rename(target)
        return target

    def recover(self) -> None:
        """Finish what a killed `publish` began: parts renamed but not in the manifest go back to staging."""
        if self._journal.exists():
            with self._locked():
                self._recover()

    def _recover(self) -> None:
        name = self._unfinished()
        if name is None:
            return
        moved, target = self.data / name, self.home / "staging" / self.schema.name / name
        with writing(self.root):
            if name not in self.partitions() and moved.is_dir():
                if any(target.glob("part-*.parquet")):  # another run writes this partition again
                    shutil.rmtree(moved)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    if target.exists():
                        shutil.rmtree(target)
                    moved.rename(target)
            self._journal.unlink(missing_ok=True)

    def _unfinished(self) -> str | None:
        """Return the partition whose publishing has begun and not ended, None if there is none."""
        try:
            return str(json.loads(self._journal.read_text(encoding="utf-8"))["partition"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CorruptDatasetError(f"{self._journal} is damaged ({error}): remove it") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from publishing into this table."""
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.root / ".lock")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def _check_digests(partition: Partition, paths: Sequence[Path]) -> None:
    for part, path in zip(partition.parts, paths, strict=True):
        if sha256_of(path) != part.sha256:
            raise CorruptDatasetError(f"{path} was changed after it was published: restore it from a copy")
