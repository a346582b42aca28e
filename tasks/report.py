"""The report of a run: one HTML file from published tables, linked from Prefect."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from respect_core.report.data import ReportInput, Rows
from respect_core.report.page import write_report
from respect_core.report.summary import summary_markdown
from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.generalisation import GENERALISATION
from respect_core.tables.memory import MEMORY
from respect_core.tables.robustness import ROBUSTNESS
from respect_core.tables.schedules import SCHEDULES
from respect_core.tables.segments import SEGMENTS
from respect_core.tables.table import TableSchema
from respect_core.tables.training import TRAINING
from tasks.home import Home
from tasks.tracking import Tracking

PACKAGES = (
    "respect-edgetpu",
    "ortools",
    "torch",
    "numpy",
    "numba",
    "prefect",
    "mlflow",
    "great-expectations",
    "pyarrow",
)


@dataclass(frozen=True, kw_only=True)
class ReportSources:
    """The published partitions a report shows."""

    size: str
    seed: int
    schedules: str
    benchmarks: str | None = None
    pipeline_schedules: str | None = None
    """Schedules of op graphs for throughput; their partition of `robustness` has the same name."""
    pipeline_benchmarks: str | None = None
    measured: str | None = None
    segments: str | None = None
    training: str | None = None
    memory: str | None = None
    generalisation: str | None = None
    policy: str = "none"
    """Which policy made the schedules, in words."""


@task(task_run_name="report", cache_policy=NO_CACHE)
def write_run_report(home: Path, sources: ReportSources) -> Path:
    """Write the report, leave a summary and a link as artifacts, and return the file."""
    at = Home(path=home)

    def read(schema: TableSchema, partition: str | None) -> Rows:
        return at.dataset(schema).read(partition) if partition else ()

    schedules = at.dataset(SCHEDULES).read(sources.schedules)
    now = datetime.now(UTC)
    report = ReportInput(
        schedules=schedules,
        benchmarks=read(BENCHMARKS, sources.benchmarks),
        pipeline_schedules=read(SCHEDULES, sources.pipeline_schedules),
        pipeline_benchmarks=read(BENCHMARKS, sources.pipeline_benchmarks),
        robustness=read(ROBUSTNESS, sources.pipeline_schedules),
        measured=read(BENCHMARKS, sources.measured),
        segments=read(SEGMENTS, sources.segments),
        training=read(TRAINING, sources.training),
        memory=read(MEMORY, sources.memory),
        generalisation=read(GENERALISATION, sources.generalisation),
        facts={
            "Run": {"size": sources.size, "seed": sources.seed, "policy": sources.policy},
            "Versions": {name: metadata.version(name) for name in PACKAGES},
            "Datasets": _digests(at, sources),
        },
        created=now.strftime("%Y-%m-%d %H:%M UTC"),
    )
    at.reports.mkdir(parents=True, exist_ok=True)
    path = write_report(at.reports / f"report-{now.strftime('%Y-%m-%dT%H-%M-%S')}.html", report)
    create_markdown_artifact(summary_markdown(schedules), key="schedules-summary", description=sources.schedules)
    create_link_artifact(path.as_uri(), link_text=path.name, key="report", description="The report of this run.")
    return path


@task(task_run_name="log-report", cache_policy=NO_CACHE)
def log_report(home: Path, run_id: str, report: Path) -> None:
    """Copy the report to the artifacts of the MLflow run that trained the policy."""
    Tracking(home).log_file(run_id, report, "report")


def _digests(home: Home, sources: ReportSources) -> dict[str, object]:
    named = (
        (SCHEDULES, sources.schedules),
        (SCHEDULES, sources.pipeline_schedules),
        (ROBUSTNESS, sources.pipeline_schedules),
        (BENCHMARKS, sources.benchmarks),
        (BENCHMARKS, sources.pipeline_benchmarks),
        (BENCHMARKS, sources.measured),
        (SEGMENTS, sources.segments),
        (MEMORY, sources.memory),
        (TRAINING, sources.training),
        (GENERALISATION, sources.generalisation),
    )
    return {
        f"{schema.name}/{partition}": home.dataset(schema).partition(partition).digest[:16]
        for schema, partition in named
        if partition
    }
