"""Job folders for tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from hardware_runners.job import GRAPH_FILE, Job, JobSegment, TensorSpec, write_job
from hardware_runners.jobs.format import REFERENCE_FILE
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.jobs.reference import pack_reference
from hardware_runners.simulated import profile_constants
from respect_core.device import DeviceProfile, load_profile
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.segments.dataflow import first_dataflow_fault
from respect_core.segments.interpreter import tensor_specs
from respect_core.segments.items import random_items
from respect_core.segments.model_file import open_model
from respect_core.segments.slice import slice_model
from respect_core.segments.verify import run_model
from respect_core.sources.graph_json import graph_to_json
from tests.tflite_models import M, RunnableModel, write_model


def chain_graph(num_ops: int = 6) -> DnnGraph:
    """Return a chain of convolutions of growing size."""
    return DnnGraph(
        name="chain",
        source="json",
        op_names=tuple(f"op{v}" for v in range(num_ops)),
        op_kinds=("conv2d",) * num_ops,
        param_bytes=np.arange(1, num_ops + 1) * 2**20,
        macs=np.arange(1, num_ops + 1) * 10**7,
        compiled_bytes=np.full(num_ops, UNKNOWN),
        always_streamed_bytes=np.zeros(num_ops),
        op_time_us=np.full(num_ops, np.nan),
        tensor_names=tuple(f"t{v}" for v in range(num_ops)),
        tensor_bytes=np.full(num_ops, 50_000),
        tensor_producer=np.arange(num_ops),
        tensor_consumers=tuple((v + 1,) if v + 1 < num_ops else () for v in range(num_ops)),
        tensor_is_output=np.arange(num_ops) == num_ops - 1,
    )


def write_graph_job(
    folder: Path,
    graph: DnnGraph,
    stage_of: Sequence[int],
    num_stages: int,
    profile: DeviceProfile | None = None,
    solver: str = "order-kahn",
) -> Job:
    """Write the job of a schedule of ``graph``."""
    return write_job(
        folder,
        model=graph.name,
        num_stages=num_stages,
        objective="throughput",
        solver=solver,
        stage_of=stage_of,
        profile=profile_constants(profile or load_profile("usb3")),
        files={GRAPH_FILE: graph_to_json(graph).encode()},
    )


def skipping_model() -> M:
    """Return a model of two inputs and four ops whose first result skips the middle stage of `SKIPPING_STAGES`."""
    net = RunnableModel(random.Random(0))
    x, y = net.given("x:0", 4), net.given("y", 4)
    a = net.add("a", x, y)
    b = net.dense("b", a, 4)
    return net.model([net.add("d", net.dense("c", b, 4), a)])


SKIPPING_STAGES = [0, 1, 2, 2]


def write_segment_job(
    folder: Path,
    model: M | bytes,
    stage_of: Sequence[int],
    num_stages: int,
    *,
    num_items: int = 3,
    with_whole: bool = True,
    with_reference: bool = True,
    with_compiled: bool = True,
    damage: dict[int, bytes] | None = None,
) -> Job:
    """Write the job of a model that is cut into segments; "compiled" ones are copies under another name.

    Args:
        folder: Where to; its parent takes the model's file.
        model: The model, or the content of its file.
        stage_of: Stage of every op.
        num_stages: Number of stages.
        num_items: Reference items.
        with_whole: Whether the uncut model is in it.
        with_reference: Whether reference items are in it.
        with_compiled: Whether compiled segments are in it.
        damage: Other content for the segments of some stages.
    """
    path = folder.parent / "net.tflite"
    path.write_bytes(model if isinstance(model, bytes) else write_model(model))
    opened = open_model(path)
    segments = slice_model(opened, stage_of, num_stages)
    specs = {name: TensorSpec(**asdict(spec)) for name, spec in tensor_specs(opened).items()}
    files: dict[str, bytes] = {}
    parts = []
    for segment in segments:
        content = (damage or {}).get(segment.stage, segment.content)
        compiled = segment.file_name.replace(".tflite", "_edgetpu.tflite") if with_compiled else None
        files[segment.file_name] = content
        if compiled is not None:
            files[compiled] = content
        parts.append(
            JobSegment(
                segment.file_name,
                compiled,
                tuple(specs[name] for name in segment.inputs),
                tuple(specs[name] for name in segment.outputs),
            )
        )
    if with_whole:
        files |= {
            "net.tflite": path.read_bytes(),
            **({"net_edgetpu.tflite": path.read_bytes()} if with_compiled else {}),
        }
    inputs = tuple(specs[name] for name in opened.input_names)
    outputs = tuple(specs[name] for name in opened.output_names)
    if with_reference:
        items = random_items([tensor_specs(opened)[spec.name] for spec in inputs], num_items, 0)
        files[REFERENCE_FILE] = pack_reference(items, run_model(path, items))
    return write_job(
        folder,
        model="net",
        num_stages=num_stages,
        objective="throughput",
        solver="by-hand",
        stage_of=stage_of,
        profile=profile_constants(load_profile("usb3")),
        files={**files, GRAPH_FILE: graph_to_json(opened.graph).encode()},
        suits_pipeline=first_dataflow_fault(segments, opened.input_names, opened.output_names) is None,
        plan=TimingPlan(warm_up=1, repeats=2, items=6),
        whole=JobSegment(
            "net.tflite" if with_whole else None,
            "net_edgetpu.tflite" if with_whole and with_compiled else None,
            inputs,
            outputs,
        ),
        segments=parts,
        reference=REFERENCE_FILE if with_reference else None,
    )
