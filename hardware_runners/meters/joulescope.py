"""`JoulescopeMeter`: a Joulescope in the supply of the devices, through its maker's package `joulescope`.

It integrates by itself, at 2 MHz, and tells its accumulated energy about twice a second: a window is what lies between
the first and the last of these messages, so a run should take some seconds.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type

from hardware_runners.errors import MeterUnavailableError
from hardware_runners.power import Reading


class JoulescopeMeter:
    """The one Joulescope that is attached."""

    source = "Joulescope"

    def __init__(self) -> None:
        """Configure nothing: the instrument chooses its range itself."""
        self._device: Any = None
        self._told: List[Tuple[int, float, float]] = []
        self._lock = threading.Lock()
        self._started = 0

    def __enter__(self) -> JoulescopeMeter:
        """Find and open the instrument; raises `MeterUnavailableError`."""
        try:
            from joulescope import scan_require_one  # type: ignore[import-not-found]
        except ImportError as error:
            raise MeterUnavailableError(f"a Joulescope needs `pip install joulescope` ({error})") from error
        try:
            self._device = scan_require_one(config="auto")
            self._device.statistics_callback_register(self._on_statistics, "sensor")
            self._device.open()
            self._device.parameter_set("i_range", "auto")
        except Exception as error:  # the driver raises what its layers below happen to raise
            self._device = None
            raise MeterUnavailableError(f"no single Joulescope can be opened ({error})") from error
        self.source = f"Joulescope {getattr(self._device, 'model', '')}".strip()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        device, self._device = self._device, None
        if device is not None:
            device.close()

    def start(self) -> None:
        """Begin with a window."""
        with self._lock:
            self._told = []
            self._started = time.perf_counter_ns()

    def stop(self) -> Reading:
        """End the window; raises `MeterUnavailableError`."""
        with self._lock:
            told = list(self._told)
        if len(told) < 2:
            seconds = (time.perf_counter_ns() - self._started) / 1e9
            raise MeterUnavailableError(
                f"the Joulescope told its energy {len(told)} times in {seconds:.2f} s, 2 are needed: time more items"
            )
        (_, began, low), (_, ended, high) = told[0], told[-1]
        return Reading(high - low, round((ended - began) * 1e9))

    def _on_statistics(self, statistics: Dict[str, Any]) -> None:
        seconds = float(statistics["time"]["range"]["value"][1])
        joules = float(statistics["accumulators"]["energy"]["value"])
        with self._lock:
            self._told.append((time.perf_counter_ns(), seconds, joules))
