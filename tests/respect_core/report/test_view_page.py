"""The page itself, without a browser: offline, well formed, hostile names, small, and written whole or not at all."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from respect_core.device import load_profile
from respect_core.errors import UnwritableError
from respect_core.graph import DnnGraph
from respect_core.report.view_data import safe_text, shared_prefix, short_label
from respect_core.report.view_page import View, build_view, is_view, write_view
from respect_core.sources.catalog import resolve_model
from tests.respect_core.report.test_report_page import Reader
from tests.respect_core.report.view_input import HOSTILE, five_ops, hostile_graph, schedule_for
from tests.strategies import graphs


def view_of(graph: DnnGraph, num_stages: int = 0) -> View:
    schedule = schedule_for(graph, num_stages) if num_stages else None
    return View(graph=graph, profile=load_profile("usb3"), schedule=schedule)


def data_of(page: Reader) -> dict[str, Any]:
    (found,) = [text for attributes, text in page.scripts if attributes.get("id") == "view-data"]
    data: dict[str, Any] = json.loads(found)
    return data


def test_it_refers_to_nothing_outside_itself() -> None:
    page = Reader(build_view(view_of(five_ops(), 2)))
    assert page.references == ["#graph"]
    for style in page.styles:
        assert "@import" not in style and "url(" not in style and "http" not in style
    policy = next(attributes["content"] for tag, attributes in page.elements if "http-equiv" in attributes)
    assert policy is not None and policy.startswith("default-src 'none'") and "http" not in policy
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3")]
    assert levels[0] == levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_loads_and_boundaries_are_readable_without_scripts() -> None:
    page = Reader(build_view(view_of(five_ops(), 3)))
    for words in (
        "Modelled for usb3, no device was involved", "Bottleneck: stage 0", "9.00 MiB ▲", "line: 8 MiB on chip",
        "Tensors that cross a boundary: 4", "stem/conv;stem/bias", "65 536", "5 ops", "3 stages",
        "objective throughput", "solver by hand", "streaming that compute does not hide",
    ):  # fmt: skip
        assert words in page.text, words
    bars = [attributes for _, attributes in page.elements if (attributes.get("class") or "").startswith("fill ")]
    assert [bar["class"] for bar in bars] == ["fill s0 over", "fill s1", "fill s2"]
    limits = {attributes["style"] for _, attributes in page.elements if attributes.get("class") == "limit"}
    assert limits == {"left:87.15%"}, "8 MiB on a scale that ends 2 % above the 9 MiB of stage 0"


def test_without_a_schedule_it_shows_the_graph_alone() -> None:
    page = Reader(build_view(view_of(five_ops())))
    assert "no schedule" in page.text and "Stage loads" not in page.text
    data = data_of(page)
    assert data["stages"] == data["boundaries"] == []
    assert all(op["s"] is None for op in data["ops"])


def test_the_script_is_told_every_number() -> None:
    graph = five_ops()
    data = data_of(Reader(build_view(view_of(graph, 2))))
    assert [op["n"] for op in data["ops"]] == list(graph.op_names)
    assert [op["p"] for op in data["ops"]] == graph.param_bytes.tolist()
    assert [op["c"] for op in data["ops"]] == [None, 9_500_000, None, None, None]
    assert [op["measured"] for op in data["ops"]] == [False, False, False, True, False]
    assert data["ops"][3]["t"] == 12_500
    assert [tensor["b"] for tensor in data["tensors"]] == graph.tensor_bytes.tolist()
    assert [edge[:2] for edge in data["edges"]] == graph.edges.tolist()
    assert data["boundaries"] == ["3 tensors · 212.0 KiB"]


def test_names_are_text_and_never_markup() -> None:
    page = Reader(build_view(view_of(hostile_graph(), 2)))
    assert len(page.scripts) == 3
    assert "<script>alert('x')</script>\"&:]]>\ufffd\ufffd 名前 é" in page.text
    assert [op["n"] for op in data_of(page)["ops"]] == [safe_text(name) for name in hostile_graph().op_names]


@given(graphs(max_ops=8))
def test_any_graph_makes_a_page(graph: DnnGraph) -> None:
    text = build_view(view_of(graph, min(2, graph.num_ops)))
    text.encode("utf-8")
    assert Reader(text).open == []


def test_a_deep_model_makes_a_small_page_and_the_same_again() -> None:
    view = view_of(resolve_model("InceptionResNetV2"), 4)
    text = build_view(view)
    assert len(text.encode()) < 500_000
    assert build_view(view) == text


def test_writing_is_whole_or_not_at_all(tmp_path: Path) -> None:
    path = write_view(tmp_path / "new" / "view.html", view_of(five_ops(), 2))
    assert is_view(path)
    assert [p.name for p in path.parent.iterdir()] == ["view.html"]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnwritableError, match=r"view\.html"):
        write_view(tmp_path / "file" / "view.html", view_of(five_ops()))
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnwritableError, match="folder"):
        write_view(tmp_path / "folder", view_of(five_ops()))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "new"]
    assert not is_view(tmp_path / "file") and not is_view(tmp_path / "folder")


@pytest.mark.parametrize(
    ("name", "shared", "label"),
    [
        ("short", "", "short"),
        ("net/net/Conv2d_0/Relu6;net/net/Conv2d_0/bias", "net/net/", "Conv2d_0/Relu6"),
        ("net/", "net/", "net/"),
        ("conv_pre1/bn/bn/with/activation", "", "conv_pre1/…/activation"),
        ("an_op_with_a_name_that_is_too_long_to_show", "", "an_op_with_a…ong_to_show"),
        ("名前名前名前名前名前名前名前名前", "", "名前名前名前…前名前名前"),
        (";odd", "", ";odd"),
        ("a\nb\u202e", "", "a\ufffdb\ufffd"),
        ("\ud800", "", "\ufffd"),
    ],
)
def test_labels_keep_what_tells_ops_apart(name: str, shared: str, label: str) -> None:
    assert short_label(name, 24, shared) == label


def test_a_path_that_most_names_share_is_left_out() -> None:
    assert shared_prefix(["a/b/c", "a/b/d", "a/b/e;x/y", "out"]) == "a/b/"
    assert shared_prefix(["a/b", "c/d"]) == ""
    assert shared_prefix(["a"]) == shared_prefix(["a/b"]) == ""
    assert HOSTILE not in shared_prefix(hostile_graph().op_names)
