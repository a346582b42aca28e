"""Speed-ups and regrets of schedules for a pipeline, nominal and on plausible devices: what its section shows."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from respect_core.graph import FloatArray
from respect_core.report.data import RULE, Case, Row, Rows, plain_rows, solver_order

OPTIMUM: Final = "exact"
"""Solver whose schedules for throughput are called the optimum."""

PEAK: Final = "peak-memory optimum"
"""How the exact schedules for peak memory are called beside those for throughput."""

PERCENTILES: Final = (5, 95)
"""Ends of a range over the devices."""


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """How many times as fast one schedule is as another."""

    nominal: float | None
    """By the runner's figures under the nominal profile, None where one of them was not timed."""
    low: float | None
    """5th percentile over the devices, None where they were not judged."""
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Regret:
    """Bottleneck over the best one known on the same device, minus 1, over all devices."""

    median: float
    percentile90: float
    largest: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Pipelines:
    """All schedules of one device profile that were simulated or judged."""

    device: str
    names: tuple[str, ...]
    """Solvers, and `PEAK`; the compiler's rule is the last."""
    cases: tuple[Case, ...]
    """In the order of the models' ops."""
    num_scenarios: int
    seeds: tuple[int, ...]
    """Seeds of the devices."""
    period_us: Mapping[tuple[Case, str], float]
    """Simulated time between items under the nominal profile."""
    bottleneck_us: Mapping[tuple[Case, str], FloatArray]
    """On every device. Shape (S,)."""
    regrets: Mapping[tuple[Case, str], Regret]

    @property
    def models(self) -> tuple[str, ...]:
        """Models, in the order of the cases."""
        return tuple(dict.fromkeys(case.model for case in self.cases))

    @property
    def contenders(self) -> tuple[str, ...]:
        """All but the compiler's rule."""
        return tuple(name for name in self.names if name != RULE)

    def speedup(self, case: Case, name: str, over: str = RULE) -> SpeedUp | None:
        """Return the speed-up of a schedule over another in one case, None where nothing is known."""
        mine, other = self.period_us.get((case, name)), self.period_us.get((case, over))
        nominal = other / mine if mine and other else None
        ratios = self.ratios(case, name, over)
        if nominal is None and ratios is None:
            return None
        low, high = (None, None) if ratios is None else np.percentile(ratios, PERCENTILES).tolist()
        return SpeedUp(nominal=nominal, low=low, high=high)

    def ratios(self, case: Case, name: str, over: str = RULE) -> FloatArray | None:
        """Return the speed-up on every device, both schedules on the same one. Shape (S,)."""
        mine, other = self.bottleneck_us.get((case, name)), self.bottleneck_us.get((case, over))
        return None if mine is None or other is None or mine.size != other.size else other / mine

    def mean_speedup(self, name: str, over: str = RULE) -> SpeedUp | None:
        """Return the geometric mean over all cases; its range is that of the means on every single device."""
        found = [speedup.nominal for case in self.cases if (speedup := self.speedup(case, name, over)) is not None]
        nominal = [value for value in found if value is not None]
        ratios = [ratio for case in self.cases if (ratio := self.ratios(case, name, over)) is not None]
        if not nominal and not ratios:
            return None
        low = high = None
        if ratios and len({ratio.size for ratio in ratios}) == 1:
            means = np.exp(np.mean(np.log(ratios), axis=0))
            low, high = np.percentile(means, PERCENTILES).tolist()
        return SpeedUp(nominal=statistics.geometric_mean(nominal) if nominal else None, low=low, high=high)

    def slower_share(self, name: str) -> float | None:
        """Return in which fraction of all cases and devices a schedule is slower than the compiler's rule."""
        ratios = [ratio for case in self.cases if (ratio := self.ratios(case, name)) is not None]
        return float(np.mean(np.concatenate(ratios) < 1 - 1e-9)) if ratios else None


def pipelines_of(schedules: Rows, benchmarks: Rows, robustness: Rows) -> list[Pipelines]:
    """Sort rows of `schedules`, simulated rows of `benchmarks` and rows of `robustness` by device profile."""
    num_ops = {str(row["model"]): int(row["num_ops"]) for row in plain_rows(schedules)}
    timed = [row for row in plain_rows(benchmarks) if row["is_simulated"] and row["mode"] == "pipelined"]
    judged = plain_rows(robustness)
    devices = sorted({str(row["device"]) for row in (*timed, *judged)})
    return [_pipelines(device, _of(device, timed), _of(device, judged), num_ops) for device in devices]


def _of(device: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["device"] == device]


def _pipelines(device: str, timed: list[Row], judged: list[Row], num_ops: Mapping[str, int]) -> Pipelines:
    intervals: dict[tuple[Case, str], list[float]] = defaultdict(list)
    for row in timed:
        if row["interval_us"] is not None:
            intervals[_case(row), _name(row)].append(float(row["interval_us"]))
    names = {name for _, name in intervals} | {_name(row) for row in judged}
    cases = {case for case, _ in intervals} | {_case(row) for row in judged}
    return Pipelines(
        device=device,
        names=tuple(sorted(solver_order(names), key=lambda name: name == RULE)),
        cases=tuple(sorted(cases, key=lambda case: (num_ops.get(case.model, 0), case))),
        num_scenarios=max((int(row["num_scenarios"]) for row in judged), default=0),
        seeds=tuple(sorted({int(row["scenario_seed"]) for row in judged})),
        period_us={key: statistics.fmean(values) for key, values in intervals.items()},
        bottleneck_us={(_case(row), _name(row)): np.array(row["bottleneck_us"], dtype=np.float64) for row in judged},
        regrets={
            (_case(row), _name(row)): Regret(
                median=float(row["regret_median"]),
                percentile90=float(row["regret_p90"]),
                largest=float(row["regret_max"]),
            )
            for row in judged
        },
    )


def _case(row: Row) -> Case:
    return Case(model=str(row["model"]), num_stages=int(row["num_stages"]))


def _name(row: Row) -> str:
    solver, objective = str(row["solver"]), str(row["objective"])
    if objective == "throughput":
        return solver
    return PEAK if (solver, objective) == (OPTIMUM, "peak-memory") else f"{solver}, {objective}"
