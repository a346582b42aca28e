from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from respect_core.errors import UnwritableError
from respect_core.report.data import ReportInput
from respect_core.report.page import build_report, write_report
from tests.respect_core.report.report_input import (
    benchmark_rows,
    schedule_rows,
    training_rows,
    whole_input,
    without_result,
)

VOID = {"meta", "link", "img", "br", "hr", "input"}
HOSTILE = "<script>alert('x')</script>\"&|</title>"


class Reader(HTMLParser):
    """Collects what a test asks about, and checks that elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.references: list[str] = []
        self.styles: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        self.styles += [value or "" for name, value in attrs if name == "style"]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID and tag not in ("circle", "rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            attributes, before = self.scripts.pop()
            self.scripts.append((attributes, before + data))
        elif self.open and self.open[-1] == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)

    @property
    def data(self) -> dict[str, object]:
        found = [text for attributes, text in self.scripts if attributes.get("id") == "report-data"]
        assert len(found) == 1
        data: dict[str, object] = json.loads(found[0])
        return data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@cache
def whole_report() -> tuple[ReportInput, str, Reader]:
    report = whole_input()
    text = build_report(report)
    return report, text, Reader(text)


def test_it_refers_to_nothing_outside_itself() -> None:
    _, _, page = whole_report()
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    for style in page.styles:
        assert "@import" not in style
        assert "url(" not in style
        assert "http" not in style
    policy = next(attributes["content"] for tag, attributes in page.elements if "http-equiv" in attributes)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_plotly_is_in_it_once_and_the_same_input_gives_the_same_file() -> None:
    report, text, page = whole_report()
    assert sum(len(script) > 10**6 for _, script in page.scripts) == 1
    assert build_report(report) == text


def test_every_model_solver_and_fact_is_in_the_readable_part() -> None:
    report, _, page = whole_report()
    rows = report.schedules.to_pylist()
    for name in {row["model"] for row in rows} | {row["solver"] for row in rows}:
        assert name in page.text
    for wanted in ("9.15", "sha256 0123", "2026-11-29", "95 % CI", "n = 6 cases", "Simulated"):
        assert wanted in page.text
    captions = [tag for tag, _ in page.elements if tag == "caption"]
    assert len(captions) == sum(tag == "table" for tag, _ in page.elements) == 5


def test_every_figure_is_named_described_and_drawn() -> None:
    _, _, page = whole_report()
    charts = {a["id"]: a for tag, a in page.elements if a.get("class") == "chart"}
    drawn = page.data["charts"]
    assert isinstance(drawn, dict)
    assert set(charts) == set(drawn) | {"load-memory", "load-time"}
    for attributes in charts.values():
        assert attributes["role"] == "img"
        assert attributes["aria-label"]
    assert sum(tag == "figcaption" for tag, _ in page.elements) == len(charts)
    assert page.text.count("Simulated throughput over the compiler’s rule, K =") == 2


def test_the_figures_are_valid_plotly() -> None:
    go = pytest.importorskip("plotly.graph_objects")
    _, _, page = whole_report()
    charts = page.data["charts"]
    assert isinstance(charts, dict)
    for chart in charts.values():
        go.Figure(chart)
    layouts = page.data["load_layouts"]
    assert isinstance(layouts, dict)
    for layout in layouts.values():
        go.Figure({"data": [], "layout": layout})


def test_headings_do_not_skip_a_level() -> None:
    _, _, page = whole_report()
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_names_are_text_and_never_markup() -> None:
    rows = [{**row, "model": row["model"] + HOSTILE} for row in schedule_rows(2, (2,))]
    rows = [{**row, "solver": row["solver"] + HOSTILE} if row["solver"] == "order-file" else row for row in rows]
    report = ReportInput(
        schedules=rows,
        benchmarks=benchmark_rows(rows),
        training=[*training_rows(2, HOSTILE), *training_rows(2, "b")],
        facts={HOSTILE: {HOSTILE: HOSTILE}},
        title=HOSTILE,
        created=HOSTILE,
    )
    text = build_report(report)
    page = Reader(text)
    assert len(page.scripts) == 3
    assert "<script>alert" not in text.replace(next(script for _, script in page.scripts if len(script) > 10**6), "")
    assert HOSTILE in page.text
    charts = json.dumps(page.data["charts"])
    assert "<script>" not in charts
    assert "&lt;script&gt;" in charts


@pytest.mark.parametrize("status", ["timeout", "infeasible"])
def test_a_solver_without_a_result_is_named_with_its_status(status: str) -> None:
    rows = schedule_rows(2)
    rows += [without_result(row, "exact", status) for row in rows if row["solver"] == "ilp"]
    page = Reader(build_report(ReportInput(schedules=rows)))
    assert "exact" in page.text
    assert page.text.count(status) == 8, "once a case in the tables of gaps and peaks"
    assert "0 of 4" in page.text


def test_nothing_but_failures() -> None:
    rows = [without_result(row, "ilp", "timeout") for row in schedule_rows(1)[:1]]
    page = Reader(build_report(ReportInput(schedules=rows)))
    assert "No schedule was found." in page.text
    assert "timeout" in page.text


def test_what_is_missing_is_said() -> None:
    rows = [row for row in schedule_rows(2) if row["solver"] not in ("policy", "compiler-rule")]
    page = Reader(build_report(ReportInput(schedules=rows, benchmarks=benchmark_rows(rows))))
    assert "No schedules of a learned policy are in this run." in page.text
    assert "No training is in this run." in page.text
    assert "No pipelined benchmarks" in page.text
    empty = Reader(build_report(ReportInput(schedules=())))
    assert "There are no schedules to report." in empty.text


def test_numbers_that_are_not_numbers_do_not_break_it() -> None:
    rows = [{**row, "gap_to_best": float("nan")} for row in schedule_rows(1)]
    training = [{**row, "validation_gap": None, "train_cost": float("nan")} for row in training_rows(2)]
    page = Reader(build_report(ReportInput(schedules=rows, training=training)))
    assert "–" in page.text


def test_what_was_measured_is_not_called_simulated() -> None:
    rows = schedule_rows(2)
    page = Reader(build_report(ReportInput(schedules=rows, benchmarks=benchmark_rows(rows, is_simulated=False))))
    assert "Measured throughput over the compiler’s rule" in page.text
    assert "imulated" not in page.text


def test_objectives_are_kept_apart() -> None:
    rows = schedule_rows(2)
    both = rows + [{**row, "objective": "throughput"} for row in rows]
    page = Reader(build_report(ReportInput(schedules=both, benchmarks=benchmark_rows(both))))
    assert "Objective peak-memory, device usb3" in page.text
    assert "Objective throughput, device usb3" in page.text
    assert "ilp, throughput" in page.text


def test_writing_is_whole_or_not_at_all(tmp_path: Path) -> None:
    report = replace(whole_report()[0], title="A title")
    path = write_report(tmp_path / "new" / "report.html", report)
    assert "<title>A title</title>" in path.read_text(encoding="utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnwritableError, match=r"report\.html"):
        write_report(tmp_path / "file" / "report.html", report)
