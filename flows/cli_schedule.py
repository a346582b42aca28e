"""What `respect schedule MODEL` does: one model, one schedule, no platform."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import typer

from flows.options import EXIT_NO_SCHEDULE, print_json, printable
from flows.schedule_outlook import print_uncertainty, range_text, uncertainty
from respect_core.constraints import NO_CONSTRAINTS, Constraints, load_constraints
from respect_core.device import MIB, load_profile
from respect_core.device_constants import load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.errors import BadInputError, InputFileError, RespectError, UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.objective import check_objective
from respect_core.solve.auto import AutoSolver
from respect_core.solve.comparison import open_solver
from respect_core.solve.protocol import Problem, SolveOptions, Solver, SolveResult, result_row
from respect_core.solve.registry import POINTER, POLICY, solver_names
from respect_core.solve.warm_up import warm_up

AUTO_TIME_LIMIT_S = 1.0
TIME_LIMIT_S = 60.0

LEARNED: Final = {"auto": "messages", POLICY: "messages", POINTER: "pointer"}
"""Solvers that take a checkpoint, each with the architecture it needs."""


@dataclass(frozen=True, kw_only=True)
class ScheduleRequest:
    """The options of the command, as given."""

    model: str
    stages: int
    objective: str
    device: str
    solver: str
    time_limit: float | None
    """None for the solver's usual limit."""
    constraint: tuple[str, ...]
    constraints: Path | None
    ratio: int
    seed: int
    checkpoint: Path | None
    home: Path | None
    robust: str | None = None
    """Measure of regret that a robust schedule minimises."""
    scenarios: int = 200
    """Devices drawn from the profile's plausible ranges."""


def schedule_model(request: ScheduleRequest, as_json: bool) -> None:
    """Solve one problem and print the schedule; exit with 3 where there is none."""
    from respect_core.sources.catalog import resolve_model

    check_request(request)
    problem = problem_of(request, resolve_model(request.model), request.stages)
    result = Solving(request).solve(problem)
    known = load_known_profile(request.device)
    row = result_row(problem, result)
    row |= uncertainty(problem, result, known, request.scenarios, request.seed, request.robust)
    if as_json:
        print_json(row)
    else:
        _print(problem, result, row)
    if result.stage_of is None:
        raise typer.Exit(EXIT_NO_SCHEDULE)


def check_request(request: ScheduleRequest) -> None:
    """Check every option that needs no model, so that a mistake shows before the model is read.

    Raises:
        RespectError: An objective, solver, checkpoint, device profile or constraint that does not exist.
    """
    check_objective(request.objective)
    if request.solver not in solver_names():
        raise UnknownNameError("solver", request.solver, solver_names())
    if request.checkpoint is not None:
        _check_checkpoint(request.checkpoint, "robust" if request.robust is not None else request.solver)
    draw_scenarios(load_known_profile(request.device), request.scenarios, request.seed)
    if request.robust is not None:
        from respect_core.solve.robust_search import check_measure

        check_measure(request.robust)
        if request.solver != "auto":
            raise BadInputError(f"--robust is a solver of its own, leave --solver {request.solver} out")
    Constraints.named(request.constraint)


def _check_checkpoint(checkpoint: Path, solver: str) -> None:
    """Read the checkpoint: `auto` alone would notice a damaged one only where it proves nothing."""
    from respect_core.policy.checkpoint import architecture_of, read_checkpoint

    if not checkpoint.is_file():
        raise InputFileError(checkpoint, "there is no such checkpoint; leave --checkpoint out for the weights in use")
    if solver not in LEARNED:
        raise BadInputError(f"--checkpoint is for the solvers {', '.join(LEARNED)}: leave it out with {solver}")
    found = architecture_of(read_checkpoint(checkpoint).config)
    if found != LEARNED[solver]:
        raise InputFileError(
            checkpoint, f"the checkpoint is of architecture {found!r}, the solver {solver!r} needs {LEARNED[solver]!r}"
        )


def problem_of(
    request: ScheduleRequest, graph: DnnGraph, num_stages: int, base: Constraints = NO_CONSTRAINTS
) -> Problem:
    """Return the problem that a request states for a graph.

    Args:
        request: The options.
        graph: The graph.
        num_stages: Number of stages K.
        base: Constraints besides those of the request.

    Raises:
        RespectError: Anything in the request that does not exist or does not fit the graph.
    """
    named = Constraints.named(request.constraint)
    constraints = replace(
        named,
        outputs_last=named.outputs_last or base.outputs_last,
        inputs_first=named.inputs_first or base.inputs_first,
    )
    if request.constraints is not None:
        constraints = load_constraints(request.constraints, graph, constraints)
    return Problem(
        graph=graph,
        num_stages=num_stages,
        objective=check_objective(request.objective),
        profile=load_profile(request.device),
        constraints=constraints,
        ratio=request.ratio,
    )


class Solving:
    """The solver of a request; it is warmed up before its first problem."""

    def __init__(self, request: ScheduleRequest) -> None:
        self._solver = _solver(request)
        limit = request.time_limit
        if limit is None:
            limit = AUTO_TIME_LIMIT_S if request.solver == "auto" else TIME_LIMIT_S
        self._options = SolveOptions(time_limit_s=limit, seed=request.seed)
        self._is_warm = False

    def solve(self, problem: Problem) -> SolveResult:
        """Solve one problem; all problems of one request have the same objective and kinds of constraints."""
        if not self._is_warm:
            with saying_that_it_compiles():
                warm_up(self._solver, problem)
            self._is_warm = True
        return self._solver.solve(problem, self._options)


@contextmanager
def saying_that_it_compiles() -> Iterator[None]:
    """Explain a wait on stderr: the first use on a machine compiles the solver, later ones load it."""
    import respect_core.compiled  # noqa: F401  (it loads less while there is no second thread)

    note = "compiling the solver for this machine, once"
    timer = threading.Timer(2.0, lambda: typer.echo(note, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _solver(request: ScheduleRequest) -> Solver:
    if request.robust is not None:
        from respect_core.solve.robust import RobustSolver
        from respect_core.solve.robust_search import check_measure

        known = load_known_profile(request.device)
        return RobustSolver(check_measure(request.robust), known, request.scenarios)
    if request.solver == "auto":
        return AutoSolver(policy=lambda: _policy_if_any(request))
    if request.solver == POLICY:
        return open_solver(POLICY, request.checkpoint or _champion(request))
    return open_solver(request.solver, request.checkpoint)


def _champion(request: ScheduleRequest) -> Path | None:
    """Return the registered champion's checkpoint, None where there is none: then the weights that come along do."""
    from tasks.home import Home
    from tasks.tracking import NoChampionError, champion_checkpoint

    home = Home.at(request.home)
    home.prepare_environment()
    try:
        return champion_checkpoint(home.path)
    except NoChampionError:
        return None


def _policy_if_any(request: ScheduleRequest) -> Solver | None:
    """Return the learned solver for `auto`, None where no policy is at hand."""
    try:
        return open_solver(POLICY, request.checkpoint or _champion(request))
    except RespectError:
        if request.checkpoint is not None:
            raise
        return None


def _print(problem: Problem, result: SolveResult, row: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False, emoji=False)
    bound = row["lower_bound"]
    unit = "µs" if problem.objective == "throughput" else ("B" if problem.objective == "peak-memory" else "")
    proof = f"bound {bound:,} {unit}, gap {row['gap']:.2%}" if row["gap"] is not None else "no bound proven"
    console.print(
        f"{printable(row['model'])}: {row['num_ops']} ops over {row['num_stages']} stages, {row['objective']}, "
        f"{printable(row['device'])}, solver {row['solver']}: {row['status']} in {row['solve_seconds']:.3f} s"
        + (f" ({proof})" if result.stage_of else ""),
        soft_wrap=True,
    )
    if row["message"]:
        console.print(printable(row["message"]), soft_wrap=True)
    if result.numbers is None:
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("stage", "ops", "parameters", "8 MiB", "in", "out", "modelled time", "plausible"):
        table.add_column(heading, justify="right")
    for k in range(problem.num_stages):
        size = row["param_bytes"][k]
        table.add_row(
            str(k),
            str(row["stage_of"].count(k)),
            f"{size / MIB:.3f} MiB",
            f"{size / (8 * MIB):.0%}",
            f"{row['input_bytes'][k] / 1024:.0f} KiB",
            f"{row['output_bytes'][k] / 1024:.0f} KiB",
            f"{row['time_us'][k] / 1000:.2f} ms",
            range_text(row, k),
        )
    console.print(table)
    console.print(
        f"peak memory {row['peak_param_bytes'] / MIB:.3f} MiB, "
        f"communication {row['communication_bytes'] / 1024:.0f} KiB, "
        f"modelled bottleneck {row['bottleneck_us'] / 1000:.2f} ms, latency {row['latency_us'] / 1000:.2f} ms",
        soft_wrap=True,
    )
    print_uncertainty(row)
