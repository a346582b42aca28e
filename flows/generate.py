"""Flow `generate`: synthetic graphs as published tables."""

from __future__ import annotations

from prefect import flow, get_run_logger

from tasks.generate import GraphSet, generate_shard, graphs_published, publish_graphs
from tasks.home import Home
from tasks.plan import RunPlan
from tasks.progress import chosen_scheduler, run_shards
from tasks.publishing import Published
from tasks.sizes import SizeName


@flow(flow_run_name="generate-{size}-s{seed}")
def generate(
    size: SizeName = "smoke", seed: int = 0, home: str | None = None, scheduler: str | None = None
) -> list[Published]:
    """Generate the training and evaluation graphs, check and publish them.

    Args:
        size: How many graphs: smoke, nightly or full.
        seed: Seed of the training graphs; the evaluation graphs are the same for every seed.
        home: Folder of all state; RESPECT_HOME if empty.
        scheduler: Address of a Dask scheduler whose workers see the same home; RESPECT_DASK_ADDRESS if empty, and
            this machine alone without either.
    """
    at, log = Home.at(home), get_run_logger()
    with at.one_run(log.warning):
        return [ensure_graphs(at, graphs, scheduler) for graphs in RunPlan.of(size, seed).graph_sets]


def ensure_graphs(home: Home, graphs: GraphSet, scheduler: str | None = None) -> Published:
    """Publish one graph set unless it is published already (inside a flow)."""
    log = get_run_logger()
    done = graphs_published(home, graphs)
    if done is not None:
        log.info("graphs %s: unchanged, %d graphs reused", graphs.partition, done.rows)
        return done
    calls = [{"home": home.path, "graphs": graphs, "shard": shard} for shard in range(graphs.num_shards)]
    sizes = [len(graphs.indices(shard)) for shard in range(graphs.num_shards)]
    run_shards(
        generate_shard, calls, "graph shards", log, scheduler=chosen_scheduler(scheduler), unit="graphs", sizes=sizes
    )
    done = publish_graphs(home.path, graphs)
    log.info("graphs %s: %d published", graphs.partition, done.rows)
    return done
