"""Schedules of real models by every solver: one task a model, in a process of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE

from respect_core.constraints import Constraints
from respect_core.device_constants import load_known_profile
from respect_core.objective import Objective
from respect_core.solve.comparison import compare, open_solver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.registry import POLICY, get_solver
from respect_core.solve.robust_rows import robustness_rows
from respect_core.sources.catalog import load_model
from respect_core.sources.graph_json import graph_digest
from respect_core.tables.domain_checks import robustness_checks, schedule_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.robustness import ROBUSTNESS
from respect_core.tables.schedules import SCHEDULES
from respect_core.tables.table import TableSchema
from tasks.child import run_in_kept_child
from tasks.home import Home
from tasks.publishing import Checks, Published, publish_all, published, unpublished

SOLVERS_COMPARED: Final = (
    POLICY,
    "order-file",
    "order-kahn",
    "order-dfs",
    "random-orders",
    "compiler-rule",
    "exact",
    "ilp",
)
"""Who schedules for peak memory."""

THROUGHPUT_SOLVERS: Final = (
    POLICY,
    "exact",
    "local-search",
    "robust-max",
    "robust-p90",
    "profiling",
    "balanced",
    "compiler-rule",
)
"""Who schedules for throughput."""

OTHER_SEED: Final = 1
"""Added to the seed for the devices on which schedules are judged: robust ones are chosen by those of the seed."""

START_UP_S: Final = 180.0


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
    constraints: tuple[str, ...] = ()
    """Named constraints that every schedule obeys."""
    peak_memory_by: tuple[str, ...] = ()
    """Solvers whose schedules for peak memory, of the same models under the same constraints, are recorded besides."""
    num_scenarios: int = 0
    """Plausible devices on which all schedules are judged, 0 for no such rows."""
    policy: str | None = None
    """Digest of the policy's weights; without it the solver `policy` is left out."""

    @property
    def used_solvers(self) -> tuple[str, ...]:
        """The solvers that can run: `policy` only with weights."""
        return tuple(name for name in self.solvers if name != POLICY or self.policy)

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the schedules."""
        names = (*self.used_solvers, *self.peak_memory_by)
        versions = {name: get_solver(name).version for name in names if name != POLICY}
        return fingerprint(
            **asdict(self),
            versions=versions,
            profile=asdict(load_known_profile(self.device)),
            graphs=[graph_digest(load_model(model)) for model in self.models],
            schema=[schema.version for schema in self.schemas],
        )

    @property
    def schemas(self) -> tuple[TableSchema, ...]:
        """The tables that the set is published in."""
        return (SCHEDULES, ROBUSTNESS) if self.num_scenarios else (SCHEDULES,)

    def problem(self, model: str, num_stages: int) -> Problem:
        """Return the problem of one model and K."""
        constraints = Constraints.named(self.constraints)
        return Problem.of(load_model(model), num_stages, self.objective, device=self.device, constraints=constraints)

    @property
    def partition(self) -> str:
        """Name of the partition in the table `schedules`."""
        return f"set={self.objective}-{self.device}-m{len(self.models)}-s{self.seed}-{self.fingerprint[:8]}"


def schedule_model(model: str, schedules: ScheduleSet, checkpoint: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Solve one model for every K by every solver; returns rows by table."""
    solvers = [open_solver(name, checkpoint) for name in schedules.used_solvers]
    others = [open_solver(name) for name in schedules.peak_memory_by]
    options = SolveOptions(time_limit_s=schedules.time_limit_s, seed=schedules.seed)
    tables: dict[str, list[dict[str, Any]]] = {schema.name: [] for schema in schedules.schemas}
    for num_stages in schedules.num_stages:
        problem = schedules.problem(model, num_stages)
        rows = compare(problem, solvers, options)
        rows += compare(replace(problem, objective="peak-memory"), others, options)
        tables[SCHEDULES.name] += rows
        if schedules.num_scenarios:
            known = load_known_profile(schedules.device)
            timed = replace(problem, objective="throughput")
            seed = schedules.seed + OTHER_SEED
            tables[ROBUSTNESS.name] += robustness_rows(timed, rows, known, schedules.num_scenarios, seed)
    return tables


def schedules_published(home: Home, schedules: ScheduleSet) -> list[Published]:
    """Return the published partition in every table of the set, nothing unless all have it."""
    found = [published(home, schema, schedules.partition) for schema in schedules.schemas]
    return [done for done in found if done is not None] if all(found) else []


@task(task_run_name="schedule-{model}", cache_policy=NO_CACHE, retries=1)
def schedule_shard(home: Path, schedules: ScheduleSet, model: str, checkpoint: Path | None) -> bool:
    """Write the schedules of one model to staging; return False where an interrupted run had done so already."""
    at, shard = Home(path=home), schedules.models.index(model)
    open_ = unpublished(at, schedules.schemas, schedules.partition)
    stagings = {schema: at.dataset(schema).stage(schedules.partition, schedules.fingerprint) for schema in open_}
    if all(staging.finished(shard) for staging in stagings.values()):
        return False
    solves = len(schedules.num_stages) * (len(schedules.used_solvers) + len(schedules.peak_memory_by))
    limit_s = START_UP_S + 2 * solves * schedules.time_limit_s
    tables = run_in_kept_child(limit_s, schedule_model, model, schedules, checkpoint)
    for schema, staging in stagings.items():
        staging.write(shard, schema.table(tables[schema.name]))
    return True


@task(task_run_name="publish-schedules", cache_policy=NO_CACHE)
def publish_schedules(home: Path, schedules: ScheduleSet) -> list[Published]:
    """Check the staged schedules against their models and publish them; one entry a table."""
    facts = {**asdict(schedules), "solvers": list(schedules.used_solvers)}
    graphs = {model: load_model(model) for model in schedules.models}
    constraints = Constraints.named(schedules.constraints)
    checks: Checks = {
        SCHEDULES.name: lambda tables: schedule_checks(tables[SCHEDULES.name], graphs, constraints=constraints),
        ROBUSTNESS.name: lambda tables: robustness_checks(tables[ROBUSTNESS.name], tables[SCHEDULES.name], graphs),
    }
    at = Home(path=home)
    return publish_all(at, schedules.schemas, schedules.partition, schedules.fingerprint, facts, checks)
