"""Schedules of one problem judged on plausible devices, as rows of the table `robustness`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from respect_core.device_constants import KnownProfile
from respect_core.device_scenarios import draw_scenarios
from respect_core.graph import FloatArray
from respect_core.solve.protocol import Problem, Stopwatch
from respect_core.solve.robust_scenarios import Scenarios, bottlenecks
from respect_core.solve.robust_search import Reference, regret_of

_UNLIMITED_S: Final = 3600.0


def robustness_rows(
    problem: Problem, schedules: Sequence[dict[str, Any]], known: KnownProfile, num_scenarios: int, seed: int
) -> list[dict[str, Any]]:
    """Judge schedules on devices drawn from the plausible ranges of a profile.

    Args:
        problem: The problem under `throughput`; its constraints limit what the schedules are compared with.
        schedules: Rows of the table `schedules` of this graph and K, whatever they minimised.
        known: The profile with its ranges.
        num_scenarios: Devices to draw.
        seed: Their seed; take another than robust schedules were chosen by.

    Returns:
        A row of `robustness` for every schedule there is.
    """
    found = [row for row in schedules if row["stage_of"] is not None]
    if not found:
        return []
    scenarios = Scenarios.of(draw_scenarios(known, num_scenarios, seed))
    stages = [np.array(row["stage_of"], dtype=np.int64) for row in found]
    reference = Reference(problem, scenarios, stages, Stopwatch(_UNLIMITED_S))
    best_us = reference.bottleneck_ms * 1000
    rows = []
    for row, stage_of in zip(found, stages, strict=True):
        times_us = bottlenecks(problem, stage_of, scenarios) * 1000
        rows.append(
            {
                **{name: row[name] for name in ("model", "num_stages", "objective", "device", "solver")},
                "scenario_seed": seed,
                "num_scenarios": num_scenarios,
                "bottleneck_us": times_us.tolist(),
                "best_us": best_us.tolist(),
                **regret_columns(times_us, best_us),
            }
        )
    return rows


def regret_columns(bottleneck_us: FloatArray, best_us: FloatArray) -> dict[str, float]:
    """Return median, 90th percentile and largest of the regrets, none below 0. Both of shape (S,)."""
    regrets = np.maximum(bottleneck_us / best_us, 1.0)
    return {
        "regret_median": float(np.median(regrets)) - 1,
        "regret_p90": regret_of(regrets, "p90") - 1,
        "regret_max": regret_of(regrets, "max") - 1,
    }
