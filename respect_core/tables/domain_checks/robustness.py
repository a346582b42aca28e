"""Rules of the table `robustness`: right times of known schedules, compared with what is best on the same devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from respect_core.device_constants import load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.graph import DnnGraph
from respect_core.solve.protocol import Problem
from respect_core.solve.robust_rows import regret_columns
from respect_core.solve.robust_scenarios import Scenarios, bottlenecks
from respect_core.tables.domain_checks.columns import DomainColumns, complaints
from respect_core.tables.robustness import ROBUSTNESS

Row = dict[str, Any]

_TOLERANCE: Final = 1e-9
"""Relative difference that the order of floating-point operations may cause."""


def robustness_checks(robustness: pa.Table, schedules: pa.Table, graphs: Mapping[str, DnnGraph]) -> DomainColumns:
    """Check rows against their schedules, and against each other.

    Args:
        robustness: Rows of `robustness`.
        schedules: The schedules they judge.
        graphs: The graphs by name.

    Returns:
        One column of texts a rule; a text names what is wrong in that row.
    """
    rows = robustness.to_pylist()
    stages = {tuple(row[name] for name in ROBUSTNESS.key): row["stage_of"] for row in schedules.to_pylist()}
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        first.setdefault(_problem(row), row)
    drawn: dict[tuple[str, int, int], Scenarios] = {}

    def scenarios_of(row: Row) -> Scenarios:
        key = row["device"], row["num_scenarios"], row["scenario_seed"]
        if key not in drawn:
            drawn[key] = Scenarios.of(draw_scenarios(load_known_profile(key[0]), *key[1:]))
        return drawn[key]

    def recomputed(row: Row) -> str | None:
        stage_of, graph = stages.get(tuple(row[name] for name in ROBUSTNESS.key)), graphs.get(row["model"])
        if stage_of is None or graph is None:
            return "there is no such schedule"
        problem = Problem.of(graph, row["num_stages"], "throughput", device=row["device"])
        right = bottlenecks(problem, stage_of, scenarios_of(row)) * 1000
        found = np.array(row["bottleneck_us"])
        if found.shape != right.shape or not np.allclose(found, right, rtol=_TOLERANCE, atol=0):
            return "bottleneck_us is not what the schedule takes on these devices"
        return None

    rules: dict[str, Callable[[Row], str | None]] = {
        "one_entry_a_scenario": _wrong_length,
        "schedule_recomputed": recomputed,
        "same_devices": lambda row: _other_devices(row, first[_problem(row)]),
        "best_is_not_beaten": _beaten,
        "regrets_follow": _wrong_regret,
    }
    return DomainColumns(columns={name: complaints([rule(row) for row in rows]) for name, rule in rules.items()})


def _problem(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("model", "num_stages", "device"))


def _wrong_length(row: Row) -> str | None:
    lengths = len(row["bottleneck_us"]), len(row["best_us"])
    if lengths == (row["num_scenarios"],) * 2:
        return None
    return f"bottleneck_us and best_us have {lengths} entries for {row['num_scenarios']} scenarios"


def _other_devices(row: Row, other: Row) -> str | None:
    names = ("scenario_seed", "num_scenarios", "best_us")
    odd = [name for name in names if row[name] != other[name]]
    return f"{', '.join(odd)} differ from those of {other['solver']}" if odd else None


def _beaten(row: Row) -> str | None:
    if _wrong_length(row):
        return None
    found, best = np.array(row["bottleneck_us"]), np.array(row["best_us"])
    below = np.flatnonzero(found < best * (1 - _TOLERANCE))
    return f"in scenario {below[0]} its bottleneck is below the best" if below.size else None


def _wrong_regret(row: Row) -> str | None:
    if _wrong_length(row) or min(row["best_us"]) <= 0:
        return None
    right = regret_columns(np.array(row["bottleneck_us"]), np.array(row["best_us"]))
    for name, value in right.items():
        if abs(row[name] - value) > _TOLERANCE:
            return f"{name} is {row[name]}, the times give {value}"
    return None
