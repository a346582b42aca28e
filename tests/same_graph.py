"""Comparison of two graphs, field by field."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from respect_core.graph import DnnGraph


def differences(one: DnnGraph, other: DnnGraph, ignore: tuple[str, ...] = ()) -> list[str]:
    """Return the names of the fields in which two graphs differ."""
    found = []
    for field in fields(DnnGraph):
        if field.name in ignore:
            continue
        a, b = getattr(one, field.name), getattr(other, field.name)
        same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f") if isinstance(a, np.ndarray) else a == b
        if not same or (isinstance(a, np.ndarray) and a.dtype != b.dtype):
            found.append(field.name)
    return found
