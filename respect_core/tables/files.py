"""Durable file writing: temporary name, fsync, rename; and errors that say what to do."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from respect_core.errors import RespectError, UnwritableError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an operating-system error while writing ``path`` into an `UnwritableError` that names it."""
    try:
        yield
    except RespectError:
        raise
    except OSError as error:
        raise UnwritableError(
            f"{path} cannot be written ({error.strerror or error}): free space or choose --home (or another --out)"
        ) from error


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, flush it to disk and rename it into place.

    Raises:
        UnwritableError: The disk is full or the folder cannot be written; nothing is left behind.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not mkstemp: its files are readable by their owner only, and stay so when renamed.
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            write(temporary)
            sync(temporary)
            temporary.replace(path)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """Return the hexadecimal sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_writable(folder: Path) -> None:
    """Create ``folder`` if needed and write a byte there.

    Raises:
        UnwritableError: It cannot be created or written.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=".probe-", dir=folder) as file:
            file.write(b"x")
            file.flush()
