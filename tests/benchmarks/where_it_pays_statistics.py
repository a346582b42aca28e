"""Confidence intervals by the bootstrap, and the tables between markers of a page of the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from respect_core.graph import FloatArray

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean and its 95 % confidence interval: percentiles of the means of resampled values."""

    mean: float
    low: float
    high: float

    def scaled(self, factor: float) -> Mean:
        """Return all three times ``factor``."""
        return Mean(mean=self.mean * factor, low=self.low * factor, high=self.high * factor)


def mean_of(values: FloatArray) -> Mean:
    """Return the mean of values (m,) with its interval; the resampling always draws alike."""
    picks = np.random.default_rng(0).integers(values.size, size=(RESAMPLES, values.size))
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values[picks].mean(axis=1), [tail, 100 - tail]).tolist()
    return Mean(mean=float(values.mean()), low=low, high=high)


def percent(value: Mean) -> str:
    """Return a fraction as a percentage with its interval."""
    as_percent = value.scaled(100)
    if as_percent.mean == as_percent.low == as_percent.high == 0:
        return "0"
    digits = 1 if as_percent.mean >= 10 else 2 if as_percent.mean >= 1 else 3
    return f"{as_percent.mean:.{digits}f} ({as_percent.low:.{digits}f}..{as_percent.high:.{digits}f})"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> list[str]:
    """Return the lines of a Markdown table; all but the first columns are numbers."""
    rule = ["---"] * text_columns + ["---:"] * (len(heads) - text_columns)
    return [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]


def renew(page: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Put tables between the markers ``<!-- NAME -->`` of a page, atomically.

    Raises:
        ValueError: A marker does not occur exactly twice.
    """
    content = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        marker = f"<!-- {name} -->"
        parts = content.split(marker)
        if len(parts) != 3:
            raise ValueError(f"{page} holds the marker {marker} {len(parts) - 1} times, 2 are needed")
        content = marker.join([parts[0], "\n" + "\n".join(lines) + "\n", parts[2]])
    write(page, content)


def write(path: Path, content: str) -> None:
    """Write a file under a temporary name, then rename it."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(content, encoding="utf-8")
    temporary.replace(path)
