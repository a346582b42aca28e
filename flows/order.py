"""Flow `order`: networks ordered for the least activation memory."""

from __future__ import annotations

from prefect import flow, get_run_logger

from tasks.home import Home
from tasks.memory import MemorySet, memory_published, order_shard, publish_memory
from tasks.plan import RunPlan
from tasks.progress import run_shards, task_runner
from tasks.publishing import Published
from tasks.sizes import SizeName


@flow(flow_run_name="order-{size}-s{seed}", task_runner=task_runner())
def order(size: SizeName = "smoke", seed: int = 0, home: str | None = None) -> Published:
    """Order the papers' networks and the known models for least activation memory, check and publish the rows.

    Args:
        size: Deadline of a row: smoke, nightly or full.
        seed: Seed of the search for rewritings.
        home: Folder of all state; RESPECT_HOME if empty.
    """
    at, log = Home.at(home), get_run_logger()
    with at.one_run(log.warning):
        return ensure_memory(at, RunPlan.of(size, seed).memory)


def ensure_memory(home: Home, memory: MemorySet) -> Published:
    """Publish the rows of one set of networks unless they are published already (inside a flow)."""
    log = get_run_logger()
    done = memory_published(home, memory)
    if done is not None:
        log.info("memory %s: unchanged, %d rows reused", memory.partition, done.rows)
        return done
    calls = [{"home": home.path, "memory": memory, "network": network} for network in memory.networks]
    run_shards(order_shard, calls, "networks ordered", log)
    done = publish_memory(home.path, memory)
    log.info("memory %s: %d rows published", done.partition, done.rows)
    return done
