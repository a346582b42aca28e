"""Graphs and schedules for views."""

from __future__ import annotations

import json
from typing import Any

from respect_core.graph import DnnGraph
from respect_core.objective import evaluate
from respect_core.report.view_schedule import ShownSchedule
from respect_core.solve.protocol import Problem, SolveOptions, result_row
from respect_core.sources.graph_json import graph_from_json

HOSTILE = "<script>alert('x')</script>\"&:]]>\u202e\x07 名前 é"

FIVE = """{"name": "five", "ops": [
  {"name": "in:0", "kind": "input", "param_bytes": 0},
  {"name": "stem/conv;stem/bias", "kind": "conv2d", "param_bytes": 9437184, "macs": 81000000,
   "compiled_bytes": 9500000},
  {"name": "left", "kind": "depthwise_conv2d", "param_bytes": 300, "always_streamed_bytes": 64},
  {"name": "right", "kind": "conv2d", "param_bytes": 2097152, "macs": 5000000, "time_us": 12.5},
  {"name": "sum", "kind": "add", "param_bytes": 0}], "tensors": [
  {"name": "in", "bytes": 150528, "producer": "in:0", "consumers": ["stem/conv;stem/bias", "sum"]},
  {"name": "t", "bytes": 65536, "producer": "stem/conv;stem/bias", "consumers": ["left", "right"]},
  {"name": "l", "bytes": 1000, "producer": "left", "consumers": ["sum"]},
  {"name": "r", "bytes": 2000, "producer": "right", "consumers": ["sum"]},
  {"name": "out", "bytes": 10, "producer": "sum", "consumers": []}]}"""


def five_ops() -> DnnGraph:
    """Return a graph whose input is also read at its end."""
    return graph_from_json(FIVE)


def hostile_graph() -> DnnGraph:
    """Return a graph in which every name tries to break out."""
    content = json.loads(FIVE)
    names = {op["name"]: op["name"] + HOSTILE for op in content["ops"]}
    content["name"] += HOSTILE
    for op in content["ops"]:
        op.update(name=names[op["name"]], kind=op["kind"] + HOSTILE)
    for tensor in content["tensors"]:
        tensor["name"] += HOSTILE
        tensor.update(producer=names[tensor["producer"]], consumers=[names[c] for c in tensor["consumers"]])
    return graph_from_json(json.dumps(content))


def schedule_for(graph: DnnGraph, num_stages: int) -> ShownSchedule:
    """Cut the topological order into parts of about the same number of ops."""
    stage_of = [0] * graph.num_ops
    for place, v in enumerate(graph.topological_order.tolist()):
        stage_of[v] = place * num_stages // graph.num_ops
    return ShownSchedule(num_stages=num_stages, stage_of=tuple(stage_of), objective="throughput", solver="by hand")


def schedule_row(graph: DnnGraph, num_stages: int) -> dict[str, Any]:
    """Return what `respect schedule --json` prints for a graph."""
    from respect_core.solve.comparison import open_solver

    problem = Problem.of(graph, num_stages, "throughput")
    row = result_row(problem, open_solver("order-dfs").solve(problem, SolveOptions(time_limit_s=5)))
    evaluate(graph, row["stage_of"], num_stages, problem.profile)
    return row
