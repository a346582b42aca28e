"""Writing a fitted profile: a TOML file like `devices.toml`, and its error table as JSON beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from respect_core.calibration.design import PLACING
from respect_core.calibration.fit import Fit, fitted_constant
from respect_core.calibration.observations import Link, Measurements, Observation
from respect_core.calibration.validation import FOLDS, Prediction, Summary, Validation, summarise
from respect_core.device import FINER_KEYS
from respect_core.device_constants import CONSTANTS, Constant, KnownProfile
from respect_core.tables.files import write_atomically

KEPT: Final = "kept"
"""Begins the confidence of a constant that was not fitted."""

_BASELINE: Final = "parameter bytes only"


def fitted_profile(fit: Fit, validation: Validation, link: Link, prior: KnownProfile) -> dict[str, Constant]:
    """Return every constant of a link's profile with its uncertainty.

    The range of a fitted constant covers two standard deviations (widened by the misfit) and its values in all fits
    that leave a family out, inside the plausible range; a constant that the data do not support keeps that range.
    """
    out: dict[str, Constant] = {}
    for name in (*CONSTANTS, *FINER_KEYS):
        known = prior[name]
        if name in PLACING:
            out[name] = _placed(fit, known)
            continue
        found = fitted_constant(fit, name, link)
        value = round(found.value, 4)
        low, high, confidence = known.low, known.high, f"{KEPT}: {found.why}; was: {known.confidence or 'not stated'}"
        source = known.source
        if found.is_fitted:
            others = [
                fitted_constant(other, name, link).value for other in validation.fold_fits.get("family", {}).values()
            ]
            low = max(known.low, min(found.low, value, *others))
            high = min(known.high, max(found.high, value, *others))
            confidence, source = found.why, "fit by respect calibrate"
            if min(value - known.low, known.high - value) < 0.01 * (known.high - known.low):
                confidence += "; at the edge of its plausible range"
        out[name] = Constant(
            name=name, value=value, low=math.floor(low * 1e4) / 1e4, high=math.ceil(high * 1e4) / 1e4,
            unit=known.unit, what=known.what, confidence=confidence, source=source,
        )  # fmt: skip
    return out


def _placed(fit: Fit, known: Constant) -> Constant:
    placing = fit.placing
    confidence = f"{KEPT}: no row reports streamed bytes"
    if placing.num_reported and known.name != "activation_mib":
        confidence = f"explains the streamed bytes of {placing.num_explained} of {placing.num_reported} reported stages"
    elif known.name == "activation_mib":
        confidence = f"{KEPT}: never fitted"
    low, high = placing.ranges[known.name]
    return Constant(
        name=known.name, value=placing.values[known.name], low=low, high=high,
        unit=known.unit, what=known.what, confidence=confidence, source=known.source,
    )  # fmt: skip


def error_kinds(rows: Sequence[Observation]) -> dict[str, list[int]]:
    """Return the rows of every kind that errors are reported for, all of them first."""
    kinds: dict[str, list[int]] = {"all rows": list(range(len(rows)))}
    for i, row in enumerate(rows):
        size = "one TPU" if row.num_stages == 1 else f"{row.measured}, {row.num_stages} TPUs"
        what = "synthetic nets" if row.family.startswith("synthetic") else f"real nets, {row.link}"
        kinds.setdefault(f"{what}, {size}", []).append(i)
    return kinds


def error_table(predictions: Sequence[Prediction]) -> dict[str, dict[str, Any]]:
    """Return the summaries of all rows, and of each kind of rows, by what predicted them."""
    kinds = error_kinds([row.observation for row in predictions])
    return {kind: _summaries([predictions[i] for i in members]) for kind, members in kinds.items()}


def _summaries(rows: Sequence[Prediction]) -> dict[str, Any]:
    measured = [row.observation.time_ms for row in rows]
    by: dict[str, list[float]] = {
        "prior": [row.prior_ms for row in rows],
        "fitted": [row.fitted_ms for row in rows],
    }
    for name in FOLDS:
        by[f"without its {name}"] = [row.held_out_ms[name] for row in rows]
        by[f"{_BASELINE}, without its {name}"] = [row.baseline_ms[name] for row in rows]
    return {"rows": len(rows)} | {name: summary_row(summarise(measured, times)) for name, times in by.items()}


def summary_row(summary: Summary | None) -> dict[str, float] | None:
    """Return a summary as plain values, errors as fractions of the measured time."""
    return None if summary is None else asdict(summary)


def rows_of(predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return one plain row for every observation; a prediction that a fold could not make is null."""
    return [
        {
            "row": row.observation.row,
            "source": row.observation.source,
            "model": row.observation.model,
            "link": row.observation.link,
            "link_stated": row.observation.is_link_stated,
            "num_stages": row.observation.num_stages,
            "measured": row.observation.measured,
            "facts_from": row.observation.facts_from,
            "measured_ms": row.observation.time_ms,
            "prior_ms": row.prior_ms,
            "fitted_ms": row.fitted_ms,
            **{f"without_{name}_ms": _finite(row.held_out_ms[name]) for name in FOLDS},
            **{f"parameter_bytes_without_{name}_ms": _finite(row.baseline_ms[name]) for name in FOLDS},
        }
        for row in predictions
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def report_of(
    name: str, constants: Mapping[str, Constant], validation: Validation, measurements: Measurements, origin: str
) -> dict[str, Any]:
    """Return everything about a fit as plain JSON values."""
    return {
        "profile": name,
        "measurements": origin,
        "rows_used": len(measurements.used),
        "rows_skipped": [{"row": row.row, "why": row.why} for row in measurements.skipped],
        "constants": {
            key: {
                "value": constant.value,
                "unit": constant.unit,
                "range": [constant.low, constant.high],
                "confidence": constant.confidence,
                "is_fitted": not constant.confidence.startswith(KEPT),
            }
            for key, constant in constants.items()
        },
        "errors": error_table(validation.predictions),
        "rows": rows_of(validation.predictions),
    }


def write_profile(path: Path, name: str, constants: Mapping[str, Constant], report: Mapping[str, Any]) -> Path:
    """Write the profile and, beside it, `STEM.errors.json`; returns the latter's path.

    Raises:
        UnwritableError: A file cannot be written; what was there before stays.
    """
    errors_path = path.with_name(f"{path.stem}.errors.json")
    text = profile_toml(name, constants, report, errors_path.name)
    write_atomically(errors_path, lambda at: at.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n"))
    write_atomically(path, lambda at: at.write_text(text, encoding="utf-8"))
    return errors_path


def profile_toml(name: str, constants: Mapping[str, Constant], report: Mapping[str, Any], errors_name: str) -> str:
    """Return the text of a profile's file."""
    lines = [
        "# Constants of the stage-time model, written by `respect calibrate`; every row's error is in",
        f"# {errors_name}. Errors as fractions of the measured time, median / 90th percentile / largest:",
        *(f"# {line}" for line in table_lines(report["errors"])),
        "",
        f"[{_quoted(name)}]",
        f"doc = {_quoted('fitted to ' + str(report['rows_used']) + ' times of ' + str(report['measurements']))}",
    ]
    for constant in constants.values():
        lines += [
            "",
            f"[{_quoted(name)}.{constant.name}]",
            f"value = {constant.value}",
            f"unit = {_quoted(constant.unit)}",
            f"range = [{constant.low}, {constant.high}]",
            f"confidence = {_quoted(constant.confidence)}",
            f"what = {_quoted(constant.what)}",
            f"source = {_quoted(constant.source)}",
        ]
    return "\n".join(lines) + "\n"


def table_lines(errors: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return an error table as lines of text."""
    wanted = ("profile", "fitted", *(f"without its {name}" for name in FOLDS), f"{_BASELINE}, without its model")
    columns = [column for column in wanted if column in errors["all rows"]]
    width = max(len(kind) for kind in errors)
    headings = [column.replace(f"{_BASELINE}, without", "bytes only, w/o") for column in columns]
    lines = [f"{'rows':>{width + 6}}  " + "  ".join(f"{heading:>24}" for heading in headings)]
    for kind, summaries in errors.items():
        cells = [_cell(summaries[column]) for column in columns]
        lines.append(f"{kind:>{width}} {summaries['rows']:5}  " + "  ".join(f"{cell:>24}" for cell in cells))
    return lines


def _cell(summary: Mapping[str, float] | None) -> str:
    if summary is None:
        return "-"
    return f"{summary['median']:.1%} / {summary['percentile90']:.0%} / {summary['largest']:.0%}"


def _quoted(text: str) -> str:
    """Return a TOML basic string: JSON's escapes are TOML's, but for the delete character."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
