"""Flow `benchmark`: published schedules timed on a pipeline of devices, real or simulated."""

from __future__ import annotations

from typing import Literal

import pyarrow.compute as pc
from prefect import flow, get_run_logger

from hardware_runners.protocol import TimingPlan
from respect_core.errors import BadInputError
from respect_core.tables.schedules import SCHEDULES
from tasks.benchmark import BenchmarkRun, benchmark_model, publish_benchmarks
from tasks.home import Home
from tasks.progress import run_shards, task_runner
from tasks.publishing import Published
from tasks.sizes import SizeName, get_size

RunnerName = Literal["simulated"]


@flow(flow_run_name="benchmark-{size}-{runner}", task_runner=task_runner())
def benchmark(
    size: SizeName = "smoke",
    runner: RunnerName = "simulated",
    schedules: str | None = None,
    home: str | None = None,
) -> Published:
    """Time every schedule of a published set, check and publish one row an inference.

    Args:
        size: How many inferences: smoke, nightly or full.
        runner: What runs the pipelines; `simulated` computes instead of measuring, and every row says so.
        schedules: Partition of the table `schedules`; the one published last if empty.
        home: Folder of all state; RESPECT_HOME if empty.
    """
    at, log = Home.at(home), get_run_logger()
    with at.one_run(log.warning):
        partition = schedules or latest_schedules(at)
        models = pc.unique(at.dataset(SCHEDULES).read(partition, ["model"])["model"]).to_pylist()
        inferences = get_size(size).benchmark_items
        run = BenchmarkRun.now(partition, runner, TimingPlan(repeats=inferences, items=inferences))
        calls = [{"home": at.path, "run": run, "model": model, "shard": i} for i, model in enumerate(models)]
        run_shards(benchmark_model, calls, f"models on {runner}", log)
        done = publish_benchmarks(at.path, run)
        log.info("benchmarks %s: %d timed inferences published", done.partition, done.rows)
        return done


def latest_schedules(home: Home) -> str:
    """Return the partition of `schedules` that was published last.

    Raises:
        BadInputError: There is none.
    """
    known = home.dataset(SCHEDULES).partitions()
    if not known:
        raise BadInputError(
            f"no schedules are published in {home.path}: run `respect schedule` or `respect nightly` first"
        )
    return max(known.values(), key=lambda partition: partition.published_at).name
