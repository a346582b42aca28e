"""Table `benchmarks`: one row a timed inference."""

from __future__ import annotations

from respect_core.objective import OBJECTIVES
from respect_core.tables.table import TableSchema, count, flag, real, text

BENCHMARKS = TableSchema(
    name="benchmarks",
    version=2,
    doc="One row per timed inference of one model under one schedule on one runner.",
    key=("model", "num_stages", "objective", "solver", "runner", "device", "mode", "item"),
    columns=(
        text("model", "Name of the model."),
        count("num_stages", "Edge TPUs in the pipeline.", minimum=1),
        text("objective", "What the schedule minimised.", allowed=OBJECTIVES),
        text("solver", "Who made the schedule."),
        text("runner", "What ran it: `simulated`, `litert` (on the host's processor) or `coral`."),
        flag("is_simulated", "True where the times were computed and nothing was run."),
        text("device", "Profile, devices and their link, or `cpu` and its name."),
        text("mode", "`latency`: one item at a time; `pipelined`: queues kept full.", allowed=("latency", "pipelined")),
        count("item", "Number of the inference, warm-up not counted."),
        real("latency_us", "From entering the first stage to leaving the last.", unit="µs"),
        real("interval_us", "Since the item before left the last stage, null for the first.", unit="µs", nullable=True),
        real(
            "energy_uj_per_inference",
            "Mean power of the full pipeline times the mean time between items.",
            unit="µJ",
            nullable=True,
        ),
        real("energy_window_us", "Time over which power was integrated.", unit="µs", nullable=True),
        text("energy_source", "What measured it; begins with `modelled` where nothing did.", nullable=True),
        text("host", "Operating system and processor of the host."),
        text("versions", "Versions of runner and runtime."),
    ),
)
