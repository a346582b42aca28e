"""The generalisation test of the policy in use: one task a sweep, in a process of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE

from respect_core.policy.checkpoint import read_checkpoint
from respect_core.policy.generalisation import GRAPHS_VERSION, SEED, few_sweeps
from respect_core.policy.generalisation_rows import NUM_SAMPLES, generalisation_rows
from respect_core.policy.solver import PolicySolver
from respect_core.solve.exact import ExactSolver
from respect_core.solve.local_search import LocalSearchSolver
from respect_core.tables.domain_checks import generalisation_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.generalisation import GENERALISATION
from tasks.child import run_in_kept_child
from tasks.home import Home
from tasks.publishing import Checks, Published, publish_all, published

SWEEPS: Final = tuple(few_sweeps())
"""What is changed, one thing at a time."""

START_UP_S: Final = 180.0

SECONDS_A_GRAPH: Final = 5.0
"""More than all methods but the exact search take for one graph."""


@dataclass(frozen=True, kw_only=True)
class GeneralisationSet:
    """Which policy is tested on what, and the name under which the rows are published."""

    policy: str
    """Digest of the policy's weights."""
    sweeps: tuple[str, ...] = SWEEPS
    num_graphs: int = 5
    """Graphs of a point."""
    time_limit_s: float = 0.5
    """Seconds that the exact search may take to prove the optimum of a graph."""

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the rows."""
        sweeps = few_sweeps()
        return fingerprint(
            **asdict(self),
            points={name: [asdict(point) for point in sweeps[name]] for name in self.sweeps},
            graphs=(GRAPHS_VERSION, SEED),
            samples=NUM_SAMPLES,
            versions={solver.name: solver.version for solver in (ExactSolver, LocalSearchSolver)},
            schema=GENERALISATION.version,
        )

    @property
    def partition(self) -> str:
        """Name of the partition in the table `generalisation`."""
        return f"set=g{self.num_graphs}-p{self.policy[:8]}-{self.fingerprint[:8]}"


def sweep_rows(sweep: str, wanted: GeneralisationSet, checkpoint: Path) -> list[dict[str, Any]]:
    """Test the policy on the points of one sweep; returns rows of `generalisation`."""
    policy = PolicySolver(read_checkpoint(checkpoint), num_samples=NUM_SAMPLES)
    return generalisation_rows(
        policy, sweep, few_sweeps()[sweep], num_graphs=wanted.num_graphs, time_limit_s=wanted.time_limit_s
    )


def generalisation_published(home: Home, wanted: GeneralisationSet) -> Published | None:
    """Return the published partition of `generalisation`, if there is one."""
    return published(home, GENERALISATION, wanted.partition)


@task(task_run_name="generalise-{sweep}", cache_policy=NO_CACHE, retries=1)
def generalise_shard(home: Path, wanted: GeneralisationSet, sweep: str, checkpoint: Path) -> bool:
    """Write the rows of one sweep to staging; return False where an interrupted run had done so already."""
    shard = wanted.sweeps.index(sweep)
    staging = Home(path=home).dataset(GENERALISATION).stage(wanted.partition, wanted.fingerprint)
    if staging.finished(shard):
        return False
    graphs = len(few_sweeps()[sweep]) * wanted.num_graphs
    limit_s = START_UP_S + graphs * (SECONDS_A_GRAPH + 2 * wanted.time_limit_s)
    rows = run_in_kept_child(limit_s, sweep_rows, sweep, wanted, checkpoint)
    staging.write(shard, GENERALISATION.table(rows))
    return True


@task(task_run_name="publish-generalisation", cache_policy=NO_CACHE)
def publish_generalisation(home: Path, wanted: GeneralisationSet) -> Published:
    """Check the staged rows and publish them."""
    checks: Checks = {GENERALISATION.name: lambda tables: generalisation_checks(tables[GENERALISATION.name])}
    at = Home(path=home)
    return publish_all(at, (GENERALISATION,), wanted.partition, wanted.fingerprint, asdict(wanted), checks)[0]
