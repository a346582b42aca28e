"""The `respect` command line: every heavy import waits until its command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli_benchmark_command import benchmark
from flows.cli_calibrate_command import calibrate
from flows.cli_models import models_app
from flows.cli_order_command import order
from flows.cli_sweep import sweep
from flows.cli_view_command import view
from flows.options import (
    CheckpointOption,
    ConstraintsOption,
    DeviceOption,
    HomeOption,
    JsonOption,
    ObjectiveOption,
    RatioOption,
    SchedulerOption,
    SeedOption,
    SizeOption,
    TimeLimitOption,
    reporting,
)
from flows.start import one_blas_thread, spare_collections

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
    """Run the whole pipeline: generate, label, train, schedule, split, order, benchmark, report."""
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
    constraints: ConstraintsOption = None,
    ratio: RatioOption = 100,
    checkpoint: CheckpointOption = None,
    robust: Annotated[
        str | None, typer.Option("--robust", help="Minimise the regret over plausible devices: max or p90.")
    ] = None,
    scenarios: Annotated[int, typer.Option("--scenarios", help="Plausible devices to draw.")] = 200,
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
    one_blas_thread()
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
        robust=robust,
        scenarios=scenarios,
    )
    schedule_model(request, json)


@app.command()
@reporting
def split(
    model: Annotated[Path, typer.Argument(help="A TFLite file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Job folder to write; it must not exist, or be empty.")],
    stages: Annotated[
        str | None, typer.Option("--stages", "-k", help="Edge TPUs in the pipeline, or auto for a recommendation.")
    ] = None,
    objective: ObjectiveOption = "throughput",
    device: DeviceOption = "usb3",
    solver: Annotated[str, typer.Option("--solver", help="auto, exact, ilp, policy, compiler-rule, ...")] = "auto",
    time_limit: TimeLimitOption = None,
    cuts: Annotated[
        list[str] | None,
        typer.Option("--cuts", help="Split by hand: ops at which a new stage starts, a,b,... in the file's order."),
    ] = None,
    constraint: Annotated[list[str] | None, typer.Option("--constraint", help="colocate_children; repeatable.")] = None,
    constraints: ConstraintsOption = None,
    ratio: RatioOption = 100,
    checkpoint: CheckpointOption = None,
    any_runner: Annotated[
        bool,
        typer.Option("--any-runner", help="Allow what pycoral's pipeline cannot run, and models that are not int8."),
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Run model and segments, which must agree bit by bit.")
    ] = True,
    inputs: Annotated[
        Path | None, typer.Option("--input", help="Items to verify on too: .npy, or .npz by input names.")
    ] = None,
    items: Annotated[int, typer.Option("--items", min=1, max=1000, help="Random items to verify on.")] = 3,
    compile_: Annotated[
        bool, typer.Option("--compile/--no-compile", help="Compile every segment if edgetpu_compiler is on the PATH.")
    ] = True,
    retry_cuts: Annotated[
        int,
        typer.Option("--retry-cuts", min=0, max=100, help="How often to try other cuts if a segment does not compile."),
    ] = 0,
    order: Annotated[
        str, typer.Option("--order", help="Ops inside a segment: file, or memory for the least activation memory.")
    ] = "file",
    seed: SeedOption = 0,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Split a TFLite file into verified segments, one a stage: a job folder for the runners."""
    if stages is None and not cuts:
        raise typer.BadParameter("needed: the number of Edge TPUs, or auto (or --cuts)", param_hint="--stages")
    if stages not in (None, "auto") and not str(stages).isdecimal():
        raise typer.BadParameter(f"{stages!r} is neither a whole number nor auto", param_hint="--stages")
    if stages == "auto" and cuts:
        raise typer.BadParameter("auto chooses the cuts, --cuts gives them: use one of them", param_hint="--stages")
    one_blas_thread()
    from flows.cli_schedule import ScheduleRequest
    from flows.cli_split import split_model
    from flows.split_schedule import SplitRequest
    from respect_core.memory.stages import stage_order
    from tasks.split import SplitOptions

    number = None if stages in (None, "auto") else int(str(stages))
    request = ScheduleRequest(
        model=str(model),
        stages=number or 1,
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
    options = SplitOptions(
        any_runner=any_runner, verify=verify, num_items=items, input_file=inputs, seed=seed, order=stage_order(order)
    )
    split_model(
        SplitRequest(
            schedule=request,
            stages=number,
            cuts=tuple(cuts or ()),
            out=out,
            compile=compile_,
            retry_cuts=retry_cuts,
            options=options,
        ),
        json,
    )


app.command()(order)
app.command()(sweep)
app.command()(benchmark)
app.command()(calibrate)
app.command()(view)


@app.command()
@reporting
def doctor(
    link_test: Annotated[
        Path | None, typer.Option("--link-test", help="A compiled model to run on every attached Edge TPU.")
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Check this machine: versions, folders, stores, tools, devices; every finding comes with the way out."""
    from flows.cli_doctor import run_doctor

    run_doctor(home, json, link_test)


app.add_typer(models_app)


def main() -> None:
    """Entry point of the `respect` command."""
    spare_collections()
    app()
