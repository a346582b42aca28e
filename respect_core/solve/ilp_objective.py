"""The objective's components as linear sums over a `StageModel`.

Numbers that only grow when they are worse (a stage's time, a tensor that crosses a boundary) are bounded from below
only: minimising presses them down to their value, and a limit on them is met by a schedule exactly where some values of
the variables meet it.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, IntArray
from respect_core.solve.domains import certain_transfers
from respect_core.solve.ilp_model import StageModel, Sum
from respect_core.solve.protocol import Problem

Component = Literal["first", "second"]

LARGEST: Final = 2**61
"""Largest absolute value of a sum in the model; the solver refuses sums above 2**62."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is known of the objective's components: largest allowed values, and a bound on the first."""

    first: int | None = None
    """None where there is no limit."""
    second: int | None = None
    lower_bound: int = 0
    """No legal schedule has a smaller first component."""


def bounded_component(stages: StageModel, limits: Limits, want: Component | None) -> tuple[Sum, int]:
    """Add the limits to the model and return the component to minimise.

    Args:
        stages: The model of legal schedules, which gets the variables and constraints of the objective.
        limits: Largest allowed values and the known bound.
        want: The component to minimise; None to only keep the limits.

    Returns:
        The component divided by its unit, and the unit (bytes, ns or 1).
    """
    objective = stages.problem.objective
    if objective == "peak-memory":
        return _peak_memory(stages, limits, want)
    if objective == "throughput":
        return _throughput(stages, limits, want)
    return _weighted(stages, limits)


def _largest(stages: StageModel, sums: list[Sum], low: int, high: int) -> Sum:
    variable = stages.model.new_int_var(low, max(low, high), "")
    _keep_within(stages, sums, variable)
    return Sum().add(variable, 1)


def _keep_within(stages: StageModel, sums: list[Sum], most: Any) -> None:
    for one in sums:
        stages.model.add(stages.expression(one) <= most)


# -- bytes -----------------------------------------------------------------------------------------------------------


def _loads(stages: StageModel) -> tuple[list[Sum], int]:
    """Return the parameter bytes of every stage, divided by their unit, and the unit."""
    per_block = stages.blocks.sums(stages.problem.graph.param_bytes)
    unit = math.gcd(*per_block.tolist()) or 1
    return stages.stage_sums(per_block // unit), unit


def _peak_memory(stages: StageModel, limits: Limits, want: Component | None) -> tuple[Sum, int]:
    loads, unit = _loads(stages)
    most = int(stages.problem.graph.param_bytes.sum()) if limits.first is None else limits.first
    if want == "first":
        return _largest(stages, loads, -(-limits.lower_bound // unit), most // unit), unit
    _keep_within(stages, loads, most // unit)
    total, unit = _communication(stages)
    if limits.second is not None:
        _keep_within(stages, [total], limits.second // unit)
    return total, unit


def _communication(stages: StageModel) -> tuple[Sum, int]:
    """Sum the bytes of tensors over the boundaries they cross, divided by their unit."""
    graph, blocks = stages.problem.graph, stages.blocks
    sizes: Counter[tuple[int, frozenset[int]]] = Counter()
    for producer, readers, t in _relayed(stages):
        if producer != UNKNOWN:
            sizes[producer, frozenset(blocks.last_of(readers))] += int(graph.tensor_bytes[t])
    unit = math.gcd(*sizes.values()) or 1
    total = Sum()
    for (producer, last_readers), size in sizes.items():
        if size:
            total.extend(stages.last_stage(last_readers), size // unit)
            total.extend(stages.stage_number(producer), -size // unit)
    return total, unit


def _weighted(stages: StageModel, limits: Limits) -> tuple[Sum, int]:
    graph, ratio = stages.problem.graph, stages.problem.ratio
    total = Sum()
    if ratio:
        loads, unit = _loads(stages)
        most = int(graph.param_bytes.sum()) if limits.first is None else limits.first // ratio
        peak = _largest(stages, loads, -(-int(graph.param_bytes.sum()) // (unit * stages.num_stages)), most // unit)
        total.extend(peak, ratio * unit)
    factors: Counter[int] = Counter()
    for u, v in stages.blocks.block_of[graph.edges].tolist():
        factors[u] -= 1
        factors[v] += 1
    for block, factor in factors.items():
        if factor:
            total.extend(stages.stage_number(block), factor)
    stages.model.add(stages.expression(total) >= limits.lower_bound)
    if limits.first is not None:
        _keep_within(stages, [total], limits.first)
    return total, 1


# -- stage times -----------------------------------------------------------------------------------------------------


def _throughput(stages: StageModel, limits: Limits, want: Component | None) -> tuple[Sum, int]:
    times = _times(stages)
    most = _longest_latency(stages.problem) if limits.first is None else limits.first
    if want == "first":
        return _largest(stages, times, limits.lower_bound, most), 1
    _keep_within(stages, times, most)
    latency = Sum()
    for time in times:
        latency.extend(time)
    if limits.second is not None:
        _keep_within(stages, [latency], limits.second)
    return latency, 1


def _times(stages: StageModel) -> list[Sum]:
    """Return the time of every stage, or more; the formula is that of `TimeTerms`."""
    problem, blocks, model = stages.problem, stages.blocks, stages.model
    terms = problem.terms
    compute, streaming, always, certain = (
        stages.stage_sums(blocks.sums(x))
        for x in (terms.compute_ns, terms.streaming_ns, terms.always_ns, certain_transfers(problem, blocks))
    )
    moved, occupied, most_occupied = _transfers(stages)
    needed = int(terms.streaming_ns.sum())
    most_hidden = min(int(terms.compute_ns.sum()), needed + int(terms.always_ns.sum()))
    most_hidden = most_hidden * terms.overlap_num // terms.overlap_den
    out = []
    for k in range(problem.num_stages):
        spilled = Sum().extend(always[k])
        room = _room(stages, occupied[k], most_occupied, needed)
        if room.variables or room.constant < needed:
            spill = model.new_int_var(0, needed, "")
            model.add(spill + stages.expression(room) >= stages.expression(streaming[k]))
            spilled.add(spill, 1)
        time = Sum(constant=terms.overhead_ns)
        for part in (certain[k], moved[k], compute[k], spilled):
            time.extend(part)
        if most_hidden:
            hidden = model.new_int_var(0, most_hidden, "")
            for part in (compute[k], spilled):
                model.add(terms.overlap_den * hidden <= stages.expression(Sum().extend(part, terms.overlap_num)))
            time.add(hidden, -1)
        out.append(time)
    return out


def _room(stages: StageModel, occupied: Sum, most_occupied: int, needed: int) -> Sum:
    """Return the room that a stage has for parameters, or less: none where inputs fill the shared memory."""
    model, terms = stages.model, stages.problem.terms
    capacity, shared = min(terms.capacity_ns, needed), terms.shared_capacity_ns
    if shared - most_occupied >= capacity or not occupied.variables:
        return Sum(constant=max(0, min(capacity, shared - occupied.constant)))
    room = model.new_int_var(0, min(capacity, shared), "")
    taken = room + stages.expression(occupied) <= shared
    if most_occupied <= shared:
        model.add(taken)
    else:
        some = model.new_bool_var("")
        model.add(taken).only_enforce_if(some)
        model.add(room == 0).only_enforce_if(some.negated())
    return Sum().add(room, 1)


def _transfers(stages: StageModel) -> tuple[list[Sum], list[Sum], int]:
    """Model what moves between stages.

    Returns:
        For every stage the time of moving tensors that may or may not move, and the room that its inputs take; and
        the most room that all tensors together could take.
    """
    graph, terms = stages.problem.graph, stages.problem.terms
    moved = [Sum() for _ in range(stages.num_stages)]
    fixed_room = np.zeros(stages.blocks.num_blocks, dtype=np.int64)
    for op in graph.input_ops:
        fixed_room[stages.blocks.block_of[op]] += terms.occupied_ns[graph.tensor_producer == op].sum()
    groups: dict[tuple[int, frozenset[int]], IntArray] = {}
    for producer, readers, t in _relayed(stages):
        if producer == UNKNOWN and len(readers) == 1:
            fixed_room[next(iter(readers))] += terms.occupied_ns[t]
            continue
        out_ns = 0 if producer == UNKNOWN or graph.tensor_is_output[t] else terms.output_ns[t]
        group = groups.setdefault((producer, readers), np.zeros(3, dtype=np.int64))
        group += np.array([terms.input_ns[t], terms.occupied_ns[t], out_ns])
    occupied = stages.stage_sums(fixed_room)
    most_occupied = int(fixed_room.sum())
    for (producer, readers), group in groups.items():
        in_ns, room_ns, out_ns = group.tolist()
        most_occupied += room_ns
        for k in range(stages.num_stages):
            if in_ns or room_ns:
                received = _received(stages, producer, readers, k)
                moved[k].extend(received, in_ns)
                occupied[k].extend(received, room_ns)
            if out_ns:
                moved[k].extend(_sent(stages, producer, readers, k), out_ns)
    return moved, occupied, most_occupied


def _relayed(stages: StageModel) -> list[tuple[int, frozenset[int], int]]:
    """Return producer block, other reading blocks and index of every tensor that may have to move."""
    graph, block_of = stages.problem.graph, stages.blocks.block_of.tolist()
    out = []
    for t, op in enumerate(graph.tensor_producer.tolist()):
        producer = block_of[op] if op != UNKNOWN else UNKNOWN
        readers = frozenset(block_of[v] for v in graph.tensor_consumers[t]) - {producer}
        if readers:
            out.append((producer, readers, t))
    return out


def _received(stages: StageModel, producer: int, readers: frozenset[int], k: int) -> Sum:
    """Return 1, or more, where stage k reads a tensor that an earlier stage or the host made."""
    inside = [b for b in sorted(readers) if stages.low[b] <= k <= stages.high[b]]
    makes = stages.member(producer, k) if producer != UNKNOWN else Sum()
    if len(inside) == 1 and not makes.variables and not makes.constant:
        return stages.member(inside[0], k)
    return _positive_part(stages, [stages.member(b, k).extend(makes, -1) for b in inside])


def _sent(stages: StageModel, producer: int, readers: frozenset[int], k: int) -> Sum:
    """Return 1, or more, where stage k makes a tensor that a later stage reads."""
    if not stages.low[producer] <= k <= stages.high[producer]:
        return Sum()
    last = stages.blocks.last_of(readers)
    return _positive_part(stages, [stages.member(producer, k).extend(stages.member(b, k), -1) for b in last])


def _positive_part(stages: StageModel, parts: list[Sum]) -> Sum:
    """Return 0 or the largest of some sums, each at most 1."""
    if any(not part.variables and part.constant >= 1 for part in parts):
        return Sum(constant=1)
    parts = [part for part in parts if part.variables]
    if not parts:
        return Sum()
    variable = stages.model.new_bool_var("")
    _keep_within(stages, parts, variable)
    return Sum().add(variable, 1)


# -- range -----------------------------------------------------------------------------------------------------------


def _longest_latency(problem: Problem) -> int:
    terms = problem.terms
    per_stage = terms.overhead_ns + int(terms.input_ns.sum())
    once = (terms.output_ns, terms.compute_ns, terms.streaming_ns, terms.always_ns)
    return problem.num_stages * per_stage + sum(int(x.sum()) for x in once)


def check_range(problem: Problem) -> None:
    """Raise `BadInputError` where a sum of the model could leave the solver's range."""
    graph, K = problem.graph, problem.num_stages
    if problem.objective == "throughput":
        terms = problem.terms
        overlapping = max(int(terms.compute_ns.sum()), int(terms.streaming_ns.sum()) + int(terms.always_ns.sum()))
        largest = max(_longest_latency(problem), terms.overlap_num * overlapping)
    elif problem.objective == "weighted":
        largest = problem.ratio * int(graph.param_bytes.sum()) + K * len(graph.edges)
    else:
        unit = math.gcd(*graph.tensor_bytes.tolist()) or 1
        largest = K * (int(graph.tensor_bytes.sum()) // unit)
    if largest > LARGEST:
        raise BadInputError(
            f"graph {graph.name!r} is too heavy for the solver 'ilp': with {K} stages, sums of the objective "
            f"{problem.objective} can reach {largest}, at most 2**61 is allowed"
        )
