"""What spares a short command time before its work and after it; it is measured by `tests.benchmarks.command_time`."""

from __future__ import annotations

import atexit
import gc
import os
from typing import Final

COLLECT_AFTER: Final = 50_000
"""Objects made before garbage is looked for; Python's own choice looks for it a hundred times while modules load."""


def spare_collections() -> None:
    """Look for garbage less often, and not in what is left at the end: the process gives it back as a whole."""
    gc.set_threshold(COLLECT_AFTER)
    atexit.register(gc.freeze)


def one_blas_thread() -> None:
    """Keep NumPy from multiplying with several threads unless the user wants it to; call it before NumPy's import.

    The products of the policy's network on one graph take microseconds, in which threads only wait for one another.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
