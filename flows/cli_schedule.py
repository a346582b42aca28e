"""What `respect schedule MODEL` does: one model, one schedule, no platform."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from flows.options import EXIT_NO_SCHEDULE, print_json, printable
from respect_core.constraints import Constraints, load_constraints
from respect_core.device import MIB, load_profile
from respect_core.errors import RespectError, UnknownNameError
from respect_core.objective import check_objective
from respect_core.solve.auto import AutoSolver
from respect_core.solve.comparison import open_solver
from respect_core.solve.protocol import Problem, SolveOptions, Solver, SolveResult, result_row
from respect_core.solve.registry import POLICY, solver_names
from respect_core.solve.warm_up import warm_up
from respect_core.sources.catalog import resolve_model

AUTO_TIME_LIMIT_S = 1.0
TIME_LIMIT_S = 60.0


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


def schedule_model(request: ScheduleRequest, as_json: bool) -> None:
    """Solve one problem and print the schedule; exit with 3 where there is none."""
    problem = _problem(request)
    limit = request.time_limit
    if limit is None:
        limit = AUTO_TIME_LIMIT_S if request.solver == "auto" else TIME_LIMIT_S
    options = SolveOptions(time_limit_s=limit, seed=request.seed)
    solver = _solver(request)
    with saying_that_it_compiles():
        warm_up(solver, problem)
    result = solver.solve(problem, options)
    row = result_row(problem, result)
    if as_json:
        print_json(row)
    else:
        _print(problem, result, row)
    if result.stage_of is None:
        raise typer.Exit(EXIT_NO_SCHEDULE)


@contextmanager
def saying_that_it_compiles() -> Iterator[None]:
    """Explain a wait on stderr: the first use on a machine compiles the solver, later ones load it."""
    note = "compiling the solver for this machine, once"
    timer = threading.Timer(2.0, lambda: typer.echo(note, err=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _problem(request: ScheduleRequest) -> Problem:
    objective = check_objective(request.objective)
    if request.solver not in solver_names():
        raise UnknownNameError("solver", request.solver, solver_names())
    profile = load_profile(request.device)
    constraints = Constraints.named(request.constraint)
    graph = resolve_model(request.model)
    if request.constraints is not None:
        constraints = load_constraints(request.constraints, graph, constraints)
    return Problem(
        graph=graph,
        num_stages=request.stages,
        objective=objective,
        profile=profile,
        constraints=constraints,
        ratio=request.ratio,
    )


def _solver(request: ScheduleRequest) -> Solver:
    if request.solver == "auto":
        return AutoSolver(policy=lambda: _policy_if_any(request))
    if request.solver == POLICY:
        return open_solver(POLICY, request.checkpoint or _champion(request))
    return open_solver(request.solver)


def _champion(request: ScheduleRequest) -> Path:
    """Return the registered champion's checkpoint, or raise `NoChampionError`."""
    from tasks.home import Home
    from tasks.tracking import champion_checkpoint

    home = Home.at(request.home)
    home.prepare_environment()
    return champion_checkpoint(home.path)


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

    console = Console(markup=False, highlight=False)
    bound = row["lower_bound"]
    unit = "µs" if problem.objective == "throughput" else ("B" if problem.objective == "peak-memory" else "")
    proof = f"bound {bound:,} {unit}, gap {row['gap']:.2%}" if row["gap"] is not None else "no bound proven"
    console.print(
        f"{printable(row['model'])}: {row['num_ops']} ops over {row['num_stages']} stages, {row['objective']}, "
        f"{printable(row['device'])}, solver {row['solver']}: {row['status']} in {row['solve_seconds']:.3f} s"
        + (f" ({proof})" if result.stage_of else "")
    )
    if row["message"]:
        console.print(printable(row["message"]))
    if result.numbers is None:
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("stage", "ops", "parameters", "8 MiB", "in", "out", "modelled time"):
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
        )
    console.print(table)
    console.print(
        f"peak memory {row['peak_param_bytes'] / MIB:.3f} MiB, "
        f"communication {row['communication_bytes'] / 1024:.0f} KiB, "
        f"modelled bottleneck {row['bottleneck_us'] / 1000:.2f} ms, latency {row['latency_us'] / 1000:.2f} ms"
    )
