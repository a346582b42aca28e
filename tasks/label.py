"""Exact labels: one task a shard, solved in a process of its own that can be killed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from prefect import task
from prefect.cache_policies import NO_CACHE

from respect_core.solve.labelling import LabelConfig, label_tables
from respect_core.tables.domain_checks import DomainColumns, label_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.graph_rows import GraphTables
from respect_core.tables.labels import LABEL_TIMINGS, LABELS
from respect_core.tables.table import TableSchema
from tasks.child import run_in_kept_child
from tasks.generate import GRAPH_SCHEMAS, START_UP_S, GraphSet
from tasks.home import Home
from tasks.progress import worth_retrying
from tasks.publishing import Checks, Published, published
from tasks.shards import ShardClock, ShardedSet, ShardReport, accept, drop_shards, publish_shards, stage_shard

LABEL_SCHEMAS = (LABEL_TIMINGS, LABELS)


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

    @property
    def sharded(self) -> ShardedSet:
        """The set as it is put together; its shards are those of the graphs."""
        return ShardedSet(
            schemas=LABEL_SCHEMAS,
            partition=self.partition,
            fingerprint=self.fingerprint,
            num_shards=self.graphs.num_shards,
        )

    def solves(self, num_graphs: int) -> int:
        """Return how many solves so many graphs need."""
        return num_graphs * len(self.config.num_stages)


def labels_published(home: Home, labels: LabelSet) -> Published | None:
    """Return the published partition of `labels` if both tables have it."""
    found = [published(home, schema, labels.partition) for schema in LABEL_SCHEMAS]
    if not all(found):
        return None
    drop_shards(home, labels.sharded)
    return found[-1]


def make_labels(home: Home, labels: LabelSet, shard: int) -> ShardReport:
    """Label, write and audit one shard of published graphs."""
    clock = ShardClock()
    graphs = read_shard(home, labels.graphs, shard)
    found, timings = label_tables(graphs, labels.config)
    tables = {LABELS.name: found, LABEL_TIMINGS.name: timings}
    rows = {LABEL_TIMINGS.name: labels.solves(len(labels.graphs.indices(shard)))}
    return stage_shard(home, labels.sharded, shard, tables, _checks(graphs), rows, clock)


def read_shard(home: Home, graphs: GraphSet, shard: int) -> GraphTables:
    """Read the graphs of one shard out of the published files, of which a shard is a small piece."""
    ids = graphs.ids(shard)
    between = [("graph_id", ">=", ids[0].as_py()), ("graph_id", "<=", ids[-1].as_py())]

    def read(schema: TableSchema) -> pa.Table:
        dataset = home.dataset(schema)
        paths = [str(path) for path in dataset.paths(dataset.partition(graphs.partition))]
        table = pq.read_table(paths, filters=between, partitioning=None)
        # Ids of different lengths are not in the order of their numbers: others may lie between.
        return table.filter(pc.is_in(table["graph_id"], value_set=ids))

    return GraphTables(**{schema.name: read(schema) for schema in GRAPH_SCHEMAS})


def _checks(graphs: GraphTables) -> Checks:
    """Return the domain checks of the labels of exactly these graphs."""

    def of_timings(tables: dict[str, pa.Table]) -> DomainColumns:
        ids = tables[LABEL_TIMINGS.name]["graph_id"].combine_chunks()
        return DomainColumns(columns={"graph_known": pc.is_in(ids, value_set=graphs.graphs["graph_id"])})

    return {
        LABELS.name: lambda tables: label_checks(tables[LABELS.name], graphs, tables[LABEL_TIMINGS.name]),
        LABEL_TIMINGS.name: of_timings,
    }


@task(task_run_name="label-{shard}", cache_policy=NO_CACHE, retries=1, retry_condition_fn=worth_retrying)
def label_shard(home: Path, labels: LabelSet, shard: int) -> ShardReport | None:
    """Stage one shard of checked labels; return None where an interrupted run had done so already.

    Raises:
        QualityError: The shard did not pass its audit; it was moved aside.
        SolverFailedError: The process died or went on long past its deadlines.
    """
    at, work = Home(path=home), labels.sharded
    if work.is_finished(at, shard):
        return None
    limit_s = START_UP_S + 1.5 * labels.solves(len(labels.graphs.indices(shard))) * labels.config.time_limit_s
    return accept(work, run_in_kept_child(limit_s, make_labels, at, labels, shard))


@task(task_run_name="publish-labels", cache_policy=NO_CACHE)
def publish_labels(home: Path, labels: LabelSet) -> Published:
    """Compact the checked shards and publish both tables."""
    rows = {LABEL_TIMINGS.name: labels.solves(labels.graphs.num_graphs)}
    return publish_shards(Home(path=home), labels.sharded, labels.facts, rows)[-1]
