"""The numbers a schedule is judged by, computed in one place for everybody.

Stage time under a profile, in integer nanoseconds, for the ops of a stage and the distinct tensors it receives and
sends: ``overhead + inputs + outputs + C + S - overlap * min(C, S)`` with compute ``C`` and streaming ``S``, after the
performance model fitted to published Edge TPU measurements (`devices.toml` names each constant's source). Every op's
and tensor's term is rounded half-even once; all that follows is integer arithmetic, so solvers agree to the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, get_args

import numpy as np

from respect_core.constraints import NO_CONSTRAINTS, Constraints
from respect_core.device import MIB, DeviceProfile, ns_per_unit
from respect_core.errors import BadInputError, UnknownNameError
from respect_core.graph import UNKNOWN, DnnGraph, IntArray
from respect_core.kinds import ADD_PAD_OR_POOL, DEPTHWISE, MULTIPLY_OR_CONCAT
from respect_core.schedule import check_schedule

Objective = Literal["peak-memory", "throughput", "weighted"]
OBJECTIVES: Final[tuple[Objective, ...]] = get_args(Objective)

_GMAC: Final = 10**9

MAX_TIME_NS: Final = 2**58
"""Largest sum of all time terms of a graph (nine years): sums of a few of them stay below 2**63."""


def check_objective(name: str) -> Objective:
    """Return ``name`` as an objective or raise `UnknownNameError`."""
    for objective in OBJECTIVES:
        if name == objective:
            return objective
    raise UnknownNameError("objective", name, OBJECTIVES)


@dataclass(frozen=True, kw_only=True)
class TimeTerms:
    """The stage-time model of one graph under one profile, as integers that only need to be added.

    For a stage with ops V, received tensors I and sent tensors O:
    ``C = sum(compute_ns[V])``,
    ``room = max(0, min(capacity_ns, shared_capacity_ns - sum(occupied_ns[I])))``,
    ``S = max(0, sum(streaming_ns[V]) - room) + sum(always_ns[V])``,
    ``time = overhead_ns + sum(input_ns[I]) + sum(output_ns[O]) + C + S - min(C, S) * overlap_num // overlap_den``.
    Received and sent tensors are those of `Numbers.input_bytes` and `Numbers.output_bytes`.
    """

    overhead_ns: int
    compute_ns: IntArray
    """Shape (n,)."""
    streaming_ns: IntArray
    """Time to stream all of an op's compiled bytes. Shape (n,)."""
    always_ns: IntArray
    """Time to stream the bytes that never stay on the chip. Shape (n,)."""
    input_ns: IntArray
    """Shape (m,)."""
    output_ns: IntArray
    """Shape (m,)."""
    occupied_ns: IntArray
    """A received tensor's bytes as the time to stream as many parameters. Shape (m,)."""
    capacity_ns: int
    """On-chip room for parameters, as the time to stream as many bytes."""
    shared_capacity_ns: int
    """On-chip room that parameters and received tensors share, likewise."""
    overlap_num: int
    overlap_den: int

    def stage_time(self, compute: int, streaming: int, always: int, inputs: int, outputs: int, occupied: int) -> int:
        """Combine the sums of one stage to its time in nanoseconds."""
        room = max(0, min(self.capacity_ns, self.shared_capacity_ns - occupied))
        spilled = max(0, streaming - room) + always
        hidden = min(compute, spilled) * self.overlap_num // self.overlap_den
        return self.overhead_ns + inputs + outputs + compute + spilled - hidden


def time_terms(graph: DnnGraph, profile: DeviceProfile) -> TimeTerms:
    """Round every op's and tensor's share of the stage time once (half-even), in nanoseconds.

    Raises:
        BadInputError: Under this profile the graph would take longer than `MAX_TIME_NS`.
    """
    stream = ns_per_unit(profile.streaming_ms_per_mib, MIB)
    per_input = ns_per_unit(profile.input_ms_per_mib, MIB)
    per_output = ns_per_unit(profile.output_ms_per_mib, MIB)
    resident = np.where(graph.compiled_bytes == UNKNOWN, graph.param_bytes, graph.compiled_bytes)
    num, den = profile.overlap_ratio
    sums = {
        "compute_ns": _compute_ns(graph, profile),
        "streaming_ns": _scaled(resident, stream),
        "always_ns": _scaled(graph.always_streamed_bytes, stream),
        "input_ns": _scaled(graph.tensor_bytes, per_input),
        "output_ns": _scaled(graph.tensor_bytes, per_output),
        "occupied_ns": _scaled(graph.tensor_bytes, stream),
    }
    total = sum(map(sum, sums.values()))
    if total > MAX_TIME_NS:
        raise BadInputError(
            f"graph {graph.name!r} would take {total} ns under profile {profile.name!r}, at most 2**58 is allowed"
        )
    return TimeTerms(
        overhead_ns=profile.overhead_ns,
        **{name: np.array(values, dtype=np.int64) for name, values in sums.items()},
        capacity_ns=round(profile.capacity_bytes * stream),
        shared_capacity_ns=round(profile.shared_capacity_bytes * stream),
        overlap_num=num,
        overlap_den=den,
    )


def _scaled(counts: IntArray, per_unit: Fraction) -> list[int]:
    """Multiply exactly and round half-even."""
    return [_quotient(count * per_unit.numerator, per_unit.denominator) for count in counts.tolist()]


def _quotient(dividend: int, divisor: int) -> int:
    """Divide whole numbers and round half-even: as fractions do, which take far longer."""
    whole, rest = divmod(dividend, divisor)
    return whole + (2 * rest > divisor or (2 * rest == divisor and whole % 2 == 1))


def _compute_ns(graph: DnnGraph, profile: DeviceProfile) -> list[int]:
    per_mac = ns_per_unit(profile.compute_ms_per_gmac, _GMAC)
    per_output_byte = {
        kind: ns_per_unit(constant, MIB)
        for kinds, constant in (
            (MULTIPLY_OR_CONCAT, profile.mul_concat_ms_per_mib),
            (DEPTHWISE, profile.depthwise_ms_per_mib),
            (ADD_PAD_OR_POOL, profile.add_pad_pool_ms_per_mib),
        )
        for kind in kinds
    }
    unit = math.lcm(per_mac.denominator, *(constant.denominator for constant in per_output_byte.values()))
    mac, of_kind = int(per_mac * unit), {kind: int(constant * unit) for kind, constant in per_output_byte.items()}
    made = [0] * graph.num_ops
    for producer, size in zip(graph.tensor_producer.tolist(), graph.tensor_bytes.tolist(), strict=True):
        if producer != UNKNOWN:
            made[producer] += size
    out = []
    for v, measured in enumerate(graph.op_time_us.tolist()):
        if math.isnan(measured):
            out.append(_quotient(int(graph.macs[v]) * mac + made[v] * of_kind.get(graph.op_kinds[v], 0), unit))
        else:
            out.append(round(Fraction(repr(measured)) * 1000))
    return out


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Every number of one schedule; arrays have one entry a stage, `boundary_bytes` one a boundary."""

    param_bytes: IntArray
    """Shape (K,)."""
    boundary_bytes: IntArray
    """Bytes made at or before stage d and read after it. Shape (K - 1,)."""
    input_bytes: IntArray
    """Bytes of the distinct tensors a stage receives, graph inputs included. Shape (K,)."""
    output_bytes: IntArray
    """Bytes of the distinct tensors a stage sends: read later, or graph outputs. Shape (K,)."""
    time_ns: IntArray
    """Shape (K,)."""
    crossings: int
    """Number of (edge, boundary) pairs crossed."""

    @property
    def peak_param_bytes(self) -> int:
        """Peak memory: the largest of `param_bytes`."""
        return int(self.param_bytes.max())

    @property
    def communication_bytes(self) -> int:
        """Sum of `boundary_bytes`."""
        return sum(self.boundary_bytes.tolist())

    @property
    def bottleneck_ns(self) -> int:
        """Largest stage time; throughput is its inverse."""
        return int(self.time_ns.max())

    @property
    def latency_ns(self) -> int:
        """Sum of the stage times."""
        return sum(self.time_ns.tolist())

    def value(self, objective: Objective, ratio: int = 100) -> tuple[int, ...]:
        """Return the objective's components, to be compared as tuples (smaller is better)."""
        if objective == "peak-memory":
            return self.peak_param_bytes, self.communication_bytes
        if objective == "throughput":
            return self.bottleneck_ns, self.latency_ns
        return (ratio * self.peak_param_bytes + self.crossings,)


def evaluate(
    graph: DnnGraph,
    stage_of: Sequence[int] | IntArray,
    num_stages: int,
    profile: DeviceProfile,
    constraints: Constraints = NO_CONSTRAINTS,
    *,
    terms: TimeTerms | None = None,
) -> Numbers:
    """Compute every number of a schedule, after checking that it is legal.

    Args:
        graph: The graph.
        stage_of: Stage of every op, in [0, num_stages). Shape (n,).
        num_stages: Number of stages K.
        profile: Constants of the device and its link.
        constraints: What the schedule must obey.
        terms: `time_terms(graph, profile)`, where the caller has them already.

    Returns:
        The numbers; ``param_bytes`` sums to the graph's.

    Raises:
        InvalidScheduleError: The schedule is not legal; the first violation is named.
    """
    check_schedule(graph, stage_of, num_stages, constraints)
    terms = terms or time_terms(graph, profile)
    stages = np.asarray(stage_of, dtype=np.int64)
    received, sent = _received_and_sent(graph, stages, num_stages)
    made = np.flatnonzero(graph.tensor_producer != UNKNOWN)
    first = stages[graph.tensor_producer[made]]
    steps = np.zeros(num_stages + 1, dtype=np.int64)
    np.add.at(steps, first, graph.tensor_bytes[made])
    np.add.at(steps, np.maximum(_last_read(graph, stages)[made], first), -graph.tensor_bytes[made])
    per_op = [_sums(x, stages, num_stages) for x in (terms.compute_ns, terms.streaming_ns, terms.always_ns)]
    in_t, in_k = received
    out_t, out_k = sent
    per_tensor = [
        _sums(terms.input_ns[in_t], in_k, num_stages),
        _sums(terms.output_ns[out_t], out_k, num_stages),
        _sums(terms.occupied_ns[in_t], in_k, num_stages),
    ]
    times = [terms.stage_time(*map(int, sums)) for sums in zip(*per_op, *per_tensor, strict=True)]
    return Numbers(
        param_bytes=_sums(graph.param_bytes, stages, num_stages),
        boundary_bytes=np.cumsum(steps)[: num_stages - 1],
        input_bytes=_sums(graph.tensor_bytes[in_t], in_k, num_stages),
        output_bytes=_sums(graph.tensor_bytes[out_t], out_k, num_stages),
        time_ns=np.array(times, dtype=np.int64),
        crossings=int((stages[graph.edges[:, 1]] - stages[graph.edges[:, 0]]).sum()),
    )


def _sums(values: IntArray, stages: IntArray, num_stages: int) -> IntArray:
    out = np.zeros(num_stages, dtype=np.int64)
    np.add.at(out, stages, values)
    return out


def _last_read(graph: DnnGraph, stages: IntArray) -> IntArray:
    """Return the last stage that reads each tensor, -1 where nobody does. Shape (m,)."""
    last = np.full(graph.num_tensors, -1, dtype=np.int64)
    tensors, readers = graph.reads
    np.maximum.at(last, tensors, stages[readers])
    return last


def _received_and_sent(
    graph: DnnGraph, stages: IntArray, num_stages: int
) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
    """Return the (tensor, stage) pairs of what each stage receives from, and sends to, the host."""
    tensors, readers = graph.reads
    pairs = np.unique(tensors * num_stages + stages[readers])
    read_t, read_k = pairs // num_stages, pairs % num_stages
    made_in = np.where(graph.tensor_producer == UNKNOWN, -1, stages[graph.tensor_producer])
    relayed = read_k != made_in[read_t]
    from_host = np.flatnonzero(np.isin(graph.tensor_producer, graph.input_ops))
    received = (
        np.concatenate([read_t[relayed], from_host]),
        np.concatenate([read_k[relayed], made_in[from_host]]),
    )
    leaves = (made_in >= 0) & ((_last_read(graph, stages) > made_in) | graph.tensor_is_output)
    sent = np.flatnonzero(leaves)
    return received, (sent, made_in[sent])
