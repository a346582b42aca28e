"""The commercial compiler's profiling partitioner, remade from its description: it compiles and times its candidates.

A target latency is bisected between those of the parameter-count rule's segments until the bounds are `THRESHOLD_NS`
apart. For a target every segment takes the longest run of ops, in the rule's order, that meets it, and gives ops back
where the rest then fails; the last takes what is left. As in the original, only the last segment is compared with the
target afterwards (libcoral#23): what it finds may be unbalanced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, IntArray
from respect_core.schedule import first_violation
from respect_core.solve.compiler_rule import compiler_order, compiler_segments
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of

THRESHOLD_NS: Final = 1_000_000
"""Difference of the bounds at which the bisection ends."""

INFERENCES: Final = 11
"""Inferences by which a candidate is timed: one to warm up, ten that count."""

COMPILE_S: Final = 1.857
"""Published time of compiling one segment (5.2 MiB) with edgetpu_compiler 16.0 on a desktop."""

CREATE_S: Final = {"usb3": 2.7, "pcie": 0.06}
"""Published times of creating an interpreter, by link."""

Latency = Callable[[int, int], float]
"""Compiles and times the segment of ``length`` ops from position ``start`` of the order; returns nanoseconds."""


class Profiler:
    """Times segments, each once."""

    def __init__(self, latency: Latency) -> None:
        self._latency = latency
        self.timed: dict[tuple[int, int], float] = {}
        """Every candidate's latency in nanoseconds, by (start, length)."""

    def __call__(self, start: int, length: int) -> float:
        """Return the latency of a segment in nanoseconds."""
        if (start, length) not in self.timed:
            self.timed[start, length] = self._latency(start, length)
        return self.timed[start, length]

    @property
    def num_candidates(self) -> int:
        """Segments that were compiled and timed."""
        return len(self.timed)

    def device_seconds(self, create_s: float) -> float:
        """Return what the candidates cost on a real device: compiling, creating an interpreter, inferences.

        Args:
            create_s: Seconds to create an interpreter.
        """
        return self.num_candidates * (COMPILE_S + create_s) + INFERENCES * sum(self.timed.values()) / 1e9


def runs_within(num_ops: int, num_stages: int, target_ns: float, profiler: Profiler) -> list[int] | None:
    """Return the ops of every segment for a target latency, None where no segments meet it.

    All but the last take the longest run that meets the target and leaves an op for each later one. Its length is found
    by bisection, as if latency grew with it; if the rest then fails it is shortened by one.
    """
    failed: set[tuple[int, int]] = set()

    def search(start: int, left: int) -> list[int] | None:
        if left == 1:
            return [num_ops - start]
        if (start, left) in failed:
            return None
        for length in range(longest(start, num_ops - start - (left - 1)), 0, -1):
            rest = search(start + length, left - 1)
            if rest is not None:
                return [length, *rest]
        failed.add((start, left))
        return None

    def longest(start: int, most: int) -> int:
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if profiler(start, middle) <= target_ns:
                low = middle
            else:
                high = middle - 1
        return low

    return search(0, num_stages)


@dataclass(frozen=True, kw_only=True)
class ProfiledRuns:
    """What the partitioner found."""

    lengths: tuple[int, ...]
    """Ops of every segment, in the order."""
    target_ns: float | None
    """The smallest target that was met, None where none was: then the lengths are the ones it started from."""


def partition_by_profiling(
    lengths: Sequence[int], profiler: Profiler, threshold_ns: float = THRESHOLD_NS
) -> ProfiledRuns:
    """Bisect the target latency.

    Args:
        lengths: Ops of every segment of the parameter-count rule; the smallest and the largest of their latencies are
            the bounds.
        profiler: Times segments.
        threshold_ns: Bounds this close end the search.

    Raises:
        BadInputError: A segment without ops, or a threshold that is not positive.
    """
    if not lengths or min(lengths) < 1 or not threshold_ns > 0:
        raise BadInputError(f"segments of {list(lengths)} ops, threshold {threshold_ns} ns: all must be positive")
    starts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    times = [profiler(start, length) for start, length in zip(starts, lengths, strict=False)]
    low, high = min(times), max(times)
    best, met = list(lengths), None
    while high - low > threshold_ns:
        target = (low + high) / 2
        found = runs_within(starts[-1], len(lengths), target, profiler)
        if found is not None and profiler(starts[-1] - found[-1], found[-1]) <= target:
            best, met, high = found, target, target
        else:
            low = target
    return ProfiledRuns(lengths=tuple(best), target_ns=met)


def modelled_latency(problem: Problem, order: IntArray) -> Latency:
    """Return the model's stage time of a run of ops as a latency, in nanoseconds.

    Args:
        problem: Its graph and time terms.
        order: A topological order of the ops. Shape (n,).
    """
    graph, terms = problem.graph, problem.terms
    position = np.empty(graph.num_ops, dtype=np.int64)
    position[order] = np.arange(graph.num_ops)
    producer_at = np.where(graph.tensor_producer == UNKNOWN, -1, position[graph.tensor_producer])
    from_host = np.isin(graph.tensor_producer, graph.input_ops)
    tensors, readers = graph.reads
    reader_at = position[readers]

    def latency(start: int, length: int) -> float:
        ops = order[start : start + length]
        made = (producer_at >= start) & (producer_at < start + length)
        inside = (reader_at >= start) & (reader_at < start + length)
        read, read_later = np.zeros(made.size, np.bool_), np.zeros(made.size, np.bool_)
        read[tensors[inside]] = True
        read_later[tensors[reader_at >= start + length]] = True
        received = (read & ~made) | (made & from_host)
        sent = made & (read_later | graph.tensor_is_output)
        sums = (terms.compute_ns[ops], terms.streaming_ns[ops], terms.always_ns[ops])
        moved = (terms.input_ns[received], terms.output_ns[sent], terms.occupied_ns[received])
        return float(terms.stage_time(*(int(values.sum()) for values in (*sums, *moved))))

    return latency


class ProfilingSolver:
    """The profiling partitioner as a solver; it knows neither objective nor constraints.

    Args:
        latency: Makes the latency that drives it from a problem and the rule's order; a runner's, for instance. By
            default the device model's.
    """

    name = "profiling"
    version = "1"

    def __init__(self, latency: Callable[[Problem, IntArray], Latency] = modelled_latency) -> None:
        self._latency = latency

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the schedule with the number of candidates, or `timeout` where it breaks the problem's constraints."""
        watch = Stopwatch(options.time_limit_s)
        order = compiler_order(problem.graph)
        rule = np.bincount(compiler_segments(problem.graph, problem.num_stages), minlength=problem.num_stages)
        profiler = Profiler(self._latency(problem, order))
        found = partition_by_profiling(rule.tolist(), profiler)
        stage_of = np.empty(problem.graph.num_ops, dtype=np.int64)
        stage_of[order] = np.repeat(np.arange(problem.num_stages), found.lengths)
        seconds = watch.seconds
        broken = first_violation(problem.graph, stage_of, problem.num_stages, problem.constraints)
        link = "pcie" if "pci" in problem.profile.name.lower() else "usb3"
        cost = profiler.device_seconds(CREATE_S[link])
        message = (
            f"{profiler.num_candidates} candidates compiled and timed: on a device about {cost:.0f} s "
            f"({COMPILE_S} s to compile and {CREATE_S[link]} s to load each as published, {INFERENCES} inferences)"
        )
        return result_of(
            self,
            problem,
            None if broken else stage_of,
            status="timeout" if broken else "feasible",
            solve_seconds=seconds,
            message=f"the partitioner ignores constraints: {broken}" if broken else message,
        )
