"""What the device model knows about one stage: sums over its ops, and the layers whose parameters need memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from respect_core.device import MIB, load_profile
from respect_core.graph import UNKNOWN, DnnGraph, IntArray
from respect_core.kinds import ADD_PAD_OR_POOL, DEPTHWISE, MULTIPLY_OR_CONCAT
from respect_core.objective import evaluate


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Parameters that are kept on the chip or streamed as a whole."""

    compiled_mib: float
    activation_mib: float
    """Inputs and outputs of the layer together."""


@dataclass(frozen=True, kw_only=True)
class StageFacts:
    """Everything about one stage that the model's constants multiply."""

    input_mib: float
    output_mib: float
    gmac: float = 0.0
    mul_concat_mib: float = 0.0
    depthwise_mib: float = 0.0
    add_pad_pool_mib: float = 0.0
    always_streamed_mib: float = 0.0
    measured_ms: float = 0.0
    """Time of ops that somebody measured, which replaces their MACs and outputs."""
    layers: tuple[Layer, ...] = ()

    @property
    def compiled_mib(self) -> float:
        """All parameters, on the chip or not."""
        return sum(layer.compiled_mib for layer in self.layers)


def facts_of_graph(graph: DnnGraph, stage_of: Sequence[int] | IntArray, num_stages: int) -> tuple[StageFacts, ...]:
    """Collect the facts of every stage of a schedule.

    An op's compiled bytes are its parameter bytes where the compiled ones are not known.

    Args:
        graph: The graph; an op graph, for a layer graph knows neither compiled bytes nor fused ops.
        stage_of: Stage of every op, in [0, num_stages). Shape (n,).
        num_stages: Number of stages K.

    Raises:
        InvalidScheduleError: The schedule is not legal.
    """
    numbers = evaluate(graph, stage_of, num_stages, load_profile("pcie"))
    made, touched = _tensor_sums(graph)
    resident = np.where(graph.compiled_bytes == UNKNOWN, graph.param_bytes, graph.compiled_bytes)
    stages = np.asarray(stage_of, dtype=np.int64)
    out = []
    for k in range(num_stages):
        ops = np.flatnonzero(stages == k).tolist()
        estimated = [v for v in ops if math.isnan(graph.op_time_us[v])]
        output_of = {
            kinds: sum(int(made[v]) for v in estimated if graph.op_kinds[v] in kinds) / MIB
            for kinds in (MULTIPLY_OR_CONCAT, DEPTHWISE, ADD_PAD_OR_POOL)
        }
        out.append(
            StageFacts(
                input_mib=int(numbers.input_bytes[k]) / MIB,
                output_mib=int(numbers.output_bytes[k]) / MIB,
                gmac=sum(int(graph.macs[v]) for v in estimated) / 1e9,
                mul_concat_mib=output_of[MULTIPLY_OR_CONCAT],
                depthwise_mib=output_of[DEPTHWISE],
                add_pad_pool_mib=output_of[ADD_PAD_OR_POOL],
                always_streamed_mib=sum(int(graph.always_streamed_bytes[v]) for v in ops) / MIB,
                measured_ms=sum(float(graph.op_time_us[v]) for v in ops if not math.isnan(graph.op_time_us[v])) / 1000,
                layers=tuple(
                    Layer(compiled_mib=int(resident[v]) / MIB, activation_mib=int(touched[v]) / MIB)
                    for v in ops
                    if resident[v]
                ),
            )
        )
    return tuple(out)


def _tensor_sums(graph: DnnGraph) -> tuple[IntArray, IntArray]:
    """Return the bytes each op makes, and the bytes it reads and makes. Shapes (n,)."""
    made = np.zeros(graph.num_ops, dtype=np.int64)
    has_producer = graph.tensor_producer != UNKNOWN
    np.add.at(made, graph.tensor_producer[has_producer], graph.tensor_bytes[has_producer])
    touched = made.copy()
    tensors, readers = graph.reads
    np.add.at(touched, readers, graph.tensor_bytes[tensors])
    return made, touched
