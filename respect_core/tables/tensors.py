"""Table `tensors`: one row a tensor of a graph."""

from __future__ import annotations

import pyarrow as pa

from respect_core.tables.table import TableSchema, count, flag, items, size, text

TENSORS = TableSchema(
    name="tensors",
    version=1,
    doc="One row per tensor of a graph: who makes it and who reads it.",
    key=("graph_id", "tensor_index"),
    columns=(
        text("graph_id", "The graph."),
        count("tensor_index", "Position of the tensor in the graph."),
        text("tensor_name", "Name, unique in the graph."),
        size("tensor_bytes", "Bytes of the tensor, counted once however many ops read it."),
        count("producer", "`op_index` of the op that makes it, null for a graph input.", nullable=True),
        items("consumers", pa.int32(), "Ascending `op_index` of the ops that read it."),
        flag("is_output", "True for an output of the graph."),
    ),
)
