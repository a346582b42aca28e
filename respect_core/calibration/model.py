"""The finer device model: as `respect_core.objective`, but layers are cached whole and large ones are streamed again.

Per stage: ``overhead + inputs + outputs + C + S - overlap * min(C, S)``. The parameters that fit into
``min(capacity, shared capacity - inputs)`` stay on the chip, whole layers, largest first; every other layer is
streamed ``r = ceil((its inputs and outputs) / activation_mib)`` times. A pipeline's period is its largest stage time,
and at least ``host_thread_ms`` for every stage where Python threads drive it; its latency is the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from respect_core.calibration.facts import StageFacts


@dataclass(frozen=True, kw_only=True)
class Streamed:
    """What a stage streams on every inference."""

    spilled_mib: float
    """Bytes that find no room on the chip, each layer once."""
    moved_mib: float
    """What is moved for them, repetitions and constants that are never kept included."""


def streamed(facts: StageFacts, constants: Mapping[str, float]) -> Streamed:
    """Place a stage's layers, largest first, and return what does not fit."""
    room = max(0.0, min(constants["capacity_mib"], constants["shared_capacity_mib"] - facts.input_mib))
    spilled = moved = 0.0
    for layer in sorted(facts.layers, key=lambda layer: -layer.compiled_mib):
        if layer.compiled_mib <= room:
            room -= layer.compiled_mib
        else:
            spilled += layer.compiled_mib
            moved += layer.compiled_mib * repetitions(layer.activation_mib, constants["activation_mib"])
    return Streamed(spilled_mib=spilled, moved_mib=moved + facts.always_streamed_mib)


def repetitions(activation_mib: float, fitting_mib: float) -> int:
    """Return how often a streamed layer is streamed in one inference: once for every part of its activations."""
    return max(1, math.ceil(activation_mib / fitting_mib)) if fitting_mib > 0 else 1


def stage_ms(facts: StageFacts, constants: Mapping[str, float]) -> float:
    """Return the modelled time of one stage.

    Args:
        facts: Sums over the stage's ops.
        constants: A value for every constant of `respect_core.device_constants`, by name.
    """
    compute = compute_ms(facts, constants)
    streaming = constants["streaming_ms_per_mib"] * streamed(facts, constants).moved_mib
    transfers = constants["input_ms_per_mib"] * facts.input_mib + constants["output_ms_per_mib"] * facts.output_mib
    hidden = constants["overlap"] * min(compute, streaming)
    return constants["overhead_ms"] + transfers + compute + streaming - hidden


def compute_ms(facts: StageFacts, constants: Mapping[str, float]) -> float:
    """Return the part of a stage's time that is neither transfer nor streaming."""
    return (
        constants["compute_ms_per_gmac"] * facts.gmac
        + constants["mul_concat_ms_per_mib"] * facts.mul_concat_mib
        + constants["depthwise_ms_per_mib"] * facts.depthwise_mib
        + constants["add_pad_pool_ms_per_mib"] * facts.add_pad_pool_mib
        + facts.measured_ms
    )


def period_ms(stages: Sequence[StageFacts], constants: Mapping[str, float], *, host_threads: bool = False) -> float:
    """Return the time between two items in a full pipeline.

    Args:
        stages: The stages' facts.
        constants: As for `stage_ms`.
        host_threads: Whether Python threads drive the stages, which a pipeline of one stage never shows.
    """
    longest = max(stage_ms(facts, constants) for facts in stages)
    if host_threads and len(stages) > 1:
        return max(longest, constants["host_thread_ms"] * len(stages))
    return longest


def latency_ms(stages: Sequence[StageFacts], constants: Mapping[str, float]) -> float:
    """Return the time of one item alone in the pipeline."""
    return sum(stage_ms(facts, constants) for facts in stages)
