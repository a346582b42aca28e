"""Flow `nightly`: the whole pipeline in order."""

from __future__ import annotations

from dataclasses import dataclass

from prefect import flow, get_run_logger

from flows.benchmark import benchmark
from flows.generalise import ensure_generalisation
from flows.generate import generate
from flows.label import label
from flows.measure import measure_jobs
from flows.order import order
from flows.schedule import schedule
from flows.split import segment_set, split
from flows.train import TrainResult, train
from respect_core.tables.files import sha256_of
from tasks.home import Home
from tasks.measure import find_jobs, write_small_jobs
from tasks.plan import RunPlan
from tasks.publishing import Published
from tasks.report import ReportSources, log_report, write_run_report
from tasks.sizes import SizeName
from tasks.tracking import champion_checkpoint


@dataclass(frozen=True, kw_only=True)
class NightlyResult:
    """What a run left behind."""

    graphs: list[Published]
    labels: list[Published]
    train: TrainResult
    generalisation: Published
    """The policy in use on graphs unlike those it was trained on."""
    schedules: Published
    """Layer graphs cut for peak memory."""
    pipeline_schedules: Published
    """Op graphs cut for throughput on a pipeline."""
    robustness: Published
    """These schedules judged on plausible devices."""
    segments: Published
    memory: Published
    benchmarks: Published
    """Simulated pipelines of the layer graphs."""
    pipeline_benchmarks: Published
    """Simulated pipelines of the op graphs."""
    measured: Published
    """Segments of the small network, run for real on this host's processor."""
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
        checkpoint = champion_checkpoint(at.path)
        wanted = RunPlan.of(size, seed).generalisation(sha256_of(checkpoint))
        generalisation = ensure_generalisation(at, wanted, checkpoint)
        (schedules,) = schedule(size, seed, home)
        pipeline_schedules, robustness = schedule(size, seed, home, "throughput")
        segments = split(size, seed, home)
        memory = order(size, seed, home)
        benchmarks = benchmark(size, "simulated", schedules.partition, home)
        pipeline_benchmarks = benchmark(size, "simulated", pipeline_schedules.partition, home)
        jobs = write_small_jobs(at.path, segment_set(at, "smoke", seed, log.warning))
        measured = measure_jobs(at, find_jobs(jobs), "litert", None, {})
        policy = f"version {trained.champion}" + (" (reused)" if trained.policy.reused else "")
        report = write_run_report(
            at.path,
            ReportSources(
                size=size,
                seed=seed,
                schedules=schedules.partition,
                benchmarks=benchmarks.partition,
                pipeline_schedules=pipeline_schedules.partition,
                pipeline_benchmarks=pipeline_benchmarks.partition,
                measured=measured.partition,
                segments=segments.partition,
                training=trained.policy.training.partition,
                generalisation=generalisation.partition,
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
            generalisation=generalisation,
            schedules=schedules,
            pipeline_schedules=pipeline_schedules,
            robustness=robustness,
            segments=segments,
            memory=memory,
            benchmarks=benchmarks,
            pipeline_benchmarks=pipeline_benchmarks,
            measured=measured,
            report=str(report),
        )
