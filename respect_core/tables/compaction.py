"""Many small parts into few large files: what readers open has the size that they read fastest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from respect_core.errors import CorruptDatasetError
from respect_core.tables.files import write_atomically, writing
from respect_core.tables.staging import FINGERPRINT_KEY, Staging

FILE_BYTES: Final = 128_000_000
"""A file takes parts until they have this many bytes."""

ROW_GROUP_ROWS: Final = 1_000_000
"""Rows of a row group; the last one of a file may have fewer."""


def compact(parts: Sequence[Path], target: Staging, file_bytes: int = FILE_BYTES) -> None:
    """Write the rows of ``parts``, in their order, into as few files as their size allows.

    The bytes written depend on the parts alone. Files that an interrupted call finished are kept.

    Args:
        parts: Parquet files of the target's table, made with the target's fingerprint.
        target: Where the files go; anything else there is removed.
        file_bytes: A file takes parts until they have this many bytes.

    Raises:
        CorruptDatasetError: A part cannot be read; it is named.
        UnwritableError: The disk is full or the folder cannot be written.
    """
    groups = list(_groups(parts, file_bytes))
    wanted = {target.part_path(index) for index in range(len(groups))}
    with writing(target.folder):
        for path in target.folder.iterdir():
            if path not in wanted:
                path.unlink()
    for index, group in enumerate(groups):
        done = target.finished(index)
        if done is None or done.rows != sum(pq.read_metadata(path).num_rows for path in group):
            _merge(group, target, index)


def _groups(parts: Sequence[Path], file_bytes: int) -> Iterator[list[Path]]:
    group: list[Path] = []
    size = 0
    for path in parts:
        group.append(path)
        size += path.stat().st_size
        if size >= file_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group


def _merge(group: Sequence[Path], target: Staging, index: int) -> None:
    metadata = {**target.schema.arrow.metadata, FINGERPRINT_KEY: target.fingerprint.encode()}
    schema = target.schema.arrow.with_metadata(metadata)

    def write(temporary: Path) -> None:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for table in _row_groups(_read(path) for path in group):
                writer.write_table(table.replace_schema_metadata(metadata), row_group_size=ROW_GROUP_ROWS)

    write_atomically(target.part_path(index), write)


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise CorruptDatasetError(f"{path} cannot be read ({error}): remove it and run again") from error


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Cut a stream of tables into pieces of `ROW_GROUP_ROWS` rows."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows < ROW_GROUP_ROWS:
            continue
        joined = pa.concat_tables(waiting)
        whole = rows - rows % ROW_GROUP_ROWS
        yield joined.slice(0, whole)
        waiting, rows = [joined.slice(whole)], rows - whole
    if rows or waiting:
        yield pa.concat_tables(waiting)
