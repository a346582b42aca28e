"""Benchmarks: every schedule as a job folder, timed by a runner; one task a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from prefect import task
from prefect.cache_policies import NO_CACHE

from hardware_runners.job import GRAPH_FILE, Job, read_job, write_job
from hardware_runners.jobs.format import VERSION
from hardware_runners.protocol import TimingPlan, open_runner
from hardware_runners.simulated import profile_constants
from respect_core.device import load_profile
from respect_core.sources.catalog import load_model
from respect_core.sources.graph_json import graph_to_json
from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.domain_checks import benchmark_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.schedules import SCHEDULES
from tasks.home import Home
from tasks.publishing import Published, publish_all


@dataclass(frozen=True, kw_only=True)
class BenchmarkRun:
    """One run of a runner over published schedules; measuring is never skipped, so every run has its own name."""

    schedules: str
    """Partition of the table `schedules`."""
    runner: str
    plan: TimingPlan
    started: str

    @classmethod
    def now(cls, schedules: str, runner: str, plan: TimingPlan) -> BenchmarkRun:
        """Start a run at this moment (UTC)."""
        return cls(
            schedules=schedules, runner=runner, plan=plan, started=datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")
        )

    @property
    def partition(self) -> str:
        """Name of the partition in the table `benchmarks`."""
        return f"run={self.runner}-{self.started}"

    @property
    def facts(self) -> dict[str, Any]:
        """Settings, for the manifest."""
        plan = {"warm_up": self.plan.warm_up, "repeats": self.plan.repeats, "items": self.plan.items}
        return {"schedules": self.schedules, "runner": self.runner, "started": self.started, "plan": plan}

    @property
    def fingerprint(self) -> str:
        """Digest of the settings."""
        return fingerprint(**self.facts, schema=BENCHMARKS.version)


def write_jobs(home: Home, schedules: str, model: str) -> list[Path]:
    """Write a job folder for every published schedule of a model and return the folders."""
    graph = load_model(model)
    graph_file = graph_to_json(graph).encode()
    dataset = home.dataset(SCHEDULES)
    rows = dataset.read(schedules).filter(pc.field("model") == model).to_pylist()
    folders = []
    for row in rows:
        if row["stage_of"] is None:
            continue
        name = f"{model}-x{row['num_stages']}-{row['objective']}-{row['device']}-{row['solver']}"
        folder = home.jobs / f"v{VERSION}" / re.sub(r"\W+", "_", schedules) / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_job(
            folder,
            model=model,
            num_stages=row["num_stages"],
            objective=row["objective"],
            solver=row["solver"],
            stage_of=row["stage_of"],
            profile=profile_constants(load_profile(row["device"])),
            files={GRAPH_FILE: graph_file},
        )
        folders.append(folder)
    return folders


def time_jobs(jobs: list[Job], runner: str, plan: TimingPlan) -> list[dict[str, Any]]:
    """Time jobs one after the other on one runner; returns rows of `benchmarks`."""
    with open_runner(runner) as device:
        return [row for job in jobs for row in device.time(job, plan).rows(job)]


@task(task_run_name="benchmark-{model}", cache_policy=NO_CACHE, retries=1)
def benchmark_model(home: Path, run: BenchmarkRun, model: str, shard: int) -> bool:
    """Time every schedule of one model and stage the rows."""
    at = Home(path=home)
    jobs = [read_job(folder) for folder in write_jobs(at, run.schedules, model)]
    rows = time_jobs(jobs, run.runner, run.plan)
    at.dataset(BENCHMARKS).stage(run.partition, run.fingerprint).write(shard, BENCHMARKS.table(rows))
    return True


@task(task_run_name="publish-benchmarks", cache_policy=NO_CACHE)
def publish_benchmarks(home: Path, run: BenchmarkRun) -> Published:
    """Check the staged rows and publish them."""
    checks = {BENCHMARKS.name: lambda tables: benchmark_checks(tables[BENCHMARKS.name])}
    return publish_all(Home(path=home), (BENCHMARKS,), run.partition, run.fingerprint, run.facts, checks)[0]
