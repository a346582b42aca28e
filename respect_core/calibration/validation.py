"""How wrong a fit is on what it was not fitted to: folds by model, family and source, beside a simple baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from respect_core.calibration.design import Design
from respect_core.calibration.fit import FEWEST, NOISE, Fit, fit_constants, prior_constants, row_weights
from respect_core.calibration.observations import Link, Observation
from respect_core.device_constants import KnownProfile
from respect_core.graph import FloatArray

Fold = Callable[[Observation], str]

FOLDS: Final[dict[str, Fold]] = {
    "model": lambda row: row.model,
    "family": lambda row: row.family,
    "source": lambda row: row.source,
}
"""What is left out at a time; a family holds the models that differ in a size alone, so its fold is the harder one."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One observation and what was predicted for it; times in milliseconds, NaN where a fold left too few rows."""

    observation: Observation
    prior_ms: float
    """By the profile's constants before the fit."""
    fitted_ms: float
    """By the constants fitted to all rows, this one included."""
    held_out_ms: dict[str, float]
    """By constants fitted without this row's model, family or source, by the names of `FOLDS`."""
    baseline_ms: dict[str, float]
    """By parameter bytes alone, fitted in the same folds."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The predictions of every fold."""

    predictions: tuple[Prediction, ...]
    fold_fits: dict[str, dict[str, Fit]]
    """The fit of every fold, by the names of `FOLDS` and what was left out."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Errors of some predictions, as fractions of the measured time."""

    count: int
    median: float
    percentile90: float
    largest: float
    bias: float
    """Median of the signed errors."""


def summarise(measured_ms: Sequence[float], predicted_ms: Sequence[float]) -> Summary | None:
    """Return the errors' summary, None where there is no finite prediction."""
    predicted, measured = np.array(predicted_ms, dtype=np.float64), np.array(measured_ms, dtype=np.float64)
    usable = np.isfinite(predicted)
    if not usable.any():
        return None
    errors = predicted[usable] / measured[usable] - 1
    sizes = np.abs(errors)
    return Summary(
        count=int(usable.sum()),
        median=float(np.median(sizes)),
        percentile90=float(np.quantile(sizes, 0.9)),
        largest=float(sizes.max()),
        bias=float(np.median(errors)),
    )


def cross_validate(
    observations: Sequence[Observation],
    priors: Mapping[Link, KnownProfile],
    fit: Fit,
    progress: Callable[[str], None] = lambda _: None,
) -> Validation:
    """Predict every observation by constants fitted without its model, its family and its source.

    Args:
        observations: What was fitted to.
        priors: As for `fit_constants`.
        fit: The fit to all of them.
        progress: Called with a line before each fold.
    """
    held_out: dict[str, FloatArray] = {}
    baseline: dict[str, FloatArray] = {}
    fits: dict[str, dict[str, Fit]] = {}
    for name, fold in FOLDS.items():
        held_out[name] = np.full(len(observations), np.nan)
        baseline[name] = np.full(len(observations), np.nan)
        fits[name] = {}
        for left_out, inside, outside in _splits(observations, fold):
            progress(f"without {name} {left_out}")
            training = [observations[i] for i in inside]
            if len(training) < FEWEST:
                continue
            fits[name][left_out] = found = fit_constants(training, priors)
            tested = [observations[i] for i in outside]
            held_out[name][outside] = found.predict(tested)
            baseline[name][outside] = fit_parameter_bytes(training)(tested)
    prior = Design(observations, fit.placing.values).predict(np.array([c.value for c in prior_constants(priors)]))
    fitted = fit.predict(observations)
    return Validation(
        predictions=tuple(
            Prediction(
                observation=row,
                prior_ms=float(prior[i]),
                fitted_ms=float(fitted[i]),
                held_out_ms={name: float(held_out[name][i]) for name in FOLDS},
                baseline_ms={name: float(baseline[name][i]) for name in FOLDS},
            )
            for i, row in enumerate(observations)
        ),
        fold_fits=fits,
    )


def _splits(observations: Sequence[Observation], fold: Fold) -> Iterator[tuple[str, list[int], list[int]]]:
    keys = [fold(row) for row in observations]
    for key in dict.fromkeys(keys):
        yield (
            key,
            [i for i, other in enumerate(keys) if other != key],
            [i for i, other in enumerate(keys) if other == key],
        )


def fit_parameter_bytes(training: Sequence[Observation]) -> Callable[[Sequence[Observation]], FloatArray]:
    """Fit the baseline: a time that depends on parameter bytes alone, and return it as a function.

    ``a + b * P + c * max(0, P - 8 MiB)`` with P the compiled bytes of the largest stage (of all stages for a latency)
    and a, b and c not negative; weights and loss are those of `fit_constants`.
    """
    from scipy.optimize import least_squares

    features, measured = _parameter_features(training), np.array([row.time_ms for row in training])
    scale = np.sqrt(row_weights(training))

    def residuals(x: FloatArray) -> FloatArray:
        errors: FloatArray = np.log(np.maximum(features @ x, 1e-9) / measured) / NOISE * scale
        return errors

    start = np.array([float(np.median(measured)), 1.0, 1.0])
    found = least_squares(residuals, start, bounds=(0, np.inf), loss="soft_l1")

    def predict(rows: Sequence[Observation]) -> FloatArray:
        times: FloatArray = _parameter_features(rows) @ found.x
        return times

    return predict


def _parameter_features(rows: Sequence[Observation]) -> FloatArray:
    largest = [max(stage.compiled_mib for stage in row.stages) for row in rows]
    size = np.array(
        [row.compiled_mib if row.measured == "latency" else top for row, top in zip(rows, largest, strict=True)]
    )
    return np.stack([np.ones_like(size), size, np.maximum(0, size - 8)], axis=1)
