"""Profiles of devices and their links: the constants of the stage-time model, read from TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any, Final

from respect_core.errors import BadInputError, InputFileError, UnknownNameError

MIB: Final = 2**20
_NS_PER_MS: Final = 1_000_000
_LARGEST: Final = 1e6

FINER_KEYS: Final = ("activation_mib", "host_thread_ms")
"""Constants that a profile's table may also hold and only the finer model of `respect_core.calibration` uses."""


@dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """Constants of one Edge TPU and its link, in the units of `facts`-style tables (ms, MiB).

    The model they belong to is in `respect_core.objective`; ranges and confidence stand beside the numbers in
    `devices.toml`.
    """

    name: str
    overhead_ms: float
    """Fixed cost of one inference of one stage."""
    input_ms_per_mib: float
    """Receiving a stage's inputs from the host."""
    output_ms_per_mib: float
    """Sending a stage's outputs to the host."""
    compute_ms_per_gmac: float
    """Convolutions and fully connected ops, per 10**9 multiply-accumulates."""
    mul_concat_ms_per_mib: float
    """MUL and CONCAT, per MiB of output."""
    depthwise_ms_per_mib: float
    """Depthwise convolutions, per MiB of output, on top of their MACs."""
    add_pad_pool_ms_per_mib: float
    """ADD, PAD and pooling, per MiB of output."""
    streaming_ms_per_mib: float
    """Streaming parameters that are not kept on the chip."""
    capacity_mib: float
    """On-chip memory that parameters can use at most."""
    shared_capacity_mib: float
    """On-chip memory that a stage's parameters and its inputs share."""
    overlap: float
    """Fraction of the shorter of compute and streaming that hides behind the longer one, 0 to 1."""

    def __post_init__(self) -> None:
        for constant in fields(self):
            value = getattr(self, constant.name)
            if constant.name == "name":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
                raise BadInputError(
                    f"profile {self.name!r}: {constant.name} is {value!r}, expected a number in 0..10**6"
                )
        if self.overlap > 1:
            raise BadInputError(f"profile {self.name!r}: overlap is {self.overlap}, expected a fraction in 0..1")

    @property
    def overhead_ns(self) -> int:
        """Fixed cost of a stage in nanoseconds."""
        return round(Fraction(str(self.overhead_ms)) * _NS_PER_MS)

    @property
    def capacity_bytes(self) -> int:
        """`capacity_mib` in bytes, rounded down."""
        return int(Fraction(str(self.capacity_mib)) * MIB)

    @property
    def shared_capacity_bytes(self) -> int:
        """`shared_capacity_mib` in bytes, rounded down."""
        return int(Fraction(str(self.shared_capacity_mib)) * MIB)

    @property
    def overlap_ratio(self) -> tuple[int, int]:
        """`overlap` as numerator and denominator."""
        ratio = Fraction(str(self.overlap)).limit_denominator(10**6)
        return ratio.numerator, ratio.denominator


def ns_per_unit(ms_per_unit: float, unit: int) -> Fraction:
    """Turn milliseconds per ``unit`` (bytes of a MiB, MACs of a GMAC) into exact nanoseconds per byte or MAC."""
    return Fraction(str(ms_per_unit)) * _NS_PER_MS / unit


def load_profile(name_or_path: str) -> DeviceProfile:
    """Find a profile by name, or read the one profile of a TOML file.

    Args:
        name_or_path: A name in the built-in `devices.toml`, or the path of a file with the same keys. A file with
            several profiles is addressed as ``FILE:NAME``.

    Returns:
        The checked profile.

    Raises:
        UnknownNameError: Neither a known name nor an existing file.
        InputFileError: The file is not a profile; the offending key is named.
    """
    return _profile(*find_table(name_or_path))


def find_table(name_or_path: str) -> tuple[str, dict[str, Any], str]:
    """Find the TOML table of a profile; arguments and errors as `load_profile`.

    Returns:
        The profile's name, its table with what it inherits, and where it was found.
    """
    built_in = _tables(Path(str(resources.files("respect_core") / "devices.toml")))
    if name_or_path in built_in:
        return name_or_path, built_in[name_or_path], "devices.toml"
    path, _, wanted = name_or_path, "", ""
    if not Path(path).is_file() and ":" in name_or_path:
        path, _, wanted = name_or_path.rpartition(":")
    if not Path(path).is_file():
        raise UnknownNameError("device profile", name_or_path, [*built_in, "a TOML file like devices.toml"])
    tables = _tables(Path(path))
    if wanted and wanted not in tables:
        raise UnknownNameError(f"profile of {path}", wanted, list(tables))
    if not wanted and len(tables) != 1:
        raise InputFileError(
            path, f"it holds {len(tables)} profiles, choose one with {path}:NAME from {', '.join(tables)}"
        )
    name = wanted or next(iter(tables))
    return name, tables[name], path


def _tables(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputFileError(path, f"it is not TOML ({error})") from error
    except OSError as error:
        raise InputFileError(path, f"it cannot be read ({error.strerror})") from error
    tables = {name: table for name, table in content.items() if isinstance(table, dict)}
    if not tables:
        raise InputFileError(path, "it holds no profile, expected a table like [usb3] with one table a constant")
    return {name: _inherited(name, tables, path) for name in tables}


def _inherited(name: str, tables: dict[str, Any], path: Path) -> dict[str, Any]:
    """Fill a profile up with the constants of the one it inherits from."""
    table = dict(tables[name])
    base = table.pop("inherits", None)
    if base is None:
        return table
    if base not in tables or base == name or "inherits" in tables[base]:
        others = ", ".join(other for other in tables if other != name and "inherits" not in tables[other])
        raise InputFileError(path, f"profile {name!r} inherits {base!r}, allowed are {others or 'none of this file'}")
    return {**tables[base], **table}


def _profile(name: str, table: dict[str, Any], origin: str) -> DeviceProfile:
    """Build a profile from its TOML table; a constant is a number or a table with `value`."""
    wanted = [constant.name for constant in fields(DeviceProfile) if constant.name != "name"]
    values: dict[str, Any] = {}
    for key in wanted:
        if key not in table:
            raise InputFileError(origin, f"profile {name!r} lacks {key!r}, needed are {', '.join(wanted)}")
        entry = table[key]
        if isinstance(entry, dict):
            if "value" not in entry:
                raise InputFileError(origin, f"profile {name!r}: {key!r} lacks 'value'")
            entry = entry["value"]
        values[key] = entry
    unknown = sorted(set(table) - set(wanted) - set(FINER_KEYS) - {"doc"})
    if unknown:
        raise InputFileError(
            origin, f"profile {name!r} has an unknown key {unknown[0]!r}, known are {', '.join(wanted)}"
        )
    try:
        return DeviceProfile(name=name, **values)
    except BadInputError as error:
        raise InputFileError(origin, str(error)) from error
