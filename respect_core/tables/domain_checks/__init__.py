"""What a table must obey beyond its schema, as computed columns: one column a rule, judged by `tasks.quality`."""

from respect_core.tables.domain_checks.columns import DomainColumns
from respect_core.tables.domain_checks.flat import FlatGraphs, flatten_graphs
from respect_core.tables.domain_checks.generalisation import generalisation_checks
from respect_core.tables.domain_checks.graphs import graph_checks, op_checks, tensor_checks
from respect_core.tables.domain_checks.labels import label_checks
from respect_core.tables.domain_checks.memory import memory_checks
from respect_core.tables.domain_checks.robustness import robustness_checks
from respect_core.tables.domain_checks.runs import benchmark_checks, sweep_checks, training_checks, validation_checks
from respect_core.tables.domain_checks.schedules import schedule_checks
from respect_core.tables.domain_checks.segments import segment_checks

__all__ = [
    "DomainColumns",
    "FlatGraphs",
    "benchmark_checks",
    "flatten_graphs",
    "generalisation_checks",
    "graph_checks",
    "label_checks",
    "memory_checks",
    "op_checks",
    "robustness_checks",
    "schedule_checks",
    "segment_checks",
    "sweep_checks",
    "tensor_checks",
    "training_checks",
    "validation_checks",
]
