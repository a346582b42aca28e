"""Judging a policy on problems whose optimal peak memory is known."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from respect_core.errors import BadInputError, InvalidScheduleError
from respect_core.solve.protocol import Problem, SolveOptions, Solver, gap_of
from respect_core.sources.graph_json import graph_to_json


@dataclass(frozen=True, kw_only=True)
class EvaluationCase:
    """One problem of a frozen evaluation set.

    Raises:
        BadInputError: A negative optimal peak.
    """

    problem: Problem
    optimal_peak_bytes: int
    """Proven smallest peak memory of the problem."""

    def __post_init__(self) -> None:
        if self.optimal_peak_bytes < 0:
            raise BadInputError(
                f"graph {self.problem.graph.name!r}: an optimal peak of {self.optimal_peak_bytes} bytes cannot be, "
                "at least 0 is needed"
            )


@dataclass(frozen=True, kw_only=True)
class PolicyScore:
    """How a solver did on an evaluation set."""

    mean_gap: float
    """Mean of (peak - optimal peak) / optimal peak over the legal schedules, a fraction; infinite without any."""
    illegal: int
    """Problems without a legal schedule from the solver."""
    cases: int
    """Problems in the set."""


def score_solver(solver: Solver, cases: Sequence[EvaluationCase], options: SolveOptions | None = None) -> PolicyScore:
    """Solve every case and compare the peak memory with the optimal one.

    Raises:
        BadInputError: No cases, or a schedule below a peak that was said to be optimal; the graph is named.
    """
    if not cases:
        raise BadInputError("the evaluation set is empty, at least one problem is needed")
    gaps = []
    for case in cases:
        try:
            found = solver.solve(case.problem, options or SolveOptions())
        except InvalidScheduleError:
            continue
        if found.numbers is not None:
            gaps.append(peak_gap(case.problem, found.numbers.peak_param_bytes, case.optimal_peak_bytes))
    return PolicyScore(
        mean_gap=math.fsum(gaps) / len(gaps) if gaps else math.inf, illegal=len(cases) - len(gaps), cases=len(cases)
    )


def peak_gap(problem: Problem, peak_bytes: int, optimal_peak_bytes: int) -> float:
    """Return the relative distance of a peak memory to the optimal one.

    Raises:
        BadInputError: The peak is below the one that was said to be optimal, which therefore is not.
    """
    gap = gap_of(peak_bytes, optimal_peak_bytes)
    if gap is None or gap < 0:
        raise BadInputError(
            f"graph {problem.graph.name!r} with {problem.num_stages} stages: a schedule has the peak {peak_bytes}, "
            f"so {optimal_peak_bytes} bytes is not its optimal peak"
        )
    return gap


def evaluation_digest(cases: Sequence[EvaluationCase]) -> str:
    """Return a SHA-256 over every graph, K, objective, profile and optimum: equal for the same evaluation set only."""
    total = hashlib.sha256()
    for case in cases:
        problem = case.problem
        total.update(graph_to_json(problem.graph).encode())
        total.update(repr((problem.num_stages, problem.objective, problem.profile, problem.constraints)).encode())
        total.update(f"{problem.ratio} {case.optimal_peak_bytes}\n".encode())
    return total.hexdigest()
