"""Fitting the constants: least squares of relative errors, within plausible ranges, constants without support kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from respect_core.calibration.capacity import Placing, settle_placing
from respect_core.calibration.design import FITTED, STREAMING, Design
from respect_core.calibration.observations import LINKS, Link, Observation
from respect_core.device_constants import Constant, KnownProfile
from respect_core.errors import BadInputError
from respect_core.graph import BoolArray, FloatArray, IntArray

NOISE: Final = 0.1
"""Relative error that the model is taken to have at most; where a residual is beyond it, its weight falls (soft l1)."""

LEAST_NOISE: Final = 0.02
"""Relative error that is assumed even where the fit is better: devices repeat within 1.6 %."""

MOST_ROWS: Final = 4
"""Rows of one kind (family, link, number of stages) that count in full; more of them share this weight."""

LEARNED: Final = 0.4
"""A constant is supported if the data leave at most this part of the prior's uncertainty."""

FEWEST: Final = 3
"""Observations that a fit needs at least."""


@dataclass(frozen=True, kw_only=True)
class FittedConstant:
    """A constant after the fit."""

    name: str
    value: float
    low: float
    high: float
    is_fitted: bool
    """False where the data do not support a value of their own: then it is the prior's, with the prior's range."""
    num_rows: int
    """Rows whose time differs by at least a hundredth between the ends of its plausible range."""
    num_models: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Constants fitted to observations."""

    constants: dict[str, FittedConstant]
    """By the names of `design.FITTED`."""
    placing: Placing
    theta: FloatArray = field(repr=False)
    """Values in the order of `design.FITTED`."""

    def predict(self, observations: Sequence[Observation]) -> FloatArray:
        """Return the modelled time of every observation in milliseconds. Shape (R,)."""
        return Design(observations, self.placing.values).predict(self.theta)


def fit_constants(observations: Sequence[Observation], priors: Mapping[Link, KnownProfile]) -> Fit:
    """Fit the model's constants.

    The sum of squared logarithmic errors in units of the noise is made smallest, together with the squared distance of
    every constant to its prior value in units of half its plausible range; constants stay inside that range. As long as
    the observations do not support all of them (`LEARNED`), the least supported one is set back to its prior value and
    the rest is fitted again. The noise is `NOISE`, or what a first fit to enough rows leaves
    where that is less.

    Args:
        observations: At least `FEWEST`.
        priors: For every link its profile, whose values and ranges are the prior.

    Raises:
        BadInputError: Too few observations.
    """
    if len(observations) < FEWEST:
        raise BadInputError(f"{len(observations)} usable timing rows, a fit needs at least {FEWEST}")
    prior = prior_constants(priors)
    placing = settle_placing(observations, next(iter(priors.values())))
    design = Design(observations, placing.values)
    weights = row_weights(observations)
    found = _supported(design, weights, prior, NOISE)
    errors = np.abs(np.log(np.maximum(design.predict(found.theta), 1e-9) / design.time_ms))
    noise = float(np.clip(1.4826 * np.median(errors), LEAST_NOISE, NOISE))
    if noise < NOISE and weights.sum() > 3 * len(FITTED):  # few rows are always fitted too well
        found = _supported(design, weights, prior, noise)
    theta, spread, free, reason = found.theta, found.spread, found.free, found.reason
    rows, models = _support(design, theta, prior)
    constants = {}
    for i, known in enumerate(prior):
        low, high = known.low, known.high
        if free[i]:
            reach = 2 * float(spread[i]) * _half_range(known)
            low, high = max(low, float(theta[i]) - reach), min(high, float(theta[i]) + reach)
            few = "low: " if models[i] < 2 else ""
            reason[i] = f"{few}fitted to {rows[i]} rows of {models[i]} model{'s' if models[i] > 1 else ''}"
        constants[known.name] = FittedConstant(
            name=known.name,
            value=float(theta[i]),
            low=low,
            high=high,
            is_fitted=bool(free[i]),
            num_rows=int(rows[i]),
            num_models=int(models[i]),
            why=reason[i],
        )
    return Fit(constants=constants, placing=placing, theta=theta)


def prior_constants(priors: Mapping[Link, KnownProfile]) -> list[Constant]:
    """Return the prior of each of `design.FITTED`, shared constants from the first link's profile."""
    shared = next(iter(priors.values()))
    out = []
    for name in FITTED:
        base, _, link = name.partition("@")
        known = shared[base] if not link else next((p[base] for at, p in priors.items() if at == link), shared[base])
        out.append(
            Constant(name=name, value=known.value, low=known.low, high=known.high, unit=known.unit, what=known.what)
        )
    return out


def row_weights(observations: Sequence[Observation]) -> FloatArray:
    """Return each row's weight, so that many rows of one kind do not drown a few of another. Shape (R,)."""
    kinds = [(row.family, row.link, row.num_stages, row.measured) for row in observations]
    count = Counter(kinds)
    return np.array([min(1.0, MOST_ROWS / count[kind]) for kind in kinds])


@dataclass(frozen=True, kw_only=True)
class _Supported:
    """Constants, what is left of their prior uncertainty, which are fitted, and why the others are not; (11,) each."""

    theta: FloatArray
    spread: FloatArray
    free: BoolArray
    reason: list[str]


def _supported(design: Design, weights: FloatArray, prior: Sequence[Constant], noise: float) -> _Supported:
    """Fit, and as long as a constant is not supported set the least supported one back to its prior."""
    free = np.array([constant.high > constant.low for constant in prior])
    theta, _ = _solve(design, weights, prior, free, noise)
    rows, _ = _support(design, theta, prior)
    reason = [_unsupported(int(rows[i]), bool(free[i])) for i in range(free.size)]
    free &= rows > 0
    while True:
        theta, spread = _solve(design, weights, prior, free, noise)
        worst = int(np.argmax(np.where(free, spread, 0.0)))
        if not free.any() or spread[worst] <= LEARNED:
            return _Supported(theta=theta, spread=spread, free=free, reason=reason)
        free[worst] = False
        reason[worst] = f"{spread[worst]:.0%} of its prior uncertainty would be left"


def _unsupported(num_rows: int, has_range: bool) -> str:
    if not has_range:
        return "its plausible range is one point"
    return "" if num_rows else "no row depends on it"


def _half_range(constant: Constant) -> float:
    return max((constant.high - constant.low) / 2, 1e-12)


def _solve(
    design: Design, weights: FloatArray, prior: Sequence[Constant], free: BoolArray, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Return the fitted constants, shape (11,), and how much of each one's prior uncertainty is left, shape (11,)."""
    from scipy.optimize import least_squares

    centre = np.array([constant.value for constant in prior])
    if not free.any():
        return centre, np.ones(centre.size)
    half = np.array([_half_range(constant) for constant in prior])
    low = np.array([constant.low for constant in prior])
    high = np.array([constant.high for constant in prior])
    weight = np.sqrt(weights)

    def theta_of(x: FloatArray) -> FloatArray:
        out = centre.copy()
        out[free] = np.clip(centre[free] + half[free] * x, low[free], high[free])
        return out

    def residuals(x: FloatArray) -> FloatArray:
        errors = np.log(np.maximum(design.predict(theta_of(x)), 1e-9) / design.time_ms)
        return np.concatenate([_softened(errors / noise) * weight, x])

    bounds = ((low - centre)[free] / half[free], (high - centre)[free] / half[free])
    margin = 1e-6 * (bounds[1] - bounds[0])
    start = np.clip(np.zeros(int(free.sum())), bounds[0] + margin, bounds[1] - margin)
    found = least_squares(residuals, start, bounds=bounds, x_scale=1.0, max_nfev=200)
    information = found.jac.T @ found.jac
    misfit = 2 * found.cost / max(1.0, float(weights.sum()) - start.size)
    left = np.ones(centre.size)
    left[free] = np.sqrt(np.diag(np.linalg.inv(information)) * max(1.0, misfit))
    return theta_of(found.x), left


def _softened(z: FloatArray) -> FloatArray:
    """Return residuals whose squares are the soft l1 loss of ``z``: ``2 * (sqrt(1 + z**2) - 1)``."""
    out: FloatArray = np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z**2) - 1))
    return out


def _support(design: Design, theta: FloatArray, prior: Sequence[Constant]) -> tuple[IntArray, IntArray]:
    """Count the rows, and their models, that each constant's plausible range changes by at least a hundredth."""
    rows, models = np.zeros(theta.size, dtype=np.int64), np.zeros(theta.size, dtype=np.int64)
    names = np.array([row.model for row in design.observations])
    for i in range(theta.size):
        ends = []
        for end in (prior[i].low, prior[i].high):
            changed = theta.copy()
            changed[i] = end
            ends.append(design.predict(changed))
        matters = np.abs(ends[1] - ends[0]) >= 0.01 * np.minimum(*ends)
        rows[i], models[i] = int(matters.sum()), np.unique(names[matters]).size
    return rows, models


def fitted_constant(fit: Fit, name: str, link: Link) -> FittedConstant:
    """Return a constant of one link's profile."""
    return fit.constants[f"{STREAMING}@{link}" if name == STREAMING else name]


__all__ = ["FEWEST", "LEARNED", "LINKS", "Fit", "FittedConstant", "fit_constants", "fitted_constant", "row_weights"]
