"""Synthetic graphs: one task a shard, the three tables published together once they are checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from respect_core.sources.synthetic import GENERATOR_VERSION, SyntheticSpec, generate_graph
from respect_core.tables.domain_checks import graph_checks, op_checks, tensor_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.graph_rows import GraphTables, graphs_to_tables
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.ops import OPS
from respect_core.tables.tensors import TENSORS
from tasks.home import Home
from tasks.publishing import Checks, Published, publish_all, published

GRAPH_SCHEMAS = (TENSORS, OPS, GRAPHS)
"""In the order of publishing: who sees a graph sees its ops and tensors."""

GRAPH_CHECKS: Checks = {
    GRAPHS.name: lambda tables: graph_checks(GraphTables(**tables)),
    OPS.name: lambda tables: op_checks(tables[OPS.name], tables[GRAPHS.name]),
    TENSORS.name: lambda tables: tensor_checks(tables[TENSORS.name], tables[GRAPHS.name]),
}


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
        """Number of parts."""
        return -(-self.num_graphs // self.shard_graphs)

    def indices(self, shard: int) -> range:
        """Return the graph numbers of a shard."""
        start = shard * self.shard_graphs
        return range(start, min(start + self.shard_graphs, self.num_graphs))


def graphs_published(home: Home, graphs: GraphSet) -> Published | None:
    """Return the published partition of `graphs` if all three tables have it."""
    found = [published(home, schema, graphs.partition) for schema in GRAPH_SCHEMAS]
    return found[-1] if all(found) else None


@task(task_run_name="generate-{shard}", cache_policy=NO_CACHE, retries=1)
def generate_shard(home: Path, graphs: GraphSet, shard: int) -> bool:
    """Write one shard of graphs to staging; return False where an interrupted run had done so already."""
    at = Home(path=home)
    missing = [s for s in GRAPH_SCHEMAS if published(at, s, graphs.partition) is None]
    stagings = [at.dataset(schema).stage(graphs.partition, graphs.fingerprint) for schema in missing]
    if all(staging.finished(shard) for staging in stagings):
        return False
    tables = graphs_to_tables((generate_graph(graphs.spec, i) for i in graphs.indices(shard)), graphs.spec.family)
    for staging in stagings:
        staging.write(shard, getattr(tables, staging.schema.name))
    return True


@task(task_run_name="publish-graphs", cache_policy=NO_CACHE)
def publish_graphs(home: Path, graphs: GraphSet) -> Published:
    """Check the staged graphs together and publish the three tables."""
    return publish_all(
        Home(path=home), GRAPH_SCHEMAS, graphs.partition, graphs.fingerprint, dict(graphs.facts), GRAPH_CHECKS
    )[-1]
