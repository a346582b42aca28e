"""`Staging`: the parts of one partition that are written and not published yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from respect_core.errors import BadInputError, CorruptDatasetError
from respect_core.tables.files import write_atomically, writing
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
        try:
            write_atomically(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))
        except pa.ArrowInvalid as error:
            raise BadInputError(f"a part of table {self.schema.name!r} cannot be written: {error}") from error
        return StagedPart(path=path, rows=table.num_rows, reused=False)

    def parts(self) -> list[Path]:
        """Return the finished parts in order; what a run with another fingerprint left here does not count."""
        indices = sorted(int(path.stem[5:]) for path in self.folder.glob("part-*.parquet") if path.stem[5:].isdigit())
        return [part.path for part in map(self.finished, indices) if part is not None]

    def read(self) -> pa.Table:
        """Return all finished parts as one table.

        Raises:
            CorruptDatasetError: A part is damaged; it is named and has to be removed, so that it is written again.
        """
        tables = []
        for path in self.parts():
            try:
                tables.append(pq.read_table(path))
            except (OSError, pa.ArrowException) as error:
                raise CorruptDatasetError(f"{path} cannot be read ({error}): remove it and run again") from error
        table = pa.concat_tables(tables) if tables else self.schema.table([])
        return table.replace_schema_metadata(self.schema.arrow.metadata)

    def drop_leftovers(self) -> None:
        """Remove everything but the finished parts: halves of a killed run and parts with another fingerprint."""
        keep = set(self.parts())
        with writing(self.folder):
            for path in self.folder.glob("*") if self.folder.is_dir() else ():
                if path not in keep:
                    path.unlink(missing_ok=True)
