"""How many Edge TPUs a model is worth: schedules for K = 1, 2, ... compared by what each further one brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from respect_core.errors import SolverFailedError

MOST_STAGES: Final = 8
"""Largest K that is compared."""

MARGIN: Final = 0.05
"""A throughput per TPU within this fraction of the best one counts as good as the best."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What a pipeline of K stages is predicted to do; None where there is no schedule."""

    num_stages: int
    status: str
    bottleneck_ns: int | None
    host_ns: int
    """Time an item costs the host that drives K stages: the period is no shorter, however fast the stages are."""
    peak_param_bytes: int | None
    streamed_bytes: int | None
    """Parameters streamed on every inference, all stages together."""
    message: str = ""

    @property
    def period_ns(self) -> int | None:
        """Predicted time between items."""
        return None if self.bottleneck_ns is None else max(self.bottleneck_ns, self.host_ns)

    @property
    def per_second(self) -> float | None:
        """Predicted items a second."""
        return None if self.period_ns is None else 1e9 / max(1, self.period_ns)

    @property
    def per_second_and_tpu(self) -> float | None:
        """Predicted items a second, shared among the TPUs."""
        return None if self.per_second is None else self.per_second / self.num_stages


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The recommended number of stages."""

    num_stages: int
    why: str
    candidates: tuple[Candidate, ...]


def recommend(candidates: Sequence[Candidate]) -> Recommendation:
    """Choose the smallest K whose throughput per TPU is within `MARGIN` of the best of all.

    A pipeline gains more than its share as long as a further TPU saves streaming parameters on every inference, and
    less once everything stays on the chips: that is where the throughput per TPU is largest.

    Args:
        candidates: K = 1, 2, ... in ascending order; some may have no schedule.

    Returns:
        The smallest such K, and the reason in one sentence.

    Raises:
        SolverFailedError: None has a schedule.
    """
    rates = {c.num_stages: c.per_second_and_tpu for c in candidates if c.per_second_and_tpu is not None}
    if not rates:
        raise SolverFailedError(
            f"there is no schedule for any number of stages in {candidates[0].num_stages}..{candidates[-1].num_stages}"
            f" ({candidates[0].message or candidates[0].status})"
        )
    best = max(rates.values())
    by_stages = {c.num_stages: c for c in candidates}
    chosen = by_stages[min(k for k, rate in rates.items() if rate >= best * (1 - MARGIN))]
    return Recommendation(num_stages=chosen.num_stages, why=_why(chosen, by_stages), candidates=tuple(candidates))


def _why(chosen: Candidate, by_stages: dict[int, Candidate]) -> str:
    """Say what the next TPU would bring, and what one alone does."""
    count, one = chosen.num_stages, by_stages.get(1)
    streams = (
        f"{chosen.streamed_bytes / 2**20:.2f} MiB of parameters are still streamed on every inference"
        if chosen.streamed_bytes
        else "all parameters stay on the chip"
        if count == 1
        else "all parameters stay on the chips"
    )
    if count == 1:
        text = f"one TPU suffices: {streams}"
    else:
        gain = (
            "" if one is None or not one.per_second else f", {(chosen.per_second or 0) / one.per_second:.1f}x one TPU"
        )
        text = f"{count} TPUs bring the most a TPU{gain}: {streams}"
    more = by_stages.get(count + 1)
    if more is None:
        return f"{text}; more than {count} were not compared" if count > 1 else text
    if more.per_second is None or not chosen.per_second:
        return f"{text}; {more.num_stages} have no schedule ({more.message or more.status})"
    change = more.per_second / chosen.per_second - 1
    fair = 1 / count
    return f"{text}; one more TPU ({fair:.0%} more hardware) is predicted to change the throughput by {change:+.0%}"
