"""The order of a network's ops that needs the least activation memory, with a proof or a bound."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Timer
from typing import Final, Protocol

import numpy as np

from respect_core.graph import DnnGraph, IntArray
from respect_core.memory.beam_loops import beam_order
from respect_core.memory.live import LiveTensors, live_tensors, rows
from respect_core.memory.peak import checked_order, peak_of, profile_of
from respect_core.memory.rules import DEFAULT_RULES, MemoryRules
from respect_core.memory.search import OrderSearch
from respect_core.memory.series import Division, Section, forced_sizes
from respect_core.memory.steps import StepModel, step_model
from respect_core.solve.protocol import SolveOptions, Status, Stopwatch, gap_of

MAX_SEARCH_BYTES: Final = 1 << 31
"""Most memory for the down-sets of one section."""

TURNS: Final = ((8, 8), (64, 256), (512, 4096), (4096, 1 << 40))
"""Widths of the beam searches, and how many slices of the exact search at least follow each."""

BEAM_SLICES: Final = 1 << 17
"""So many pairs of ops, times the width, of the next beam search are worth one more slice of the exact search first."""

BEAM_WORK: Final = 1 << 26
"""Most pairs of ops, times the width, of a beam search: beams over many ops are narrower."""

UNWATCHED_WORK: Final = 1 << 18
"""Beam searches of up to this many pairs of ops, times the width, take milliseconds: no timer is started for them."""


@dataclass(frozen=True, kw_only=True)
class OrderResult:
    """An order of a graph's ops and what is proven about it. Build it with `order_result`, which checks it."""

    solver: str
    version: str
    status: Status
    """`optimal` if the peak is proven the smallest, else `feasible`."""
    order: tuple[int, ...]
    peak_bytes: int
    file_order_peak_bytes: int
    """Peak of the order of the indices, by the same rules."""
    lower_bound: int
    """Proven: every order needs at least this."""
    gap: float | None
    """(peak - bound) / bound; 0 when equal, None if the bound is 0 and the peak is not."""
    solve_seconds: float
    """The solver alone, without reading the graph."""
    rules: MemoryRules


class OrderSolver(Protocol):
    """Turns a graph and counting rules into an order with a status."""

    name: str
    version: str

    def solve(
        self,
        graph: DnnGraph,
        rules: MemoryRules = DEFAULT_RULES,
        options: SolveOptions = SolveOptions(),  # noqa: B008
    ) -> OrderResult:
        """Order the graph's ops; never raise because the time is too short."""
        ...


def order_result(
    solver: OrderSolver, graph: DnnGraph, rules: MemoryRules, order: IntArray, lower_bound: int, seconds: float
) -> OrderResult:
    """Check an order, compute its peak and wrap it up; it is optimal if the peak equals the bound.

    Raises:
        BadInputError: The order is not topological.
        RuntimeError: The bound lies above the peak.
    """
    live = live_tensors(graph, rules)
    checked = checked_order(graph, order)
    peak = peak_of(checked, live)
    if lower_bound > peak:
        raise RuntimeError(f"{solver.name} claims the bound {lower_bound} above its own peak {peak}")
    return OrderResult(
        solver=solver.name,
        version=solver.version,
        status="optimal" if peak == lower_bound else "feasible",
        order=tuple(checked.tolist()),
        peak_bytes=peak,
        file_order_peak_bytes=peak_of(checked_order(graph, None), live),
        lower_bound=lower_bound,
        gap=gap_of(peak, lower_bound),
        solve_seconds=seconds,
        rules=rules,
    )


class MemoryOrderSolver:
    """Divides where every order must pass, bounds each section, and searches those that matter over down-sets.

    Args:
        max_bytes: Most memory for the search; beyond it the best order known is returned with the bound proven so far.
    """

    name = "memory-order"
    version = "1"

    def __init__(self, max_bytes: int = MAX_SEARCH_BYTES) -> None:
        self.max_bytes = max_bytes

    def solve(
        self,
        graph: DnnGraph,
        rules: MemoryRules = DEFAULT_RULES,
        options: SolveOptions = SolveOptions(),  # noqa: B008
    ) -> OrderResult:
        """Find an order with the smallest peak, or the best one known when the time is up."""
        load_code()
        watch = Stopwatch(options.time_limit_s)
        live = live_tensors(graph, rules)
        known = checked_order(graph, None)
        sizes = forced_sizes(live.parents, known)
        order, bound = self._solve_sections(live, known, sizes, watch)
        return order_result(self, graph, rules, order, bound, watch.seconds)

    def _solve_sections(
        self, live: LiveTensors, known: IntArray, sizes: IntArray, watch: Stopwatch
    ) -> tuple[IntArray, int]:
        """Return an order and a lower bound on every order's peak."""
        order = known.copy()
        steps, _ = profile_of(known, live.loops, live.at_start)
        peaks = np.maximum.reduceat(steps, sizes[:-1]).tolist()
        division = Division(live, known, sizes)
        lengths = np.diff(sizes).tolist()
        bound = max((peak for peak, length in zip(peaks, lengths, strict=True) if length == 1), default=0)
        parts = []
        for s in sorted(range(len(peaks)), key=lambda s: -peaks[s]):
            if peaks[s] <= bound:
                break
            parts.append(_Part(division.section(s), peaks[s]))
            bound = max(bound, parts[-1].bound)
        for part in parts:
            bound = max(bound, part.prove(bound, self.max_bytes, watch))
            order[part.section.ops] = known[part.section.ops[part.order]]
        return order, bound


class _Part:
    """A section with the best order known and a lower bound, both in bytes of the whole network.

    Args:
        section: The section.
        peak: The peak of its ops in their order.
    """

    def __init__(self, section: Section, peak: int) -> None:
        self.section = section
        self.model: StepModel = step_model(section.live)
        self.order: IntArray = np.arange(section.live.num_ops)
        self.peak = peak
        self.bound = section.across + self.model.bound

    def prove(self, enough: int, max_bytes: int, watch: Stopwatch) -> int:
        """Look for an order of a peak of at most ``enough``, a bound on the whole; return a bound on the whole.

        Beam searches of growing width take turns with the exact search: each makes the other's work shorter.
        """
        across = self.section.across
        bound = max(enough, self.bound)
        search: OrderSearch | None = None
        threshold = bound
        for turn, (width, slices) in enumerate(TURNS):
            if self.peak > bound:
                self._improve(bound, width, watch)
            next_width = TURNS[min(turn + 1, len(TURNS) - 1)][0]
            left = max(slices, next_width * self.section.live.num_ops**2 // BEAM_SLICES)
            while self.peak > bound and left > 0:
                if search is None:
                    search = OrderSearch(
                        self.model,
                        bound=bound - across,
                        threshold=max(threshold, bound) - across,
                        limit=self.peak - across,
                        max_bytes=max_bytes,
                    )
                search.lower_limit(self.peak - across)
                used = search.run(watch, left)
                bound = max(bound, across + search.bound)
                left -= used
                if search.is_done:
                    order = search.order()
                    if order is None:
                        return max(bound, self.peak)
                    self._take(order)
                    threshold = (bound + self.peak - 1) // 2
                    search = None
                elif search.is_full or watch.left <= 0:
                    left = 0
            if self.peak <= bound or watch.left <= 0:
                break
        return bound

    def _improve(self, bound: int, width: int, watch: Stopwatch) -> None:
        """Try the order of a beam search."""
        across, steps = self.section.across, self.model.steps
        pairs = self.section.live.num_ops**2
        width = max(1, min(width, BEAM_WORK // pairs))
        with deadline(watch.left if width * pairs > UNWATCHED_WORK else None) as stop:
            self._take(beam_order(steps, self.model.at_start, bound - across, width, stop))

    def _take(self, order: IntArray) -> None:
        """Keep an order if it is better."""
        peak = self.section.across + peak_of(order, self.section.live)
        if peak < self.peak:
            self.order, self.peak = order, peak


@cache
def load_code() -> None:
    """Run each compiled loop once, on a diamond of four ops, so that loading it is not part of a solver's time."""
    live = LiveTensors(
        size=np.ones(4, dtype=np.int64),
        maker=np.arange(4),
        stays=np.array([0, 0, 0, 1]),
        readers=rows(((1, 2), (3,), (3,), ())),
        writes=np.zeros(4, dtype=np.int64),
        parents=rows(((), (0,), (0,), (1, 2))),
    )
    known = np.arange(4)
    division = Division(live, known, forced_sizes(live.parents, known))
    part = _Part(division.section(1), peak_of(known, live))
    part._improve(0, 1, Stopwatch(60.0))
    OrderSearch(part.model, bound=0, threshold=0, limit=9, max_bytes=1 << 20).run(Stopwatch(60.0), 1)


@contextmanager
def deadline(seconds: float | None) -> Iterator[IntArray]:
    """Give an array whose only number turns from 0 to 1 after so many seconds, for compiled loops to look at."""
    stop = np.zeros(1, dtype=np.int64)
    if seconds is None:
        yield stop
        return
    timer = Timer(seconds, stop.fill, [1])
    timer.daemon = True
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()


def order_memory(
    graph: DnnGraph,
    rules: MemoryRules = DEFAULT_RULES,
    options: SolveOptions = SolveOptions(),  # noqa: B008
) -> OrderResult:
    """Order a network's ops for the smallest peak of live activation bytes.

    Args:
        graph: The network, or a part of one (`part.subgraph`).
        rules: What counts.
        options: The deadline.

    Returns:
        An order, its peak, a lower bound and a status; never worse than the order of the indices.
    """
    return MemoryOrderSolver().solve(graph, rules, options)
