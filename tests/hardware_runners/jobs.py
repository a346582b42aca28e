"""Job folders for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hardware_runners.job import GRAPH_FILE, Job, write_job
from hardware_runners.simulated import profile_constants
from respect_core.device import DeviceProfile, load_profile
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.sources.graph_json import graph_to_json


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
