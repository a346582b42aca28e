"""The rows of the table `segments` of one split model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from respect_core.graph import DnnGraph
from respect_core.objective import Objective
from respect_core.segments.model_file import TfliteModel
from respect_core.segments.slice import Segment
from respect_core.sources.edgetpu_ops import op_support
from respect_core.tables.segments import NOT_COMPILED


def segment_rows(
    model: TfliteModel,
    segments: Sequence[Segment],
    *,
    objective: Objective,
    device: str,
    solver: str,
    fits_pycoral: bool,
    kernel_mode: str | None,
    compiler: Sequence[Mapping[str, Any]] = (),
    peak_activation_bytes: Sequence[int] | None = None,
    order_method: str | None = None,
    name: str | None = None,
) -> list[dict[str, Any]]:
    """Return one row a segment.

    Args:
        model: The whole model.
        segments: Its segments, from `slice_model`.
        objective: What the schedule minimised.
        device: Name of the device's profile.
        solver: Who made the schedule.
        fits_pycoral: The split keeps to the dataflow of pycoral's pipeline runner (`first_dataflow_fault` is None).
        kernel_mode: Kernels of the interpreter that found the segments bit-identical to the model, None if none did.
        compiler: Columns of every segment that the compiler fills, in their order; none if it was not run.
        peak_activation_bytes: Of every segment, in the order of its file.
        order_method: Who ordered the ops of the files, None for the model's own order.
        name: Name of the model in the table, that of its file unless given.

    Returns:
        Rows for `SEGMENTS.table`.
    """
    supported = [one.supported for one in op_support(model.content)]
    graph = model.graph
    rows = []
    for k, segment in enumerate(segments):
        ops = list(segment.ops)
        rows.append(
            {
                "model": name or model.name,
                "model_ops": graph.num_ops,
                "num_stages": len(segments),
                "objective": objective,
                "device": device,
                "solver": solver,
                "stage": segment.stage,
                "file_name": segment.file_name,
                "sha256": hashlib.sha256(segment.content).hexdigest(),
                "file_bytes": len(segment.content),
                "ops": ops,
                "num_ops": len(ops),
                "unsupported_ops": sum(not supported[v] for v in ops),
                "param_bytes": int(np.sum(graph.param_bytes[ops])),
                "storage_bytes": _storage_bytes(model, ops),
                "input_bytes": _bytes_of(graph, segment.inputs),
                "output_bytes": _bytes_of(graph, segment.outputs),
                "input_names": list(segment.inputs),
                "output_names": list(segment.outputs),
                "fits_pycoral": fits_pycoral,
                "is_verified": kernel_mode is not None,
                "kernel_mode": kernel_mode,
                "peak_activation_bytes": None if peak_activation_bytes is None else peak_activation_bytes[k],
                "order_method": order_method,
                **(compiler[k] if compiler else NOT_COMPILED),
            }
        )
    return rows


def _storage_bytes(model: TfliteModel, ops: Sequence[int]) -> int:
    """Return the bytes of the constants of some ops, each buffer of the file once."""
    tensors, file_ops = model.content.tensors, model.content.file.ops
    read = [tensors[t] for v in ops for t in file_ops[v].inputs if t >= 0]
    return sum({tensor.buffer: tensor.data_bytes for tensor in read}.values())


def _bytes_of(graph: DnnGraph, names: Sequence[str]) -> int:
    size_of = dict(zip(graph.tensor_names, graph.tensor_bytes.tolist(), strict=True))
    return sum(size_of[name] for name in names)
