"""Table `generalisation`: one row per point of the generalisation test and method."""

from __future__ import annotations

from typing import Final

from respect_core.tables.table import TableSchema, count, real, text

GREEDY: Final = "policy: 8 greedy"
POLICY: Final = "policy: 64 samples, moves"
FIT_ORDERS: Final = "fit orders, moves"
SIMPLE_ORDERS: Final = "best simple order"

METHODS: Final = (GREEDY, POLICY, FIT_ORDERS, SIMPLE_ORDERS)
"""The network alone, the solver `policy`, as many starts without the network, and the simple orders."""

GENERALISATION = TableSchema(
    name="generalisation",
    version=1,
    doc="One row per point of the generalisation test and method: how far from the optimal peak memory the policy in "
    "use stays on graphs that differ from its training's in one thing.",
    key=("changed", "value", "method"),
    sort=("changed", "point", "method"),
    columns=(
        text("policy", "Version of the policy, a digest of its weights."),
        text("changed", "What differs from the training's graphs."),
        text("value", "What it is at this point."),
        count("point", "Place of the point among those of what is changed."),
        text("method", "Who made the schedules, each with the same graphs.", allowed=METHODS),
        count("num_graphs", "Graphs of the point.", minimum=1),
        count("num_proven", "Graphs whose optimal peak is proven; gaps of the others count to a lower bound."),
        real("mean_gap", "Mean gap to the optimal peak memory, or to its lower bound where that is not proven."),
        real("worst_gap", "Largest gap of a graph."),
    ),
)
