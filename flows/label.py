"""Flow `label`: exact schedules of the synthetic graphs as published tables."""

from __future__ import annotations

from prefect import flow, get_run_logger

from flows.generate import ensure_graphs
from tasks.home import Home
from tasks.label import LabelSet, label_shard, labels_published, publish_labels
from tasks.plan import RunPlan
from tasks.progress import chosen_scheduler, run_shards
from tasks.publishing import Published
from tasks.sizes import SizeName


@flow(flow_run_name="label-{size}-s{seed}")
def label(
    size: SizeName = "smoke", seed: int = 0, home: str | None = None, scheduler: str | None = None
) -> list[Published]:
    """Label the training and evaluation graphs with exact schedules, check and publish them.

    Args:
        size: How many graphs: smoke, nightly or full.
        seed: Seed of the training graphs.
        home: Folder of all state; RESPECT_HOME if empty.
        scheduler: Address of a Dask scheduler whose workers see the same home; RESPECT_DASK_ADDRESS if empty, and
            this machine alone without either.
    """
    at, log = Home.at(home), get_run_logger()
    with at.one_run(log.warning):
        plan = RunPlan.of(size, seed)
        return [ensure_labels(at, plan.labels_of(graphs), scheduler) for graphs in plan.graph_sets]


def ensure_labels(home: Home, labels: LabelSet, scheduler: str | None = None) -> Published:
    """Publish the labels of one graph set unless they are published already (inside a flow)."""
    log = get_run_logger()
    done = labels_published(home, labels)
    if done is not None:
        log.info("labels %s: unchanged, %d labels reused", labels.partition, done.rows)
        return done
    ensure_graphs(home, labels.graphs, scheduler)
    calls = [{"home": home.path, "labels": labels, "shard": shard} for shard in range(labels.graphs.num_shards)]
    sizes = [labels.solves(len(labels.graphs.indices(shard))) for shard in range(labels.graphs.num_shards)]
    run_shards(
        label_shard, calls, "label shards", log, scheduler=chosen_scheduler(scheduler), unit="labels", sizes=sizes
    )
    done = publish_labels(home.path, labels)
    log.info("labels %s: %d published", labels.partition, done.rows)
    return done
