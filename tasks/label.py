"""Exact labels: one task a shard, solved in a process of its own that can be killed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from prefect import task
from prefect.cache_policies import NO_CACHE

from respect_core.solve.labelling import LabelConfig, label_graphs
from respect_core.tables.domain_checks import label_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.graph_rows import GraphTables, tables_to_graphs
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.labels import LABEL_TIMINGS, LABELS
from respect_core.tables.ops import OPS
from respect_core.tables.tensors import TENSORS
from tasks.child import run_in_child
from tasks.generate import GRAPH_SCHEMAS, GraphSet
from tasks.home import Home
from tasks.publishing import Checks, Published, publish_all, published

LABEL_SCHEMAS = (LABEL_TIMINGS, LABELS)
START_UP_S = 120.0
"""What a solver process may need beyond its solves: imports, compiling, reading."""


@dataclass(frozen=True, kw_only=True)
class LabelSet:
    """Labels of a graph set, and the name under which they are published."""

    graphs: GraphSet
    config: LabelConfig

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the labels."""
        versions = [schema.version for schema in LABEL_SCHEMAS]
        return fingerprint(graphs=self.graphs.fingerprint, config=self.config.fingerprint, schemas=versions)

    @property
    def facts(self) -> dict[str, Any]:
        """Settings, for the manifest."""
        return {"graphs": self.graphs.partition, **asdict(self.config)}

    @property
    def partition(self) -> str:
        """Name of the partition in the tables `labels` and `label_timings`."""
        return f"{self.graphs.partition}-{self.config.solver}-{self.fingerprint[:8]}"


def labels_published(home: Home, labels: LabelSet) -> Published | None:
    """Return the published partition of `labels` if both tables have it."""
    found = [published(home, schema, labels.partition) for schema in LABEL_SCHEMAS]
    return found[-1] if all(found) else None


def label_files(graphs: Path, ops: Path, tensors: Path, config: LabelConfig) -> tuple[list[Any], list[Any]]:
    """Label the graphs of three Parquet files; returns rows of `labels` and of `label_timings`."""
    tables = GraphTables(graphs=pq.read_table(graphs), ops=pq.read_table(ops), tensors=pq.read_table(tensors))
    return label_graphs(tables_to_graphs(tables), config)


@task(task_run_name="label-{shard}", cache_policy=NO_CACHE, retries=1)
def label_shard(home: Path, labels: LabelSet, shard: int) -> bool:
    """Write one shard of labels to staging; return False where an interrupted run had done so already."""
    at = Home(path=home)
    missing = [s for s in LABEL_SCHEMAS if published(at, s, labels.partition) is None]
    stagings = {s.name: at.dataset(s).stage(labels.partition, labels.fingerprint) for s in missing}
    if all(staging.finished(shard) for staging in stagings.values()):
        return False
    datasets = [at.dataset(schema) for schema in (GRAPHS, OPS, TENSORS)]
    graphs, ops, tensors = (d.paths(d.partition(labels.graphs.partition))[shard] for d in datasets)
    solves = len(labels.graphs.indices(shard)) * len(labels.config.num_stages)
    limit_s = START_UP_S + 1.5 * solves * labels.config.time_limit_s
    rows, timings = run_in_child(limit_s, label_files, graphs, ops, tensors, labels.config)
    for staging in stagings.values():
        staging.write(shard, staging.schema.table(rows if staging.schema is LABELS else timings))
    return True


@task(task_run_name="publish-labels", cache_policy=NO_CACHE)
def publish_labels(home: Path, labels: LabelSet) -> Published:
    """Check the staged labels against their graphs and publish them."""
    at = Home(path=home)
    graphs = GraphTables(**{s.name: at.dataset(s).read(labels.graphs.partition) for s in GRAPH_SCHEMAS})
    checks: Checks = {LABELS.name: lambda tables: label_checks(tables[LABELS.name], graphs, tables[LABEL_TIMINGS.name])}
    return publish_all(at, LABEL_SCHEMAS, labels.partition, labels.fingerprint, labels.facts, checks)[-1]
