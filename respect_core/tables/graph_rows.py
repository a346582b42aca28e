"""Graphs to rows of the tables `graphs`, `ops` and `tensors`, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.ops import OPS
from respect_core.tables.tensors import TENSORS


@dataclass(frozen=True, kw_only=True)
class GraphTables:
    """The three tables of a set of graphs, each sorted by graph."""

    graphs: pa.Table
    ops: pa.Table
    tensors: pa.Table


def graphs_to_tables(graphs: Iterable[DnnGraph], family: str | None = None) -> GraphTables:
    """Write graphs as rows.

    Args:
        graphs: Graphs with distinct names.
        family: Generator family of synthetic graphs; the graph's source if None.

    Returns:
        The tables; `tables_to_graphs` gives equal graphs back.
    """
    graph_rows, op_rows, tensor_rows = [], [], []
    for graph in graphs:
        graph_rows.append(
            {
                "graph_id": graph.name,
                "source": graph.source,
                "family": family or graph.source,
                "num_ops": graph.num_ops,
                "num_tensors": graph.num_tensors,
                "num_edges": len(graph.edges),
                "depth": graph.depth,
                "max_in_degree": graph.max_in_degree,
                "param_bytes": int(graph.param_bytes.sum()),
                "macs": int(graph.macs.sum()),
                "tensor_bytes": int(graph.tensor_bytes.sum()),
            }
        )
        op_rows += [
            {
                "graph_id": graph.name,
                "op_index": v,
                "op_name": graph.op_names[v],
                "kind": graph.op_kinds[v],
                "param_bytes": int(graph.param_bytes[v]),
                "macs": int(graph.macs[v]),
                "compiled_bytes": None if graph.compiled_bytes[v] == UNKNOWN else int(graph.compiled_bytes[v]),
                "always_streamed_bytes": int(graph.always_streamed_bytes[v]),
                "time_us": None if math.isnan(graph.op_time_us[v]) else float(graph.op_time_us[v]),
            }
            for v in range(graph.num_ops)
        ]
        tensor_rows += [
            {
                "graph_id": graph.name,
                "tensor_index": t,
                "tensor_name": name,
                "tensor_bytes": int(graph.tensor_bytes[t]),
                "producer": None if graph.tensor_producer[t] == UNKNOWN else int(graph.tensor_producer[t]),
                "consumers": list(graph.tensor_consumers[t]),
                "is_output": bool(graph.tensor_is_output[t]),
            }
            for t, name in enumerate(graph.tensor_names)
        ]
    return GraphTables(graphs=GRAPHS.table(graph_rows), ops=OPS.table(op_rows), tensors=TENSORS.table(tensor_rows))


def tables_to_graphs(tables: GraphTables) -> Iterator[DnnGraph]:
    """Build the graphs of the three tables, in the order of `graphs`.

    Raises:
        BadInputError: Ops or tensors of a graph are missing.
        InvalidGraphError: The rows of a graph do not make a legal one.
    """
    ops = _by_graph(tables.ops, "op_index")
    tensors = _by_graph(tables.tensors, "tensor_index")
    for row in tables.graphs.to_pylist():
        name = row["graph_id"]
        mine, made = ops.get(name, []), tensors.get(name, [])
        if len(mine) != row["num_ops"] or len(made) != row["num_tensors"]:
            raise BadInputError(
                f"graph {name!r} should have {row['num_ops']} ops and {row['num_tensors']} tensors, "
                f"the tables hold {len(mine)} and {len(made)}"
            )
        yield DnnGraph(
            name=name,
            source=row["source"],
            op_names=tuple(op["op_name"] for op in mine),
            op_kinds=tuple(op["kind"] for op in mine),
            param_bytes=np.array([op["param_bytes"] for op in mine], dtype=np.int64),
            macs=np.array([op["macs"] for op in mine], dtype=np.int64),
            compiled_bytes=np.array(
                [UNKNOWN if op["compiled_bytes"] is None else op["compiled_bytes"] for op in mine], dtype=np.int64
            ),
            always_streamed_bytes=np.array([op["always_streamed_bytes"] for op in mine], dtype=np.int64),
            op_time_us=np.array([math.nan if op["time_us"] is None else op["time_us"] for op in mine]),
            tensor_names=tuple(t["tensor_name"] for t in made),
            tensor_bytes=np.array([t["tensor_bytes"] for t in made], dtype=np.int64),
            tensor_producer=np.array(
                [UNKNOWN if t["producer"] is None else t["producer"] for t in made], dtype=np.int64
            ),
            tensor_consumers=tuple(tuple(t["consumers"]) for t in made),
            tensor_is_output=np.array([t["is_output"] for t in made], dtype=np.bool_),
        )


def _by_graph(table: pa.Table, index: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    # Arrow's own sort is not quicker on rows that mostly stand in order, and its functions take long to load.
    for row in sorted(table.to_pylist(), key=itemgetter("graph_id", index)):
        found.setdefault(row["graph_id"], []).append(row)
    return found
