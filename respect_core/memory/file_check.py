"""Whether a reordered or rewritten file computes what the model computes, in the LiteRT interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from respect_core.errors import VerificationError
from respect_core.json_text import shown
from respect_core.segments.interpreter import KERNELS, Array
from respect_core.segments.verify import run_model

TOLERANCE: Final = 1e-4
"""Largest difference of a rewritten file's output, relative to the largest magnitude in that output: float32 rounds to
6e-8, sums of partial sums round a few times more often, and what cancels out in a network magnifies it."""


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    """What was run and found equal."""

    num_items: int
    is_bit_identical: bool
    largest_error: float
    """Largest difference in any output, relative to the largest magnitude in that output."""
    tolerance: float
    """What was allowed; 0 stands for bit-identical."""
    kernels: str = KERNELS


def check_file(path: Path, content: bytes, names: Sequence[str], items: Sequence[Array], tolerance: float) -> FileCheck:
    """Run a model and a file made of it on the same items and compare all outputs.

    Args:
        path: The model.
        content: The other file; it has the model's inputs and outputs.
        names: Names of the model's distinct outputs, for messages.
        items: One array an input, the first axis counts the items.
        tolerance: Relative to the largest magnitude in an output; 0 demands equal bytes.

    Raises:
        VerificationError: An output differs by more; it is named.
        ModelCannotRunError: The interpreter cannot run one of them.
    """
    expected = run_model(path, items, str(path))
    found = run_model(content, items, "the new file")
    errors = []
    identical = True
    for name, one, other in zip(names, expected, found, strict=True):
        same = (one.dtype, one.shape) == (other.dtype, other.shape)
        if same and one.tobytes() == other.tobytes():
            continue
        identical = False
        error = _relative_error(one, other) if same else np.inf
        if not error <= tolerance or not tolerance:
            allowed = f"at most {tolerance:g} is allowed" if tolerance else "bit-identical is demanded"
            raise VerificationError(
                f"the new file does not compute what {path} computes: its output {shown(name)} differs by "
                f"{error:.2g} of the largest magnitude, {allowed}"
            )
        errors.append(error)
    return FileCheck(
        num_items=len(items[0]) if items else 1,
        is_bit_identical=identical,
        largest_error=max(errors, default=0.0),
        tolerance=tolerance,
    )


def _relative_error(one: Array, other: Array) -> float:
    if one.dtype.kind not in "fc":
        return float(np.inf)
    if not np.array_equal(np.isfinite(one), np.isfinite(other)):
        return float(np.inf)
    finite = np.isfinite(one)
    a, b = one[finite].astype(np.float64), other[finite].astype(np.float64)
    scale = float(np.abs(a).max(initial=0.0))
    difference = float(np.abs(a - b).max(initial=0.0))
    return difference / scale if scale else difference
