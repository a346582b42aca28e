"""Table `graphs`: one row a graph."""

from __future__ import annotations

from respect_core.graph import SOURCES
from respect_core.tables.table import TableSchema, count, size, text

GRAPHS = TableSchema(
    name="graphs",
    version=1,
    doc="One row per DNN graph; its ops and tensors are in the tables `ops` and `tensors`.",
    key=("graph_id",),
    columns=(
        text("graph_id", "Name of the graph: a model's name, or FAMILY-OPS-sSEED-INDEX of a synthetic graph."),
        text("source", "What the bytes mean.", allowed=SOURCES),
        text("family", "Generator family of a synthetic graph, else the source's name."),
        count("num_ops", "Number of ops.", minimum=1),
        count("num_tensors", "Number of tensors."),
        count("num_edges", "Distinct (producer op, reader op) pairs."),
        count("depth", "Edges on the longest path."),
        count("max_in_degree", "Largest number of distinct predecessors of an op."),
        size("param_bytes", "Sum of the ops' parameter bytes."),
        size("macs", "Sum of the ops' multiply-accumulates.", unit="MAC"),
        size("tensor_bytes", "Sum of the tensors' bytes."),
    ),
)
