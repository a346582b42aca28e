"""What a report is made from: plain rows of the tables, sorted into settings and cases."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from respect_core.device import MIB

Row = Mapping[str, Any]
Rows: TypeAlias = "pa.Table | Sequence[Row]"

ON_CHIP_BYTES: Final = 8 * MIB
"""Memory of one Edge TPU for parameters and executables."""

RULE: Final = "compiler-rule"
POLICY: Final = "policy"
BASELINE: Final = "random-orders"
"""The strongest simple baseline: what a policy has to beat."""
_PROVERS: Final = ("exact", "ilp", "auto")
_FIRST_SOLVERS: Final = ("exact", "ilp", "auto", POLICY, "pointer", "robust-max", "robust-p90")
_LAST_SOLVERS: Final = ("profiling", "balanced", RULE)


def plain_rows(rows: Rows) -> list[Row]:
    """Return the rows of an Arrow table or a sequence as a list; NaN and infinity become None."""
    found = rows.to_pylist() if isinstance(rows, pa.Table) else rows
    return [{name: _finite(value) for name, value in row.items()} for row in found]


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, kw_only=True)
class ReportInput:
    """Everything a report shows; nothing is read from anywhere else, not even the clock."""

    schedules: Rows
    """Rows of the table `schedules`."""
    benchmarks: Rows = ()
    """Rows of the table `benchmarks` for these schedules."""
    pipeline_schedules: Rows = ()
    """Rows of the table `schedules`: op graphs cut for throughput on a pipeline."""
    pipeline_benchmarks: Rows = ()
    """Simulated rows of the table `benchmarks` for them."""
    robustness: Rows = ()
    """Rows of the table `robustness` for them."""
    measured: Rows = ()
    """Rows of the table `benchmarks` of what was run for real."""
    segments: Rows = ()
    """Rows of the table `segments`."""
    training: Rows = ()
    """Rows of the table `training`."""
    memory: Rows = ()
    """Rows of the table `memory`."""
    generalisation: Rows = ()
    """Rows of the table `generalisation`."""
    facts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Footer: for every heading (`Versions`, `Seeds`, `Datasets`) names and values."""
    title: str = "Schedules for pipelines of Edge TPUs"
    created: str = ""
    """Date of the run, as it should be shown."""


@dataclass(frozen=True, kw_only=True, order=True)
class Case:
    """One model cut into one number of stages."""

    model: str
    num_stages: int

    def __str__(self) -> str:
        return f"{self.model}, K = {self.num_stages}"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """All schedules for one objective on one device."""

    objective: str
    device: str
    rows: dict[tuple[Case, str], Row]
    """The row of every case and solver."""
    models: tuple[str, ...]
    """In the order of their number of ops, then by name."""
    num_ops: dict[str, int]
    stage_counts: tuple[int, ...]
    solvers: tuple[str, ...]

    @property
    def cases(self) -> list[Case]:
        """Every case that some solver was given, in the order of the models."""
        found = {case for case, _ in self.rows}
        ordered = [Case(model=m, num_stages=k) for m in self.models for k in self.stage_counts]
        return [case for case in ordered if case in found]

    def of_solver(self, solver: str) -> list[tuple[Case, Row]]:
        """Return the rows of one solver in the order of the cases."""
        return [(case, self.rows[case, solver]) for case in self.cases if (case, solver) in self.rows]

    def value(self, case: Case, solver: str, column: str) -> float | None:
        """Return a number of a row, None where the row or the number is missing."""
        value = self.rows.get((case, solver), {}).get(column)
        return None if value is None else float(value)

    def by_model(self, solver: str, column: str) -> dict[str, list[float]]:
        """Return a solver's known numbers of one column, grouped by model."""
        out: dict[str, list[float]] = defaultdict(list)
        for case, row in self.of_solver(solver):
            if row.get(column) is not None:
                out[case.model].append(float(row[column]))
        return dict(out)

    @property
    def prover(self) -> str | None:
        """The solver whose proofs the report quotes."""
        return next((solver for solver in _PROVERS if solver in self.solvers), None)


def settings_of(schedules: Rows) -> list[Setting]:
    """Sort schedules by objective and device; `peak-memory` first, as the papers judge by it."""
    grouped: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in plain_rows(schedules):
        grouped[str(row["objective"]), str(row["device"])].append(row)
    order = sorted(grouped, key=lambda key: (key[0] != "peak-memory", -len(grouped[key]), key))
    return [_setting(*key, grouped[key]) for key in order]


def _setting(objective: str, device: str, rows: list[Row]) -> Setting:
    num_ops = {str(row["model"]): int(row["num_ops"]) for row in rows}
    return Setting(
        objective=objective,
        device=device,
        rows={(Case(model=str(r["model"]), num_stages=int(r["num_stages"])), str(r["solver"])): r for r in rows},
        models=tuple(sorted(num_ops, key=lambda model: (num_ops[model], model))),
        num_ops=num_ops,
        stage_counts=tuple(sorted({int(row["num_stages"]) for row in rows})),
        solvers=solver_order({str(row["solver"]) for row in rows}),
    )


def solver_order(solvers: set[str]) -> tuple[str, ...]:
    """Order solvers for reading: proofs first, then the learned, simple orders, and the compiler's rules last."""
    first = [solver for solver in _FIRST_SOLVERS if solver in solvers]
    last = [solver for solver in _LAST_SOLVERS if solver in solvers]
    return (*first, *sorted(solvers - set(first) - set(last)), *last)


@dataclass(frozen=True, kw_only=True)
class Throughput:
    """Times between items of full pipelines, for one runner and device."""

    runner: str
    device: str
    is_simulated: bool
    speedup: dict[tuple[Case, str], float]
    """Period of the compiler's rule over that of every other (case, contender)."""
    contenders: tuple[str, ...]
    """Solvers, with their objective where there are several."""

    def by_model(self, contender: str) -> dict[str, list[float]]:
        """Return a contender's speed-ups grouped by model."""
        out: dict[str, list[float]] = defaultdict(list)
        for (case, name), value in sorted(self.speedup.items(), key=lambda entry: entry[0]):
            if name == contender:
                out[case.model].append(value)
        return dict(out)


def throughputs_of(benchmarks: Rows) -> list[Throughput]:
    """Compare the mean time between items with that of the compiler's rule on the same case, runner and device.

    Cases for which the rule was not timed, or a period is 0, are left out.
    """
    intervals: dict[tuple[str, str, bool], dict[tuple[Case, str, str], list[float]]] = {}
    for row in plain_rows(benchmarks):
        if row["mode"] == "pipelined" and row["interval_us"] is not None:
            group = intervals.setdefault((str(row["runner"]), str(row["device"]), bool(row["is_simulated"])), {})
            case = Case(model=str(row["model"]), num_stages=int(row["num_stages"]))
            group.setdefault((case, str(row["solver"]), str(row["objective"])), []).append(float(row["interval_us"]))
    return [_throughput(*key, group) for key, group in sorted(intervals.items())]


def _throughput(
    runner: str, device: str, is_simulated: bool, intervals: dict[tuple[Case, str, str], list[float]]
) -> Throughput:
    period = {key: statistics.fmean(values) for key, values in intervals.items()}
    objectives = {objective for _, _, objective in period}
    rule_anywhere = {case: value for (case, solver, _), value in sorted(period.items()) if solver == RULE}
    speedup: dict[tuple[Case, str], float] = {}
    solvers: dict[str, str] = {}
    for (case, solver, objective), value in period.items():
        rule = period.get((case, RULE, objective), rule_anywhere.get(case))
        if solver == RULE or rule is None or rule <= 0 or value <= 0:
            continue
        contender = solver if len(objectives) == 1 else f"{solver}, {objective}"
        solvers[contender] = solver
        speedup[case, contender] = rule / value
    rank = {solver: place for place, solver in enumerate(solver_order(set(solvers.values())))}
    return Throughput(
        runner=runner,
        device=device,
        is_simulated=is_simulated,
        speedup=speedup,
        contenders=tuple(sorted(solvers, key=lambda name: (rank[solvers[name]], name))),
    )
