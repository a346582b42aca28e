"""When the greedy-rollout baseline is replaced: a one-sided paired t-test."""

from __future__ import annotations

import math

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import FloatArray


def p_value_lower(candidate: FloatArray, baseline: FloatArray) -> float:
    """Return the p-value of "the candidate's mean cost is not lower than the baseline's", for paired costs.

    Args:
        candidate: Costs on a set of problems. Shape (m,), m at least 2.
        baseline: Costs on the same problems. Shape (m,).

    Returns:
        A number in [0, 1]; 0 or 1 where all differences are equal and not 0, 1 where they are all 0.

    Raises:
        BadInputError: The shapes differ, or there are fewer than two costs.
    """
    if candidate.shape != baseline.shape or candidate.ndim != 1 or candidate.size < 2:
        raise BadInputError(
            f"a paired t-test needs two equally long lists of at least 2 costs, got {candidate.shape}, {baseline.shape}"
        )
    difference = np.asarray(candidate, dtype=np.float64) - np.asarray(baseline, dtype=np.float64)
    mean, spread = float(difference.mean()), float(difference.std(ddof=1))
    if spread == 0:
        return 0.0 if mean < 0 else 1.0
    return student_t_cdf(mean / (spread / math.sqrt(difference.size)), difference.size - 1)


def student_t_cdf(t: float, degrees: int) -> float:
    """Return the probability that a Student t variable is at most ``t``.

    With t = sqrt(degrees) tan(angle) the density becomes cos(angle)^(degrees - 1), a smooth function on a bounded
    interval, which is integrated by Simpson's rule (absolute error below 1e-9).
    """
    end = math.atan(t / math.sqrt(degrees))
    return min(1.0, max(0.0, 0.5 + 0.5 * _cosine_power(end, degrees - 1) / _cosine_power(math.pi / 2, degrees - 1)))


def _cosine_power(end: float, power: int) -> float:
    """Integrate cos(x)^power from 0 to ``end``."""
    x = np.linspace(0.0, end, 4001)
    y = np.abs(np.cos(x)) ** power
    return float((y[0] + y[-1] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum()) * (x[1] - x[0]) / 3)
