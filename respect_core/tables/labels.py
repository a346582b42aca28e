"""Tables `labels` (exact schedules, the same bytes on every run) and `label_timings` (what varies from run to run)."""

from __future__ import annotations

import pyarrow as pa

from respect_core.objective import OBJECTIVES
from respect_core.tables.table import TableSchema, count, flag, items, real, size, text

STATUSES = ("optimal", "feasible", "timeout", "infeasible")

LABELS = TableSchema(
    name="labels",
    version=1,
    doc="One row per (graph, number of stages): the exact schedule with its proof. What a limit cut short is not here.",
    key=("graph_id", "num_stages", "objective"),
    columns=(
        text("graph_id", "The graph."),
        count("num_stages", "Edge TPUs in the pipeline.", minimum=1),
        text("objective", "What was minimised.", allowed=OBJECTIVES),
        text("solver", "Who solved it."),
        text("solver_version", "Version of the solver."),
        text("status", "`optimal` only if every component is proven.", allowed=("optimal", "feasible")),
        flag("canonical", "True where the stage vector is proven the lexicographically smallest optimum."),
        items("stage_of", pa.int16(), "Stage of every op, in op order."),
        size("peak_param_bytes", "Largest parameter bytes of a stage."),
        size("communication_bytes", "Sum of the boundary bytes."),
        size("lower_bound", "Proven bound on the objective's first component, null if none.", nullable=True),
        real("gap", "(value - bound) / bound of the first component, null if not known.", nullable=True),
        size("baseline_peak_param_bytes", "Peak memory of the best simple order's optimal split."),
        size("baseline_communication_bytes", "Communication of that split."),
    ),
)

LABEL_TIMINGS = TableSchema(
    name="label_timings",
    version=1,
    doc="One row per solve: how long it took, even if a limit cut it short. Apart because it differs from run to run.",
    key=("graph_id", "num_stages", "objective"),
    columns=(
        text("graph_id", "The graph."),
        count("num_stages", "Edge TPUs in the pipeline.", minimum=1),
        text("objective", "What was minimised.", allowed=OBJECTIVES),
        real("time_limit_s", "Deadline the solver was given.", unit="s"),
        real(
            "solve_seconds",
            "Seconds the solver took, without model building; of graphs solved in a batch, the seconds of the batch "
            "divided by its solves.",
            unit="s",
        ),
    ),
)
