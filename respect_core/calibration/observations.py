"""One measured time and what is known about the pipeline it was measured on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from respect_core.calibration.facts import StageFacts

Link = Literal["usb3", "pcie"]
LINKS: Final[tuple[Link, ...]] = ("usb3", "pcie")

Measured = Literal["latency", "period"]
"""`latency`: one item alone in the pipeline; `period`: time between two items of a full pipeline."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A time that the model should predict."""

    row: str
    """Id of the row it comes from."""
    source: str
    """Who published it: what leave-one-source-out leaves out."""
    model: str
    """Name of the model: what leave-one-model-out leaves out."""
    family: str
    """Models that differ in a size alone are of one family."""
    link: Link
    is_link_stated: bool
    measured: Measured
    batch: int | None
    """Items over which a period was averaged, filling of the pipeline included; None for a steady state."""
    host_threads: bool
    """Whether Python threads drive the stages, which costs time of its own."""
    time_ms: float
    stages: tuple[StageFacts, ...]
    facts_from: str
    """Where the facts about the stages come from."""
    reported_spill_mib: tuple[float, ...] | None = None
    """Streamed parameters of every stage as the commercial compiler reports them, where it does."""

    @property
    def num_stages(self) -> int:
        """Devices in the pipeline."""
        return len(self.stages)

    @property
    def compiled_mib(self) -> float:
        """Parameters of all stages."""
        return sum(stage.compiled_mib for stage in self.stages)


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A row that cannot be used, and why."""

    row: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """What a file of measurements gave."""

    used: tuple[Observation, ...]
    skipped: tuple[Skipped, ...]
