"""The report's section on the generalisation of the policy."""

from __future__ import annotations

from typing import Any

import pytest

from respect_core.report.data import ReportInput
from respect_core.report.generalisation import STYLES, add_generalisation
from respect_core.report.page import build_report
from respect_core.report.sections import Page
from respect_core.tables.generalisation import METHODS
from tests.respect_core.tables.table_data import generalisation_rows


def section(rows: list[dict[str, Any]]) -> Page:
    page = Page({})
    add_generalisation(page, rows)
    return page


def test_a_plot_for_everything_that_is_changed_and_the_numbers() -> None:
    page = section(generalisation_rows()[::-1])
    assert set(STYLES) == set(METHODS)
    assert len(page.charts) == 2 and page.filtered == [], "its lines are no solvers that the page filters"
    first = page.charts["chart-0"]["data"]
    assert [trace["name"] for trace in first] == list(METHODS)
    assert [trace["x"] for trace in first] == [["30", "60", "120"]] * len(METHODS)
    assert first[0]["y"] == [0.01] * 3, "nothing is 0 on a logarithmic axis"
    assert first[1]["y"] == pytest.approx([1.0] * 3)
    text = "".join(page.sections)
    assert "15 of 20 are proven" in text and "lower bounds" in text
    assert "1.00 % (2.00 %)" in text and "<strong>0 % (0 %)</strong>" in text
    for method in METHODS:
        assert method in text


def test_points_without_all_proofs_are_hollow() -> None:
    rows = [{**row, "num_proven": 4} if row["value"] == "60" else row for row in generalisation_rows()]
    drawn = section(rows).charts["chart-0"]["data"][1]
    assert [symbol.endswith("-open") for symbol in drawn["marker"]["symbol"]] == [True, False, True]
    assert "3 of 4 optima proven" in drawn["text"][0]


def test_a_missing_method_and_odd_names_break_nothing() -> None:
    rows = [row for row in generalisation_rows() if (row["value"], row["method"]) != ("60", METHODS[2])]
    page = section([{**row, "policy": "<p>", "changed": "<b>" + row["changed"]} for row in rows])
    text = "".join(page.sections)
    assert "<td>–</td>" in text and "&lt;p&gt;" in text and "<b>ops" not in text


def test_it_is_part_of_the_page_with_and_without_rows() -> None:
    page = build_report(ReportInput(schedules=(), generalisation=generalisation_rows()))
    assert "<h2>Generalisation of the policy</h2>" in page and "is in this run" in page
    assert "No generalisation test" not in page
    assert "No generalisation test of a policy is in this run" in build_report(ReportInput(schedules=()))
