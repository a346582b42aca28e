"""INA219 and INA260 power sensors on the I2C bus, through the packages `adafruit-circuitpython-ina219` and `-ina260`.

The sensor sits in the supply of the devices, e.g. in the 5 V line of a powered USB hub.
"""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import Any, Optional, Type

from hardware_runners.errors import MeterUnavailableError
from hardware_runners.meters.sampling import SampledPower
from hardware_runners.power import Reading

_INTERVAL_S = 0.002
"""A little above the time that the sensors take for a conversion of voltage and current."""


class _InaMeter:
    chip = ""
    watts_per_unit = 1.0
    """The drivers tell watts for the one chip and milliwatts for the other."""

    def __init__(self, *, address: int = 0x40, interval_s: float = _INTERVAL_S) -> None:
        """Configure the sensor.

        Args:
            address: On the I2C bus.
            interval_s: Time between two samples.
        """
        self._address, self._interval_s = address, interval_s
        self.source = f"{self.chip} at I2C address {address:#04x}"
        self._sampled: Optional[SampledPower] = None

    def __enter__(self) -> Any:
        """Find the sensor; raises `MeterUnavailableError`."""
        package = f"adafruit-circuitpython-{self.chip.lower()}"
        try:
            driver = getattr(import_module(f"adafruit_{self.chip.lower()}"), self.chip)
            bus = import_module("board").I2C()
        except (ImportError, AttributeError, NotImplementedError) as error:
            raise MeterUnavailableError(f"the {self.chip} needs `pip install {package}` ({error})") from error
        except (OSError, RuntimeError, ValueError) as error:
            raise MeterUnavailableError(f"this host has no I2C bus that can be opened ({error})") from error
        try:
            sensor = driver(bus, self._address)
        except (OSError, RuntimeError, ValueError) as error:
            raise MeterUnavailableError(
                f"no {self.chip} answers at I2C address {self._address:#04x} ({error}): check wiring and address"
            ) from error
        self._sampled = SampledPower(lambda: float(sensor.power) * self.watts_per_unit, self._interval_s)
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._sampled = None

    def start(self) -> None:
        """Begin to sample."""
        self._open().start()

    def stop(self) -> Reading:
        """End and integrate; raises `MeterUnavailableError`."""
        return self._open().stop()

    def _open(self) -> SampledPower:
        if self._sampled is None:
            raise MeterUnavailableError(f"the {self.chip} is closed, use it in a with block")
        return self._sampled


class Ina219Meter(_InaMeter):
    """An INA219, whose driver tells watts."""

    chip = "INA219"


class Ina260Meter(_InaMeter):
    """An INA260, whose driver tells milliwatts."""

    chip = "INA260"
    watts_per_unit = 1e-3
