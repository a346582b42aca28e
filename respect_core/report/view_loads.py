"""What a schedule asks of every stage, in parts: memory, and compute, streaming and transfer of the modelled time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from respect_core.device import DeviceProfile
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.objective import TimeTerms, time_terms
from respect_core.schedule import check_schedule


@dataclass(frozen=True, kw_only=True)
class StageLoad:
    """One stage under a schedule and a device profile; times are modelled, in integer nanoseconds."""

    stage: int
    num_ops: int
    macs: int
    param_bytes: int
    input_bytes: int
    output_bytes: int
    resident_bytes: int
    """Bytes the compiled ops would take on the chip, parameters where the compiled size is not known."""
    streamed_bytes: int
    """Bytes streamed on every inference: what finds no room on the chip, and what never stays there."""
    overhead_ns: int
    compute_ns: int
    streaming_ns: int
    hidden_ns: int
    """Part of streaming or compute that hides behind the other."""
    transfer_ns: int
    """Receiving inputs and sending outputs."""

    @property
    def time_ns(self) -> int:
        """Modelled time of the stage: the sum of the parts without what is hidden."""
        return self.overhead_ns + self.compute_ns + self.streaming_ns - self.hidden_ns + self.transfer_ns


@dataclass(frozen=True, kw_only=True)
class BoundaryTensor:
    """A tensor that is made in one stage and read in later ones."""

    tensor: int
    num_bytes: int
    producer: int
    made_in: int
    read_in: tuple[int, ...]
    """Later stages that read it, ascending."""
    cost_ns: int
    """Modelled cost: sent once to the host, received once by each stage that reads it."""


def stage_loads(
    graph: DnnGraph, stage_of: Sequence[int], num_stages: int, profile: DeviceProfile
) -> tuple[StageLoad, ...]:
    """Split the time of every stage into its parts.

    The formulas are those of `respect_core.objective`; a stage's `time_ns` is the one that `evaluate` gives.

    Args:
        graph: The graph.
        stage_of: Stage of every op. Shape (n,).
        num_stages: Number of stages K.
        profile: Constants of the device and its link.

    Returns:
        One load a stage.

    Raises:
        InvalidScheduleError: The schedule is not legal.
    """
    check_schedule(graph, stage_of, num_stages)
    terms = time_terms(graph, profile)
    received: list[list[int]] = [[] for _ in range(num_stages)]
    sent: list[list[int]] = [[] for _ in range(num_stages)]
    for t, readers in enumerate(graph.tensor_consumers):
        producer = int(graph.tensor_producer[t])
        reading = {stage_of[v] for v in readers}
        made_in = stage_of[producer] if producer != UNKNOWN else None
        for k in reading - {made_in}:
            received[k].append(t)
        if made_in is None:
            continue
        if producer in graph.input_ops:
            received[made_in].append(t)
        if graph.tensor_is_output[t] or any(k > made_in for k in reading):
            sent[made_in].append(t)
    ops: list[list[int]] = [[] for _ in range(num_stages)]
    for v, k in enumerate(stage_of):
        ops[k].append(v)
    return tuple(
        _load(graph, terms, profile, k, ops=ops[k], received=received[k], sent=sent[k]) for k in range(num_stages)
    )


def _load(
    graph: DnnGraph,
    terms: TimeTerms,
    profile: DeviceProfile,
    stage: int,
    *,
    ops: list[int],
    received: list[int],
    sent: list[int],
) -> StageLoad:
    compute, streaming, always = (int(x[ops].sum()) for x in (terms.compute_ns, terms.streaming_ns, terms.always_ns))
    occupied = int(terms.occupied_ns[received].sum())
    spilled = max(0, streaming - max(0, min(terms.capacity_ns, terms.shared_capacity_ns - occupied))) + always
    known = graph.compiled_bytes[ops]
    resident = int(known[known != UNKNOWN].sum() + graph.param_bytes[ops][known == UNKNOWN].sum())
    input_bytes = int(graph.tensor_bytes[received].sum())
    room = max(0, min(profile.capacity_bytes, profile.shared_capacity_bytes - input_bytes))
    return StageLoad(
        stage=stage,
        num_ops=len(ops),
        macs=int(graph.macs[ops].sum()),
        param_bytes=int(graph.param_bytes[ops].sum()),
        input_bytes=input_bytes,
        output_bytes=int(graph.tensor_bytes[sent].sum()),
        resident_bytes=resident,
        streamed_bytes=max(0, resident - room) + int(graph.always_streamed_bytes[ops].sum()),
        overhead_ns=terms.overhead_ns,
        compute_ns=compute,
        streaming_ns=spilled,
        hidden_ns=min(compute, spilled) * terms.overlap_num // terms.overlap_den,
        transfer_ns=int(terms.input_ns[received].sum() + terms.output_ns[sent].sum()),
    )


def boundary_tensors(graph: DnnGraph, stage_of: Sequence[int], profile: DeviceProfile) -> tuple[BoundaryTensor, ...]:
    """List the tensors that cross stage boundaries, by the stage that makes them, then the dearest first."""
    terms = time_terms(graph, profile)
    found = []
    for t, readers in enumerate(graph.tensor_consumers):
        producer = int(graph.tensor_producer[t])
        if producer == UNKNOWN:
            continue
        later = tuple(sorted({stage_of[v] for v in readers if stage_of[v] > stage_of[producer]}))
        if later:
            found.append(
                BoundaryTensor(
                    tensor=t,
                    num_bytes=int(graph.tensor_bytes[t]),
                    producer=producer,
                    made_in=stage_of[producer],
                    read_in=later,
                    cost_ns=int(terms.output_ns[t]) + len(later) * int(terms.input_ns[t]),
                )
            )
    return tuple(sorted(found, key=lambda b: (b.made_in, -b.cost_ns, b.tensor)))
