"""What is known about each constant of a device profile: its unit, plausible range, confidence and source."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from respect_core.device import FINER_KEYS, DeviceProfile, find_table
from respect_core.errors import InputFileError

CONSTANTS: Final = tuple(field.name for field in fields(DeviceProfile) if field.name != "name")
"""Names of the constants that every profile has."""

_DEFAULTS: Final = {"activation_mib": 1.66, "host_thread_ms": 0.244}


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One constant with its plausible range; a constant without a known range has a range of one point."""

    name: str
    value: float
    low: float
    high: float
    unit: str = ""
    confidence: str = ""
    what: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class KnownProfile:
    """A profile with the ranges of its constants, and the constants of the finer model."""

    profile: DeviceProfile
    constants: dict[str, Constant]
    """Every constant of `CONSTANTS` and of `FINER_KEYS`, by name."""
    doc: str = ""

    def __getitem__(self, name: str) -> Constant:
        return self.constants[name]

    def neutral(self) -> KnownProfile:
        """Return the profile with every constant but the memory sizes in the middle of its plausible range."""
        kept = ("capacity_mib", "shared_capacity_mib", "activation_mib")
        moved = {
            name: constant if name in kept else replace(constant, value=(constant.low + constant.high) / 2)
            for name, constant in self.constants.items()
        }
        values: dict[str, Any] = {name: moved[name].value for name in CONSTANTS}
        return replace(self, profile=replace(self.profile, **values), constants=moved)

    def values(self) -> dict[str, float]:
        """Return the value of every constant."""
        return {name: constant.value for name, constant in self.constants.items()}


def load_known_profile(name_or_path: str) -> KnownProfile:
    """Read a profile with everything its table says about each constant.

    Args:
        name_or_path: As for `respect_core.device.load_profile`.

    Raises:
        UnknownNameError: Neither a known name nor an existing file.
        InputFileError: The table is not a profile, or a range is not two ordered numbers around the value.
    """
    from respect_core.device import load_profile

    profile = load_profile(name_or_path)
    name, table, origin = find_table(name_or_path)
    constants = {
        key: _constant(key, table.get(key, _DEFAULTS.get(key)), f"profile {name!r}", origin)
        for key in (*CONSTANTS, *FINER_KEYS)
    }
    return KnownProfile(profile=profile, constants=constants, doc=str(table.get("doc", "")))


def _constant(name: str, entry: Any, where: str, origin: str) -> Constant:
    facts = entry if isinstance(entry, dict) else {"value": entry}
    value = facts.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InputFileError(origin, f"{where}: {name} is {value!r}, expected a number of at least 0")
    limits = facts.get("range", [value, value])
    numbers = isinstance(limits, list) and len(limits) == 2 and all(isinstance(x, int | float) for x in limits)
    if not numbers or not 0 <= limits[0] <= value <= limits[1]:
        raise InputFileError(origin, f"{where}: {name} has the range {limits!r}, expected [low, high] around {value}")
    texts = {key: str(facts.get(key, "")) for key in ("unit", "confidence", "what", "source")}
    return Constant(name=name, value=float(value), low=float(limits[0]), high=float(limits[1]), **texts)
