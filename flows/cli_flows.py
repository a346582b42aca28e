"""What the commands of `respect` that run a flow do: prepare the environment, run it, print what it left behind."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.options import print_json
from respect_core.errors import BadInputError
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
    training, segments, memory = result.train.policy.training, result.segments, result.memory
    cut = [result.schedules, result.pipeline_schedules, result.robustness]
    timed = [result.benchmarks, result.pipeline_benchmarks, result.measured]
    _print_published([*result.graphs, *result.labels, training, result.generalisation, *cut, segments, memory, *timed])
    _print_policy(result.train)
    _print_summary(at, result.schedules.partition)
    typer.echo(f"report: {result.report}")


def run_generate(size: str, seed: int, home: Path | None, scheduler: str | None, as_json: bool) -> None:
    """Run the flow `generate`."""
    at, chosen = _prepare(size, home)
    from flows.generate import generate

    _finish(generate(chosen, seed, str(at.path), scheduler), as_json)


def run_order(size: str, seed: int, home: Path | None, as_json: bool) -> None:
    """Run the flow `order`."""
    at, chosen = _prepare(size, home)
    from flows.order import order

    _finish([order(chosen, seed, str(at.path))], as_json)


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
    _print_published([result.policy.validation, result.policy.training])
    _print_policy(result)


def run_schedule(size: str, seed: int, home: Path | None, as_json: bool) -> None:
    """Run the flow `schedule` over the ten models, for peak memory and for throughput."""
    at, chosen = _prepare(size, home)
    from flows.schedule import schedule

    results = schedule(chosen, seed, str(at.path))
    partition = results[0].partition
    results += schedule(chosen, seed, str(at.path), "throughput")
    _finish(results, as_json)
    if not as_json:
        _print_summary(at, partition)


def run_split(size: str, seed: int, home: Path | None, as_json: bool) -> None:
    """Run the flow `split` over the built models."""
    at, chosen = _prepare(size, home)
    from flows.split import split

    _finish([split(chosen, seed, str(at.path))], as_json)


def run_benchmark(runner: str, size: str, home: Path | None, as_json: bool) -> None:
    """Run the flow `benchmark` over the last schedules."""
    at, chosen = _prepare(size, home)
    from hardware_runners.errors import UnknownRunnerError
    from hardware_runners.protocol import RUNNERS

    if runner not in RUNNERS:
        raise UnknownRunnerError(runner, sorted(RUNNERS))
    if runner != "simulated":
        raise BadInputError(f"runner {runner!r} needs segments: name a job folder that `respect split` wrote")
    from flows.benchmark import benchmark

    _finish([benchmark(chosen, "simulated", None, str(at.path))], as_json)


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
    typer.echo(f"champion: version {result.champion}")


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
