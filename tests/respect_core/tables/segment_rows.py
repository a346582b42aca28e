"""Rows of the table `segments` that obey every rule."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.memory.part import subgraph
from respect_core.memory.rules import DEFAULT_RULES
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from tests.memory_oracles import MemoryOracle

Row = dict[str, Any]


def segment_rows(graph: DnnGraph, num_stages: int, stage_of: Sequence[int] | None = None) -> list[Row]:
    """One row a stage; the compiler compiled stage 0, refused stage 1 and saw no other."""
    stage_of = stage_of or BestOrderSolver().solve(Problem.of(graph, num_stages), SolveOptions()).stage_of
    assert stage_of is not None
    return [_row(graph, stage_of, num_stages, stage) for stage in range(num_stages)]


def _row(graph: DnnGraph, stage_of: Sequence[int], num_stages: int, stage: int) -> Row:
    ops = [v for v, k in enumerate(stage_of) if k == stage]
    inputs, outputs = crossing(graph, stage_of, stage)
    name = f"{graph.name}_segment_{stage}_of_{num_stages}.tflite"
    return {
        "model": graph.name,
        "model_ops": graph.num_ops,
        "num_stages": num_stages,
        "objective": "throughput",
        "device": "usb3",
        "solver": "best-order",
        "stage": stage,
        "file_name": name,
        "sha256": hashlib.sha256(name.encode()).hexdigest(),
        "file_bytes": 10**6,
        "ops": ops,
        "num_ops": len(ops),
        "unsupported_ops": 0,
        "param_bytes": sum(int(graph.param_bytes[v]) for v in ops),
        "storage_bytes": 1000,
        "input_bytes": sum(int(graph.tensor_bytes[t]) for t in inputs),
        "output_bytes": sum(int(graph.tensor_bytes[t]) for t in outputs),
        "input_names": [graph.tensor_names[t] for t in inputs],
        "output_names": [graph.tensor_names[t] for t in outputs],
        "fits_pycoral": False,
        "is_verified": True,
        "kernel_mode": "reference",
        "peak_activation_bytes": _peak(graph, ops),
        "order_method": None,
        **_compiler(stage),
    }


def _peak(graph: DnnGraph, ops: Sequence[int]) -> int | None:
    """What the ops need in the order of their indices, where that is one."""
    if not graph.is_topological(range(graph.num_ops)):
        return None
    part = subgraph(graph, ops)
    return max(MemoryOracle(part, DEFAULT_RULES).profile(range(part.num_ops))[0])


def _compiler(stage: int) -> Row:
    facts = ("on_chip_bytes", "on_chip_remaining_bytes", "off_chip_bytes", "edge_tpu_ops", "cpu_ops")
    nothing = dict.fromkeys((*facts, "compile_seconds", "edge_tpu_subgraphs", "compiler_version"))
    if stage == 0:
        return {
            **dict.fromkeys(facts, 3), "compiler_status": "compiled", "compiler_version": "16.0",
            "compile_seconds": 0.5, "edge_tpu_subgraphs": 1, "message": "",
        }  # fmt: skip
    if stage == 1:
        return {
            **nothing, "compiler_status": "crashed", "compiler_version": "16.0", "compile_seconds": 0.5,
            "message": "segment 1 was not compiled",
        }  # fmt: skip
    return {**nothing, "compiler_status": "not_run", "message": ""}


def crossing(graph: DnnGraph, stage_of: Sequence[int], stage: int) -> tuple[list[int], list[int]]:
    """Tensors that a stage receives and sends, straight from their definition."""
    inputs, outputs = [], []
    for t in range(graph.num_tensors):
        producer = int(graph.tensor_producer[t])
        made_in = None if producer == UNKNOWN else stage_of[producer]
        read_in = {stage_of[v] for v in graph.tensor_consumers[t]}
        if stage in read_in and made_in != stage:
            inputs.append(t)
        if made_in == stage and (graph.tensor_is_output[t] or read_in - {stage}):
            outputs.append(t)
    return inputs, outputs
