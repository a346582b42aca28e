"""The flow `split`: segments of the small network, with and without a compiler, and what is not published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from respect_core.errors import MissingExtraError, QualityError
from respect_core.sources.model_folder import ModelFolder
from respect_core.tables.segments import SEGMENTS
from tasks.home import Home
from tests.hardware_runners.compiler_double import VERSION, put_on_path

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server", "tiny")]


def rows_of(home: Home, partition: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = home.dataset(SEGMENTS).read(partition).to_pylist()
    return rows


def test_segments_are_verified_and_recorded_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.split import split

    monkeypatch.setattr("flows.split.find_compiler", lambda: None)
    first = split("smoke", 0, str(home.path))
    rows = rows_of(home, first.partition)
    assert len(rows) == first.rows == 4 + 5 + 6
    for num_stages in (4, 5, 6):
        parts = sorted((row for row in rows if row["num_stages"] == num_stages), key=lambda row: row["stage"])
        assert sorted(v for row in parts for v in row["ops"]) == list(range(31))
        assert parts[-1]["output_names"] == ["logits", "probabilities"]
    for row in rows:
        assert (row["is_verified"], row["fits_pycoral"], row["compiler_status"]) == (True, True, "not_run")
        assert "one thread" in row["kernel_mode"] and row["unsupported_ops"] == 0
    assert split("smoke", 0, str(home.path)).reused

    ModelFolder(home.models).file("small-int8").unlink()  # it is built again, to the same bytes
    again = split("smoke", 0, str(home.path))
    assert again.reused and again.partition == first.partition
    assert ModelFolder(home.models).find("small-int8") is not None


def test_a_compiler_on_the_path_is_asked(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.split import split

    (tmp_path / "bin").mkdir()
    put_on_path(monkeypatch, tmp_path / "bin")
    rows = rows_of(home, split("smoke", 0, str(home.path)).partition)
    for row in rows:
        assert (row["compiler_status"], row["compiler_version"]) == ("compiled", VERSION)
        assert row["on_chip_bytes"] is not None
    assert sorted(path.name for path in home.models.iterdir() if not path.name.startswith(".build")) == [
        "models.json",
        "small-int8.tflite",
    ]


def test_a_segment_that_does_not_compile_is_recorded_with_the_reason(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.split import split

    (tmp_path / "bin").mkdir()
    put_on_path(monkeypatch, tmp_path / "bin")("large_activations:has=branches/concat && branches/3x3")
    rows = rows_of(home, split("smoke", 0, str(home.path)).partition)
    failed = [row for row in rows if row["compiler_status"] == "large_activations"]
    assert failed and all("was not compiled" in row["message"] for row in failed)
    assert any(row["compiler_status"] == "compiled" for row in rows)


def test_without_tensorflow_a_night_has_the_small_network(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.split import split

    def missing() -> None:
        raise MissingExtraError("TensorFlow is not here")

    monkeypatch.setattr("tasks.models.check_tensorflow", missing)
    rows = rows_of(home, split("nightly", 0, str(home.path)).partition)
    assert {row["model"] for row in rows} == {"small-int8"}


def test_rows_that_contradict_the_model_are_not_published(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.split import split
    from tasks import segments

    honest = segments.segment_rows

    def dishonest(*args: Any, **named: Any) -> list[dict[str, Any]]:
        return [{**row, "param_bytes": row["param_bytes"] + 1} for row in honest(*args, **named)]

    monkeypatch.setattr(segments, "segment_rows", dishonest)
    with pytest.raises(QualityError, match="param_bytes"):
        split("smoke", 0, str(home.path))
    assert home.dataset(SEGMENTS).partitions() == {}
