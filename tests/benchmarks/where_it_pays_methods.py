"""How good every method's schedule is after how much processor time: one run of a method serves all budgets of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from respect_core.policy.checkpoint import read_checkpoint
from respect_core.policy.config import NetworkConfig
from respect_core.policy.scoring import BudgetPath, Scorer, made_bytes_of
from respect_core.policy.solver import (
    NUM_PLAIN,
    TEMPERATURE,
    passes_for,
    pretrained_path,
    profile_shares,
    samples_for,
)
from respect_core.solve.compiler_rule import compiler_segments
from respect_core.solve.exact import ExactSolver
from respect_core.solve.local_search_graph import turned_round
from respect_core.solve.local_search_run import LocalSearch, Starts
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch

T = TypeVar("T")
NO_LIMIT_S = 3600.0
METHODS = {
    "rule": "C",
    "simple": "S",
    "random": "R",
    "fit": "F",
    "learned": "L",
    "random+moves": "R+",
    "fit+moves": "F+",
    "learned+moves": "L+",
    "exact": "E",
}
"""Methods, and their letters in tables."""

LEARNED = ("learned", "learned+moves")


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Schedules of one method on one problem."""

    points: list[tuple[float, int]] = field(default_factory=list)
    """Processor seconds until a schedule was ready, and the first component of its objective."""
    proof_s: float | None = None
    """Processor seconds until all components were proven optimal, None where they were not."""

    def at(self, seconds: float) -> int | None:
        """Return the best value ready in time, None where there is none."""
        return min((value for spent, value in self.points if spent <= seconds), default=None)


class Source(Protocol):
    """Where a search takes its starts from."""

    def __call__(self, search: LocalSearch, size: int) -> int:
        """Make about ``size`` starts; return how many."""
        ...


def drawn(kind: str, improve: bool) -> Source:
    """Return the source of `random` or `fit` orders."""

    def make(search: LocalSearch, size: int) -> int:
        given = {kind: size}
        search.advance(Starts(**given, simple=False, improve=improve), Stopwatch(NO_LIMIT_S))  # type: ignore[arg-type]
        return size

    return make


class Scored:
    """Orders by the network's scores, under the budgets of `PolicySolver`, after as many fit orders as there."""

    def __init__(self, scorer: Scorer, problem: Problem, improve: bool) -> None:
        self._scorer, self._improve = scorer, improve
        self._fit, self._plain_left = drawn("fit", improve), NUM_PLAIN
        self._samples = samples_for(problem.graph.num_ops) // passes_for(problem.graph.num_ops)
        self._left, self._step = 0, 0
        self._path: BudgetPath | None = None

    def __call__(self, search: LocalSearch, size: int) -> int:
        if self._plain_left > 0:
            size = min(size, self._plain_left)
            self._plain_left -= size
            return self._fit(search, size)
        greedy: tuple[int, ...] = ()
        if self._left == 0:
            greedy = (self._ask(search),)
            self._left, size = self._samples - 1, size - 1
        size = min(size, self._left)
        self._left -= size
        search.advance(
            Starts(
                greedy=greedy, scored=size, scores=self._scores, temperature=TEMPERATURE, simple=False,
                backwards=self._backwards, improve=self._improve,
            ),
            Stopwatch(NO_LIMIT_S),
        )  # fmt: skip
        return size + len(greedy)

    def _ask(self, search: LocalSearch) -> int:
        if self._path is None:
            self._path = BudgetPath(search.bound)
            self._made, self._shares = made_bytes_of(search.problem.graph), profile_shares(search)
        budget = self._path.next(self._step, search.peak)
        self._backwards = self._step % 2 == 1
        self._step += 1
        arrays = turned_round(search.arrays) if self._backwards else search.arrays
        self._scores = self._scorer.scores(arrays, self._made, search.problem.num_stages, budget, self._shares)
        return budget


class Study:
    """Runs every method on a problem."""

    def __init__(self, budgets_s: Sequence[float]) -> None:
        self.budgets_s = sorted(budgets_s)
        checkpoint = read_checkpoint(pretrained_path())
        self.version = checkpoint.version
        assert isinstance(checkpoint.config, NetworkConfig)
        self._scorer = Scorer(checkpoint.config, checkpoint.weights)

    def traces(self, problem: Problem, seed: int, reference_s: float) -> tuple[dict[str, Trace], SolveResult]:
        """Return the trace of every method, and what the exact search found in ``reference_s`` seconds."""
        _ = problem.terms
        LocalSearch(problem, seed)  # the arrays of a graph are kept with it: nobody pays for them
        reference, exact = self._exact(problem, reference_s)
        traces = {"rule": self._rule(problem), "exact": exact}
        for kind in ("random", "fit"):
            traces[kind] = self._search(problem, seed, drawn(kind, improve=False), improve=False)
            traces[f"{kind}+moves"] = self._search(problem, seed, drawn(kind, improve=True), improve=True)
        traces["learned"] = self._search(problem, seed, Scored(self._scorer, problem, False), improve=False)
        traces["learned+moves"] = self._search(problem, seed, Scored(self._scorer, problem, True), improve=True)
        traces["simple"] = self._search(problem, seed, None, improve=False)
        return {method: traces[method] for method in METHODS}, reference

    def _rule(self, problem: Problem) -> Trace:
        seconds, stage_of = timed(lambda: compiler_segments(problem.graph, problem.num_stages))
        return Trace(points=[(seconds, problem.value(problem.evaluate(stage_of))[0])])

    def _exact(self, problem: Problem, reference_s: float) -> tuple[SolveResult, Trace]:
        trace = Trace()

        def run(limit_s: float) -> SolveResult:
            seconds, found = timed(lambda: ExactSolver().solve(problem, SolveOptions(time_limit_s=limit_s)))
            if found.value is not None:
                trace.points.append((seconds, found.value[0]))
            return found

        run(min(self.budgets_s))
        reference = run(reference_s)
        if reference.status == "optimal":
            run(reference_s)  # the first run may have loaded code
        proof_s = trace.points[-1][0] if reference.status == "optimal" else None
        for budget in self.budgets_s:
            if proof_s is None or budget < proof_s:
                for limit in (budget / 2, budget, 2 * budget):  # limits are of wall time, which others share
                    run(limit)
        return reference, Trace(points=trace.points, proof_s=proof_s)

    def _search(self, problem: Problem, seed: int, source: Source | None, improve: bool) -> Trace:
        """Start from the simple orders, then from the source's, in steps that end just before each budget."""
        trace = Trace()
        spent, search = timed(lambda: LocalSearch(problem, seed))
        seconds, _ = timed(lambda: search.advance(Starts(improve=improve), Stopwatch(NO_LIMIT_S)))
        spent += seconds
        made, drawing = 0, 0.0
        while True:
            finishing, stage_of = timed(search.best)
            if stage_of is not None:
                trace.points.append((spent + finishing, problem.value(problem.evaluate(stage_of))[0]))
            target = next((budget for budget in self.budgets_s if budget > spent + finishing), None)
            if source is None or target is None:
                return trace
            if problem.objective != "throughput" and search.peak == search.bound:
                return trace  # nothing better exists
            each = drawing / made if made else 0.0
            left = target - spent - finishing
            size = min(2 * made, int(0.95 * left / each)) if each else 1
            if made and size < 1:  # the next start would not end in time: look at the budget after this one
                size = 1
            seconds, count = timed(lambda n=size: source(search, max(1, n)))  # type: ignore[misc]
            spent, drawing, made = spent + seconds, drawing + seconds, made + count


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the processor seconds of some work, and its result."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result
