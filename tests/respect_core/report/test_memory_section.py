"""The report's section on activation memory."""

from __future__ import annotations

from typing import Any

from respect_core.memory.rewrite_search import RewriteOptions
from respect_core.memory.rules import MemoryRules
from respect_core.memory.study import memory_row, study_order
from respect_core.report.data import ReportInput
from respect_core.report.memory import PUBLISHED_KB, memory_section
from respect_core.report.page import build_report
from respect_core.sources.memory_networks import load_memory_network, memory_networks
from tests.memory_graphs import graph_of


def rows(*names: str) -> list[dict[str, Any]]:
    return [
        memory_row(study_order(load_memory_network(name), MemoryRules(concat=concat), rewriting=how), name)  # type: ignore[arg-type]
        for name in names
        for concat in ("in-place", "separate")
        for how in (None, RewriteOptions())
    ]


def test_published_figures_are_of_networks_that_there_are() -> None:
    assert set(PUBLISHED_KB) <= set(memory_networks())
    assert len(PUBLISHED_KB) == 9


def test_our_figures_beside_the_published_ones() -> None:
    section = memory_section(rows("SwiftNet-HPD-C", "SwiftNet-HPD-A"))
    for said in ("250.9", "351.2", "276.0", "552", "251", "226", "32.5", "53.9", "1.40×", "1.10×"):
        assert said in section
    assert section.index("SwiftNet-HPD-A") < section.index("SwiftNet-HPD-C")
    assert (
        "Geometric mean of the reduction over 2 networks: by ordering 1.24× (published for nine: 1.68×); with rewriting"
        in section
    )
    assert "(published for nine: 1.86×)" in section
    assert "250,880 bytes, optimal" in section


def test_parts_of_the_rows_and_none() -> None:
    assert "No orders of ops for least activation memory are in this run" in memory_section(())
    only = [row for row in rows("SwiftNet-HPD-C") if row["may_rewrite"]]
    assert "SwiftNet-HPD-C" in memory_section(only)
    empty = memory_row(study_order(graph_of([0], [[]])), "<nothing>")
    section = memory_section([empty, {**empty, "part": "0-0", "model": "part"}])
    assert "&lt;nothing&gt;" in section and "part</th>" not in section


def test_it_is_part_of_the_page() -> None:
    page = build_report(ReportInput(schedules=(), memory=rows("SwiftNet-HPD-C")))
    assert "<h2>Activation memory</h2>" in page
    assert "SwiftNet-HPD-C" in page
