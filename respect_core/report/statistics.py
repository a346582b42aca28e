"""Means over models with their confidence intervals, by a seeded bootstrap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

_RESAMPLES: Final = 4000
_LEVEL: Final = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean and its 95 % confidence interval; the interval is None where one cannot be had."""

    mean: float
    low: float | None
    high: float | None
    num_values: int
    num_groups: int


def bootstrap_mean(groups: Mapping[str, Sequence[float]], *, geometric: bool = False, seed: int = 0) -> Estimate | None:
    """Estimate a mean over values that come in groups.

    Values of one group (one model cut into 4, 5 and 6 stages) go together, so whole groups are drawn with replacement
    and the interval is the percentile interval of the resampled means (the cluster bootstrap).

    Args:
        groups: Values by group; empty groups are left out.
        geometric: Take the geometric mean; all values must then be positive.
        seed: Seed of the resampling.

    Returns:
        The estimate, None without any value; without interval where there are fewer than two groups.
    """
    arrays = [np.asarray(values, dtype=np.float64) for values in groups.values() if len(values)]
    if not arrays:
        return None
    if geometric:
        arrays = [np.log(values) for values in arrays]
    sums = np.array([values.sum() for values in arrays])
    counts = np.array([values.size for values in arrays])
    back = math.exp if geometric else float
    low = high = None
    if len(arrays) > 1:
        drawn = np.random.default_rng(seed).integers(len(arrays), size=(_RESAMPLES, len(arrays)))
        means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
        tail = (1 - _LEVEL) / 2
        low, high = (back(float(q)) for q in np.quantile(means, [tail, 1 - tail]))
    return Estimate(
        mean=back(float(sums.sum() / counts.sum())),
        low=low,
        high=high,
        num_values=int(counts.sum()),
        num_groups=len(arrays),
    )
