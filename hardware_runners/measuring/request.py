"""What a measuring process is asked to do, as it is written to `request.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from hardware_runners.jobs.plan import TimingPlan

ENGINES = ("cpu", "litert", "pycoral")
"""`cpu`: the segments on the host's processor. `litert`: compiled segments by the interpreter with libedgetpu and our
own threads. `pycoral`: compiled segments by pycoral's pipeline."""


@dataclass(frozen=True)
class Request:
    """One measurement."""

    job: Path
    plan: TimingPlan
    engine: str
    """One of `ENGINES`."""
    devices: Tuple[str, ...] = ()
    """One a stage, for engines that use devices."""
    runtime: Optional[str] = None
    """Package of the interpreter, a key of `devices.runtime.RUNTIMES`; None for the first that is there."""
    library: str = ""
    """Name or path of libedgetpu."""
    retries: int = 0
    wait_s: float = 0.0
    input_queue: Optional[int] = None
    output_queue: Optional[int] = None
    meter: Optional[str] = None
    """Name of a power meter, None for none."""
    meter_options: Dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write it down."""
        content = {**asdict(self), "job": str(self.job.absolute())}
        path.write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Request:
        """Read it again."""
        content = json.loads(path.read_text(encoding="utf-8"))
        content["job"], content["plan"] = Path(content["job"]), TimingPlan(**content["plan"])
        return cls(**{**content, "devices": tuple(content["devices"])})
