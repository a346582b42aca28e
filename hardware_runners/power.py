"""Power meters: one protocol, the meters by name, and the energy of an item from what a meter saw."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Callable, Dict, Optional, Protocol, Sequence, Type

from hardware_runners.errors import InvalidPlanError, MeterUnavailableError
from hardware_runners.protocol import Energy, check_options

METERS: Dict[str, str] = {
    "rapl": "hardware_runners.meters.rapl:RaplMeter",
    "ina219": "hardware_runners.meters.ina:Ina219Meter",
    "ina260": "hardware_runners.meters.ina:Ina260Meter",
    "joulescope": "hardware_runners.meters.joulescope:JoulescopeMeter",
}
"""Class of every meter by name; its module, and with it a meter's driver, is imported only when it is opened."""

LEAST_COVERED = 0.5
"""Fraction of a run that a meter must have seen for its mean power to stand for the run."""


@dataclass(frozen=True)
class Reading:
    """What a meter saw between `start` and `stop`, or in a part of that time."""

    joules: float
    window_ns: int
    """Time over which these were integrated."""


class PowerMeter(Protocol):
    """Integrates power; use it as a context manager, which takes the meter and gives it back."""

    source: str
    """What is measured and by what."""

    def __enter__(self) -> PowerMeter: ...

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None: ...

    def start(self) -> None:
        """Begin with a window; raises `MeterUnavailableError`."""

    def stop(self) -> Reading:
        """End the window and return what was seen in it; raises `MeterUnavailableError`."""


def open_meter(name: str, **options: Any) -> PowerMeter:
    """Return a new meter of this name; it is taken on entering ``with``.

    Raises:
        InvalidPlanError: There is no such meter, or it has no such option.
    """
    if name not in METERS:
        raise InvalidPlanError(f"unknown power meter {name!r}: choose from {', '.join(METERS)}")
    module, _, attribute = METERS[name].partition(":")
    build: Callable[..., PowerMeter] = getattr(import_module(module), attribute)
    check_options(f"power meter {name!r}", build, options)
    return build(**options)


def energy_of(reading: Reading, run_ns: int, items: int, source: str) -> Energy:
    """Return the energy of an item from a meter's reading over a run: mean power times mean time of an item.

    Args:
        reading: What the meter saw within the run.
        run_ns: How long the run took.
        items: Items that left the pipeline in that time, at least 1.
        source: What measured it.

    Raises:
        MeterUnavailableError: The meter saw too little of the run.
    """
    if items < 1 or reading.window_ns < LEAST_COVERED * run_ns or reading.window_ns <= 0 or reading.joules < 0:
        raise MeterUnavailableError(
            f"{source} saw {reading.window_ns / 1e9:.2f} s of a run of {run_ns / 1e9:.2f} s, "
            f"{LEAST_COVERED:.0%} are needed: time more items"
        )
    microjoules = reading.joules / reading.window_ns * run_ns / items * 1e6
    return Energy(microjoules, source, is_modelled=False, window_us=reading.window_ns / 1000)


BUSY_WATT = 2.0
"""Power of an Edge TPU at work: "4 trillion operations per second (4 TOPS), using 2 watts", says the datasheet of the
Coral Accelerator Module (1.4), and so does that of the M.2 Accelerator with Dual Edge TPU (1.3)."""

MODEL_SOURCE = "2 W while a stage is busy (Coral datasheets: 4 TOPS at 2 TOPS/W), idle devices and the host not counted"


def modelled_energy(stage_ns: Sequence[float], window_ns: float) -> Energy:
    """Estimate the energy of an item from published power figures; nothing is measured.

    The figure is the datasheets' for the chip at full work, so it is an upper bound for what the busy chips take.

    Args:
        stage_ns: Time of every stage for an item, transfers included. Shape (K,).
        window_ns: Time that the run takes, more than 0.

    Returns:
        An energy that is marked as modelled.
    """
    return Energy(BUSY_WATT * sum(stage_ns) / 1000, MODEL_SOURCE, is_modelled=True, window_us=window_ns / 1000)
