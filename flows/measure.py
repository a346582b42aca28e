"""Flow `measure`: job folders run for real, on this host's processor or on its Edge TPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from prefect import flow, get_run_logger

from hardware_runners.errors import RunnerError
from hardware_runners.jobs.plan import TimingPlan
from tasks.home import Home
from tasks.measure import find_jobs, job_name, measure_job, publish_measured
from tasks.publishing import Published

RealRunner = Literal["litert", "coral"]


@flow(flow_run_name="measure-{runner}")
def measure(
    jobs: str,
    runner: RealRunner = "litert",
    engine: Literal["pycoral", "litert"] | None = None,
    devices: list[str] | None = None,
    meter: str | None = None,
    inferences: int | None = None,
    home: str | None = None,
) -> Published:
    """Time every job folder below a folder, one after the other, check and publish one row an inference.

    A job that fails does not keep the others from being measured and published; the first failure is raised in the end.

    Args:
        jobs: A job folder, or a folder of job folders, on the worker's host.
        runner: litert runs segments on the host's processor, coral on its Edge TPUs.
        engine: What drives the Edge TPUs: pycoral (the default) or litert.
        devices: Edge TPUs, one a stage, e.g. usb:0; the first ones if empty.
        meter: Power meter: rapl, ina219, ina260 or joulescope; none if empty.
        inferences: How many of each kind; each job's own plan if empty.
        home: Folder of all state; RESPECT_HOME if empty.
    """
    at, log = Home.at(home), get_run_logger()
    given: dict[str, Any] = {"engine": engine, "devices": devices, "meter": meter}
    options = {name: value for name, value in given.items() if value is not None}
    plan = None if inferences is None else TimingPlan(repeats=inferences, items=inferences)
    with at.one_run(log.warning):
        return measure_jobs(at, find_jobs(Path(jobs)), runner, plan, options)


def measure_jobs(
    home: Home, jobs: list[Path], runner: RealRunner, plan: TimingPlan | None, options: dict[str, Any]
) -> Published:
    """Time job folders one after the other and publish what is complete (inside a flow)."""
    log = get_run_logger()
    files: list[Path] = []
    failures: list[RunnerError] = []
    for job in jobs:
        try:
            files.append(measure_job(home.path, job, runner, plan, options))
        except RunnerError as error:
            failures.append(error)
            log.error("%s: %s", job_name(job), error)
    if not files:
        raise failures[0]
    done = publish_measured(home.path, tuple(files))
    log.info("benchmarks %s: %d measured inferences published", done.partition, done.rows)
    if failures:
        raise failures[0]
    return done
