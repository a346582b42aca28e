"""Schedules of real models by every solver: one task a model, in a process of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from respect_core.device import load_profile
from respect_core.objective import Objective
from respect_core.solve.comparison import compare, open_solver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.registry import POLICY, get_solver
from respect_core.sources.catalog import load_model
from respect_core.sources.graph_json import graph_digest
from respect_core.tables.domain_checks import schedule_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.schedules import SCHEDULES
from tasks.child import run_in_child
from tasks.home import Home
from tasks.publishing import Checks, Published, publish_all, published

SOLVERS_COMPARED = (
    POLICY,
    "order-file",
    "order-kahn",
    "order-dfs",
    "random-orders",
    "compiler-rule",
    "exact",
    "ilp",
)
START_UP_S = 180.0


@dataclass(frozen=True, kw_only=True)
class ScheduleSet:
    """Which models are scheduled by whom, and the name under which the rows are published."""

    models: tuple[str, ...]
    num_stages: tuple[int, ...]
    solvers: tuple[str, ...] = SOLVERS_COMPARED
    objective: Objective = "peak-memory"
    device: str = "usb3"
    time_limit_s: float = 15.0
    seed: int = 0
    policy: str | None = None
    """Digest of the policy's weights; without it the solver `policy` is left out."""

    @property
    def used_solvers(self) -> tuple[str, ...]:
        """The solvers that can run: `policy` only with weights."""
        return tuple(name for name in self.solvers if name != POLICY or self.policy)

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the schedules."""
        versions = {name: get_solver(name).version for name in self.used_solvers if name != POLICY}
        return fingerprint(
            **asdict(self),
            versions=versions,
            profile=asdict(load_profile(self.device)),
            graphs=[graph_digest(load_model(model)) for model in self.models],
            schema=SCHEDULES.version,
        )

    @property
    def partition(self) -> str:
        """Name of the partition in the table `schedules`."""
        return f"set={self.objective}-{self.device}-m{len(self.models)}-s{self.seed}-{self.fingerprint[:8]}"


def schedule_model(model: str, schedules: ScheduleSet, checkpoint: Path | None) -> list[dict[str, Any]]:
    """Solve one model for every K by every solver; returns rows of `schedules`."""
    graph = load_model(model)
    solvers = [open_solver(name, checkpoint) for name in schedules.used_solvers]
    options = SolveOptions(time_limit_s=schedules.time_limit_s, seed=schedules.seed)
    rows = []
    for num_stages in schedules.num_stages:
        problem = Problem.of(graph, num_stages, schedules.objective, device=schedules.device)
        rows += compare(problem, solvers, options)
    return rows


def schedules_published(home: Home, schedules: ScheduleSet) -> Published | None:
    """Return the published partition of `schedules`, if there is one."""
    return published(home, SCHEDULES, schedules.partition)


@task(task_run_name="schedule-{model}", cache_policy=NO_CACHE, retries=1)
def schedule_shard(home: Path, schedules: ScheduleSet, model: str, checkpoint: Path | None) -> bool:
    """Write the schedules of one model to staging; return False where an interrupted run had done so already."""
    shard = schedules.models.index(model)
    staging = Home(path=home).dataset(SCHEDULES).stage(schedules.partition, schedules.fingerprint)
    if staging.finished(shard):
        return False
    solves = len(schedules.num_stages) * len(schedules.used_solvers)
    limit_s = START_UP_S + 2 * solves * schedules.time_limit_s
    rows = run_in_child(limit_s, schedule_model, model, schedules, checkpoint)
    staging.write(shard, SCHEDULES.table(rows))
    return True


@task(task_run_name="publish-schedules", cache_policy=NO_CACHE)
def publish_schedules(home: Path, schedules: ScheduleSet) -> Published:
    """Check the staged schedules against their models and publish them."""
    facts = {**asdict(schedules), "solvers": list(schedules.used_solvers)}
    graphs = {model: load_model(model) for model in schedules.models}
    checks: Checks = {SCHEDULES.name: lambda tables: schedule_checks(tables[SCHEDULES.name], graphs)}
    at = Home(path=home)
    return publish_all(at, (SCHEDULES,), schedules.partition, schedules.fingerprint, facts, checks)[0]
