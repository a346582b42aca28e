"""What `respect benchmark` does: time a job folder, take in results of another host, or run the flow over schedules."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from flows.options import print_json, printable
from hardware_runners.errors import RunnerError
from hardware_runners.job import read_job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.result_check import read_result
from hardware_runners.results import Result, result_facts
from hardware_runners.summary import result_lines, speed_up_of
from hardware_runners.timing import time_job
from respect_core.errors import BadInputError
from tasks.home import Home

if TYPE_CHECKING:
    from tasks.publishing import Published


@dataclass(frozen=True, kw_only=True)
class BenchmarkRequest:
    """What the user asked for."""

    job: Path | None
    runner: str
    engine: str | None = None
    devices: str | None = None
    runtime: str | None = None
    library: str | None = None
    meter: str | None = None
    warm_up: int | None = None
    repeats: int | None = None
    items: int | None = None
    stall: float | None = None
    out: Path | None = None
    results: tuple[Path, ...] = ()
    record: bool = True
    export_host: Path | None = None
    size: str = "smoke"
    home: Path | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of the runner, those that were given alone."""
        given = {
            "engine": self.engine,
            "devices": None if self.devices is None else self.devices.split(","),
            "runtime": self.runtime,
            "library": self.library,
            "meter": self.meter,
            "stall_s": self.stall,
        }
        return {name: value for name, value in given.items() if value is not None}


def run_benchmark(request: BenchmarkRequest, as_json: bool) -> None:
    """Do what the request asks for and print what came of it."""
    if request.export_host is not None:
        _export(request.export_host, as_json)
    elif request.results:
        _take_in(request, as_json)
    elif request.job is not None:
        _time(request, request.job, as_json)
    else:
        from flows.cli_flows import run_benchmark as run_flow

        run_flow(request.runner, request.size, request.home, as_json)


def _time(request: BenchmarkRequest, folder: Path, as_json: bool) -> None:
    from flows.cli_split import ending_cleanly, telling

    home = Home.at(request.home)
    if request.record:
        home.prepare_environment()
    plan = _plan(request, folder)
    kept = request.out or _partial_path(home, folder, request.runner)
    with ending_cleanly(), telling(not as_json) as step:
        step(f"timing {folder} on {request.runner}")
        try:
            result = time_job(folder, request.runner, plan, request.out, kept, **request.options)
        except RunnerError as error:
            if error.partial is not None:
                typer.echo(f"what was measured until then is kept in {kept}, marked as partial", err=True)
            raise
        done = None
        if request.record:
            step("checking and publishing")
            done = _publish(home, [result])
    if as_json:
        print_json(_facts(result, done))
        return
    for line in result_lines(result):
        typer.echo(printable(line))
    if request.out is not None:
        typer.echo(f"written to {request.out}")
    if done is not None:
        typer.echo(f"{done.table}: {done.rows} rows published as {done.partition}")


def _facts(result: Result, done: Published | None) -> dict[str, Any]:
    return {
        **result_facts(result),
        "inferences": len(result.timings.latency),
        "speed_up": speed_up_of(result),
        "published": None if done is None else asdict(done),
    }


def _plan(request: BenchmarkRequest, folder: Path) -> TimingPlan:
    """Return the job's own plan, but for what the user chose."""
    plan = read_job(folder).plan
    return TimingPlan(
        warm_up=plan.warm_up if request.warm_up is None else request.warm_up,
        repeats=plan.repeats if request.repeats is None else request.repeats,
        items=plan.items if request.items is None else request.items,
    )


def _partial_path(home: Home, folder: Path, runner: str) -> Path:
    """Return where what an error leaves over is kept, where the user named no file; its folder is made."""
    results = home.path / "results"
    home.check_writable()
    results.mkdir(exist_ok=True)
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")
    return results / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', folder.absolute().name)}-{runner}-{started}.partial.json"


def _take_in(request: BenchmarkRequest, as_json: bool) -> None:
    """Check results of other hosts and publish them together."""
    job = None if request.job is None else read_job(request.job)
    results = [read_result(path, job) for path in request.results]
    from tasks.results import check_complete

    for path, result in zip(request.results, results, strict=True):
        check_complete(str(path), result)
    runners = sorted({result.timings.runner for result in results})
    if len(runners) > 1:
        raise BadInputError(f"results are of runners {' and '.join(runners)}: publish those of one runner at a time")
    home = Home.at(request.home)
    done = None
    if request.record:
        home.prepare_environment()
        done = _publish(home, results)
    if as_json:
        print_json({"results": [_facts(result, None) for result in results], "published": done and asdict(done)})
        return
    for result in results:
        for line in result_lines(result):
            typer.echo(printable(line))
    if done is not None:
        how = "reused" if done.reused else "published"
        typer.echo(f"{done.table}: {done.rows} rows {how} as {done.partition}")


def _publish(home: Home, results: list[Result]) -> Published:
    from tasks.results import publish_results

    with home.one_run(lambda text: typer.echo(text, err=True)):
        return publish_results(home, results)


def _export(folder: Path, as_json: bool) -> None:
    from tasks.host_part import export_host

    files = export_host(folder)
    if as_json:
        print_json({"folder": str(folder), "files": files})
        return
    typer.echo(f"{len(files)} files written to {folder}: copy it to the host, and there run")
    typer.echo("    python3 -m hardware_runners JOB --runner coral --out result.json")
