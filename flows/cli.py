"""The `respect` command line: every heavy import waits until its command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.options import (
    DeviceOption,
    HomeOption,
    JsonOption,
    ObjectiveOption,
    SchedulerOption,
    SeedOption,
    SizeOption,
    TimeLimitOption,
    reporting,
)

app = typer.Typer(
    name="respect",
    help="Schedule quantised neural networks over pipelines of Coral Edge TPUs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.command()
@reporting
def nightly(
    size: SizeOption = "smoke", seed: SeedOption = 0, home: HomeOption = None, json: JsonOption = False
) -> None:
    """Run the whole pipeline: generate, label, train, schedule, benchmark, report."""
    from flows.cli_flows import run_nightly

    run_nightly(size, seed, home, json)


@app.command()
@reporting
def generate(
    size: SizeOption = "smoke",
    seed: SeedOption = 0,
    home: HomeOption = None,
    scheduler: SchedulerOption = None,
    json: JsonOption = False,
) -> None:
    """Generate synthetic graphs and publish them as tables."""
    from flows.cli_flows import run_generate

    run_generate(size, seed, home, scheduler, json)


@app.command()
@reporting
def label(
    size: SizeOption = "smoke",
    seed: SeedOption = 0,
    home: HomeOption = None,
    scheduler: SchedulerOption = None,
    json: JsonOption = False,
) -> None:
    """Label the synthetic graphs with exact schedules (generates them first if they are missing)."""
    from flows.cli_flows import run_label

    run_label(size, seed, home, scheduler, json)


@app.command()
@reporting
def train(size: SizeOption = "smoke", seed: SeedOption = 0, home: HomeOption = None, json: JsonOption = False) -> None:
    """Train the policy on the labels, register it and promote it if it is no worse (labels first if needed)."""
    from flows.cli_flows import run_train

    run_train(size, seed, home, json)


@app.command()
@reporting
def schedule(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A known model (ResNet50, ResNet50-notop, ...), a TFLite file or graph in JSON; without it, all ten."
        ),
    ] = None,
    stages: Annotated[int | None, typer.Option("--stages", "-k", help="Edge TPUs in the pipeline.")] = None,
    objective: ObjectiveOption = "throughput",
    device: DeviceOption = "usb3",
    solver: Annotated[str, typer.Option("--solver", help="auto, exact, ilp, policy, order-kahn, ...")] = "auto",
    time_limit: TimeLimitOption = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option("--constraint", help="outputs_last, inputs_first or colocate_children; repeatable."),
    ] = None,
    constraints: Annotated[
        Path | None, typer.Option("--constraints", help="File of constraints, JSON or TOML.")
    ] = None,
    ratio: Annotated[int, typer.Option("--ratio", help="Weight of a byte of peak memory in `weighted`.")] = 100,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="Policy weights; else the registered champion.")
    ] = None,
    size: SizeOption = "smoke",
    seed: SeedOption = 0,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Schedule one model; without MODEL, run the flow over the ten ImageNet models at --size."""
    if model is None:
        if stages is not None or constraint or constraints is not None or checkpoint is not None:
            raise typer.BadParameter(
                "needed with --stages, --constraint, --constraints and --checkpoint", param_hint="MODEL"
            )
        from flows.cli_flows import run_schedule

        run_schedule(size, seed, home, json)
        return
    if stages is None:
        raise typer.BadParameter("needed with a model: the number of Edge TPUs", param_hint="--stages")
    from flows.cli_schedule import ScheduleRequest, schedule_model

    request = ScheduleRequest(
        model=model,
        stages=stages,
        objective=objective,
        device=device,
        solver=solver,
        time_limit=time_limit,
        constraint=tuple(constraint or ()),
        constraints=constraints,
        ratio=ratio,
        seed=seed,
        checkpoint=checkpoint,
        home=home,
    )
    schedule_model(request, json)


@app.command()
@reporting
def benchmark(
    job: Annotated[
        Path | None, typer.Argument(help="A job folder; without it, the last schedules of the ten models.")
    ] = None,
    runner: Annotated[str, typer.Option("--runner", help="simulated.")] = "simulated",
    size: SizeOption = "smoke",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Time schedules on a pipeline of devices, real or simulated."""
    from flows.cli_flows import run_benchmark

    run_benchmark(job, runner, size, home, json)


@app.command()
@reporting
def doctor(home: HomeOption = None, json: JsonOption = False) -> None:
    """Check this machine: versions, folders, stores, tools; every finding comes with the way out."""
    from flows.cli_doctor import run_doctor

    run_doctor(home, json)


def main() -> None:
    """Entry point of the `respect` command."""
    app()
