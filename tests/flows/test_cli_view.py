"""`respect view` as a user and a script see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from respect_core.report.view_page import is_view
from respect_core.sources.graph_json import graph_to_json
from tests.respect_core.report.view_input import FIVE, five_ops, hostile_graph, schedule_row

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("five.json").write_text(FIVE, encoding="utf-8")
    yield


def run(*args: str) -> Any:
    return RUNNER.invoke(app, ["view", *args])


def row_of(*args: str) -> dict[str, Any]:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    row: dict[str, Any] = json.loads(result.stdout)
    return row


def test_a_graph_alone_goes_beside_the_user() -> None:
    result = run("five.json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "five.view.html: five, 5 ops; open it in a browser\n"
    assert is_view(Path("five.view.html"))
    assert run("five.json").exit_code == 0, "a page of ours is replaced"
    assert sorted(path.name for path in Path().iterdir()) == ["five.json", "five.view.html"]


def test_a_known_model_needs_no_file() -> None:
    row = row_of("ResNet50")
    assert (row["model"], row["num_ops"], row["num_stages"], row["page"]) == (
        "ResNet50",
        177,
        None,
        "ResNet50.view.html",
    )
    assert row["stages"] is row["boundary_tensors"] is None
    assert row["page_bytes"] == Path("ResNet50.view.html").stat().st_size


def test_a_schedule_from_a_file_is_shown_for_its_device() -> None:
    schedule = {**schedule_row(five_ops(), 3), "device": "pcie"}
    Path("schedule.json").write_text(json.dumps(schedule), encoding="utf-8")
    row = row_of("five.json", "--schedule", "schedule.json", "--out", "sub/page.html")
    assert (row["num_stages"], row["device"], row["page"]) == (3, "pcie", "sub/page.html")
    assert [stage["param_bytes"] for stage in row["stages"]] == schedule["param_bytes"]
    assert "Modelled for pcie" in Path("sub/page.html").read_text(encoding="utf-8")
    row = row_of("five.json", "--schedule", ".", "--device", "usb3")
    assert row["device"] == "usb3"
    assert [stage["time_us"] for stage in row["stages"]] == schedule["time_us"]
    for stage in row["stages"]:
        parts = stage["overhead_us"] + stage["compute_us"] + stage["streaming_us"] + stage["transfer_us"]
        assert parts - stage["hidden_us"] == pytest.approx(stage["time_us"])


def test_a_schedule_is_found_with_stages() -> None:
    row = row_of("five.json", "-k", "2", "--solver", "order-dfs", "--objective", "peak-memory")
    assert row["num_stages"] == 2
    assert max(stage["param_bytes"] for stage in row["stages"]) == 9_437_184
    assert {tensor["stage"] for tensor in row["boundary_tensors"]} == {0}
    assert "objective peak-memory" in Path("five.view.html").read_text(encoding="utf-8")


def test_exports_lie_beside_the_page() -> None:
    row = row_of("five.json", "-k", "2", "--solver", "order-dfs", "--export", "model-explorer")
    assert row["exports"] == ["five.view.model-explorer.json", "five.view.stages.json"]
    assert json.loads(Path(row["exports"][0]).read_text(encoding="utf-8"))["label"] == "five"
    stages = json.loads(Path(row["exports"][1]).read_text(encoding="utf-8"))
    assert {result["value"] for result in stages["results"].values()} == {0, 1}
    result = run("five.json", "--out", "alone.html", "--export", "model-explorer")
    assert "alone.model-explorer.json: for Model Explorer" in result.stdout
    assert not Path("alone.stages.json").exists()


def test_a_foreign_file_is_only_replaced_when_named() -> None:
    Path("five.view.html").write_text("mine", encoding="utf-8")
    result = run("five.json")
    assert result.exit_code == 2
    assert "five.view.html" in result.stderr and "--out" in result.stderr
    assert Path("five.view.html").read_text(encoding="utf-8") == "mine"
    assert run("five.json", "--out", "five.view.html").exit_code == 0
    assert is_view(Path("five.view.html"))


def test_a_hostile_name_becomes_a_harmless_file_and_message() -> None:
    Path("hostile.json").write_text(graph_to_json(hostile_graph()), encoding="utf-8")
    result = run("hostile.json")
    assert result.exit_code == 0, result.stderr
    (page,) = Path().glob("*.view.html")
    assert "/" not in page.name and "<" not in page.name and page.name.startswith("five_script")
    assert "\x07" not in result.stdout and "\u202e" not in result.stdout


def test_a_schedule_of_another_model_is_said() -> None:
    Path("schedule.json").write_text(
        json.dumps({"model": "six", "num_stages": 2, "stage_of": [0, 0, 0, 1, 1]}), encoding="utf-8"
    )
    result = run("five.json", "--schedule", "schedule.json")
    assert result.exit_code == 0
    assert "'six'" in result.stderr and "'five'" in result.stderr


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("nothing.json",), 2, ("nothing.json",)),
        (("ResNet51",), 2, ("ResNet51", "ResNet50")),
        (("five.json", "--schedule", "none.json"), 2, ("none.json", "cannot be read")),
        (("five.json", "--schedule", "five.json"), 2, ("five.json", "num_stages")),
        (("five.json", "--schedule", "five.json", "-k", "2"), 2, ("--stages", "--schedule")),
        (("five.json", "--schedule", "backward.json"), 2, ("backward.json", "'left'", "earlier stage")),
        (("five.json", "--schedule", "device.json"), 2, ("device.json", "'mine'", "--device")),
        (("five.json", "-k", "6"), 2, ("6 stages", "1..5")),
        (("five.json", "-k", "2", "--solver", "best"), 2, ("best", "ilp")),
        (("five.json", "--device", "usb4"), 2, ("usb4", "usb3")),
        (("five.json", "--export", "netron"), 2, ("netron", "model-explorer")),
        (("five.json", "--out", "."), 2, (".", "cannot be written")),
        (("five.json", "-k", "2", "--constraints", "apart.json", "--solver", "ilp"), 3, ("no schedule was found",)),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(args: tuple[str, ...], code: int, words: tuple[str, ...]) -> None:
    Path("backward.json").write_text('{"num_stages": 2, "stage_of": [0, 1, 0, 1, 1]}', encoding="utf-8")
    Path("device.json").write_text('{"num_stages": 1, "stage_of": [0, 0, 0, 0, 0], "device": "mine"}', encoding="utf-8")
    Path("apart.json").write_text('{"pin": [{"op": "sum", "stage": 0}]}', encoding="utf-8")
    result = run(*args)
    assert result.exit_code == code, result.output
    for word in words:
        assert word in result.stderr
    assert not list(Path().glob("*.html")) and not list(Path().glob(".*"))
