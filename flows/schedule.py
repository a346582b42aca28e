"""Flow `schedule`: the ten ImageNet models scheduled by every solver, for peak memory or for throughput."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from prefect import flow, get_run_logger

from respect_core.tables.files import sha256_of
from tasks.home import Home
from tasks.plan import RunPlan
from tasks.progress import run_shards, task_runner
from tasks.publishing import Published
from tasks.schedule import ScheduleSet, publish_schedules, schedule_shard, schedules_published
from tasks.sizes import SizeName
from tasks.tracking import NoChampionError, champion_checkpoint

ScheduleObjective = Literal["peak-memory", "throughput"]


@flow(flow_run_name="schedule-{objective}-{size}-s{seed}", task_runner=task_runner())
def schedule(
    size: SizeName = "smoke", seed: int = 0, home: str | None = None, objective: ScheduleObjective = "peak-memory"
) -> list[Published]:
    """Schedule the ten ImageNet models for K = 4, 5, 6 by every solver, check and publish the schedules.

    Args:
        size: Deadline of a solve: smoke, nightly or full.
        seed: Seed of what draws: orders, and the devices that robust schedules are chosen by.
        home: Folder of all state; RESPECT_HOME if empty.
        objective: peak-memory cuts the layer graphs, throughput the int8 op graphs as pycoral's pipeline needs it;
            these are also judged on plausible devices.

    Returns:
        The partition of `schedules`; for throughput, also that of `robustness`.
    """
    at, log = Home.at(home), get_run_logger()
    with at.one_run(log.warning):
        checkpoint: Path | None
        try:
            checkpoint = champion_checkpoint(at.path)
        except NoChampionError as error:
            get_run_logger().warning("the policy is left out: %s", error)
            checkpoint = None
        plan, policy = RunPlan.of(size, seed), sha256_of(checkpoint) if checkpoint else None
        wanted = plan.schedules(policy) if objective == "peak-memory" else plan.throughput_schedules(policy)
        return ensure_schedules(at, wanted, checkpoint)


def ensure_schedules(home: Home, schedules: ScheduleSet, checkpoint: Path | None) -> list[Published]:
    """Publish one set of schedules unless it is published already (inside a flow); one entry a table."""
    log = get_run_logger()
    done = schedules_published(home, schedules)
    if done:
        log.info("schedules %s: unchanged, %d rows reused", schedules.partition, done[0].rows)
        return done
    calls = [
        {"home": home.path, "schedules": schedules, "model": model, "checkpoint": checkpoint}
        for model in schedules.models
    ]
    run_shards(schedule_shard, calls, "models scheduled", log)
    done = publish_schedules(home.path, schedules)
    log.info("schedules %s: %d rows published", schedules.partition, done[0].rows)
    return done
