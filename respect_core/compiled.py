"""The one way inner loops are compiled: with numba, cached on disk so that a command does not pay it each time."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast


@contextmanager
def _scipy_hidden() -> Iterator[None]:
    """Let imports of SciPy fail for a ``with`` block, as they do where it is not installed.

    Numba needs it for linear algebra alone, which nothing here compiles, but loads it to see whether it is there. That
    takes longer than loading all compiled code of a command. Linear algebra compiled by others still finds it later.
    """
    if "scipy" in sys.modules or threading.active_count() > 1:  # other threads may want it meanwhile
        yield
        return
    sys.modules["scipy"] = cast(Any, None)
    try:
        yield
    finally:
        del sys.modules["scipy"]


with _scipy_hidden():
    import numba
    import numba.np.arraymath  # asks for SciPy, and is loaded on the first call of a compiled function

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
    cache_file = dispatcher._cache._cache_file
    cache_file._source_stamp = _stamp()
    cache_file._load_index = _or(cache_file._load_index, {})
    cache_file._load_data = _or(cache_file._load_data, None)
    return cast(F, dispatcher)


def _or(load: Callable[..., Any], nothing: Any) -> Callable[..., Any]:
    """Take a cache file that cannot be read for none: it is cut short, or speaks of types that are no longer there."""

    def load_or_nothing(*args: Any) -> Any:
        try:
            return load(*args)
        except OSError:
            raise  # numba's own business
        except Exception:
            return nothing

    return load_or_nothing


@cache
def _stamp() -> str:
    """Return a digest of every file of this package that has compiled functions."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"\n@compiled" in source:
            digest.update(source)
    return digest.hexdigest()
