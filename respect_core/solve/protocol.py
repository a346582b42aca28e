"""What every solver takes and returns."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Protocol, runtime_checkable

import numpy as np

from respect_core.constraints import NO_CONSTRAINTS, Constraints
from respect_core.device import DeviceProfile, load_profile
from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph, IntArray
from respect_core.objective import Numbers, Objective, TimeTerms, check_objective, evaluate, time_terms
from respect_core.schedule import check_num_stages

Status = Literal["optimal", "feasible", "timeout", "infeasible"]

MAX_RATIO: Final = 512


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One scheduling problem, checked at construction.

    Raises:
        BadInputError: K outside 1..n, an unknown objective, a constraint that names an op or stage that does not
            exist, or a ratio outside 0..512.
    """

    graph: DnnGraph
    num_stages: int
    objective: Objective = "peak-memory"
    profile: DeviceProfile
    constraints: Constraints = NO_CONSTRAINTS
    ratio: int = 100
    """Weight of a byte of peak memory in the `weighted` objective."""

    def __post_init__(self) -> None:
        check_objective(self.objective)
        check_num_stages(self.graph, self.num_stages)
        self.constraints.check(self.graph, self.num_stages)
        if isinstance(self.ratio, bool) or not isinstance(self.ratio, int) or not 0 <= self.ratio <= MAX_RATIO:
            raise BadInputError(f"ratio is {self.ratio!r}, allowed are whole numbers in 0..{MAX_RATIO}")

    @classmethod
    def of(
        cls,
        graph: DnnGraph,
        num_stages: int,
        objective: Objective = "peak-memory",
        *,
        device: str = "usb3",
        constraints: Constraints = NO_CONSTRAINTS,
        ratio: int = 100,
    ) -> Problem:
        """Build a problem with a profile given by name."""
        return cls(
            graph=graph,
            num_stages=num_stages,
            objective=objective,
            profile=load_profile(device),
            constraints=constraints,
            ratio=ratio,
        )

    @cached_property
    def terms(self) -> TimeTerms:
        """The graph's time terms under the profile."""
        return time_terms(self.graph, self.profile)

    def evaluate(self, stage_of: Sequence[int] | IntArray) -> Numbers:
        """Return every number of a schedule; raises `InvalidScheduleError` where it is not legal."""
        return evaluate(self.graph, stage_of, self.num_stages, self.profile, self.constraints, terms=self.terms)

    def value(self, numbers: Numbers) -> tuple[int, ...]:
        """Return the components of this problem's objective (bytes or ns), to be compared as tuples."""
        return numbers.value(self.objective, self.ratio)


@dataclass(frozen=True, kw_only=True)
class SolveOptions:
    """How long and from which seed to solve.

    Raises:
        BadInputError: A negative or non-finite time limit, or a negative seed.
    """

    time_limit_s: float = 60.0
    """Deadline for the search; every solver returns soon after it with its best schedule and bound."""
    seed: int = 0
    canonical: bool = False
    """Ask for the lexicographically smallest stage vector among all optima, where a solver can prove it."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_limit_s) and self.time_limit_s >= 0):
            raise BadInputError(f"time limit is {self.time_limit_s} s, a finite number of at least 0 is needed")
        if isinstance(self.seed, bool) or not 0 <= self.seed < 2**63:
            raise BadInputError(f"seed is {self.seed}, allowed are whole numbers in 0..2**63 - 1")


@dataclass(frozen=True, kw_only=True)
class SolveResult:
    """What a solver found. Build it with `result_of`, which checks the schedule and computes the numbers."""

    solver: str
    version: str
    status: Status
    stage_of: tuple[int, ...] | None
    """Stage of every op, None where no schedule was found."""
    numbers: Numbers | None
    value: tuple[int, ...] | None
    """The objective's components (bytes, or ns for `throughput`)."""
    lower_bound: int | None
    """Proven bound on the objective's first component, None where nothing is known."""
    gap: float | None
    """(value - bound) / bound; 0 when equal, None when no bound is known or the bound is 0 and the value is not."""
    canonical: bool
    """True where `stage_of` is proven the lexicographically smallest of all optima."""
    solve_seconds: float
    """The solver alone, without start-up, reading and model building."""
    message: str = ""
    """Why there is no schedule, or what to know about it."""


@runtime_checkable
class Solver(Protocol):
    """Turns a problem into a schedule with a status."""

    name: str
    version: str

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Solve ``problem``; never raise because the time is too short or there is no schedule."""
        ...


def gap_of(value: int, lower_bound: int | None) -> float | None:
    """Return the relative gap of the first component to its bound."""
    if lower_bound is None:
        return None
    if value == lower_bound:
        return 0.0
    return (value - lower_bound) / lower_bound if lower_bound > 0 else None


def result_of(
    solver: Solver,
    problem: Problem,
    stage_of: Sequence[int] | IntArray | None,
    *,
    status: Status,
    solve_seconds: float,
    lower_bound: int | None = None,
    canonical: bool = False,
    message: str = "",
) -> SolveResult:
    """Check a schedule, compute its numbers and wrap them up.

    Args:
        solver: Who found it.
        problem: What was solved.
        stage_of: Stage of every op, or None.
        status: `optimal` only if every component is proven; then the bound is the value itself.
        solve_seconds: Time the solver took.
        lower_bound: Proven bound on the first component.
        canonical: The stage vector is proven the smallest among the optima.
        message: Anything the user should know.

    Returns:
        The result; its status is `timeout` or `infeasible` exactly where ``stage_of`` is None.

    Raises:
        InvalidScheduleError: The schedule is not legal.
        RuntimeError: The claims contradict each other, e.g. a bound above the value.
    """
    if stage_of is None:
        if status in ("optimal", "feasible"):
            raise RuntimeError(f"{solver.name} claims {status} without a schedule")
        return SolveResult(
            solver=solver.name,
            version=solver.version,
            status=status,
            stage_of=None,
            numbers=None,
            value=None,
            lower_bound=lower_bound,
            gap=None,
            canonical=False,
            solve_seconds=solve_seconds,
            message=message,
        )
    if status not in ("optimal", "feasible"):
        raise RuntimeError(f"{solver.name} claims {status} with a schedule")
    numbers = problem.evaluate(stage_of)
    value = problem.value(numbers)
    if status == "optimal":
        lower_bound = value[0]
    if lower_bound is not None and lower_bound > value[0]:
        raise RuntimeError(f"{solver.name} claims the bound {lower_bound} above its own value {value[0]}")
    return SolveResult(
        solver=solver.name,
        version=solver.version,
        status=status,
        stage_of=tuple(int(k) for k in np.asarray(stage_of)),
        numbers=numbers,
        value=value,
        lower_bound=lower_bound,
        gap=gap_of(value[0], lower_bound),
        canonical=canonical and status == "optimal",
        solve_seconds=solve_seconds,
        message=message,
    )


class Stopwatch:
    """Seconds since construction, and how many are left of a limit."""

    def __init__(self, limit_s: float) -> None:
        self._start, self.limit_s = time.perf_counter(), limit_s

    @property
    def seconds(self) -> float:
        """Seconds since construction."""
        return time.perf_counter() - self._start

    def exclude(self, seconds: float) -> None:
        """Do not count so many of the seconds so far, e.g. those of loading compiled code."""
        self._start += seconds

    @property
    def left(self) -> float:
        """Seconds until the limit, at least 0."""
        return max(0.0, self.limit_s - self.seconds)


def result_row(problem: Problem, result: SolveResult) -> dict[str, Any]:
    """Return a result as plain JSON values: the keys of ``respect schedule --json`` (microseconds, bytes)."""
    numbers = result.numbers
    in_us = problem.objective == "throughput"
    bound = result.lower_bound
    return {
        "model": problem.graph.name,
        "num_ops": problem.graph.num_ops,
        "num_stages": problem.num_stages,
        "objective": problem.objective,
        "device": problem.profile.name,
        "solver": result.solver,
        "solver_version": result.version,
        "status": result.status,
        "canonical": result.canonical,
        "stage_of": list(result.stage_of) if result.stage_of is not None else None,
        "param_bytes": numbers.param_bytes.tolist() if numbers else None,
        "boundary_bytes": numbers.boundary_bytes.tolist() if numbers else None,
        "input_bytes": numbers.input_bytes.tolist() if numbers else None,
        "output_bytes": numbers.output_bytes.tolist() if numbers else None,
        "time_us": [t / 1000 for t in numbers.time_ns.tolist()] if numbers else None,
        "peak_param_bytes": numbers.peak_param_bytes if numbers else None,
        "communication_bytes": numbers.communication_bytes if numbers else None,
        "bottleneck_us": numbers.bottleneck_ns / 1000 if numbers else None,
        "latency_us": numbers.latency_ns / 1000 if numbers else None,
        "crossings": numbers.crossings if numbers else None,
        "lower_bound": bound / 1000 if bound is not None and in_us else bound,
        "gap": result.gap,
        "solve_seconds": result.solve_seconds,
        "message": result.message,
    }
