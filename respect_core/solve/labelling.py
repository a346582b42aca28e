"""Labels: exact schedules of many graphs, as rows of the tables `labels` and `label_timings`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.objective import Objective
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.registry import get_solver
from respect_core.tables.fingerprint import fingerprint

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LabelConfig:
    """How graphs are labelled."""

    num_stages: tuple[int, ...] = (4, 5, 6)
    """One label for each of these K."""
    objective: Objective = "peak-memory"
    solver: str = "ilp"
    """A solver that proves optimality."""
    time_limit_s: float = 30.0
    """Deadline of one solve."""
    seed: int = 0
    device: str = "usb3"
    """Profile; it matters for `throughput` only."""

    def __post_init__(self) -> None:
        if not self.num_stages:
            raise BadInputError("labels need at least one number of stages")

    @property
    def fingerprint(self) -> str:
        """Digest of these settings and of the solver's version."""
        return fingerprint(**asdict(self), version=get_solver(self.solver).version)


def label_graphs(graphs: Iterable[DnnGraph], config: LabelConfig) -> tuple[list[Row], list[Row]]:
    """Solve every graph for every K.

    Args:
        graphs: Graphs of at least max(K) ops.
        config: Settings; each solve is canonical, so labels do not depend on luck.

    Returns:
        Rows of `labels` and of `label_timings`. A solve that found nothing in time has a timing and no label.

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
            baseline = baseline_solver.solve(problem, options).numbers
            if result.numbers is None or baseline is None:
                continue
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
