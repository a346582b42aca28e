"""What the commands of `respect` that run a flow do: prepare the environment, run it, print what it left behind."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from flows.options import print_json
from tasks.home import Home
from tasks.sizes import SizeName, get_size

if TYPE_CHECKING:
    from flows.train import TrainResult
    from tasks.publishing import Published


def _prepare(size: str, home: Path | None) -> tuple[Home, SizeName]:
    """Check size and home before anything heavy is imported, and set the platform's defaults."""
    chosen = get_size(size).name
    at = Home.at(home)
    at.prepare_environment()
    return at, chosen


def run_nightly(size: str, seed: int, home: Path | None, as_json: bool) -> None:
    """Run the flow `nightly`."""
    at, chosen = _prepare(size, home)
    from flows.nightly import nightly

    result = nightly(chosen, seed, str(at.path))
    if as_json:
        print_json(asdict(result))
        return
    _print_published(
        [*result.graphs, *result.labels, result.train.policy.training, result.schedules, result.benchmarks]
    )
    _print_policy(result.train)
    _print_summary(at, result.schedules.partition)
    typer.echo(f"report: {result.report}")


def run_generate(size: str, seed: int, home: Path | None, scheduler: str | None, as_json: bool) -> None:
    """Run the flow `generate`."""
    at, chosen = _prepare(size, home)
    from flows.generate import generate

    _finish(generate(chosen, seed, str(at.path), scheduler), as_json)


def run_label(size: str, seed: int, home: Path | None, scheduler: str | None, as_json: bool) -> None:
    """Run the flow `label`."""
    at, chosen = _prepare(size, home)
    from flows.label import label

    _finish(label(chosen, seed, str(at.path), scheduler), as_json)


def run_train(size: str, seed: int, home: Path | None, as_json: bool) -> None:
    """Run the flow `train`."""
    at, chosen = _prepare(size, home)
    from flows.train import train

    result = train(chosen, seed, str(at.path))
    if as_json:
        print_json(asdict(result))
        return
    _print_published([result.policy.training])
    _print_policy(result)


def run_schedule(size: str, seed: int, home: Path | None, as_json: bool) -> None:
    """Run the flow `schedule` over the ten models."""
    at, chosen = _prepare(size, home)
    from flows.schedule import schedule

    result = schedule(chosen, seed, str(at.path))
    _finish([result], as_json)
    if not as_json:
        _print_summary(at, result.partition)


def run_benchmark(job: Path | None, runner: str, size: str, home: Path | None, as_json: bool) -> None:
    """Time one job folder, or run the flow `benchmark` over the last schedules."""
    if job is not None:
        _time_job(job, runner, get_size(size).benchmark_items, as_json)
        return
    at, chosen = _prepare(size, home)
    from hardware_runners.errors import UnknownRunnerError
    from hardware_runners.protocol import RUNNERS

    if runner not in RUNNERS:
        raise UnknownRunnerError(runner, sorted(RUNNERS))
    from flows.benchmark import RunnerName, benchmark

    _finish([benchmark(chosen, cast(RunnerName, runner), None, str(at.path))], as_json)


def _time_job(folder: Path, runner: str, inferences: int, as_json: bool) -> None:
    from hardware_runners.job import read_job
    from hardware_runners.protocol import TimingPlan, open_runner

    job = read_job(folder)
    with open_runner(runner) as device:
        timings = device.time(job, TimingPlan(repeats=inferences, items=inferences))
    found: dict[str, Any] = {
        "model": job.model,
        "num_stages": job.num_stages,
        "objective": job.objective,
        "solver": job.solver,
        "runner": timings.runner,
        "is_simulated": timings.is_simulated,
        "device": timings.device,
        "host": timings.host,
        "latency_us": timings.mean_latency_us,
        "period_us": timings.period_us,
        "stage_us": list(timings.mean_stage_us),
        "inferences": inferences,
    }
    if as_json:
        print_json(found)
        return
    stages = ", ".join(f"{us / 1000:.2f}" for us in timings.mean_stage_us)
    typer.echo(
        f"{job.model} over {job.num_stages} stages ({job.solver}, {timings.device}), "
        f"{'simulated' if timings.is_simulated else 'measured'} by {timings.runner}:\n"
        f"latency {(timings.mean_latency_us or 0) / 1000:.2f} ms, "
        f"one item every {(timings.period_us or 0) / 1000:.2f} ms, stages {stages} ms"
    )


def _finish(results: list[Published], as_json: bool) -> None:
    if as_json:
        print_json({"published": [asdict(result) for result in results]})
    else:
        _print_published(results)


def _print_published(results: list[Published]) -> None:
    for result in results:
        how = "reused" if result.reused else "published"
        typer.echo(f"{result.table}: {result.rows} rows {how} as {result.partition}")


def _print_policy(result: TrainResult) -> None:
    how = "reused" if result.policy.reused else "trained"
    verdict = f": {result.decision.reason}" if result.decision else ""
    typer.echo(f"policy: version {result.policy.version} {how}{verdict}")


def _print_summary(home: Home, partition: str) -> None:
    from respect_core.report.summary import summary_markdown
    from respect_core.tables.schedules import SCHEDULES

    text = summary_markdown(home.dataset(SCHEDULES).read(partition))
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        typer.echo(f"\n{text}")
