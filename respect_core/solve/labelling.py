"""Labels: exact schedules of many graphs, as rows of the tables `labels` and `label_timings`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.objective import Objective
from respect_core.solve.label_batches import label_small_graphs
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.registry import get_solver
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.graph_rows import GraphTables, tables_to_graphs
from respect_core.tables.labels import LABEL_TIMINGS, LABELS

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LabelConfig:
    """How graphs are labelled.

    Raises:
        BadInputError: No number of stages, one twice, or one below 1.
    """

    num_stages: tuple[int, ...] = (4, 5, 6)
    """One label for each of these K."""
    objective: Objective = "peak-memory"
    solver: str = "exact"
    """A solver that proves optimality: `exact` (thousands of small graphs a second) or `ilp`."""
    time_limit_s: float = 30.0
    """Deadline of one solve."""
    seed: int = 0
    device: str = "usb3"
    """Profile; it matters for `throughput` only."""

    def __post_init__(self) -> None:
        if not self.num_stages:
            raise BadInputError("labels need at least one number of stages")
        if min(self.num_stages) < 1 or len(set(self.num_stages)) < len(self.num_stages):
            raise BadInputError(f"numbers of stages are {self.num_stages}, expected different ones of at least 1")

    @property
    def fingerprint(self) -> str:
        """Digest of these settings and of the solver's version."""
        return fingerprint(**asdict(self), version=get_solver(self.solver).version)


def label_tables(graphs: GraphTables, config: LabelConfig) -> tuple[pa.Table, pa.Table]:
    """Solve every graph for every K.

    Args:
        graphs: Graphs of at least max(K) ops.
        config: Settings. Solver `exact` labels graphs of up to 64 ops for `peak-memory` in compiled batches; all else
            is solved one by one.

    Returns:
        The tables `labels` and `label_timings`. Only what is proven optimal and canonical is a label; what a limit cut
        short has a timing and no label.

    Raises:
        BadInputError: A graph has fewer ops than stages.
    """
    parts: list[tuple[pa.Table, pa.Table]] = []
    if config.solver == "exact" and config.objective == "peak-memory":
        batch = label_small_graphs(
            graphs, config.num_stages, get_solver("exact").version, time_limit_s=config.time_limit_s
        )
        parts.append((batch.labels, batch.timings))
        graphs = only_graphs(graphs, batch.left)
    if graphs.graphs.num_rows or not parts:
        rows, timings = label_graphs(tables_to_graphs(graphs), config)
        parts.append((LABELS.table(rows), LABEL_TIMINGS.table(timings)))
    return (
        LABELS.sorted(pa.concat_tables(labels for labels, _ in parts)),
        LABEL_TIMINGS.sorted(pa.concat_tables(timings for _, timings in parts)),
    )


def only_graphs(tables: GraphTables, ids: pa.Array) -> GraphTables:
    """Return the rows of some graphs."""

    def chosen(table: pa.Table) -> pa.Table:
        return table.filter(pc.is_in(table["graph_id"], value_set=ids))

    return GraphTables(graphs=chosen(tables.graphs), ops=chosen(tables.ops), tensors=chosen(tables.tensors))


def label_graphs(graphs: Iterable[DnnGraph], config: LabelConfig) -> tuple[list[Row], list[Row]]:
    """Solve every graph for every K, one by one.

    Args:
        graphs: Graphs of at least max(K) ops.
        config: Settings; each solve is canonical, so labels do not depend on luck.

    Returns:
        Rows of `labels` and of `label_timings`.

    Raises:
        BadInputError: A graph has fewer ops than stages.
    """
    solver, baseline_solver = get_solver(config.solver), BestOrderSolver()
    options = SolveOptions(time_limit_s=config.time_limit_s, seed=config.seed, canonical=True)
    labels: list[Row] = []
    timings: list[Row] = []
    for graph in graphs:
        for num_stages in config.num_stages:
            problem = Problem.of(graph, num_stages, config.objective, device=config.device)
            result = solver.solve(problem, options)
            key = {"graph_id": graph.name, "num_stages": num_stages, "objective": config.objective}
            timings.append({**key, "time_limit_s": config.time_limit_s, "solve_seconds": result.solve_seconds})
            if result.numbers is None or result.status != "optimal" or not result.canonical:
                continue
            baseline = baseline_solver.solve(problem, SolveOptions()).numbers
            if baseline is None:
                raise RuntimeError(f"{graph.name!r} has no contiguous split into {num_stages} stages")
            labels.append(
                {
                    **key,
                    "solver": result.solver,
                    "solver_version": result.version,
                    "status": result.status,
                    "canonical": result.canonical,
                    "stage_of": result.stage_of,
                    "peak_param_bytes": result.numbers.peak_param_bytes,
                    "communication_bytes": result.numbers.communication_bytes,
                    "lower_bound": result.lower_bound,
                    "gap": result.gap,
                    "baseline_peak_param_bytes": baseline.peak_param_bytes,
                    "baseline_communication_bytes": baseline.communication_bytes,
                }
            )
    return labels, timings
