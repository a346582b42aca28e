"""Devices as they might be: profiles whose constants are drawn from their plausible ranges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from respect_core.device import DeviceProfile
from respect_core.device_constants import CONSTANTS, KnownProfile
from respect_core.errors import BadInputError

MAX_SCENARIOS = 10_000


def draw_scenarios(known: KnownProfile, count: int, seed: int) -> list[DeviceProfile]:
    """Draw profiles, each constant uniform in its range and independent of the others.

    Args:
        known: A profile with the ranges of its constants.
        count: Number of profiles, 1..10 000.
        seed: Seed; the first profiles drawn do not depend on ``count``.

    Returns:
        ``count`` profiles named after ``known`` and their number.

    Raises:
        BadInputError: ``count`` is out of its range.
    """
    if not 1 <= count <= MAX_SCENARIOS:
        raise BadInputError(f"{count} scenarios were asked for, allowed are 1..{MAX_SCENARIOS}")
    rng = np.random.default_rng(seed)
    low = np.array([known[name].low for name in CONSTANTS])
    high = np.array([known[name].high for name in CONSTANTS])
    drawn = low + (high - low) * rng.random((count, low.size))
    return [
        replace(known.profile, name=f"{known.profile.name}-{number}", **dict(zip(CONSTANTS, row, strict=True)))
        for number, row in enumerate(drawn.round(6).tolist())
    ]
