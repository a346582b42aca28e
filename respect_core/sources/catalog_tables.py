"""One graph out of the known models' files, which hold the tables `graphs`, `ops` and `tensors`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from respect_core.errors import BadInputError, CorruptDatasetError
from respect_core.graph import DnnGraph
from respect_core.tables.graph_rows import GraphTables, tables_to_graphs
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.ops import OPS
from respect_core.tables.table import TableSchema
from respect_core.tables.tensors import TENSORS


def read_known_graph(folder: Path, files: tuple[str, ...], name: str) -> DnnGraph:
    """Read a graph.

    Args:
        folder: Where the files lie.
        files: Their names, in the order of the tables.
        name: The graph's.

    Raises:
        CorruptDatasetError: A file is missing, truncated or foreign, or lacks the graph; it is named.
    """
    schemas = zip(files, (GRAPHS, OPS, TENSORS), strict=True)
    graphs, ops, tensors = (_rows(folder / file, schema, name) for file, schema in schemas)
    if graphs.num_rows != 1:
        raise CorruptDatasetError(f"{folder / files[0]} has {graphs.num_rows} rows of {name!r}, expected one")
    try:
        return next(tables_to_graphs(GraphTables(graphs=graphs, ops=ops, tensors=tensors)))
    except BadInputError as error:
        raise CorruptDatasetError(f"the tables in {folder} do not fit together ({error})") from error


def _rows(path: Path, schema: TableSchema, name: str) -> pa.Table:
    """Read one graph's rows of a file that must hold the table ``schema``."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            why = schema.matches(file.schema_arrow)
            if why:
                raise CorruptDatasetError(f"{path} does not belong to table {schema.name!r}: {why}")
            # Arrow's own filters load pandas on their way, which costs more than all the rest; rows of a graph are
            # neighbours because tables are sorted.
            ids = file.read(columns=["graph_id"]).column(0).to_pylist()
            first = ids.index(name) if name in ids else 0
            return file.read().slice(first, ids.count(name))
    except FileNotFoundError as error:
        raise CorruptDatasetError(f"{path} is missing: install the project again") from error
    except CorruptDatasetError:
        raise
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise CorruptDatasetError(f"{path} is not a readable Parquet file ({error})") from error
