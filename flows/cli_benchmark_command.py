"""The command `respect benchmark`: its options; what it does is in `flows.cli_benchmark` and waits until it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.options import HomeOption, JsonOption, SizeOption, reporting


@reporting
def benchmark(
    job: Annotated[
        Path | None, typer.Argument(help="A job folder; without it, the last schedules of the ten models.")
    ] = None,
    runner: Annotated[
        str, typer.Option("--runner", help="simulated, litert (segments on this processor) or coral (on Edge TPUs).")
    ] = "simulated",
    engine: Annotated[str | None, typer.Option("--engine", help="Of runner coral: pycoral or litert.")] = None,
    devices: Annotated[
        str | None, typer.Option("--devices", help="Of runner coral, one a stage: :0,:1 or usb:0,pci:0.")
    ] = None,
    runtime: Annotated[
        str | None, typer.Option("--runtime", help="Interpreter: ai-edge-litert, tflite-runtime or tensorflow.")
    ] = None,
    library: Annotated[str | None, typer.Option("--library", help="Name or path of libedgetpu.")] = None,
    meter: Annotated[
        str | None, typer.Option("--meter", help="Power meter: rapl, ina219, ina260 or joulescope.")
    ] = None,
    warm_up: Annotated[int | None, typer.Option("--warm-up", help="Inferences that do not count.")] = None,
    repeats: Annotated[int | None, typer.Option("--repeats", help="Inferences one at a time.")] = None,
    items: Annotated[int | None, typer.Option("--items", help="Inferences with full queues.")] = None,
    stall: Annotated[float | None, typer.Option("--stall", help="Seconds without progress that end a run.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Result file (JSON) to write.")] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option("--results", help="Result file from another host to check and publish; repeatable."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Publish the rows in the table benchmarks.")
    ] = True,
    export_host: Annotated[
        Path | None, typer.Option("--export-host", help="Write what a Coral host needs to this folder, and stop.")
    ] = None,
    size: SizeOption = "smoke",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Time a job folder, or the last schedules, on a pipeline of devices, real or simulated."""
    from flows.cli_benchmark import BenchmarkRequest, run_benchmark

    request = BenchmarkRequest(
        job=job,
        runner=runner,
        engine=engine,
        devices=devices,
        runtime=runtime,
        library=library,
        meter=meter,
        warm_up=warm_up,
        repeats=repeats,
        items=items,
        stall=stall,
        out=out,
        results=tuple(results or ()),
        record=record,
        export_host=export_host,
        size=size,
        home=home,
    )
    run_benchmark(request, json)
