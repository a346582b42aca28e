"""The rules of the table `memory`: each is broken once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from respect_core.graph import DnnGraph
from respect_core.memory.rewrite_search import RewriteOptions
from respect_core.memory.rules import MemoryRules
from respect_core.memory.study import memory_row, study_order
from respect_core.sources.memory_networks import load_memory_network
from respect_core.tables.domain_checks import memory_checks
from respect_core.tables.memory import MEMORY
from tests.respect_core.tables.table_data import Row, broken, memory_rows, small_graphs, spoiled

CELL = "SwiftNet-HPD-C"


@cache
def cell() -> DnnGraph:
    return load_memory_network(CELL)


@cache
def table() -> pa.Table:
    """A cell under both rules, as it is and rewritten."""
    studies = [
        study_order(cell(), MemoryRules(concat=concat), rewriting=how, on_chip_bytes=30_000)  # type: ignore[arg-type]
        for concat in ("in-place", "separate")
        for how in (None, RewriteOptions())
    ]
    return MEMORY.table([memory_row(study, CELL) for study in studies])


def complaints(changed: pa.Table) -> dict[str, list[int]]:
    columns = memory_checks(changed, {CELL: cell()}).columns
    return {rule: broken(column) for rule, column in columns.items() if broken(column)}


def test_true_rows_pass() -> None:
    assert complaints(table()) == {}
    graphs = small_graphs()
    found = memory_checks(MEMORY.table(memory_rows(graphs)), graphs).columns
    assert not any(broken(column) for column in found.values())
    rewritten = [row["rewritten_concats"] for row in table().to_pylist()]
    assert rewritten[0] == rewritten[2] == 0
    assert min(rewritten[1], rewritten[3]) > 0


@pytest.mark.parametrize(
    ("row", "change", "rule"),
    [
        (0, lambda r: {"order": r["order"][:-1]}, "order_is_whole"),
        (1, lambda r: {"order": [0, *r["order"][1:]] if r["order"][0] else [1, *r["order"][1:]]}, "order_is_whole"),
        (0, lambda r: {"lower_bound": r["peak_bytes"] + 1}, "bound_and_status_agree"),
        (0, {"status": "feasible"}, "bound_and_status_agree"),
        (0, {"gap": 0.5}, "bound_and_status_agree"),
        (2, lambda r: {"peak_bytes": r["file_order_peak_bytes"] + 1}, "peak_not_above_file_order"),
        (1, {"traffic_bytes": 1}, "traffic_only_where_it_must_be"),
        (0, {"file_order_traffic_bytes": 0}, "traffic_only_where_it_must_be"),
        (0, {"rewritten_concats": 1}, "rewriting_counted"),
        (0, {"ordered_ops": 23}, "rewriting_counted"),
        (1, {"file_order_peak_bytes": 35_869}, "solvers_agree"),
        (1, {"peak_bytes": 40_000, "lower_bound": 40_000}, "solvers_agree"),
        (0, lambda r: {"order": list(range(len(r["order"])))}, "graph_recomputed"),
        (0, lambda r: {"order": r["order"][::-1]}, "graph_recomputed"),
        (0, {"num_ops": 23, "ordered_ops": 23}, "graph_recomputed"),
        (3, {"file_order_traffic_bytes": 7}, "graph_recomputed"),
    ],
)
def test_a_broken_rule_is_told(row: int, change: dict[str, Any] | Callable[[Row], Row], rule: str) -> None:
    assert row in complaints(spoiled(MEMORY, table(), row, change)).get(rule, [])


def test_another_solver_may_not_claim_a_bound_above_a_known_peak() -> None:
    rows = table().to_pylist()
    other = {**rows[0], "solver": "serenity", "peak_bytes": 33_000, "lower_bound": 33_000}
    assert "solvers_agree" in complaints(MEMORY.table([*rows, other]))


def test_without_the_graph_or_for_a_part_the_rest_is_checked() -> None:
    row = {**table().to_pylist()[0], "part": "5-32"}
    wrong = MEMORY.table([{**row, "traffic_bytes": 7}])
    assert "graph_recomputed" not in complaints(wrong)
    assert not any(broken(column) for column in memory_checks(wrong).columns.values())
