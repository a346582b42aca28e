"""Rows for the sections on pipelines: two small graphs cut for throughput, judged, simulated, split and measured."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from respect_core.device_constants import load_known_profile
from respect_core.report.data import ReportInput
from respect_core.solve.comparison import compare, open_solver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.robust_rows import robustness_rows
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.respect_core.report.report_input import benchmark_rows, whole_input
from tests.respect_core.tables.table_data import generalisation_rows, segment_rows, small_graphs

SOLVERS = ("exact", "local-search", "robust-p90", "balanced", "profiling", "compiler-rule")
STAGES = (2, 3)
NUM_SCENARIOS = 30
SEED = 5

Rows = list[dict[str, Any]]


@cache
def pipeline_rows() -> tuple[Rows, Rows]:
    """Return rows of `schedules` and of `robustness`."""
    known, options = load_known_profile("usb3"), SolveOptions(time_limit_s=20)
    schedules: Rows = []
    judged: Rows = []
    for index in range(2):
        graph = generate_graph(SyntheticSpec(family="local", num_ops=12, seed=7), index)
        # Bytes so small hide behind the overhead of a stage: make them those of a network.
        graph = replace(graph, param_bytes=graph.param_bytes * 1500, macs=graph.param_bytes * 20_000)
        for num_stages in STAGES:
            problem = Problem.of(graph, num_stages, "throughput")
            rows = compare(problem, [open_solver(name) for name in SOLVERS], options)
            rows += compare(replace(problem, objective="peak-memory"), [open_solver("exact")], options)
            schedules += rows
            judged += robustness_rows(problem, rows, known, NUM_SCENARIOS, SEED)
    return schedules, judged


def measured_rows(model: str = "small-int8") -> Rows:
    """Return what a run on the host's processor leaves: 2 ms between items, 5 ms alone."""
    return [
        {
            "model": model,
            "num_stages": 4,
            "objective": "throughput",
            "solver": "auto",
            "runner": "litert",
            "is_simulated": False,
            "device": "cpu x86_64",
            "mode": mode,
            "item": item,
            "latency_us": 5000.0,
            "interval_us": (2000.0 if mode == "pipelined" else 5000.0) if item else None,
            "energy_uj_per_inference": None,
            "energy_window_us": None,
            "energy_source": None,
            "host": "Linux x86_64",
            "versions": "litert 2",
        }
        for mode in ("latency", "pipelined")
        for item in range(3)
    ]


def pipeline_input() -> ReportInput:
    """Return an input with all sections."""
    schedules, judged = pipeline_rows()
    return replace(
        whole_input(),
        pipeline_schedules=schedules,
        pipeline_benchmarks=benchmark_rows(schedules),
        robustness=judged,
        measured=measured_rows(),
        segments=[row for graph in small_graphs().values() for row in segment_rows(graph, 3)],
        generalisation=generalisation_rows(),
    )
