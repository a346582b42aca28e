"""Orders for least activation memory, recorded in the table `memory`: one task a network, in a process of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE

from respect_core.graph import DnnGraph
from respect_core.memory.order import MemoryOrderSolver
from respect_core.memory.rewrite_search import RewriteOptions
from respect_core.memory.rules import PLACEMENTS, MemoryRules
from respect_core.memory.study import ON_CHIP_BYTES, memory_row, study_order
from respect_core.solve.protocol import SolveOptions
from respect_core.sources.catalog import int8_models, load_model
from respect_core.sources.graph_json import graph_digest
from respect_core.sources.memory_networks import load_memory_network, memory_networks
from respect_core.tables.domain_checks import memory_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.memory import MEMORY
from tasks.child import run_in_kept_child
from tasks.home import Home
from tasks.publishing import Checks, Published, publish_all, published

START_UP_S: Final = 180.0

ROWS_A_NETWORK: Final = 2 * len(PLACEMENTS)

NETWORKS: Final = memory_networks() + int8_models()
"""Networks of the papers, and op graphs of known models."""


@dataclass(frozen=True, kw_only=True)
class MemorySet:
    """Which networks are ordered, and the name under which the rows are published."""

    networks: tuple[str, ...]
    time_limit_s: float = 15.0
    """Deadline of one row."""
    on_chip_bytes: int = ON_CHIP_BYTES
    seed: int = 0
    """Of the search for rewritings."""

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the rows."""
        return fingerprint(
            **asdict(self),
            solver=(MemoryOrderSolver.name, MemoryOrderSolver.version),
            graphs=[graph_digest(load_network(name)) for name in self.networks],
            schema=MEMORY.version,
        )

    @property
    def partition(self) -> str:
        """Name of the partition in the table `memory`."""
        return f"set=n{len(self.networks)}-s{self.seed}-{self.fingerprint[:8]}"


def load_network(name: str) -> DnnGraph:
    """Return a network of the papers or a known model.

    Raises:
        UnknownNameError: There is neither of this name.
    """
    return load_memory_network(name) if name in memory_networks() else load_model(name)


def memory_rows(network: str, memory: MemorySet) -> list[dict[str, Any]]:
    """Order one network under each rule for concatenations, as it is and rewritten; returns rows of `memory`."""
    graph = load_network(network)
    options = SolveOptions(time_limit_s=memory.time_limit_s, seed=memory.seed)
    study = partial(study_order, graph, options=options, on_chip_bytes=memory.on_chip_bytes)
    studies = [
        study(MemoryRules(concat=concat), rewriting=rewriting)  # type: ignore[arg-type]
        for concat in PLACEMENTS
        for rewriting in (None, RewriteOptions())
    ]
    return [memory_row(one, network) for one in studies]


def memory_published(home: Home, memory: MemorySet) -> Published | None:
    """Return the published partition of `memory`, if there is one."""
    return published(home, MEMORY, memory.partition)


@task(task_run_name="order-{network}", cache_policy=NO_CACHE, retries=1)
def order_shard(home: Path, memory: MemorySet, network: str) -> bool:
    """Write the rows of one network to staging; return False where an interrupted run had done so already."""
    shard = memory.networks.index(network)
    staging = Home(path=home).dataset(MEMORY).stage(memory.partition, memory.fingerprint)
    if staging.finished(shard):
        return False
    limit_s = START_UP_S + 2 * ROWS_A_NETWORK * memory.time_limit_s
    rows = run_in_kept_child(limit_s, memory_rows, network, memory)
    staging.write(shard, MEMORY.table(rows))
    return True


@task(task_run_name="publish-memory", cache_policy=NO_CACHE)
def publish_memory(home: Path, memory: MemorySet) -> Published:
    """Check the staged rows against their networks and publish them."""
    facts = {**asdict(memory), "solver_version": MemoryOrderSolver.version}
    graphs = {name: load_network(name) for name in memory.networks}
    checks: Checks = {MEMORY.name: lambda tables: memory_checks(tables[MEMORY.name], graphs)}
    return publish_all(Home(path=home), (MEMORY,), memory.partition, memory.fingerprint, facts, checks)[0]
