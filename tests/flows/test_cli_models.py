"""`respect models`: what is listed, what is built, and what is said where TensorFlow is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from respect_core.errors import MissingExtraError
from respect_core.sources.catalog import INT8_TABLE_FILES, int8_models, known_models, load_model
from respect_core.sources.small_network import SmallNetwork, small_network
from respect_core.sources.tflite import read_tflite
from tasks import models
from tests.same_graph import differences

CONTENT = small_network(SmallNetwork(image_size=16, num_classes=10))


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["models", *args])


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """In TensorFlow's place, something that returns a small network."""
    monkeypatch.setattr(models, "run_in_child", lambda limit, function, name: CONTENT)
    monkeypatch.setattr(models, "check_tensorflow", lambda: None)
    monkeypatch.setattr(models, "version", lambda package: "1.2")


def test_the_small_network_is_built_and_listed(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    built = run("build", "small", "--home", home, "--json")
    assert built.exit_code == 0, built.stderr
    assert "small-int8: built in" in built.stderr
    (entry,) = json.loads(built.stdout)["models"]
    path = tmp_path / "home" / "models" / "small-int8.tflite"
    assert entry["path"] == str(path)
    assert (entry["name"], entry["num_ops"], entry["was_there"]) == ("small-int8", 31, False)
    assert differences(read_tflite(path), load_model("small-int8")) == []
    again = run("build", "small-int8", "--home", home)
    assert again.stdout == f"{path}: 31 ops, {path.stat().st_size:,} B\n"
    assert "small-int8: was there" in again.stderr

    rows = json.loads(run("list", "--home", home, "--json").stdout)["models"]
    assert [row["model"] for row in rows] == list(known_models())
    by_name = {row["model"]: row for row in rows}
    small = by_name["small-int8"]
    assert (small["is_built"], small["file_bytes"], small["sha256"]) == (True, entry["bytes"], entry["sha256"])
    assert (by_name["ResNet50-int8"]["is_built"], by_name["ResNet50-int8"]["num_ops"]) == (False, 75)
    assert (by_name["ResNet50"]["is_built"], by_name["ResNet50"]["source"]) == (None, "keras")
    table = run("list", "--home", home).stdout
    assert len(table.splitlines()) == 1 + len(known_models())
    assert "not built" in table and f"{entry['bytes']:,} B" in table


def test_all_models_and_their_graphs(tmp_path: Path, tensorflow: None) -> None:
    built = run("build", "--out", str(tmp_path / "out"), "--graphs", str(tmp_path / "graphs"))
    assert built.exit_code == 0, built.stderr
    assert sorted(path.stem for path in (tmp_path / "out").glob("*.tflite")) == sorted(int8_models())
    for file in INT8_TABLE_FILES:
        rows = pq.read_table(tmp_path / "graphs" / file)["graph_id"].to_pylist()
        assert set(rows) == set(int8_models())


def test_graphs_are_of_all_models(tmp_path: Path, tensorflow: None) -> None:
    wrong = run("build", "small", "--out", str(tmp_path), "--graphs", str(tmp_path / "graphs"))
    assert wrong.exit_code == 2
    assert "give no NAME" in wrong.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_name_twice_is_built_once(tmp_path: Path, tensorflow: None) -> None:
    built = run("build", "ResNet50", "ResNet50-int8", "--out", str(tmp_path), "--json")
    assert [entry["name"] for entry in json.loads(built.stdout)["models"]] == ["ResNet50-int8"]


def test_without_tensorflow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingExtraError("pip install 'respect-edgetpu[tensorflow]' brings it")

    monkeypatch.setattr(models, "check_tensorflow", missing)
    refused = run("build", "--out", str(tmp_path))
    assert refused.exit_code == 2
    assert "error: pip install 'respect-edgetpu[tensorflow]' brings it" in refused.stderr
    assert list(tmp_path.glob("*.tflite")) == []


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    unknown = run("build", "resnet50")
    assert unknown.exit_code == 2
    assert "unknown int8 model 'resnet50'" in unknown.stderr and "did you mean" in unknown.stderr
    (tmp_path / "file").write_text("")
    unwritable = run("build", "small", "--out", str(tmp_path / "file"))
    assert unwritable.exit_code == 2 and "cannot be written" in unwritable.stderr
    (tmp_path / "models.json").write_text("{")
    damaged = run("list", "--out", str(tmp_path))
    assert damaged.exit_code == 2 and "delete it" in damaged.stderr


def test_splitting_all_runs_the_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr("flows.cli_flows.run_split", lambda *given: asked.append(given))
    done = run("split", "--size", "nightly", "--seed", "3", "--home", str(tmp_path), "--json")
    assert done.exit_code == 0, done.stderr
    assert asked == [("nightly", 3, tmp_path, True)]
