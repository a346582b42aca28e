"""Measurements of job folders inside a flow: one task a job, which leaves a result file, then all rows published."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from hardware_runners.compiler import CompileOptions, find_compiler
from hardware_runners.errors import RunnerError
from hardware_runners.job import JOB_FILE, read_job
from hardware_runners.jobs.format import VERSION
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.result_check import read_result
from hardware_runners.timing import time_job
from respect_core.errors import BadInputError, SolverFailedError
from respect_core.segments.model_file import open_model
from respect_core.sources.model_folder import ModelFolder
from tasks.child import run_in_child
from tasks.home import Home
from tasks.publishing import Published
from tasks.results import publish_results
from tasks.segments import START_UP_S, SegmentSet, problem_of, schedules_of
from tasks.split import SplitOptions, cut, write_split
from tasks.split_compile import compiled, compiling_folder

SMALL_BYTES = 8 * 2**20
"""Models up to this size are run for real every night."""


def find_jobs(folder: Path) -> list[Path]:
    """Return every job folder at or below ``folder``, in order.

    Raises:
        BadInputError: There is none.
    """
    # A writer that was killed may have left a hidden folder.
    found = sorted(path.parent for path in folder.rglob(JOB_FILE) if not path.parent.name.startswith("."))
    if not found:
        raise BadInputError(f"there is no job folder (with a {JOB_FILE}) in {folder}: write one with `respect split`")
    return found


@task(task_run_name="write-jobs", cache_policy=NO_CACHE)
def write_small_jobs(home: Path, segments: SegmentSet) -> Path:
    """Write the job folder of every small model of a set for every K, unless it is there; returns their folder."""
    at = Home(path=home)
    folder = at.jobs / f"segments-v{VERSION}" / segments.partition.replace("=", "_")
    folder.mkdir(parents=True, exist_ok=True)
    for built in segments.models:
        path = ModelFolder(at.models).file(built.name)
        jobs = {num_stages: folder / f"{built.name}-x{num_stages}" for num_stages in segments.num_stages}
        if path.stat().st_size <= SMALL_BYTES and not all(job.is_dir() for job in jobs.values()):
            _write_jobs(path, segments, jobs)
    return folder


def _write_jobs(path: Path, segments: SegmentSet, jobs: dict[int, Path]) -> None:
    limit_s = START_UP_S + 2 * len(segments.num_stages) * segments.time_limit_s
    results = run_in_child(limit_s, schedules_of, path, segments)
    model = open_model(path)
    options = SplitOptions(num_items=segments.num_items, seed=segments.seed)
    for (num_stages, job), result in zip(jobs.items(), results, strict=True):
        if job.is_dir():
            continue
        if result.stage_of is None:
            raise SolverFailedError(f"{model.name!r} has no schedule for {num_stages} stages ({result.message})")
        split = cut(model, problem_of(model, num_stages, segments), result, options)
        with compiling_folder(job) as folder:
            found = find_compiler() if segments.compiler else None
            write_split(split if found is None else compiled(split, found, folder, CompileOptions()), job, options)


@task(task_run_name="measure-{job.name}", cache_policy=NO_CACHE)
def measure_job(home: Path, job: Path, runner: str, plan: TimingPlan | None, options: dict[str, Any]) -> Path:
    """Time one job folder and leave the result in a file, which is returned; a partial one is left after an error."""
    results = Home(path=home).path / "results"
    results.mkdir(parents=True, exist_ok=True)
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")
    out = results / f"{job.name}-{runner}-{started}.json"
    time_job(job, runner, plan, out, out.with_suffix(".partial.json"), **options)
    return out


@task(task_run_name="publish-measurements", cache_policy=NO_CACHE)
def publish_measured(home: Path, files: tuple[Path, ...]) -> Published:
    """Check result files and publish their rows as one partition."""
    return publish_results(Home(path=home), [read_result(path) for path in files])


def job_name(folder: Path) -> str:
    """Return a job in words for a log, even where it cannot be read."""
    try:
        job = read_job(folder)
    except RunnerError:
        return str(folder)
    return f"{job.model} x{job.num_stages}"
