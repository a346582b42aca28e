"""What `respect calibrate` does: fit a device profile to measurements, or judge one by them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from flows.options import print_json, printable
from respect_core.calibration.observations import LINKS, Link, Measurements
from respect_core.calibration.own_results import FindJob, Timing, observations_of, read_timings
from respect_core.calibration.published import read_measurements
from respect_core.device_constants import KnownProfile, load_known_profile
from respect_core.errors import BadInputError, RespectError, UnknownNameError
from respect_core.graph import DnnGraph, IntArray


@dataclass(frozen=True, kw_only=True)
class CalibrationRequest:
    """The options of the command, as given."""

    measurements: Path
    out: Path | None
    link: str | None
    prior: str | None
    graphs: Path | None
    jobs: tuple[Path, ...]
    check: bool
    simulated_too: bool


def calibrate(request: CalibrationRequest, as_json: bool) -> None:
    """Fit and write a profile, or only judge one; print the error table."""
    link = _link(request.link)
    if request.out is None and not request.check:
        raise typer.BadParameter("needed to write the profile (or --check to judge one)", param_hint="--out")
    measurements = _read(request, link)
    if not measurements.used:
        raise BadInputError(f"{request.measurements}: no usable row{_why_not(measurements)}")
    links = sorted({row.link for row in measurements.used})
    if link is None and len(links) > 1 and not request.check:
        raise typer.BadParameter(f"the rows are of {' and '.join(links)}: choose one", param_hint="--link")
    chosen = links[0] if link is None else link
    # A profile that the user names is the prior of every link; the chosen link is first, for shared constants are its.
    priors: dict[Link, KnownProfile] = {
        at: load_known_profile(request.prior or at) for at in sorted(LINKS, key=lambda at: at != chosen)
    }
    report = _judged(request, measurements, priors) if request.check else _fitted(request, measurements, priors, chosen)
    if as_json:
        print_json(report)
    else:
        _print(report, measurements)


def _link(name: str | None) -> Link | None:
    for link in LINKS:
        if name == link:
            return link
    if name is not None:
        raise UnknownNameError("link", name, LINKS)
    return None


def _read(request: CalibrationRequest, link: Link | None) -> Measurements:
    path = request.measurements
    if path.suffix.lower() == ".csv":
        return read_measurements(path, request.graphs)
    return observations_of(read_timings(path), _job_finder(request.jobs), link, simulated_too=request.simulated_too)


def _why_not(measurements: Measurements) -> str:
    reasons = list(dict.fromkeys(row.why for row in measurements.skipped))
    return f" ({'; '.join(reasons[:3])}{'; ...' if len(reasons) > 3 else ''})" if reasons else ""


def _job_finder(folders: tuple[Path, ...]) -> FindJob:
    """Index the job folders below ``folders`` by what a timing says about its job."""
    from hardware_runners.errors import InvalidJobError
    from hardware_runners.job import GRAPH_FILE, JOB_FILE, read_job
    from respect_core.sources.graph_json import read_graph

    jobs: dict[tuple[str, int, str, str], Path] = {}
    by_sha256: dict[str, Path] = {}
    problems: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise BadInputError(f"{folder}: there is no such folder of jobs")
        for file in sorted(folder.rglob(JOB_FILE)):
            try:
                job = read_job(file.parent)
            except InvalidJobError as error:
                problems.append(str(error))
                continue
            jobs[job.model, job.num_stages, job.objective, job.solver] = file.parent
            by_sha256[hashlib.sha256(file.read_bytes()).hexdigest()] = file.parent

    def find(timing: Timing) -> tuple[DnnGraph, IntArray] | None:
        if timing.job_sha256:
            folder = by_sha256.get(timing.job_sha256)
        else:
            folder = jobs.get((timing.model, timing.num_stages, timing.objective, timing.solver))
        if folder is None:
            if problems:
                raise BadInputError(f"no job folder fits, and one is damaged: {problems[0]}")
            return None
        job = read_job(folder)
        try:
            graph = read_graph(job.path(GRAPH_FILE))
        except (InvalidJobError, RespectError) as error:
            raise BadInputError(f"{folder} has no usable graph ({error})") from error
        return graph, np.array(job.stage_of, dtype=np.int64)

    return find


def _fitted(
    request: CalibrationRequest, measurements: Measurements, priors: dict[Link, KnownProfile], link: Link
) -> dict[str, Any]:
    from respect_core.calibration.fit import fit_constants
    from respect_core.calibration.profile_file import fitted_profile, report_of, write_profile
    from respect_core.calibration.validation import cross_validate

    assert request.out is not None
    with _progress(measurements) as step:
        step("all rows")
        fit = fit_constants(measurements.used, priors)
        validation = cross_validate(measurements.used, priors, fit, step)
    constants = fitted_profile(fit, validation, link, priors[link])
    report = report_of(request.out.stem, constants, validation, measurements, request.measurements.name)
    report["link"] = link
    errors = write_profile(request.out, request.out.stem, constants, report)
    return report | {"written": [str(request.out), str(errors)]}


def _judged(
    request: CalibrationRequest, measurements: Measurements, priors: dict[Link, KnownProfile]
) -> dict[str, Any]:
    from respect_core.calibration.judging import judge

    return {"measurements": request.measurements.name} | judge(measurements, priors)


@contextmanager
def _progress(measurements: Measurements) -> Iterator[Callable[[str], None]]:
    """Show how many fits are done on stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from respect_core.calibration.validation import FOLDS

    total = 1 + sum(len({fold(row) for row in measurements.used}) for fold in FOLDS.values())
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("fitting", total=total)

        def step(text: str) -> None:
            bar.update(task, advance=1, description=printable(f"fitting {text}")[:60])

        yield step


def _print(report: dict[str, Any], measurements: Measurements) -> None:
    from respect_core.calibration.profile_file import table_lines

    typer.echo(f"{len(measurements.used)} times used, {len(measurements.skipped)} rows skipped{_why_not(measurements)}")
    for name, constant in report.get("constants", {}).items():
        low, high = constant["range"]
        typer.echo(
            f"{name:24} {constant['value']:8.4g} [{low:.4g}, {high:.4g}] {printable(constant['unit'])}: "
            f"{printable(constant['confidence'])}"
        )
    typer.echo("errors: median / 90th percentile / largest, of the measured time")
    for line in table_lines(report["errors"]):
        typer.echo(line)
    if report.get("pairs"):
        pairs = report["pairs"]
        typer.echo(
            f"{pairs['count']} pairs of two partitions of one net: the faster is picked in {pairs['picked']:.0%}, "
            f"error of their ratio {pairs['median']:.1%} / {pairs['percentile90']:.0%} (median / 90th percentile)"
        )
    for path in report.get("written", ()):
        typer.echo(f"written: {printable(path)}")
