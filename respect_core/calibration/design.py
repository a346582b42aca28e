"""The model of `respect_core.calibration.model` over many observations at once, as NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from respect_core.calibration.model import streamed
from respect_core.calibration.observations import LINKS, Observation
from respect_core.graph import FloatArray, IntArray

STREAMING: Final = "streaming_ms_per_mib"

SHARED: Final = (
    "overhead_ms",
    "input_ms_per_mib",
    "output_ms_per_mib",
    "compute_ms_per_gmac",
    "mul_concat_ms_per_mib",
    "depthwise_ms_per_mib",
    "add_pad_pool_ms_per_mib",
    "overlap",
    "host_thread_ms",
)
"""Constants that are fitted to the rows of all links together."""

FITTED: Final = (*SHARED, *(f"{STREAMING}@{link}" for link in LINKS))
"""Every constant that is fitted, in the order of a vector of them; streaming is fitted for each link."""

PLACING: Final = ("capacity_mib", "shared_capacity_mib", "activation_mib")
"""Constants that say what is streamed; they are settled before the others are fitted."""

_COMPUTE: Final = ("compute_ms_per_gmac", "mul_concat_ms_per_mib", "depthwise_ms_per_mib", "add_pad_pool_ms_per_mib")


class Design:
    """Predicts the times of observations from a vector of constants.

    Args:
        observations: R of them, with S stages in total.
        placing: A value for each of `PLACING`.
    """

    def __init__(self, observations: Sequence[Observation], placing: Mapping[str, float]) -> None:
        self.observations = tuple(observations)
        stages = [stage for row in observations for stage in row.stages]
        sizes = np.array([row.num_stages for row in observations], dtype=np.int64)
        self.first: IntArray = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.num_stages = sizes
        self.transfers = np.array([[s.input_mib, s.output_mib] for s in stages]).reshape(-1, 2)
        self.work = np.array([[s.gmac, s.mul_concat_mib, s.depthwise_mib, s.add_pad_pool_mib] for s in stages])
        self.work = self.work.reshape(-1, len(_COMPUTE))
        self.measured_ms = np.array([s.measured_ms for s in stages], dtype=np.float64)
        self.moved_mib = np.array([streamed(s, placing).moved_mib for s in stages], dtype=np.float64)
        self.link = np.repeat([LINKS.index(row.link) for row in observations], sizes).astype(np.int64)
        self.is_period = np.array([row.measured == "period" for row in observations], dtype=np.bool_)
        self.batch = np.array([row.batch or 0 for row in observations], dtype=np.float64)
        self.threads = np.array([row.host_threads and row.num_stages > 1 for row in observations], dtype=np.bool_)
        self.time_ms = np.array([row.time_ms for row in observations], dtype=np.float64)

    def stage_ms(self, theta: FloatArray) -> FloatArray:
        """Return the time of every stage. Shape (S,)."""
        value = dict(zip(FITTED, theta.tolist(), strict=True))
        compute = self.work @ np.array([value[name] for name in _COMPUTE]) + self.measured_ms
        per_mib = np.array([value[f"{STREAMING}@{link}"] for link in LINKS])
        streaming = per_mib[self.link] * self.moved_mib
        moved = self.transfers @ np.array([value["input_ms_per_mib"], value["output_ms_per_mib"]])
        hidden = value["overlap"] * np.minimum(compute, streaming)
        out: FloatArray = value["overhead_ms"] + moved + compute + streaming - hidden
        return out

    def predict(self, theta: FloatArray) -> FloatArray:
        """Return the time of every observation in milliseconds.

        A batch of B items takes the latency of one and B - 1 periods, divided by B.

        Args:
            theta: A value for each of `FITTED`. Shape (11,).

        Returns:
            Shape (R,).
        """
        if not self.observations:
            return np.zeros(0)
        times = self.stage_ms(theta)
        latency = np.add.reduceat(times, self.first)
        period = np.maximum.reduceat(times, self.first)
        floor = theta[FITTED.index("host_thread_ms")] * self.num_stages
        period = np.where(self.threads, np.maximum(period, floor), period)
        filling = np.divide(latency - period, self.batch, out=np.zeros_like(period), where=self.batch > 0)
        return np.where(self.is_period, period + np.maximum(filling, 0), latency)
