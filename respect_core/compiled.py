"""The one way inner loops are compiled: with numba, cached on disk so that a command does not pay it each time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile ``function`` on its first call, without the GIL; cache beside the source or in the user's cache folder.

    Where neither folder can be written, the function is compiled anew in every process.
    """
    try:
        dispatcher = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no folder that it can write its cache to
        return cast(F, numba.njit(nogil=True)(function))
    # By itself numba looks only at the file of this function, and would go on using machine code into which an older
    # version of a function from another file was compiled.
    dispatcher._cache._cache_file._source_stamp = _stamp()
    return cast(F, dispatcher)


@cache
def _stamp() -> str:
    """Return a digest of every file of this package that has compiled functions."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"\n@compiled" in source:
            digest.update(source)
    return digest.hexdigest()
