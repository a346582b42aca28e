"""`RaplMeter`: energy counters of the host's processor packages (RAPL), as Linux shows them.

They say what the host takes to drive the devices, and what `litert` takes; Edge TPUs are not in them.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import TracebackType
from typing import Dict, List, Optional, Tuple, Type

from hardware_runners.errors import MeterUnavailableError
from hardware_runners.power import Reading

_PACKAGE = re.compile(r"intel-rapl:\d+")
_MOST_WATT = 1000.0
"""More than any package takes: a window in which a counter could run round twice at this power is refused."""


class RaplMeter:
    """Sums the packages' counters; they run round, which is accounted for once a window."""

    def __init__(self, *, root: str = "/") -> None:
        """Configure the meter.

        Args:
            root: Folder with `sys`.
        """
        self._folder = Path(root) / "sys/class/powercap"
        self._packages: List[Path] = []
        self._ranges: Dict[Path, int] = {}
        self._started: Optional[Tuple[int, Dict[Path, int]]] = None
        self.source = "rapl"

    def __enter__(self) -> RaplMeter:
        """Find the packages; raises `MeterUnavailableError`."""
        try:
            found = sorted(path for path in self._folder.iterdir() if _PACKAGE.fullmatch(path.name))
        except OSError:
            found = []
        self._packages = [path for path in found if self._name(path).startswith("package")]
        if not self._packages:
            raise MeterUnavailableError(
                f"this host shows no RAPL counters of processor packages in {self._folder}: use a power meter"
            )
        self._ranges = {path: self._number(path / "max_energy_range_uj") for path in self._packages}
        self._counters()
        self.source = f"rapl of the host ({', '.join(map(self._name, self._packages))}), without the devices"
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._started = None

    def start(self) -> None:
        """Read the counters for the first time."""
        self._started = time.perf_counter_ns(), self._counters()

    def stop(self) -> Reading:
        """Read them again; raises `MeterUnavailableError`."""
        now = time.perf_counter_ns()
        if self._started is None:
            raise MeterUnavailableError("the RAPL counters were not started")
        began, before = self._started
        after, microjoules = self._counters(), 0
        for path in self._packages:
            difference, full = after[path] - before[path], self._ranges[path] + 1
            if (now - began) / 1e9 * _MOST_WATT * 1e6 > 2 * full:
                raise MeterUnavailableError(f"{path} may have run round twice in {(now - began) / 1e9:.0f} s")
            microjoules += difference if difference >= 0 else difference + full
        return Reading(microjoules / 1e6, now - began)

    def _counters(self) -> Dict[Path, int]:
        return {path: self._number(path / "energy_uj") for path in self._packages}

    def _name(self, path: Path) -> str:
        try:
            return (path / "name").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    def _number(self, path: Path) -> int:
        try:
            return int(path.read_text(encoding="ascii"))
        except PermissionError as error:
            raise MeterUnavailableError(
                f"{path} may be read by root only: run as root, or chmod o+r it for this boot"
            ) from error
        except (OSError, ValueError) as error:
            raise MeterUnavailableError(f"{path} cannot be read as a number ({error})") from error
