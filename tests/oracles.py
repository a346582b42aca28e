"""Brute force: what is legal, what every number is, and which schedule is best, by looking at all of them.

Written from the definitions, with dictionaries, sets and fractions; it shares no arithmetic with
`respect_core.objective` and `respect_core.schedule`, so that the two can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from respect_core.constraints import Constraints
from respect_core.device import DeviceProfile
from respect_core.graph import DnnGraph
from respect_core.solve.protocol import Problem

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class NaiveNumbers:
    """The numbers of one schedule, computed one by one."""

    param_bytes: list[int]
    boundary_bytes: list[int]
    input_bytes: list[int]
    output_bytes: list[int]
    time_ns: list[int]
    crossings: int

    def value(self, objective: str, ratio: int) -> tuple[int, ...]:
        """The components of the objective."""
        if objective == "peak-memory":
            return max(self.param_bytes), sum(self.boundary_bytes)
        if objective == "throughput":
            return max(self.time_ns), sum(self.time_ns)
        assert objective == "weighted"
        return (ratio * max(self.param_bytes) + self.crossings,)


@dataclass(frozen=True, kw_only=True)
class Best:
    """The optimum of a problem."""

    value: tuple[int, ...]
    stage_of: tuple[int, ...]
    """The lexicographically smallest of all optimal stage vectors."""
    num_legal: int
    num_optimal: int


class Oracle:
    """Judges schedules of one graph under one profile from the definitions alone."""

    def __init__(self, graph: DnnGraph, profile: DeviceProfile) -> None:
        self.graph, self.profile = graph, profile
        self.n = graph.num_ops
        self.producer: dict[int, int | None] = {
            t: (None if p < 0 else p) for t, p in enumerate(graph.tensor_producer.tolist())
        }
        self.size: dict[int, int] = dict(enumerate(graph.tensor_bytes.tolist()))
        self.readers: dict[int, set[int]] = {t: set(r) for t, r in enumerate(graph.tensor_consumers)}
        self.edges: set[tuple[int, int]] = {
            (p, r) for t, p in self.producer.items() if p is not None for r in self.readers[t]
        }
        self.outputs: set[int] = {t for t in self.size if graph.tensor_is_output[t]}
        self.input_tensors: set[int] = {
            t for t, p in self.producer.items() if p is not None and graph.op_kinds[p] == "input"
        }

    # -- legality ----------------------------------------------------------------------------------------------------

    def is_legal(self, stage_of: Sequence[int], num_stages: int, constraints: Constraints) -> bool:
        """Tell whether every rule holds."""
        inside = len(stage_of) == self.n and all(0 <= k < num_stages for k in stage_of)
        if not inside or set(stage_of) != set(range(num_stages)):
            return False
        if any(stage_of[u] > stage_of[v] for u, v in self.edges):
            return False
        return self._obeys(stage_of, num_stages, constraints)

    def _obeys(self, stage_of: Sequence[int], num_stages: int, rules: Constraints) -> bool:
        if rules.outputs_last:
            makers = {self.producer[t] for t in self.outputs} - {None}
            if any(stage_of[p] != num_stages - 1 for p in makers if p is not None):
                return False
        if rules.inputs_first:
            if any(stage_of[v] != 0 for v in range(self.n) if self.graph.op_kinds[v] == "input"):
                return False
            for t, p in self.producer.items():
                if p is None and self.readers[t] and 0 not in {stage_of[r] for r in self.readers[t]}:
                    return False
        if rules.colocate_children and any(len({stage_of[r] for r in rs}) > 1 for rs in self.readers.values()):
            return False
        return (
            all(stage_of[op] == stage for op, stage in rules.pins)
            and all(stage_of[a] == stage_of[b] for a, b in rules.same_stage)
            and all(stage_of[a] != stage_of[b] for a, b in rules.different_stages)
            and all(stage_of[a] != i or stage_of[b] == j for a, i, b, j in rules.implications)
        )

    # -- numbers -----------------------------------------------------------------------------------------------------

    @cached_property
    def _per_byte(self) -> dict[str, Fraction]:
        """Nanoseconds a byte (or a MAC) of every constant."""
        p = self.profile
        ms = {
            "in": p.input_ms_per_mib, "out": p.output_ms_per_mib, "stream": p.streaming_ms_per_mib,
            "mul": p.mul_concat_ms_per_mib, "depthwise": p.depthwise_ms_per_mib, "add": p.add_pad_pool_ms_per_mib,
        }  # fmt: skip
        out = {key: Fraction(str(value)) * 10**6 / MIB for key, value in ms.items()}
        out["mac"] = Fraction(str(p.compute_ms_per_gmac)) * 10**6 / 10**9
        return out

    @cached_property
    def _compute(self) -> list[int]:
        out = []
        for v in range(self.n):
            measured = float(self.graph.op_time_us[v])
            if not math.isnan(measured):
                out.append(round(Fraction(str(measured)) * 1000))
                continue
            made = sum(self.size[t] for t, p in self.producer.items() if p == v)
            group = {
                "mul": "mul", "concat": "mul", "depthwise_conv2d": "depthwise",
                "add": "add", "pad": "add", "max_pool": "add", "average_pool": "add",
            }.get(self.graph.op_kinds[v])  # fmt: skip
            moving = self._per_byte[group] * made if group else Fraction(0)
            out.append(round(int(self.graph.macs[v]) * self._per_byte["mac"] + moving))
        return out

    @cached_property
    def _resident(self) -> list[int]:
        pairs = zip(self.graph.compiled_bytes.tolist(), self.graph.param_bytes.tolist(), strict=True)
        return [round(self._per_byte["stream"] * (params if known < 0 else known)) for known, params in pairs]

    def _stage_ns(self, ops: set[int], received: set[int], sent: set[int]) -> int:
        rate = self._per_byte
        capacity = round(math.floor(Fraction(str(self.profile.capacity_mib)) * MIB) * rate["stream"])
        shared = round(math.floor(Fraction(str(self.profile.shared_capacity_mib)) * MIB) * rate["stream"])
        compute = sum(self._compute[v] for v in ops)
        occupied = sum(round(self.size[t] * rate["stream"]) for t in received)
        room = max(min(capacity, shared - occupied), 0)
        spill = sum(self._resident[v] for v in ops) - room
        streaming = max(spill, 0)
        streaming += sum(round(rate["stream"] * int(self.graph.always_streamed_bytes[v])) for v in ops)
        hidden = math.floor(min(compute, streaming) * Fraction(str(self.profile.overlap)).limit_denominator(10**6))
        relayed = sum(round(self.size[t] * rate["in"]) for t in received)
        relayed += sum(round(self.size[t] * rate["out"]) for t in sent)
        overhead = round(Fraction(str(self.profile.overhead_ms)) * 10**6)
        return overhead + relayed + compute + streaming - hidden

    def numbers(self, stage_of: Sequence[int], num_stages: int) -> NaiveNumbers:
        """Compute every number of a legal schedule."""
        params, inputs, outputs, times = [], [], [], []
        for k in range(num_stages):
            ops = {v for v in range(self.n) if stage_of[v] == k}
            made = {t for t, p in self.producer.items() if p in ops}
            received = {t for t in self.size if self.readers[t] & ops} - made
            received |= made & self.input_tensors
            sent = {t for t in made if t in self.outputs or any(stage_of[r] > k for r in self.readers[t])}
            params.append(sum(int(self.graph.param_bytes[v]) for v in ops))
            inputs.append(sum(self.size[t] for t in received))
            outputs.append(sum(self.size[t] for t in sent))
            times.append(self._stage_ns(ops, received, sent))
        boundary = []
        for d in range(num_stages - 1):
            crossing = {
                t
                for t, p in self.producer.items()
                if p is not None and stage_of[p] <= d and any(stage_of[r] > d for r in self.readers[t])
            }
            boundary.append(sum(self.size[t] for t in crossing))
        crossed = sum(1 for u, v in self.edges for d in range(num_stages - 1) if stage_of[u] <= d < stage_of[v])
        return NaiveNumbers(
            param_bytes=params, boundary_bytes=boundary, input_bytes=inputs, output_bytes=outputs,
            time_ns=times, crossings=crossed,
        )  # fmt: skip

    # -- search ------------------------------------------------------------------------------------------------------

    def monotone_vectors(self, num_stages: int) -> Iterator[tuple[int, ...]]:
        """All stage vectors that respect the edges, in lexicographic order."""
        before: dict[int, list[tuple[int, bool]]] = {v: [] for v in range(self.n)}
        for u, v in self.edges:
            before[max(u, v)].append((min(u, v), u < v))

        def extend(prefix: list[int]) -> Iterator[tuple[int, ...]]:
            v = len(prefix)
            if v == self.n:
                yield tuple(prefix)
                return
            for k in range(num_stages):
                if all(prefix[w] <= k if is_parent else prefix[w] >= k for w, is_parent in before[v]):
                    yield from extend([*prefix, k])

        return extend([])


def legal_schedules(problem: Problem) -> Iterator[tuple[int, ...]]:
    """All legal schedules of a problem in lexicographic order."""
    oracle = Oracle(problem.graph, problem.profile)
    for stage_of in oracle.monotone_vectors(problem.num_stages):
        if oracle.is_legal(stage_of, problem.num_stages, problem.constraints):
            yield stage_of


def brute_force(problem: Problem) -> Best | None:
    """Find the optimum by scoring every legal schedule; None where there is none."""
    oracle = Oracle(problem.graph, problem.profile)
    best: tuple[int, ...] | None = None
    best_stages: tuple[int, ...] = ()
    legal = ties = 0
    for stage_of in legal_schedules(problem):
        legal += 1
        value = oracle.numbers(stage_of, problem.num_stages).value(problem.objective, problem.ratio)
        if best is None or value < best:
            best, best_stages, ties = value, stage_of, 1
        elif value == best:
            ties += 1
    if best is None:
        return None
    return Best(value=best, stage_of=best_stages, num_legal=legal, num_optimal=ties)
