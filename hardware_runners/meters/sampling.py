"""A meter made of a function that tells the power of this moment: sampled in a thread, integrated by trapezoids."""

from __future__ import annotations

import threading
import time
from typing import Callable, List, Optional, Tuple

from hardware_runners.errors import MeterUnavailableError
from hardware_runners.power import Reading


class SampledPower:
    """Samples power until it is stopped; a window goes from its first sample to its last one."""

    def __init__(self, watts: Callable[[], float], interval_s: float) -> None:
        """Configure it.

        Args:
            watts: Tells the power; it may raise `OSError` or `RuntimeError`.
            interval_s: Time between two samples.
        """
        self._watts, self._interval_s = watts, interval_s
        self._samples: List[Tuple[int, float]] = []
        self._error: Optional[Exception] = None
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def start(self) -> None:
        """Begin to sample."""
        self._samples, self._error = [], None
        self._stop.clear()
        self._thread = threading.Thread(target=self._sample, name="power", daemon=True)
        self._thread.start()

    def stop(self) -> Reading:
        """End and integrate; raises `MeterUnavailableError` where reading failed or there are fewer than 2 samples."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise MeterUnavailableError(f"the power meter stopped answering ({self._error})") from self._error
        if len(self._samples) < 2:
            raise MeterUnavailableError(f"the power meter gave {len(self._samples)} samples: time more items")
        joules = 0.0
        for (before, low), (after, high) in zip(self._samples, self._samples[1:]):
            joules += (after - before) / 1e9 * (low + high) / 2
        return Reading(joules, self._samples[-1][0] - self._samples[0][0])

    def _sample(self) -> None:
        try:
            while not self._stop.is_set():
                before = time.perf_counter_ns()
                watts = self._watts()
                self._samples.append(((before + time.perf_counter_ns()) // 2, watts))
                self._stop.wait(self._interval_s)
        except (OSError, RuntimeError, ValueError) as error:
            self._error = error
