"""Synthetic graphs: one task a shard, the three tables published together once every shard is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from prefect import task
from prefect.cache_policies import NO_CACHE

from respect_core.sources.synthetic import GENERATOR_VERSION, SyntheticSpec, graph_id
from respect_core.sources.synthetic_batch import generate_tables
from respect_core.tables.domain_checks import DomainColumns, graph_checks, op_checks, tensor_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.graph_rows import GraphTables
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.ops import OPS
from respect_core.tables.tensors import TENSORS
from tasks.child import run_in_kept_child
from tasks.home import Home
from tasks.progress import worth_retrying
from tasks.publishing import Checks, Published, published
from tasks.shards import ShardClock, ShardedSet, ShardReport, accept, drop_shards, publish_shards, stage_shard

GRAPH_SCHEMAS = (TENSORS, OPS, GRAPHS)
"""In the order of publishing: who sees a graph sees its ops and tensors."""

START_UP_S = 120.0
"""What a process may need beyond its work: imports, compiling, reading."""

GRAPH_S = 0.05
"""Generous time for one graph of a shard."""


@dataclass(frozen=True, kw_only=True)
class GraphSet:
    """A set of synthetic graphs, and the name under which it is published."""

    spec: SyntheticSpec
    num_graphs: int
    shard_graphs: int

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the graphs."""
        return fingerprint(
            **self.facts, generator=GENERATOR_VERSION, schemas=[schema.version for schema in GRAPH_SCHEMAS]
        )

    @property
    def facts(self) -> dict[str, object]:
        """Settings, for the manifest."""
        spec = self.spec
        return {
            "family": spec.family,
            "num_ops": spec.num_ops,
            "seed": spec.seed,
            "num_graphs": self.num_graphs,
            "shard_graphs": self.shard_graphs,
        }

    @property
    def partition(self) -> str:
        """Name of the partition in the tables `graphs`, `ops` and `tensors`."""
        spec = self.spec
        return f"set={spec.family}-{spec.num_ops}-s{spec.seed}-n{self.num_graphs}-{self.fingerprint[:8]}"

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return -(-self.num_graphs // self.shard_graphs)

    @property
    def sharded(self) -> ShardedSet:
        """The set as it is put together."""
        return ShardedSet(
            schemas=GRAPH_SCHEMAS,
            partition=self.partition,
            fingerprint=self.fingerprint,
            num_shards=self.num_shards,
        )

    def indices(self, shard: int) -> range:
        """Return the graph numbers of a shard."""
        start = shard * self.shard_graphs
        return range(start, min(start + self.shard_graphs, self.num_graphs))

    def ids(self, shard: int) -> pa.Array:
        """Return the names of a shard's graphs, sorted."""
        return pa.array(sorted(graph_id(self.spec, index) for index in self.indices(shard)), pa.string())

    def rows(self, num_graphs: int) -> dict[str, int]:
        """Return how many rows so many graphs have, by table name."""
        ops = num_graphs * self.spec.num_ops
        return {GRAPHS.name: num_graphs, OPS.name: ops, TENSORS.name: ops}


def graphs_published(home: Home, graphs: GraphSet) -> Published | None:
    """Return the published partition of `graphs` if all three tables have it."""
    found = [published(home, schema, graphs.partition) for schema in GRAPH_SCHEMAS]
    if not all(found):
        return None
    drop_shards(home, graphs.sharded)
    return found[-1]


def make_graphs(home: Home, graphs: GraphSet, shard: int) -> ShardReport:
    """Generate, write and audit one shard."""
    clock = ShardClock()
    made = generate_tables(graphs.spec, graphs.indices(shard))
    tables = {GRAPHS.name: made.graphs, OPS.name: made.ops, TENSORS.name: made.tensors}
    rows = graphs.rows(len(graphs.indices(shard)))
    return stage_shard(home, graphs.sharded, shard, tables, _checks(graphs.ids(shard)), rows, clock)


def _checks(ids: pa.Array) -> Checks:
    """Return the domain checks of a shard of exactly these graphs."""

    def of_graphs(tables: Mapping[str, pa.Table]) -> DomainColumns:
        own = pc.is_in(tables[GRAPHS.name]["graph_id"].combine_chunks(), value_set=ids)
        return DomainColumns(columns={**graph_checks(GraphTables(**tables)).columns, "graph_of_this_shard": own})

    return {
        GRAPHS.name: of_graphs,
        OPS.name: lambda tables: op_checks(tables[OPS.name], tables[GRAPHS.name]),
        TENSORS.name: lambda tables: tensor_checks(tables[TENSORS.name], tables[GRAPHS.name]),
    }


@task(task_run_name="generate-{shard}", cache_policy=NO_CACHE, retries=1, retry_condition_fn=worth_retrying)
def generate_shard(home: Path, graphs: GraphSet, shard: int) -> ShardReport | None:
    """Stage one shard of checked graphs; return None where an interrupted run had done so already.

    Raises:
        QualityError: The shard did not pass its audit; it was moved aside.
    """
    at, work = Home(path=home), graphs.sharded
    if work.is_finished(at, shard):
        return None
    limit_s = START_UP_S + GRAPH_S * len(graphs.indices(shard))
    return accept(work, run_in_kept_child(limit_s, make_graphs, at, graphs, shard))


@task(task_run_name="publish-graphs", cache_policy=NO_CACHE)
def publish_graphs(home: Path, graphs: GraphSet) -> Published:
    """Compact the checked shards and publish the three tables."""
    return publish_shards(Home(path=home), graphs.sharded, dict(graphs.facts), graphs.rows(graphs.num_graphs))[-1]
