"""The command `respect view`: its options; what it does is in `flows.cli_view` and waits until it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.options import (
    CheckpointOption,
    ConstraintsOption,
    HomeOption,
    JsonOption,
    ObjectiveOption,
    RatioOption,
    SeedOption,
    TimeLimitOption,
    reporting,
)


@reporting
def view(
    model: Annotated[str, typer.Argument(help="A known model, a TFLite file or a graph in JSON.")],
    schedule: Annotated[
        Path | None, typer.Option("--schedule", help="Schedule: JSON of `respect schedule`, or a split's folder.")
    ] = None,
    stages: Annotated[int | None, typer.Option("--stages", "-k", help="Find a schedule of so many stages.")] = None,
    objective: ObjectiveOption = "throughput",
    device: Annotated[
        str | None,
        typer.Option(
            "--device", help="Profile: usb3, pcie or a TOML file.", show_default="that of the schedule, else usb3"
        ),
    ] = None,
    solver: Annotated[str, typer.Option("--solver", help="auto, exact, ilp, policy, order-kahn, ...")] = "auto",
    time_limit: TimeLimitOption = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option("--constraint", help="outputs_last, inputs_first or colocate_children; repeatable."),
    ] = None,
    constraints: ConstraintsOption = None,
    ratio: RatioOption = 100,
    checkpoint: CheckpointOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Page to write, replaced if it exists.", show_default="MODEL.view.html")
    ] = None,
    export: Annotated[
        list[str] | None, typer.Option("--export", help="Also write JSON for another viewer: model-explorer.")
    ] = None,
    seed: SeedOption = 0,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Write one offline HTML page: the graph in layers coloured by stage, stage loads and boundary tensors."""
    if schedule is not None and stages is not None:
        raise typer.BadParameter("it finds a schedule, --schedule shows one: give one of them", param_hint="--stages")
    from flows.cli_view import DEFAULT_DEVICE, ViewRequest, view_model

    solving = None
    if stages is not None:
        from flows.cli_schedule import ScheduleRequest

        solving = ScheduleRequest(
            model=model,
            stages=stages,
            objective=objective,
            device=device or DEFAULT_DEVICE,
            solver=solver,
            time_limit=time_limit,
            constraint=tuple(constraint or ()),
            constraints=constraints,
            ratio=ratio,
            seed=seed,
            checkpoint=checkpoint,
            home=home,
        )
    request = ViewRequest(
        model=model, schedule=schedule, solving=solving, device=device, out=out, export=tuple(export or ())
    )
    view_model(request, json)
