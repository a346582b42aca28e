"""Table `memory`: one row a (network, counting rule, solver, with or without rewriting)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from respect_core.memory.rules import PLACEMENTS
from respect_core.tables.table import TableSchema, count, flag, items, real, size, text

STATUSES: Final = ("optimal", "feasible")

MEMORY: Final = TableSchema(
    name="memory",
    version=1,
    doc="One row per network, counting rule and solver: the order of its ops that needs the least activation memory.",
    key=("model", "part", "concat", "elementwise", "counts_inputs", "solver", "may_rewrite"),
    columns=(
        text("model", "Name of the network."),
        text("part", "Ops of it that were ordered, as 5-32 with both ends included; `all` for all of them."),
        count("num_ops", "Ops of the part.", minimum=1),
        text("concat", "Where a concatenation writes: over inputs that die there, or separately.", allowed=PLACEMENTS),
        text("elementwise", "Where an elementwise op writes, likewise.", allowed=PLACEMENTS),
        flag("counts_inputs", "True where graph inputs take room."),
        text("solver", "Who ordered the ops."),
        text("solver_version", "Version of the solver."),
        flag("may_rewrite", "True where the network could be rewritten, partial results being summed up in place."),
        count("rewritten_concats", "Concatenations that were taken apart: those that lower the peak."),
        count("ordered_ops", "Ops after rewriting.", minimum=1),
        text("status", "`optimal` if no order of these ops has a smaller peak.", allowed=STATUSES),
        size("peak_bytes", "Largest sum of live activations over the order."),
        size("file_order_peak_bytes", "The same for the part as it is, in the order of its ops."),
        size("lower_bound", "Proven: every order of these ops needs as much."),
        real("gap", "(peak - bound) / bound, null if the bound is 0 and the peak is not.", nullable=True),
        size("on_chip_bytes", "On-chip memory for the traffic."),
        size("traffic_bytes", "Off-chip traffic of the order under replacement by the farthest next use."),
        size("file_order_traffic_bytes", "The same for the part as it is, in the order of its ops."),
        items("order", pa.int32(), "The order: indices of the ops after rewriting."),
        real("solve_seconds", "Seconds of the solver, with the search for rewritings.", unit="s"),
    ),
)
