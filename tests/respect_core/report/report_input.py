"""Rows for reports: real solvers on small graphs, and rows without results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardware_runners.events import simulate_line
from respect_core.report.data import ReportInput
from respect_core.solve.comparison import compare, open_solver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.schedules import SCHEDULES

SOLVERS = ("order-file", "order-kahn", "order-dfs", "compiler-rule")
FACTS = {"Seeds": {"graphs": 7}, "Versions": {"ortools": "9.15"}, "Datasets": {"labels": "sha256 0123"}}


def schedule_rows(num_models: int = 3, stages: Sequence[int] = (2, 3)) -> list[dict[str, Any]]:
    """Solve small synthetic graphs with solvers that are always there; one of them lends itself as the policy."""
    rows = []
    for index in range(num_models):
        graph = generate_graph(SyntheticSpec(family="local", num_ops=12, seed=3), index)
        for num_stages in stages:
            problem = Problem.of(graph, num_stages)
            found = compare(problem, [open_solver(name) for name in SOLVERS], SolveOptions(time_limit_s=5))
            best = min(row["peak_param_bytes"] for row in found)
            for row in found:
                row["gap_to_best"] = row["peak_param_bytes"] / best - 1
            rows += [*found, {**found[2], "solver": "policy"}, {**found[1], "solver": "ilp", "status": "feasible"}]
    return SCHEDULES.table(rows).to_pylist()


def without_result(row: dict[str, Any], solver: str, status: str) -> dict[str, Any]:
    """Return the row of a solver that found nothing."""
    kept = ("model", "num_ops", "num_stages", "objective", "device", "solver_version", "solve_seconds", "seed")
    empty: dict[str, Any] = dict.fromkeys(SCHEDULES.column_names)
    return {
        **empty,
        **{name: row[name] for name in kept},
        "solver": solver,
        "status": status,
        "canonical": False,
        "message": "no time left",
    }


def benchmark_rows(schedules: Sequence[dict[str, Any]], *, is_simulated: bool = True) -> list[dict[str, Any]]:
    """Simulate every schedule as a runner would."""
    rows = []
    for row in schedules:
        if row["time_us"] is None:
            continue
        times = [round(time * 1000) for time in row["time_us"]]
        trace = simulate_line(times, [1] * (len(times) - 1), 3)
        for item in range(3):
            ends = [leave[-1] for leave in trace.leave_ns]
            rows.append(
                {
                    **{name: row[name] for name in ("model", "num_stages", "objective", "solver", "device")},
                    "runner": "simulated" if is_simulated else "coral",
                    "is_simulated": is_simulated,
                    "mode": "pipelined",
                    "item": item,
                    "latency_us": (ends[item] - trace.start_ns[item][0]) / 1000,
                    "interval_us": (ends[item] - ends[item - 1]) / 1000 if item else None,
                    "host": "Linux x86_64",
                    "energy_uj_per_inference": None,
                    "energy_window_us": None,
                    "energy_source": None,
                    "versions": "simulator 1",
                }
            )
    return BENCHMARKS.table(rows).to_pylist()


def training_rows(epochs: int = 4, run_id: str = "run-a") -> list[dict[str, Any]]:
    """Return a plausible training curve."""
    return [
        {
            "run_id": run_id,
            "epoch": epoch,
            "train_cost": 0.3 / (1 + epoch),
            "baseline_cost": 0.31 / (1 + epoch),
            "validation_cost": 0.29 / (1 + epoch),
            "validation_gap": 0.2 / (1 + epoch),
            "gradient_norm": 1.0,
            "baseline_replaced": epoch % 2 == 0,
            "epoch_seconds": 1.5,
        }
        for epoch in range(epochs)
    ]


def whole_input() -> ReportInput:
    """Return an input in which nothing is missing."""
    schedules = schedule_rows()
    return ReportInput(
        schedules=SCHEDULES.table(schedules),
        benchmarks=BENCHMARKS.table(benchmark_rows(schedules)),
        training=training_rows(),
        facts=FACTS,
        created="2026-11-29",
    )
