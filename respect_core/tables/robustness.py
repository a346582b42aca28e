"""Table `robustness`: one row a schedule that was judged on plausible devices."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from respect_core.objective import OBJECTIVES
from respect_core.tables.table import Column, TableSchema, count, items, real, text

ROBUSTNESS: Final = TableSchema(
    name="robustness",
    version=1,
    doc=(
        "One row per schedule of the table `schedules` that was judged on devices whose constants were drawn from "
        "their plausible ranges; simulated throughout."
    ),
    key=("model", "num_stages", "objective", "device", "solver"),
    columns=(
        text("model", "Name of the model."),
        count("num_stages", "Edge TPUs in the pipeline.", minimum=1),
        text("objective", "What the schedule minimised.", allowed=OBJECTIVES),
        text("device", "Profile from whose ranges the devices were drawn."),
        text("solver", "Who made the schedule."),
        Column(
            name="scenario_seed",
            type=pa.int64(),
            doc="Seed of the devices; not the one by which robust schedules were chosen.",
            minimum=0,
        ),
        count("num_scenarios", "Devices drawn.", minimum=1),
        items("bottleneck_us", pa.float64(), "Largest stage time on every device, in the order drawn.", unit="µs"),
        items("best_us", pa.float64(), "The smallest one known on that device, by any cut or schedule.", unit="µs"),
        real("regret_median", "Median over the devices of bottleneck / best - 1."),
        real("regret_p90", "The smallest value that at least 90 % of them do not exceed."),
        real("regret_max", "The largest of them."),
    ),
)
