"""Table `schedules`: one row a (model, number of stages, solver)."""

from __future__ import annotations

import pyarrow as pa

from respect_core.objective import OBJECTIVES
from respect_core.tables.labels import STATUSES
from respect_core.tables.table import Column, TableSchema, count, flag, items, real, size, text

SCHEDULES = TableSchema(
    name="schedules",
    version=1,
    doc="One row per model, number of stages, objective and solver, with every number a schedule is judged by.",
    key=("model", "num_stages", "objective", "device", "solver"),
    columns=(
        text("model", "Name of the model."),
        count("num_ops", "Ops of its graph.", minimum=1),
        count("num_stages", "Edge TPUs in the pipeline.", minimum=1),
        text("objective", "What was minimised.", allowed=OBJECTIVES),
        text("device", "Profile of the device and its link."),
        text("solver", "Who solved it."),
        text("solver_version", "Version of the solver."),
        text("status", "`optimal` only if every component is proven.", allowed=STATUSES),
        flag("canonical", "True where the stage vector is proven the lexicographically smallest optimum."),
        items("stage_of", pa.int16(), "Stage of every op, in op order; null without a schedule.", nullable=True),
        items("param_bytes", pa.int64(), "Parameter bytes of every stage.", unit="byte", nullable=True),
        items("boundary_bytes", pa.int64(), "Bytes crossing every boundary.", unit="byte", nullable=True),
        items("input_bytes", pa.int64(), "Bytes every stage receives.", unit="byte", nullable=True),
        items("output_bytes", pa.int64(), "Bytes every stage sends.", unit="byte", nullable=True),
        items("time_us", pa.float64(), "Modelled time of every stage.", unit="µs", nullable=True),
        size("peak_param_bytes", "Largest parameter bytes of a stage.", nullable=True),
        size("communication_bytes", "Sum of the boundary bytes.", nullable=True),
        real("bottleneck_us", "Largest modelled stage time.", unit="µs", nullable=True),
        real("latency_us", "Sum of the modelled stage times.", unit="µs", nullable=True),
        size("crossings", "(edge, boundary) pairs crossed.", unit="pair", nullable=True),
        real("lower_bound", "Proven bound on the first component (bytes, or µs for `throughput`).", nullable=True),
        real("gap", "(value - bound) / bound of the solver's own proof, null if it proves nothing.", nullable=True),
        real("gap_to_best", "(value - bound) / bound against the best bound any solver proved.", nullable=True),
        real("solve_seconds", "Seconds the solver took, without start-up and model building.", unit="s"),
        Column(name="seed", type=pa.int64(), doc="Seed of the solver.", minimum=0),
        text("message", "What to know about the row, usually empty."),
    ),
)
