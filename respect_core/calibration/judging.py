"""Judging profiles by measurements that they were not fitted to: errors, and whether the faster partition is picked."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from respect_core.calibration.design import FITTED, PLACING, STREAMING, Design
from respect_core.calibration.observations import Link, Measurements, Observation
from respect_core.calibration.profile_file import error_kinds, summary_row
from respect_core.calibration.validation import summarise
from respect_core.device_constants import KnownProfile
from respect_core.graph import FloatArray


def predict_by_profiles(observations: Sequence[Observation], profiles: Mapping[Link, KnownProfile]) -> FloatArray:
    """Return the modelled time of every observation under its link's profile, in milliseconds. Shape (R,)."""
    out = np.zeros(len(observations))
    for link, known in profiles.items():
        mine = [i for i, row in enumerate(observations) if row.link == link]
        theta = np.array([known[STREAMING if "@" in name else name].value for name in FITTED])
        placing = {name: known[name].value for name in PLACING}
        out[mine] = Design([observations[i] for i in mine], placing).predict(theta)
    return out


def judge(measurements: Measurements, profiles: Mapping[Link, KnownProfile]) -> dict[str, Any]:
    """Return the errors of profiles on measurements as plain JSON values; nothing is fitted.

    Args:
        measurements: At least one observation.
        profiles: For every link the profile to judge.
    """
    rows = measurements.used
    predicted = predict_by_profiles(rows, profiles)
    errors = {}
    for kind, members in error_kinds(rows).items():
        found = summarise([rows[i].time_ms for i in members], [float(predicted[i]) for i in members])
        errors[kind] = {"rows": len(members), "profile": summary_row(found)}
    return {
        "profiles": {link: known.profile.name for link, known in profiles.items()},
        "rows_used": len(rows),
        "rows_skipped": [{"row": row.row, "why": row.why} for row in measurements.skipped],
        "errors": errors,
        "pairs": partition_pairs(rows, predicted),
        "rows": [
            {
                "row": row.row,
                "source": row.source,
                "model": row.model,
                "link": row.link,
                "link_stated": row.is_link_stated,
                "num_stages": row.num_stages,
                "measured": row.measured,
                "facts_from": row.facts_from,
                "measured_ms": row.time_ms,
                "predicted_ms": float(predicted[i]),
                "error": float(predicted[i]) / row.time_ms - 1,
            }
            for i, row in enumerate(rows)
        ],
    }


def partition_pairs(rows: Sequence[Observation], predicted: FloatArray) -> dict[str, Any] | None:
    """Tell how often the faster is picked of every two partitions of one net that were measured alike.

    Returns:
        Their number, the fraction picked, and the errors of the predicted ratio of their times; None without pairs.
    """
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        if row.num_stages > 1:
            alike[row.model, row.source, row.link, row.num_stages, row.measured, row.batch].append(i)
    right, errors = [], []
    for members in alike.values():
        for a, b in itertools.combinations(members, 2):
            if rows[a].stages == rows[b].stages or rows[a].time_ms == rows[b].time_ms:
                continue
            measured = rows[a].time_ms / rows[b].time_ms
            modelled = float(predicted[a] / predicted[b])
            right.append((measured > 1) == (modelled > 1) and modelled != 1)
            errors.append(abs(modelled / measured - 1))
    if not right:
        return None
    return {
        "count": len(right),
        "picked": float(np.mean(right)),
        "median": float(np.median(errors)),
        "percentile90": float(np.quantile(errors, 0.9)),
    }
