"""The manifest of a dataset: which partitions are published, with a digest of every part."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from respect_core.errors import CorruptDatasetError
from respect_core.tables.files import write_atomically

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Part:
    """One published Parquet file."""

    file: str
    """Path below the dataset's `data` folder."""
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Partition:
    """One published partition; it never changes."""

    name: str
    """Folder below `data`, like ``set=local-30-s0-1f2e3d4c``."""
    fingerprint: str
    """Digest of everything that determined the content: settings and versions."""
    published_at: str
    """UTC time in ISO 8601."""
    facts: dict[str, Any]
    """Settings and versions, for people."""
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.rows for part in self.parts)

    @property
    def digest(self) -> str:
        """Digest of the content: of the parts' digests in order."""
        return hashlib.sha256("".join(part.sha256 for part in self.parts).encode()).hexdigest()


def read_manifest(path: Path, table: str) -> dict[str, Partition]:
    """Read the partitions of a manifest, by name; empty if there is none yet.

    Raises:
        CorruptDatasetError: The file is not a manifest of ``table``.
    """
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["table"] != table:
            raise CorruptDatasetError(
                f"{path} is a manifest of table {content['table']!r} in format {content['format']}, "
                f"expected {table!r} in format {FORMAT}"
            )
        return {
            entry["name"]: Partition(**{**entry, "parts": tuple(Part(**part) for part in entry["parts"])})
            for entry in content["partitions"]
        }
    except CorruptDatasetError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptDatasetError(f"{path} is not a manifest ({error}); restore it or move the dataset away") from error


def write_manifest(path: Path, table: str, schema_version: int, partitions: dict[str, Partition]) -> None:
    """Replace the manifest in one step."""
    content = {
        "format": FORMAT,
        "table": table,
        "schema_version": schema_version,
        "partitions": [asdict(partition) for partition in partitions.values()],
    }
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
