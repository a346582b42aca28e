"""Flow `nightly`: the whole pipeline in order."""

from __future__ import annotations

from dataclasses import dataclass

from prefect import flow, get_run_logger

from flows.benchmark import benchmark
from flows.generate import generate
from flows.label import label
from flows.order import order
from flows.schedule import schedule
from flows.split import split
from flows.train import TrainResult, train
from tasks.home import Home
from tasks.publishing import Published
from tasks.report import ReportSources, log_report, write_run_report
from tasks.sizes import SizeName


@dataclass(frozen=True, kw_only=True)
class NightlyResult:
    """What a run left behind."""

    graphs: list[Published]
    labels: list[Published]
    train: TrainResult
    schedules: Published
    segments: Published
    memory: Published
    benchmarks: Published
    report: str
    """Path of the HTML report."""


@flow(flow_run_name="nightly-{size}-s{seed}")
def nightly(size: SizeName = "smoke", seed: int = 0, home: str | None = None) -> NightlyResult:
    """Run the whole pipeline: generate, label, train, schedule, split, order, benchmark, report.

    Args:
        size: smoke takes minutes, nightly hours, full is the paper's million graphs.
        seed: Seed of everything that draws.
        home: Folder of all state; RESPECT_HOME if empty.
    """
    at, log = Home.at(home), get_run_logger()
    with at.one_run(log.warning):
        graphs = generate(size, seed, home)
        labels = label(size, seed, home)
        trained = train(size, seed, home)
        schedules = schedule(size, seed, home)
        segments = split(size, seed, home)
        memory = order(size, seed, home)
        benchmarks = benchmark(size, "simulated", schedules.partition, home)
        policy = f"version {trained.policy.version}" + (" (reused)" if trained.policy.reused else "")
        report = write_run_report(
            at.path,
            ReportSources(
                size=size,
                seed=seed,
                schedules=schedules.partition,
                benchmarks=benchmarks.partition,
                training=trained.policy.training.partition,
                memory=memory.partition,
                policy=policy,
            ),
        )
        log_report(at.path, trained.policy.run_id, report)
        log.info("report: %s", report)
        return NightlyResult(
            graphs=graphs,
            labels=labels,
            train=trained,
            schedules=schedules,
            segments=segments,
            memory=memory,
            benchmarks=benchmarks,
            report=str(report),
        )
