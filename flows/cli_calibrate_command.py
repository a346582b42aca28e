"""The command `respect calibrate`: its options; what it does is in `flows.cli_calibrate` and waits until it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.options import JsonOption, reporting


@reporting
def calibrate(
    measurements: Annotated[
        Path,
        typer.Argument(help="Measurements as CSV, or benchmark results: JSON, or Parquet of the table benchmarks."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Profile to write (TOML); its errors beside it.")] = None,
    link: Annotated[
        str | None, typer.Option("--link", help="usb3 or pcie: the link to fit.", show_default="as the rows say")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="Profile with plausible ranges to start from.", show_default="the link's own"),
    ] = None,
    graphs: Annotated[
        Path | None, typer.Option("--graphs", help="Folder of op graphs, MODEL.tflite or MODEL.json, for a CSV.")
    ] = None,
    jobs: Annotated[list[Path] | None, typer.Option("--jobs", help="Folder of job folders; repeatable.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Fit nothing: judge the profile by the rows.")] = False,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Take simulated times as if measured, to try this out.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Fit a device profile to measurements, with its errors on rows it was not fitted to."""
    from flows.cli_calibrate import CalibrationRequest
    from flows.cli_calibrate import calibrate as run_calibrate

    request = CalibrationRequest(
        measurements=measurements,
        out=out,
        link=link,
        prior=device,
        graphs=graphs,
        jobs=tuple(jobs or ()),
        check=check,
        simulated_too=simulated,
    )
    run_calibrate(request, json)
