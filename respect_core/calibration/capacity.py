"""Settling what stays on the chip: the memory sizes that explain the streamed bytes which the compiler reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from respect_core.calibration.model import streamed
from respect_core.calibration.observations import Observation
from respect_core.device_constants import KnownProfile

_STEP_MIB: Final = 0.02
_TOLERANCE: Final = 0.02
_TOLERANCE_MIB: Final = 0.03


@dataclass(frozen=True, kw_only=True)
class Placing:
    """Capacity constants and what is known about them."""

    values: dict[str, float]
    """`capacity_mib`, `shared_capacity_mib` and `activation_mib`."""
    ranges: dict[str, tuple[float, float]]
    num_reported: int
    """Stages whose streamed bytes were reported."""
    num_explained: int
    """Those of them that the model gets right, within 2 % and 0.03 MiB."""


def settle_placing(observations: Sequence[Observation], prior: KnownProfile) -> Placing:
    """Choose the memory sizes in their plausible ranges that explain most of the reported streamed bytes.

    Ties go to the sizes closest to the prior, and the range of each size is that of all the best ones (the other at its
    chosen value). `activation_mib` is never fitted. Without reports everything is the prior's.
    """
    values = {name: prior[name].value for name in ("capacity_mib", "shared_capacity_mib", "activation_mib")}
    ranges = {name: (prior[name].low, prior[name].high) for name in values}
    stages = {
        (stage, spilled)
        for row in observations
        if row.reported_spill_mib is not None
        for stage, spilled in zip(row.stages, row.reported_spill_mib, strict=True)
    }
    if not stages:
        return Placing(values=values, ranges=ranges, num_reported=0, num_explained=0)

    def explained(capacity: float, shared: float) -> int:
        constants = {**values, "capacity_mib": capacity, "shared_capacity_mib": shared}
        found = [(streamed(stage, constants).spilled_mib, spilled) for stage, spilled in stages]
        return sum(abs(a - b) <= _TOLERANCE_MIB + _TOLERANCE * b for a, b in found)

    grids = [_grid(*ranges[name], values[name]) for name in ("capacity_mib", "shared_capacity_mib")]
    scores = np.array([[explained(capacity, shared) for shared in grids[1]] for capacity in grids[0]])
    best = np.argwhere(scores == scores.max())
    centre = np.array([values["capacity_mib"], values["shared_capacity_mib"]])
    points = np.array([[grids[0][i], grids[1][j]] for i, j in best])
    chosen = points[np.argmin(np.abs(points - centre).sum(axis=1))]
    for axis, name in enumerate(("capacity_mib", "shared_capacity_mib")):
        values[name] = float(chosen[axis])
        equal = points[points[:, 1 - axis] == chosen[1 - axis]][:, axis]
        ranges[name] = (float(equal.min()), float(equal.max()))
    return Placing(values=values, ranges=ranges, num_reported=len(stages), num_explained=int(scores.max()))


def _grid(low: float, high: float, value: float) -> list[float]:
    """Return sizes from ``low`` to ``high``, ``value`` among them."""
    steps = max(1, round((high - low) / _STEP_MIB))
    return sorted({round(float(x), 4) for x in np.linspace(low, high, steps + 1)} | {value})
