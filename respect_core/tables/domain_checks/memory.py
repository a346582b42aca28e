"""Rules of the table `memory`: legal orders, true peaks and bounds, and no solver or rule that contradicts another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.memory.peak import peak_bytes
from respect_core.memory.rules import MemoryRules
from respect_core.memory.traffic import off_chip_traffic
from respect_core.solve.protocol import gap_of
from respect_core.tables.domain_checks.columns import DomainColumns, complaints

Row = dict[str, Any]

_PROBLEM: Final = ("model", "part", "concat", "elementwise", "counts_inputs")
"""Columns that say what was to be ordered and how it is counted."""

_NEVER_WORSE: Final = "memory-order"
"""The solver that starts from the order of the file."""


def memory_checks(memory: pa.Table, graphs: Mapping[str, DnnGraph] | None = None) -> DomainColumns:
    """Check rows against each other and, where it is known, against the graph of their network.

    Args:
        memory: Rows of `memory`.
        graphs: Graphs by ``model``; only rows of whole networks are computed again.

    Returns:
        One column of texts a rule; a text names what is wrong in that row.
    """
    rows = memory.to_pylist()
    graphs = graphs or {}
    problems: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        problems.setdefault(tuple(row[name] for name in _PROBLEM), []).append(row)

    def same_problem(row: Row) -> list[Row]:
        return problems[tuple(row[name] for name in _PROBLEM)]

    rules: dict[str, Callable[[Row], str | None]] = {
        "order_is_whole": _not_whole,
        "bound_and_status_agree": _wrong_bound,
        "peak_not_above_file_order": _worse_than_file_order,
        "traffic_only_where_it_must_be": _needless_traffic,
        "rewriting_counted": _wrong_rewriting,
        "solvers_agree": lambda row: _contradicted(row, same_problem(row)),
        "graph_recomputed": lambda row: _other_than_graph(row, graphs.get(row["model"])),
    }
    return DomainColumns(columns={name: complaints([rule(row) for row in rows]) for name, rule in rules.items()})


def _not_whole(row: Row) -> str | None:
    count = row["ordered_ops"]
    if sorted(row["order"]) == list(range(count)):
        return None
    return f"order has {len(row['order'])} entries, {len(set(row['order']))} of them distinct, for {count} ops"


def _wrong_bound(row: Row) -> str | None:
    peak, bound = row["peak_bytes"], row["lower_bound"]
    if bound > peak:
        return f"lower_bound is {bound}, above the peak {peak}"
    if (row["status"] == "optimal") != (peak == bound):
        return f"status is {row['status']}, peak {peak}, lower_bound {bound}"
    gap = gap_of(peak, bound)
    return None if row["gap"] == gap else f"gap is {row['gap']}, peak {peak} and lower_bound {bound} give {gap}"


def _worse_than_file_order(row: Row) -> str | None:
    peak, known = row["peak_bytes"], row["file_order_peak_bytes"]
    if row["solver"] == _NEVER_WORSE and peak > known:
        return f"peak_bytes is {peak}, the order of the file needs {known}"
    return None


def _needless_traffic(row: Row) -> str | None:
    room = row["on_chip_bytes"]
    for peak, traffic in (("peak_bytes", "traffic_bytes"), ("file_order_peak_bytes", "file_order_traffic_bytes")):
        if (row[peak] <= room) != (row[traffic] == 0):
            return f"{traffic} is {row[traffic]}, {peak} {row[peak]}, on_chip_bytes {room}"
    return None


def _wrong_rewriting(row: Row) -> str | None:
    count = row["rewritten_concats"]
    if count and not row["may_rewrite"]:
        return f"rewritten_concats is {count} and may_rewrite is false"
    if not count and row["ordered_ops"] != row["num_ops"]:
        return f"nothing was rewritten, num_ops is {row['num_ops']} and ordered_ops {row['ordered_ops']}"
    return None


def _contradicted(row: Row, others: list[Row]) -> str | None:
    """Return which other row of the same problem cannot be true together with this one."""
    for other in others:
        if other["file_order_peak_bytes"] != row["file_order_peak_bytes"]:
            return f"solver {other['solver']} has file_order_peak_bytes {other['file_order_peak_bytes']}"
        if not row["rewritten_concats"] and not other["rewritten_concats"] and row["peak_bytes"] < other["lower_bound"]:
            return (
                f"peak_bytes is {row['peak_bytes']}, solver {other['solver']} claims the bound {other['lower_bound']}"
            )
        proven = other["status"] == "optimal" and other["solver"] == row["solver"] and not other["may_rewrite"]
        if row["may_rewrite"] and row["status"] == "optimal" and proven and row["peak_bytes"] > other["peak_bytes"]:
            return f"peak_bytes is {row['peak_bytes']} with rewriting and {other['peak_bytes']} without"
    return None


def _other_than_graph(row: Row, graph: DnnGraph | None) -> str | None:
    """Return which number differs from what the network's graph gives."""
    if graph is None or row["part"] != "all":
        return None
    if row["num_ops"] != graph.num_ops:
        return f"num_ops is {row['num_ops']}, graph {graph.name!r} has {graph.num_ops}"
    rules = MemoryRules(concat=row["concat"], elementwise=row["elementwise"], count_inputs=row["counts_inputs"])
    orders: dict[str, list[int] | None] = {"file_order_": None}
    if not row["rewritten_concats"]:
        orders[""] = row["order"]
    for prefix, order in orders.items():
        try:
            peak = peak_bytes(graph, order, rules)
            traffic = off_chip_traffic(graph, row["on_chip_bytes"], order, rules).total_bytes
        except BadInputError as error:
            return str(error)
        for name, right in ((f"{prefix}peak_bytes", peak), (f"{prefix}traffic_bytes", traffic)):
            if row[name] != right:
                return f"{name} is {row[name]}, its order gives {right}"
    return None
