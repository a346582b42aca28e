"""One graph under many scenarios: the times of a schedule's stages in all of them at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from respect_core.device import MIB, DeviceProfile
from respect_core.graph import UNKNOWN, DnnGraph, FloatArray, IntArray
from respect_core.kinds import ADD_PAD_OR_POOL, DEPTHWISE, MULTIPLY_OR_CONCAT
from respect_core.solve.protocol import Problem

ROWS: Final = (
    "overhead_ms",
    "input_ms_per_mib",
    "output_ms_per_mib",
    "compute_ms_per_gmac",
    "mul_concat_ms_per_mib",
    "depthwise_ms_per_mib",
    "add_pad_pool_ms_per_mib",
    "streaming_ms_per_mib",
    "capacity_mib",
    "shared_capacity_mib",
    "overlap",
)
"""Rows of an array of constants."""


@dataclass(frozen=True, kw_only=True)
class Scenarios:
    """Devices as they might be, as columns."""

    constants: FloatArray
    """Shape (11, S), rows as in `ROWS`."""

    @classmethod
    def of(cls, profiles: Sequence[DeviceProfile]) -> Scenarios:
        """Take the constants of profiles."""
        columns = [[float(getattr(profile, name)) for name in ROWS] for profile in profiles]
        return cls(constants=np.ascontiguousarray(np.array(columns).T))

    @property
    def count(self) -> int:
        """Number of scenarios S."""
        return int(self.constants.shape[1])


def op_sums(graph: DnnGraph) -> FloatArray:
    """Return what a stage's time needs of every op: GMAC, MiB made by three sorts of kinds, ms, two of bytes.

    Shape (7, n), rows as `robust_loops` describes; an op with a measured time has that time and no work.
    """
    made = np.zeros(graph.num_ops, dtype=np.int64)
    has_producer = graph.tensor_producer != UNKNOWN
    np.add.at(made, graph.tensor_producer[has_producer], graph.tensor_bytes[has_producer])
    out = np.zeros((7, graph.num_ops))
    for v, kind in enumerate(graph.op_kinds):
        if math.isnan(graph.op_time_us[v]):
            out[0, v] = int(graph.macs[v]) / 1e9
            for row, kinds in enumerate((MULTIPLY_OR_CONCAT, DEPTHWISE, ADD_PAD_OR_POOL), start=1):
                out[row, v] = int(made[v]) / MIB if kind in kinds else 0.0
        else:
            out[4, v] = float(graph.op_time_us[v]) / 1000
    out[5] = np.where(graph.compiled_bytes == UNKNOWN, graph.param_bytes, graph.compiled_bytes) / MIB
    out[6] = graph.always_streamed_bytes / MIB
    return out


def stage_times(problem: Problem, stage_of: Sequence[int] | IntArray, scenarios: Scenarios) -> FloatArray:
    """Return the time of every stage in every scenario, in milliseconds. Shape (S, K).

    It is `respect_core.objective.evaluate` without the rounding of single terms.

    Raises:
        InvalidScheduleError: The schedule is not legal.
    """
    numbers = problem.evaluate(stage_of)
    sums = np.zeros((7, problem.num_stages))
    stages = np.asarray(stage_of, dtype=np.int64)
    for row, values in enumerate(op_sums(problem.graph)):
        np.add.at(sums[row], stages, values)
    received, sent = numbers.input_bytes / MIB, numbers.output_bytes / MIB
    c = scenarios.constants[:, :, None]
    compute = c[3] * sums[0] + c[4] * sums[1] + c[5] * sums[2] + c[6] * sums[3] + sums[4]
    room = np.maximum(0.0, np.minimum(c[8], c[9] - received))
    spilled = c[7] * (np.maximum(0.0, sums[5] - room) + sums[6])
    out: FloatArray = c[0] + c[1] * received + c[2] * sent + compute + spilled - c[10] * np.minimum(compute, spilled)
    return out


def bottlenecks(problem: Problem, stage_of: Sequence[int] | IntArray, scenarios: Scenarios) -> FloatArray:
    """Return the largest stage time in every scenario, in milliseconds. Shape (S,)."""
    out: FloatArray = stage_times(problem, stage_of, scenarios).max(axis=1)
    return out
