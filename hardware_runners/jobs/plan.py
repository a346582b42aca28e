"""`TimingPlan`: how often a pipeline is run when it is timed; part of every job folder."""

from __future__ import annotations

from dataclasses import dataclass

from hardware_runners.errors import InvalidPlanError

MAX_INFERENCES = 1_000_000
"""Most inferences that each part of a plan may ask for."""


@dataclass(frozen=True)
class TimingPlan:
    """How often to run a pipeline.

    Latency is measured one item at a time, because in a full pipeline an item's latency is mostly waiting; throughput
    is measured with full queues.

    Raises:
        InvalidPlanError: A number that is not whole or out of its range, or nothing to time at all.
    """

    warm_up: int = 10
    """Inferences before each of the two measurements that are not counted, 0 or more."""
    repeats: int = 50
    """Inferences one at a time (`latency`), 0 to leave this out."""
    items: int = 200
    """Inferences with full queues (`pipelined`), 0 to leave this out, else at least 2."""

    def __post_init__(self) -> None:
        for name, value in (("warm_up", self.warm_up), ("repeats", self.repeats), ("items", self.items)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INFERENCES:
                raise InvalidPlanError(f"{name} is {value!r}, allowed are whole numbers in 0..{MAX_INFERENCES}")
        if self.items == 1:
            raise InvalidPlanError("items is 1, the time between items needs at least 2 (0 leaves it out)")
        if self.repeats == 0 and self.items == 0:
            raise InvalidPlanError("repeats and items are both 0, one of them must be larger")
