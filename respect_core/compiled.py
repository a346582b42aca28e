"""The one way inner loops are compiled: with numba, cached on disk so that a command does not pay for it each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile ``function`` on its first call, without the GIL; cache beside the source or in the user's cache folder.

    Where neither folder can be written, the function is compiled anew in every process.
    """
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba found no folder that it can write its cache to
        return cast(F, numba.njit(nogil=True)(function))
