"""What `respect view MODEL` does: one offline page with the graph and, where there is one, its schedule."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from flows.options import EXIT_NO_SCHEDULE, print_json, printable
from respect_core.device import DeviceProfile, load_profile
from respect_core.errors import BadInputError, UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.report.view_export import model_explorer_graph, model_explorer_stages
from respect_core.report.view_loads import boundary_tensors, stage_loads
from respect_core.report.view_page import View, is_view, write_view, write_whole
from respect_core.report.view_schedule import ShownSchedule, read_schedule, schedule_of_row
from respect_core.sources.catalog import resolve_model

if TYPE_CHECKING:
    from flows.cli_schedule import ScheduleRequest

EXPORTS: Final = ("model-explorer",)
DEFAULT_DEVICE: Final = "usb3"
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, kw_only=True)
class ViewRequest:
    """The options of the command, as given."""

    model: str
    schedule: Path | None
    """File with a schedule to show."""
    solving: ScheduleRequest | None
    """How to find a schedule, where one is to be found."""
    device: str | None
    """Profile of the modelled times; None for the one the schedule was made for."""
    out: Path | None
    export: tuple[str, ...]


def view_model(request: ViewRequest, as_json: bool) -> None:
    """Write the page and the exports and say where they are; exit with 3 where no schedule was found."""
    for name in request.export:
        if name not in EXPORTS:
            raise UnknownNameError("export", name, EXPORTS)
    if request.solving is not None:
        from flows.cli_schedule import check_request  # only who solves waits for the solvers to load

        check_request(request.solving)
    given = load_profile(request.device) if request.device is not None else None
    graph = resolve_model(request.model)
    page = _page(request.out, graph)
    schedule = _schedule(request, graph)
    profile = given or _profile_of(schedule, request.schedule)
    write_view(page, View(graph=graph, profile=profile, schedule=schedule))
    exports = _export(graph, schedule, page) if request.export else []
    if as_json:
        print_json(_row(graph, profile, schedule, page, exports))
        return
    size = _counted(graph.num_ops, "op") + (f" in {_counted(schedule.num_stages, 'stage')}" if schedule else "")
    typer.echo(f"{page}: {printable(graph.name)}, {size}; open it in a browser")
    for path in exports:
        typer.echo(f"{path}: for Model Explorer")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _page(out: Path | None, graph: DnnGraph) -> Path:
    """Return where to write the page; a file of the default name is only replaced if it is such a page."""
    if out is not None:
        return out
    name = re.sub(r"[^\w.+-]+", "_", graph.name).strip("._")[:_LONGEST_NAME] or "graph"
    page = Path(f"{name}.view.html")
    if page.exists() and not is_view(page):
        raise BadInputError(f"{page} exists and is not a page of `respect view`: choose another file with --out")
    return page


def _schedule(request: ViewRequest, graph: DnnGraph) -> ShownSchedule | None:
    if request.schedule is not None:
        schedule = read_schedule(request.schedule, graph)
        if schedule.model and schedule.model != graph.name:
            typer.echo(
                f"note: {request.schedule} says it is a schedule of {printable(repr(schedule.model))}; it is legal for "
                f"{printable(repr(graph.name))} too and shown for it",
                err=True,
            )
        return schedule
    if request.solving is None:
        return None
    from flows.cli_schedule import Solving, problem_of
    from respect_core.solve.protocol import result_row

    problem = problem_of(request.solving, graph, request.solving.stages)
    result = Solving(request.solving).solve(problem)
    if result.stage_of is None:
        typer.echo(f"error: no schedule was found ({result.status}): {printable(result.message)}", err=True)
        raise typer.Exit(EXIT_NO_SCHEDULE)
    return schedule_of_row(result_row(problem, result), graph)


def _profile_of(schedule: ShownSchedule | None, path: Path | None) -> DeviceProfile:
    """Return the profile a schedule was made for, the default where it does not say."""
    name = schedule.device if schedule is not None else ""
    try:
        return load_profile(name or DEFAULT_DEVICE)
    except UnknownNameError as error:
        raise BadInputError(
            f"{path}: it was made for device {name!r}, give its profile with --device ({error})"
        ) from error


def _export(graph: DnnGraph, schedule: ShownSchedule | None, page: Path) -> list[Path]:
    stem = page.with_suffix("") if page.suffix else page
    written = [write_whole(f"{stem}.model-explorer.json", model_explorer_graph(graph, schedule))]
    if schedule is not None:
        written.append(write_whole(f"{stem}.stages.json", model_explorer_stages(graph, schedule)))
    return written


def _row(
    graph: DnnGraph, profile: DeviceProfile, schedule: ShownSchedule | None, page: Path, exports: list[Path]
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": graph.name,
        "num_ops": graph.num_ops,
        "num_stages": schedule.num_stages if schedule else None,
        "device": profile.name,
        "page": str(page),
        "page_bytes": page.stat().st_size,
        "exports": [str(path) for path in exports],
        "stages": None,
        "boundary_tensors": None,
    }
    if schedule is None:
        return row
    row["stages"] = [
        {
            "stage": load.stage,
            "num_ops": load.num_ops,
            "param_bytes": load.param_bytes,
            "streamed_bytes": load.streamed_bytes,
            "input_bytes": load.input_bytes,
            "output_bytes": load.output_bytes,
            "overhead_us": load.overhead_ns / 1000,
            "compute_us": load.compute_ns / 1000,
            "streaming_us": load.streaming_ns / 1000,
            "hidden_us": load.hidden_ns / 1000,
            "transfer_us": load.transfer_ns / 1000,
            "time_us": load.time_ns / 1000,
        }
        for load in stage_loads(graph, schedule.stage_of, schedule.num_stages, profile)
    ]
    row["boundary_tensors"] = [
        {
            "tensor": graph.tensor_names[b.tensor],
            "bytes": b.num_bytes,
            "op": graph.op_names[b.producer],
            "stage": b.made_in,
            "read_in": list(b.read_in),
            "cost_us": b.cost_ns / 1000,
        }
        for b in boundary_tensors(graph, schedule.stage_of, profile)
    ]
    return row
