"""The rules of the table `generalisation`: each is broken once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from respect_core.tables.domain_checks import generalisation_checks
from respect_core.tables.generalisation import GENERALISATION
from tests.respect_core.tables.table_data import broken, generalisation_rows, spoiled


def complaints(table: pa.Table) -> dict[str, list[int]]:
    return {name: rows for name, column in generalisation_checks(table).columns.items() if (rows := broken(column))}


def right() -> pa.Table:
    return GENERALISATION.table(generalisation_rows())


def test_right_rows_and_none_pass() -> None:
    assert complaints(right()) == {}
    assert complaints(GENERALISATION.table([])) == {}


@pytest.mark.parametrize(
    ("change", "rule", "rows"),
    [
        ({"num_proven": 5}, "proven_within_graphs", [1]),
        ({"mean_gap": -0.01}, "gaps_not_negative", [1]),
        ({"worst_gap": 0.001}, "worst_gap_fits_mean", [1]),
        ({"worst_gap": 1.0}, "worst_gap_fits_mean", [1]),
        ({"method": "policy: 8 greedy"}, "methods_complete", [0, 1, 2, 3]),
        ({"num_proven": 2}, "graphs_constant", [0, 1, 2, 3]),
        ({"num_graphs": 5}, "graphs_constant", [0, 1, 2, 3]),
    ],
)
def test_a_wrong_row_is_told(change: dict[str, Any], rule: str, rows: list[int]) -> None:
    assert complaints(spoiled(GENERALISATION, right(), 1, change))[rule] == rows


def test_two_points_may_not_share_a_place() -> None:
    rows = [{**row, "point": 0} if row["value"] == "60" else row for row in generalisation_rows()]
    assert len(complaints(GENERALISATION.table(rows))["points_distinct"]) == 8
