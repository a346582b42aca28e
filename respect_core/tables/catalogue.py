"""Every table by name."""

from __future__ import annotations

from typing import Final

from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.labels import LABEL_TIMINGS, LABELS
from respect_core.tables.ops import OPS
from respect_core.tables.schedules import SCHEDULES
from respect_core.tables.table import TableSchema
from respect_core.tables.tensors import TENSORS
from respect_core.tables.training import TRAINING

TABLES: Final[dict[str, TableSchema]] = {
    schema.name: schema for schema in (GRAPHS, OPS, TENSORS, LABELS, LABEL_TIMINGS, SCHEDULES, BENCHMARKS, TRAINING)
}
