"""Balanced segmentation after Villarrubia et al. (arXiv 2503.01035), remade from its published description.

Ops of one depth (ops on the longest path to them) stay together. Cuts between depths first make the largest parameter
size of a segment as small as possible; then every cut is moved to where its neighbours use least host memory, that is
stream fewest parameters on every inference: the larger use of the two first, then their sum. The authors read it from
the commercial compiler's log; here it is modelled, with the profile's capacities and layers cached whole.
"""

from __future__ import annotations

import numpy as np

from respect_core.calibration.facts import Layer, StageFacts
from respect_core.calibration.model import streamed
from respect_core.device import MIB
from respect_core.graph import UNKNOWN, DnnGraph, IntArray
from respect_core.schedule import first_violation
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of
from respect_core.solve.split_loops import smallest_peak


def depth_param_bytes(graph: DnnGraph) -> IntArray:
    """Return the parameter bytes of the ops of each depth. Shape (depths,)."""
    sums = np.zeros(graph.depth + 1, dtype=np.int64)
    np.add.at(sums, graph.levels - 1, graph.param_bytes)
    return sums


def balanced_bounds(sizes: IntArray, num_stages: int) -> list[int]:
    """Cut ``sizes`` into K non-empty runs so that the largest sum is smallest; earlier runs are filled first.

    Args:
        sizes: Parameter bytes of each depth. Shape (depths,), at least K.
        num_stages: K.

    Returns:
        K + 1 bounds, 0 and the number of depths included.
    """
    prefix = np.concatenate([[0], np.cumsum(sizes)])
    budget = smallest_peak(prefix, num_stages)
    bounds = [0]
    for k in range(num_stages - 1):
        most = sizes.size - (num_stages - 1 - k)
        fits = int(np.searchsorted(prefix, prefix[bounds[-1]] + budget, side="right")) - 1
        bounds.append(max(bounds[-1] + 1, min(fits, most)))
    return [*bounds, sizes.size]


class BalancedSolver:
    """Balanced cuts between depths, refined for little host memory; it knows neither objective nor constraints."""

    name = "balanced"
    version = "1"

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the schedule, or `timeout` with the reason where it breaks the problem's constraints."""
        watch = Stopwatch(options.time_limit_s)
        graph, num_stages = problem.graph, problem.num_stages
        sizes = depth_param_bytes(graph)
        if sizes.size < num_stages:
            return result_of(
                self,
                problem,
                None,
                status="timeout",
                solve_seconds=watch.seconds,
                message=f"the graph has {sizes.size} depths, which cannot be cut into {num_stages} stages",
            )
        bounds = _Refinement(problem).refined(balanced_bounds(sizes, num_stages), watch)
        stage_of = np.searchsorted(bounds[1:-1], graph.levels - 1, side="right").astype(np.int64)
        broken = first_violation(graph, stage_of, num_stages, problem.constraints)
        return result_of(
            self,
            problem,
            None if broken else stage_of,
            status="timeout" if broken else "feasible",
            solve_seconds=watch.seconds,
            message=f"balanced segmentation ignores constraints: {broken}" if broken else "",
        )


class _Refinement:
    """Moves cuts between depths to lower the modelled use of host memory."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, problem.graph
        profile = problem.profile
        self.constants = {
            "capacity_mib": profile.capacity_mib,
            "shared_capacity_mib": profile.shared_capacity_mib,
            "activation_mib": 0.0,
        }
        self.depth = self.graph.levels - 1
        self.from_host = np.isin(self.graph.tensor_producer, self.graph.input_ops)
        known = self.graph.compiled_bytes != UNKNOWN
        self.layer_mib = np.where(known, self.graph.compiled_bytes, self.graph.param_bytes) / MIB
        self.known: dict[tuple[int, int], float] = {}

    def refined(self, bounds: list[int], watch: Stopwatch) -> list[int]:
        """Move one cut after the other to its best place between its neighbours, until none moves or time is up."""
        bounds = list(bounds)
        moved = True
        while moved and watch.left > 0:
            moved = False
            for d in range(1, len(bounds) - 1):
                first, cut, end = bounds[d - 1 : d + 2]
                places = sorted(range(first + 1, end), key=lambda at: (abs(at - cut), at))
                used = [self._used(first, at, end) for at in places] if self._used(first, cut, end)[0] > 0 else []
                if used and min(used) < used[0]:
                    bounds[d], moved = places[used.index(min(used))], True
        return bounds

    def _used(self, first: int, cut: int, end: int) -> tuple[float, float]:
        """Return the larger and the sum of what two neighbours stream, rounded so that equal sums are equal."""
        a, b = self.host_mib(first, cut), self.host_mib(cut, end)
        return round(max(a, b), 6), round(a + b, 6)

    def host_mib(self, first: int, end: int) -> float:
        """Return what a segment of the depths ``first`` to ``end - 1`` streams on every inference."""
        if (first, end) not in self.known:
            self.known[first, end] = self._host_mib(first, end)
        return self.known[first, end]

    def _host_mib(self, first: int, end: int) -> float:
        graph = self.graph
        inside = (self.depth >= first) & (self.depth < end)
        made_in = (graph.tensor_producer != UNKNOWN) & inside[graph.tensor_producer]
        tensors, readers = graph.reads
        received = np.zeros(graph.num_tensors, dtype=np.bool_)
        received[tensors[inside[readers]]] = True
        received = (received & ~made_in) | (made_in & self.from_host)
        facts = StageFacts(
            input_mib=int(graph.tensor_bytes[received].sum()) / MIB,
            output_mib=0.0,
            layers=tuple(Layer(compiled_mib=size, activation_mib=0.0) for size in self.layer_mib[inside] if size),
        )
        return streamed(facts, self.constants).spilled_mib
