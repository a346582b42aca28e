"""The schedule of `respect split`: from a solver, from the user's cuts, or for the number of stages it recommends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flows.cli_schedule import ScheduleRequest, Solving, problem_of
from flows.schedule_outlook import uncertainty
from respect_core.constraints import NO_CONSTRAINTS
from respect_core.device_constants import load_known_profile
from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.report.view_loads import stage_loads
from respect_core.segments.cuts import CutsSolver, cut_names
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, result_row
from respect_core.solve.recommend import MOST_STAGES, Candidate, Recommendation, recommend
from tasks.child import LONGEST_S, run_in_kept_child
from tasks.split import PIPELINE, SplitOptions


@dataclass(frozen=True, kw_only=True)
class SplitRequest:
    """The options of the command, as given."""

    schedule: ScheduleRequest
    """Those it shares with ``respect schedule``; the stages are in `stages`."""
    stages: int | None
    """None to have it recommended, or to take it from the cuts."""
    cuts: tuple[str, ...]
    out: Path
    compile: bool
    retry_cuts: int
    options: SplitOptions


class Step(Protocol):
    """Tells the user what is being done."""

    def __call__(self, what: str) -> None:
        """Say it."""
        ...


def scheduled(request: SplitRequest, graph: DnnGraph, step: Step) -> tuple[Problem, SolveResult, Recommendation | None]:
    """Return the problem, a result for it and how the number of stages came about, None where it was given.

    Raises:
        RespectError: The cuts or anything else of the request does not fit the graph.
    """
    if request.cuts:
        return *_by_hand(request, graph), None
    if request.stages is not None:
        step(f"solving for {request.stages} stages")
        problem = _problem(request, graph, request.stages)
        return problem, _solved(request, problem), None
    found: dict[int, tuple[Problem, SolveResult]] = {}
    candidates = []
    for num_stages in range(1, min(MOST_STAGES, graph.num_ops) + 1):
        step(f"solving for {num_stages} of up to {MOST_STAGES} stages")
        problem = _problem(request, graph, num_stages)
        found[num_stages] = problem, _solved(request, problem)
        candidates.append(_candidate(request, *found[num_stages]))
    recommendation = recommend(candidates)
    return *found[recommendation.num_stages], recommendation


def _solved(request: SplitRequest, problem: Problem) -> SolveResult:
    """Solve in a process of its own, so that the solvers' compiled code takes no memory beside the model's file."""
    return run_in_kept_child(LONGEST_S, solve, request.schedule, problem)


def solve(request: ScheduleRequest, problem: Problem) -> SolveResult:
    """Solve a problem in this process; loading the solver does not count as solving."""
    return Solving(request).solve(problem)


def schedule_row(request: SplitRequest, problem: Problem, result: SolveResult) -> dict[str, Any]:
    """Return the keys of ``respect schedule --json``."""
    return run_in_kept_child(LONGEST_S, full_row, request.schedule, problem, result)


def full_row(request: ScheduleRequest, problem: Problem, result: SolveResult) -> dict[str, Any]:
    """Return the numbers of a schedule and how certain they are, as plain JSON values."""
    known = load_known_profile(request.device)
    return result_row(problem, result) | uncertainty(problem, result, known, request.scenarios, request.seed, None)


def _by_hand(request: SplitRequest, graph: DnnGraph) -> tuple[Problem, SolveResult]:
    names = cut_names(request.cuts, graph)
    if request.stages not in (None, len(names) + 1):
        raise BadInputError(f"{len(names)} cuts make {len(names) + 1} stages, --stages is {request.stages}")
    problem = _problem(request, graph, len(names) + 1)
    result = CutsSolver(names).solve(problem, SolveOptions())
    if result.stage_of is None:
        raise BadInputError(
            f"{graph.name!r} cannot be cut at {', '.join(map(repr, names))}: {result.message}{way_out(request)}"
        )
    return problem, result


def _problem(request: SplitRequest, graph: DnnGraph, num_stages: int) -> Problem:
    base = NO_CONSTRAINTS if request.options.any_runner else PIPELINE
    return problem_of(request.schedule, graph, num_stages, base)


def _candidate(request: SplitRequest, problem: Problem, result: SolveResult) -> Candidate:
    numbers, stage_of = result.numbers, result.stage_of
    loads = () if stage_of is None else stage_loads(problem.graph, stage_of, problem.num_stages, problem.profile)
    return Candidate(
        num_stages=problem.num_stages,
        status=result.status,
        bottleneck_ns=numbers.bottleneck_ns if numbers else None,
        host_ns=host_ns(request, problem.num_stages),
        peak_param_bytes=numbers.peak_param_bytes if numbers else None,
        streamed_bytes=sum(load.streamed_bytes for load in loads) if loads else None,
        message=why_none(problem, result) if stage_of is None else "",
    )


def host_ns(request: SplitRequest, num_stages: int) -> int:
    """Return the time an item costs the host that drives so many stages."""
    return round(load_known_profile(request.schedule.device)["host_thread_ms"].value * 1e6) * num_stages


def way_out(request: SplitRequest) -> str:
    """Return how to be rid of the constraints of pycoral's pipeline, empty where there are none."""
    if request.options.any_runner:
        return ""
    return "; --any-runner lifts what the Coral pipeline runner needs, for other runners"


def why_none(problem: Problem, result: SolveResult) -> str:
    """Say why there is no schedule: which ops crowd the last stage, or what the solver says."""
    return _crowded_last_stage(problem) or result.message or f"the solver ended with {result.status}"


def _crowded_last_stage(problem: Problem) -> str | None:
    """Name the ops that must be in the last stage where they leave too few for the others."""
    graph = problem.graph
    if not problem.constraints.outputs_last:
        return None
    last = set(graph.output_ops)
    for v in graph.topological_order.tolist():
        if any(u in last for u in graph.parents[v]):
            last.add(v)
    left = graph.num_ops - len(last)
    if left >= problem.num_stages - 1:
        return None
    names = [repr(graph.op_names[v]) for v in graph.output_ops]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    who = f"op {shown} makes" if len(names) == 1 else f"ops {shown} make"
    rest = "the 1 other op" if left == 1 else f"the {left} other ops"
    return (
        f"{who} graph outputs, which all must be made in the last stage (outputs_last), and {rest} cannot fill "
        f"{problem.num_stages - 1} stage{'s' * (problem.num_stages > 2)} before it: {left + 1} is the most"
    )
