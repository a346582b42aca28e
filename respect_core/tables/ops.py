"""Table `ops`: one row an op of a graph."""

from __future__ import annotations

from respect_core.tables.table import TableSchema, count, real, size, text

OPS = TableSchema(
    name="ops",
    version=1,
    doc="One row per op of a graph, in the graph's op order.",
    key=("graph_id", "op_index"),
    columns=(
        text("graph_id", "The graph."),
        count("op_index", "Position of the op in the graph; `stage_of` of labels and schedules uses it."),
        text("op_name", "Name, unique in the graph."),
        text("kind", "Canonical kind, e.g. `conv2d`."),
        size("param_bytes", "Bytes of the op's constants."),
        size("macs", "Multiply-accumulates.", unit="MAC"),
        size("compiled_bytes", "Bytes on the device once compiled, null where not known.", nullable=True),
        size("always_streamed_bytes", "Bytes streamed on every inference even if the rest fits."),
        real("time_us", "Measured compute time, null where not measured.", unit="µs", nullable=True),
    ),
)
