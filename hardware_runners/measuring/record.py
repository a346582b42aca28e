"""What a measuring process leaves behind while it works, so that nothing is lost when it is brought down.

In a folder of its own lie `request.json`, what to do; `log`, one JSON value a line, in the order in which things
happened; and `moves`, one counter a stage in shared memory: odd while the stage is at work. The last one is read after
a crash to tell which stage it was.
"""

from __future__ import annotations

import json
import mmap
import struct
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type

from hardware_runners.protocol import Energy, Inference

REQUEST_FILE = "request.json"
LOG_FILE = "log"
MOVES_FILE = "moves"
STDERR_FILE = "stderr"

_FLUSH_S = 0.1
_COUNTER = struct.Struct("<Q")


class Moves:
    """One counter a stage in a file that is mapped into memory: odd while the stage is at work."""

    def __init__(self, path: Path, num_stages: int) -> None:
        """Map the file, which is made where it does not exist."""
        size = _COUNTER.size * num_stages
        with suppress(FileExistsError), path.open("xb") as new:
            new.write(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)

    def moved(self, stage: int) -> None:
        """Note that a stage begins with an item, or ends."""
        at = stage * _COUNTER.size
        (count,) = _COUNTER.unpack_from(self._map, at)
        _COUNTER.pack_into(self._map, at, count + 1)

    def counts(self) -> Tuple[int, ...]:
        """Return all counters."""
        return tuple(count for (count,) in _COUNTER.iter_unpack(self._map[:]))

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()


class Log:
    """Writes the log: lines about items at intervals, all others at once."""

    def __init__(self, path: Path) -> None:
        """Open the log for writing."""
        self._file = path.open("w", encoding="ascii")
        self._flushed = time.monotonic()

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._file.close()

    def event(self, what: str, **facts: Any) -> None:
        """Write down that something happened."""
        self._file.write(json.dumps({"event": what, **facts}) + "\n")
        self._file.flush()

    def item(self, *values: Any) -> None:
        """Write down an item: its kind, then its times."""
        self._file.write(json.dumps(values) + "\n")
        if time.monotonic() - self._flushed > _FLUSH_S:
            self._file.flush()
            self._flushed = time.monotonic()


class Read:
    """What a log says so far; a line that was cut short is left out."""

    def __init__(self, path: Path) -> None:
        """Read a log, which may not be there yet."""
        self.latency: List[Inference] = []
        self.stage_ns: List[Tuple[int, ...]] = []
        self.pipelined: List[Inference] = []
        self.whole_ns: List[int] = []
        self.notes: List[str] = []
        self.energy: Optional[Energy] = None
        self.ready: Dict[str, Any] = {}
        self.error: Optional[Dict[str, Any]] = None
        self.loading: Optional[Dict[str, Any]] = None
        """Stage and device that were being opened, None where that is done."""
        self.phase = "starting"
        self.is_done = False
        with suppress(FileNotFoundError):
            for line in path.read_text(encoding="ascii", errors="replace").splitlines():
                try:
                    self._take(json.loads(line))
                except ValueError:
                    break

    def _take(self, value: Any) -> None:
        if isinstance(value, list):
            kind, *times = value
            if kind == "latency":
                self.latency.append(Inference(times[0], times[1]))
                self.stage_ns.append(tuple(times[2]))
            elif kind == "pipelined":
                self.pipelined.append(Inference(times[0], times[1]))
            else:
                self.whole_ns.append(times[0])
            return
        what = value.pop("event")
        if what == "loading":
            self.loading = value
        elif what == "loaded":
            self.loading = None
        elif what == "phase":
            self.phase = value["name"]
        elif what == "ready":
            self.ready = value
        elif what == "note":
            self.notes.append(value["text"])
        elif what == "energy":
            self.energy = Energy(**value)
        elif what == "error":
            self.error = value
        elif what == "done":
            self.is_done = True
