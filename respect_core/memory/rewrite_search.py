"""Which concatenations to take apart: only those whose rewriting lowers the smallest peak."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.memory.order import MemoryOrderSolver, OrderResult, OrderSolver, load_code
from respect_core.memory.rewrite import Accumulation, Rewritten, rewrite
from respect_core.memory.rules import DEFAULT_RULES, MemoryRules
from respect_core.solve.protocol import SolveOptions, Stopwatch

MAX_ROUNDS: Final = 4
"""How often the order found says anew in which order partial results are summed up, for each start."""

TRIAL: Final = 1 / 64
"""Part of the time that one of the rewritings may take to be judged."""

NUM_DRAWN: Final = 24
"""Random orders of summation to start from, beside that of the tensors and that of the best order without rewriting."""


@dataclass(frozen=True, kw_only=True)
class RewriteOptions:
    """What may be rewritten and how."""

    accumulation: Accumulation = "fused"
    refused: Collection[str] = ()
    """Names of ops that must stay as they are."""
    layout: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Inputs of concatenations in their order, as in `rewrite`."""


@dataclass(frozen=True, kw_only=True)
class RewriteResult:
    """The best order with and without rewriting."""

    base: OrderResult
    """Of the network as it is."""
    best: OrderResult
    """Of the rewritten network, if there is one; its seconds are those of the whole search."""
    rewritten: Rewritten | None
    """None where rewriting does not lower the peak."""
    num_possible: int
    """Concatenations that can be taken apart."""
    accumulation: Accumulation
    """How partial results are summed up."""


def rewrite_memory(
    graph: DnnGraph,
    rules: MemoryRules = DEFAULT_RULES,
    options: SolveOptions = SolveOptions(),  # noqa: B008
    how: RewriteOptions = RewriteOptions(),
    solver: OrderSolver | None = None,
) -> RewriteResult:
    """Find an order and a rewriting of a network with a small peak.

    All concatenations that can be taken apart are; then each of them is put back if the peak does not grow. The order
    in which partial results are summed up is searched from several starts. The bound and the status of the result are
    those of the rewritten network as it is: another rewriting might need less.

    Args:
        graph: The network, or a part of one.
        rules: What counts.
        options: The deadline, of everything together.
        how: What may be rewritten.
        solver: Who orders the ops; the exact one if None.
    """
    load_code()
    search = _Search(graph, rules, Stopwatch(options.time_limit_s), options, how, solver or MemoryOrderSolver())
    return search.run()


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    rewritten: Rewritten
    result: OrderResult
    rank: Mapping[str, int] | None

    @property
    def peak(self) -> int:
        return self.result.peak_bytes

    @property
    def concats(self) -> list[str]:
        return [site.concat for site in self.rewritten.sites]


@dataclass
class _Search:
    graph: DnnGraph
    rules: MemoryRules
    watch: Stopwatch
    options: SolveOptions
    how: RewriteOptions
    solver: OrderSolver

    def run(self) -> RewriteResult:
        num_possible = len(self._rewritten(None, None).sites)
        base = self._solve(self.graph, 0.5 if num_possible else 1.0)
        best = self._best_of_all(base) if num_possible else None
        if best is not None and best.peak < base.peak_bytes:
            best = self._without_needless(best)
            proven = best.result if best.result.gap == 0 else self._solve(best.rewritten.graph)
            better = min(best.result, proven, key=lambda result: (result.peak_bytes, -result.lower_bound))
            found = replace(better, solve_seconds=self.watch.seconds)
            found = replace(found, file_order_peak_bytes=base.file_order_peak_bytes)
            return self._result(base, found, best.rewritten, num_possible)
        found = replace(base, solve_seconds=self.watch.seconds)
        return self._result(base, found, None, num_possible)

    def _result(
        self, base: OrderResult, best: OrderResult, rewritten: Rewritten | None, num_possible: int
    ) -> RewriteResult:
        accumulation = self.how.accumulation
        return RewriteResult(
            base=base, best=best, rewritten=rewritten, num_possible=num_possible, accumulation=accumulation
        )

    def _best_of_all(self, base: OrderResult) -> _Candidate:
        """Rewrite all that can be, with the best order of summation found."""
        best = self._candidate(None, None)
        starts = [ranks(self.graph, base.order), *self._drawn_ranks()]
        for start in [ranks(best.rewritten.graph, best.result.order), *starts]:
            best = min(best, self._improved(start), key=lambda candidate: candidate.peak)
            if self.watch.left <= 0:
                break
        return best

    def _improved(self, rank: Mapping[str, int]) -> _Candidate:
        """Sum up in the order in which the order found makes things, as long as that helps."""
        best = self._candidate(None, rank)
        for _ in range(MAX_ROUNDS):
            if self.watch.left <= 0:
                break
            found = self._candidate(None, ranks(best.rewritten.graph, best.result.order))
            if found.peak >= best.peak:
                break
            best = found
        return best

    def _drawn_ranks(self) -> list[dict[str, int]]:
        """Draw random ranks; equal seeds give equal ones."""
        rng = np.random.default_rng(self.options.seed)
        names = self.graph.tensor_names
        return [dict(zip(names, rng.permutation(len(names)).tolist(), strict=True)) for _ in range(NUM_DRAWN)]

    def _without_needless(self, best: _Candidate) -> _Candidate:
        """Put concatenations back one by one, the last first, where that does not raise the peak."""
        for concat in reversed(best.concats):
            if self.watch.left <= 0:
                break
            kept = [name for name in best.concats if name != concat]
            if concat in best.concats and kept:
                found = self._candidate(kept, best.rank)
                if found.peak <= best.peak:
                    best = found
        return best

    def _candidate(self, chosen: Collection[str] | None, rank: Mapping[str, int] | None) -> _Candidate:
        rewritten = self._rewritten(chosen, rank)
        return _Candidate(rewritten=rewritten, result=self._solve(rewritten.graph, TRIAL), rank=rank)

    def _rewritten(self, chosen: Collection[str] | None, rank: Mapping[str, int] | None) -> Rewritten:
        how = self.how
        return rewrite(
            self.graph, chosen, accumulation=how.accumulation, refused=how.refused, layout=how.layout, rank=rank
        )

    def _solve(self, graph: DnnGraph, part: float = 1.0) -> OrderResult:
        """Order the ops within what is left of the time, and within some part of the whole."""
        limit_s = min(max(0.0, self.watch.left), part * self.options.time_limit_s)
        return self.solver.solve(graph, self.rules, replace(self.options, time_limit_s=limit_s))


def ranks(graph: DnnGraph, order: Sequence[int]) -> dict[str, int]:
    """Return for every tensor when an order makes it, -1 for a graph input."""
    position = {v: at for at, v in enumerate(order)}
    makers = graph.tensor_producer.tolist()
    return {
        name: -1 if maker == UNKNOWN else position[maker]
        for name, maker in zip(graph.tensor_names, makers, strict=True)
    }
