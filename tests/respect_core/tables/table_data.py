"""Small tables that obey every rule, and ways to spoil them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from respect_core.device_constants import load_known_profile
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.memory.rewrite_search import RewriteOptions
from respect_core.memory.study import ORDER_SOLVERS, memory_row, open_order_solver, study_order
from respect_core.solve.orders import SIMPLE_ORDERS, BestOrderSolver, OrderSolver
from respect_core.solve.protocol import Problem, SolveOptions, gap_of, result_of, result_row
from respect_core.solve.robust_rows import robustness_rows
from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.generalisation import GENERALISATION, METHODS
from respect_core.tables.graph_rows import GraphTables, graphs_to_tables
from respect_core.tables.labels import LABEL_TIMINGS, LABELS
from respect_core.tables.memory import MEMORY
from respect_core.tables.robustness import ROBUSTNESS
from respect_core.tables.schedules import SCHEDULES
from respect_core.tables.segments import SEGMENTS
from respect_core.tables.sweeps import SWEEPS
from respect_core.tables.table import TableSchema
from respect_core.tables.training import TRAINING
from respect_core.tables.validation import VALIDATION
from tests.oracles import brute_force
from tests.respect_core.tables.segment_rows import segment_rows

Row = dict[str, Any]
NUM_STAGES = (1, 2, 3)


def small_graph(name: str, seed: int, num_ops: int = 6) -> DnnGraph:
    """A random graph: op v > 0 reads one or two earlier ops; every op makes one tensor; one graph input."""
    rng = np.random.default_rng(seed)
    readers: list[set[int]] = [set() for _ in range(num_ops)]
    for v in range(1, num_ops):
        for u in rng.choice(v, size=min(v, int(rng.integers(1, 3))), replace=False).tolist():
            readers[u].add(v)
    return DnnGraph(
        name=name,
        source="synthetic",
        op_names=tuple(f"op{v}" for v in range(num_ops)),
        op_kinds=("conv2d",) * num_ops,
        param_bytes=rng.integers(1, 5000, num_ops),
        macs=rng.integers(0, 10**6, num_ops),
        compiled_bytes=np.full(num_ops, UNKNOWN),
        always_streamed_bytes=np.zeros(num_ops, dtype=np.int64),
        op_time_us=np.full(num_ops, np.nan),
        tensor_names=("in", *(f"t{v}" for v in range(num_ops))),
        tensor_bytes=rng.integers(1, 5000, num_ops + 1),
        tensor_producer=np.array([UNKNOWN, *range(num_ops)]),
        tensor_consumers=((0,), *(tuple(r) for r in readers)),
        tensor_is_output=np.array([False, *(not r for r in readers)]),
    )


def small_graphs(count: int = 3) -> dict[str, DnnGraph]:
    return {f"g{i}": small_graph(f"g{i}", seed=i) for i in range(count)}


def renamed(graphs: Sequence[DnnGraph]) -> dict[str, DnnGraph]:
    """Give drawn graphs distinct names."""
    return {f"g{i}": dataclasses.replace(graph, name=f"g{i}") for i, graph in enumerate(graphs)}


def graph_tables(graphs: dict[str, DnnGraph]) -> GraphTables:
    return graphs_to_tables(graphs.values(), "local")


class Brute:
    """Brute force as a solver."""

    name, version = "brute", "1"

    def solve(self, problem: Problem, options: SolveOptions) -> Any:
        best = brute_force(problem)
        if best is None:
            return result_of(self, problem, None, status="infeasible", solve_seconds=0.25)
        return result_of(self, problem, best.stage_of, status="optimal", solve_seconds=0.25, canonical=True)


def label_row(graph: DnnGraph, num_stages: int) -> Row:
    problem = Problem.of(graph, num_stages)
    result = Brute().solve(problem, SolveOptions())
    baseline = BestOrderSolver().solve(problem, SolveOptions()).numbers
    assert result.numbers is not None
    assert baseline is not None
    return {
        "graph_id": graph.name,
        "num_stages": num_stages,
        "objective": "peak-memory",
        "solver": "brute",
        "solver_version": "1",
        "status": "optimal",
        "canonical": True,
        "stage_of": list(result.stage_of),
        "peak_param_bytes": result.numbers.peak_param_bytes,
        "communication_bytes": result.numbers.communication_bytes,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "baseline_peak_param_bytes": baseline.peak_param_bytes,
        "baseline_communication_bytes": baseline.communication_bytes,
    }


def label_rows(graphs: dict[str, DnnGraph], num_stages: Sequence[int] = NUM_STAGES) -> list[Row]:
    return [label_row(graph, K) for graph in graphs.values() for K in num_stages if graph.num_ops >= K]


def timing_rows(labels: list[Row]) -> list[Row]:
    keys = ("graph_id", "num_stages", "objective")
    return [{**{k: row[k] for k in keys}, "time_limit_s": 5.0, "solve_seconds": 0.5} for row in labels]


def schedule_rows(graphs: dict[str, DnnGraph], objectives: Sequence[str] = ("peak-memory", "throughput")) -> list[Row]:
    """Rows of the simple orders and of brute force."""
    solvers = [*(OrderSolver(name, order) for name, order in SIMPLE_ORDERS.items()), Brute()]
    out = []
    for graph in graphs.values():
        for objective in objectives:
            problem = Problem.of(graph, 3, objective)  # type: ignore[arg-type]
            results = [solver.solve(problem, SolveOptions()) for solver in solvers]
            bound = max(r.lower_bound for r in results if r.lower_bound is not None)
            for result in results:
                row = result_row(problem, result)
                row["gap_to_best"] = None if result.value is None else gap_of(result.value[0], bound)
                out.append({**row, "seed": 0})
    return out


def judged_rows(graphs: dict[str, DnnGraph], schedules: list[Row], num_scenarios: int = 12) -> list[Row]:
    """Every schedule on a few devices."""
    known = load_known_profile("usb3")
    out = []
    for name, graph in graphs.items():
        mine = [row for row in schedules if row["model"] == name]
        out += robustness_rows(Problem.of(graph, 3, "throughput"), mine, known, num_scenarios, 1)
    return out


def benchmark_rows(modes: Sequence[str] = ("latency", "pipelined"), items: int = 4) -> list[Row]:
    out = []
    for mode in modes:
        for item in range(items):
            between = 10.0 if mode == "latency" else 4.0
            out.append(
                {
                    "model": "m",
                    "num_stages": 3,
                    "objective": "peak-memory",
                    "solver": "exact",
                    "runner": "simulated",
                    "is_simulated": True,
                    "device": "usb3",
                    "mode": mode,
                    "item": item,
                    "latency_us": 10.0,
                    "interval_us": between if item else None,
                    "energy_uj_per_inference": None,
                    "energy_window_us": None,
                    "energy_source": None,
                    "host": "a host",
                    "versions": "1",
                }
            )
    return out


def training_rows(epochs: int = 3) -> list[Row]:
    return [
        {
            "run_id": "r",
            "epoch": epoch,
            "train_cost": 0.5,
            "baseline_cost": 0.4,
            "validation_cost": 0.3,
            "validation_gap": 0.1,
            "gradient_norm": 1.0,
            "baseline_replaced": epoch == 2,
            "epoch_seconds": 2.0,
        }
        for epoch in range(1, epochs + 1)
    ]


def validation_rows() -> list[Row]:
    points = [("best-of", 50), ("imitation", 1), ("imitation", 2)]
    return [
        {"run_id": "r", "phase": phase, "step": step, "set_name": name, "problems": 3, "mean_gap": 0.1}
        for phase, step in points
        for name in ("held-out", "wide-30")
    ]


def sweep_rows() -> list[Row]:
    return [
        {
            "sweep": "s",
            "variant": variant,
            "training_seed": seed,
            "set_name": name,
            "problems": 3,
            "mean_gap": 0.1,
            "num_epochs": 2,
            "is_refined": False,
            "train_seconds": 1.5,
            "run_id": "r",
        }
        for variant in ("small", "usual")
        for seed in (0, 1)
        for name in ("all", "wide-30")
    ]


def generalisation_rows() -> list[Row]:
    return [
        {
            "policy": "p",
            "changed": changed,
            "value": value,
            "point": point,
            "method": method,
            "num_graphs": 4,
            "num_proven": 3,
            "mean_gap": 0.01 * place,
            "worst_gap": 0.02 * place,
        }
        for changed, values in (("ops", ("30", "60", "120")), ("weights", ("usual", "heavy")))
        for point, value in enumerate(values)
        for place, method in enumerate(METHODS)
    ]


def memory_rows(graphs: dict[str, DnnGraph]) -> list[Row]:
    """Every graph with and without rewriting, by both solvers."""
    return [
        memory_row(study_order(graph, solver=open_order_solver(solver), rewriting=rewriting, on_chip_bytes=5000), name)
        for name, graph in graphs.items()
        for solver in ORDER_SOLVERS
        for rewriting in (None, RewriteOptions())
    ]


def valid_tables() -> dict[str, pa.Table]:
    """One valid table a schema."""
    graphs = small_graphs()
    tables, labels = graph_tables(graphs), label_rows(graphs)
    schedules = schedule_rows(graphs)
    return {
        "graphs": tables.graphs,
        "ops": tables.ops,
        "tensors": tables.tensors,
        "labels": LABELS.table(labels),
        "label_timings": LABEL_TIMINGS.table(timing_rows(labels)),
        "schedules": SCHEDULES.table(schedules),
        "robustness": ROBUSTNESS.table(judged_rows(graphs, schedules)),
        "segments": SEGMENTS.table([row for graph in graphs.values() for row in segment_rows(graph, 3)]),
        "memory": MEMORY.table(memory_rows(graphs)),
        "benchmarks": BENCHMARKS.table(benchmark_rows()),
        "training": TRAINING.table(training_rows()),
        "validation": VALIDATION.table(validation_rows()),
        "sweeps": SWEEPS.table(sweep_rows()),
        "generalisation": GENERALISATION.table(generalisation_rows()),
    }


def spoiled(schema: TableSchema, table: pa.Table, row: int, change: dict[str, Any] | Callable[[Row], Row]) -> pa.Table:
    """Change one row of a table; the result keeps the table's order."""
    rows = table.to_pylist()
    rows[row] = {**rows[row], **(change(rows[row]) if callable(change) else change)}
    columns = [pa.array([r[c.name] for r in rows], type=c.type) for c in schema.columns]
    return pa.Table.from_arrays(columns, schema=schema.arrow)


def broken(column: pa.Array) -> list[int]:
    """The rows that a domain column complains about."""
    if column.type == pa.bool_():
        return [i for i, value in enumerate(column.to_pylist()) if value is False]
    return [i for i, value in enumerate(column.to_pylist()) if value is not None]
