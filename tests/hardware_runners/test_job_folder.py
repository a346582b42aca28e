from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from hardware_runners import errors
from hardware_runners.errors import InvalidJobError, JobExistsError, RunnerError, UnwritableJobError
from hardware_runners.job import JOB_FILE, read_job, write_job

GOOD: dict[str, Any] = {
    "model": "tiny",
    "num_stages": 2,
    "objective": "throughput",
    "solver": "ilp",
    "stage_of": [0, 0, 1],
    "profile": {"name": "usb3", "overhead_ms": 0.13},
    "files": {"graph.json": b"{}", "a.tflite": b"abc", "b.tflite": b""},
}


def edited(folder: Path, change: Any) -> None:
    content = json.loads((folder / JOB_FILE).read_text())
    change(content)
    (folder / JOB_FILE).write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_job(tmp_path / "job", **GOOD)
    return tmp_path / "job"


@given(
    st.text(min_size=1),
    st.lists(st.integers(0, 3), min_size=4),
    st.dictionaries(st.sampled_from(["a", "graph.json", "ü b.bin"]), st.binary(max_size=50)),
    st.dictionaries(st.text(min_size=1), st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, model: str, stages: list[int], files: dict[str, bytes], constants: Any
) -> None:
    folder = tmp_path_factory.mktemp("jobs") / "job"
    job = write_job(
        folder,
        model=model,
        num_stages=4,
        objective="throughput",
        solver="ilp",
        stage_of=stages,
        profile={**constants, "name": "own"},
        files=files,
    )
    assert read_job(folder) == job
    assert job.stage_of == tuple(stages)
    assert {name: job.path(name).read_bytes() for name in files} == files
    assert sorted(p.name for p in folder.parent.iterdir()) == ["job"], "the staging folder was left behind"


def test_segments_are_named_in_stage_order(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", **GOOD, segments=["b.tflite", "a.tflite"])
    assert read_job(tmp_path / "job").segments == job.segments == ("b.tflite", "a.tflite")


def test_writing_the_same_again_changes_nothing_and_something_else_is_refused(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_job(folder, **GOOD)
    with pytest.raises(JobExistsError, match="another job"):
        write_job(folder, **{**GOOD, "stage_of": [0, 1, 1]})
    with pytest.raises(JobExistsError, match="another job"):
        write_job(folder, **{**GOOD, "files": {**GOOD["files"], "a.tflite": b"abd"}})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_foreign_folder_is_left_alone_and_an_empty_one_is_used(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.txt").write_text("years of work")
    with pytest.raises(JobExistsError, match=r"job\.json is missing"):
        write_job(tmp_path / "theirs", **GOOD)
    assert [p.name for p in (tmp_path / "theirs").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(JobExistsError):
        write_job(tmp_path / "file", **GOOD)
    (tmp_path / "empty").mkdir()
    write_job(tmp_path / "empty", **GOOD)
    assert read_job(tmp_path / "empty").model == "tiny"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnwritableJobError, match="missing"):
        write_job(tmp_path / "missing" / "job", **GOOD)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnwritableJobError, match="No space left"):
        write_job(tmp_path / "job", **GOOD)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"stage_of": [0, 0, 2]}, r"stage_of\[2\] is 2"),
        ({"stage_of": [0, -1, 1]}, r"stage_of\[1\] is -1"),
        ({"num_stages": 0}, "num_stages is 0"),
        ({"num_stages": 4}, "num_stages is 4, expected 1..3"),
        ({"model": ""}, "model is ''"),
        ({"profile": {"overhead_ms": 1}}, "'name'"),
        ({"profile": {"name": "p", "overhead_ms": float("nan")}}, "overhead_ms"),
        ({"files": {"../escape": b""}}, "escape"),
        ({"files": {"job.json": b""}}, "job.json"),
        ({"segments": ["c.tflite", "a.tflite"]}, "c.tflite"),
        ({"segments": ["a.tflite"]}, "expected none or one"),
        ({"segments": ["a.tflite", "a.tflite"]}, "expected none or one"),
    ],
)
def test_bad_jobs_are_not_written(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidJobError, match=named):
        write_job(tmp_path / "job", **{**GOOD, **change})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c.pop("solver"), "lacks 'solver'"),
        (lambda c: c.update(extra=1), "unknown key 'extra'"),
        (lambda c: c.update(version=2), "version is 2, this program reads version 1"),
        (lambda c: c.update(format="zip"), "format is 'zip'"),
        (lambda c: c.update(stage_of="0 0 1"), "stage_of is '0 0 1', expected a list"),
        (lambda c: c.update(stage_of=[0, 0.5, 1]), r"stage_of\[1\] is 0.5"),
        (lambda c: c.update(stage_of=[0, True, 1]), r"stage_of\[1\] is True"),
        (lambda c: c.update(num_stages="2"), "num_stages is '2'"),
        (lambda c: c.update(files=[]), r"files is \[\]"),
        (lambda c: c["files"].update({"/etc/passwd": {}}), "plain name"),
        (lambda c: c["files"]["graph.json"].pop("bytes"), "'graph.json' lacks 'bytes'"),
        (lambda c: c["files"]["graph.json"].update(sha256="ABC"), "sha256 of file 'graph.json'"),
        (lambda c: c["files"].update({"new": {"sha256": "0" * 64, "bytes": 1}}), "file 'new' is missing"),
        (lambda c: c["profile"].update(overhead_ms="fast"), "overhead_ms"),
        (lambda c: c.update(segments={}), "segments is {}"),
        (lambda c: c.update(segments=[[]]), "segment"),
    ],
)
def test_every_mistake_in_the_file_is_named(folder: Path, change: Any, named: str) -> None:
    edited(folder, change)
    with pytest.raises(InvalidJobError, match=named):
        read_job(folder)


def test_a_changed_missing_or_unlisted_file(folder: Path) -> None:
    (folder / "result.json").write_text("not listed, so not looked at")
    read_job(folder)
    (folder / "a.tflite").write_bytes(b"abd")
    with pytest.raises(InvalidJobError, match=r"'a.tflite' has sha256"):
        read_job(folder)
    (folder / "a.tflite").write_bytes(b"ab")
    with pytest.raises(InvalidJobError, match=r"'a.tflite' has 2 bytes, 3 are expected"):
        read_job(folder)
    (folder / "a.tflite").unlink()
    with pytest.raises(InvalidJobError, match=r"'a.tflite' is missing"):
        read_job(folder)
    (folder / "a.tflite").mkdir()
    with pytest.raises(InvalidJobError, match=r"a.tflite"):
        read_job(folder)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"format": ' + b"9" * 5000])
def test_something_else_than_a_job(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InvalidJobError, match="no such folder"):
        read_job(tmp_path / "job")
    (tmp_path / "job").mkdir()
    with pytest.raises(InvalidJobError, match=r"job\.json is missing"):
        read_job(tmp_path / "job")
    (tmp_path / "job" / JOB_FILE).write_bytes(content)
    with pytest.raises(InvalidJobError, match=r"job\.json"):
        read_job(tmp_path / "job")


def test_a_job_cut_short_anywhere_is_refused(folder: Path) -> None:
    whole = (folder / JOB_FILE).read_bytes().rstrip()
    for length in range(len(whole)):
        (folder / JOB_FILE).write_bytes(whole[:length])
        with pytest.raises(InvalidJobError, match=r"job\.json"):
            read_job(folder)


@given(st.data())
def test_a_damaged_job_gives_a_job_or_an_error_that_was_meant(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged") / "job"
    write_job(folder, **GOOD)
    content = bytearray((folder / JOB_FILE).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / JOB_FILE).write_bytes(bytes(content))
    try:
        read_job(folder)
    except InvalidJobError as error:
        assert str(folder) in str(error)


def test_asking_for_a_file_that_is_not_listed(folder: Path) -> None:
    with pytest.raises(InvalidJobError, match=r"no file 'c.tflite', listed are a.tflite, b.tflite, graph.json"):
        read_job(folder).path("c.tflite")


@pytest.mark.parametrize(
    "error",
    [
        errors.DeviceUnavailableError("it is gone", 2, "usb:1"),
        errors.PipelineFailedError("it stopped", stage=1),
        errors.UnknownRunnerError("abacus", ["simulated"]),
        InvalidJobError("there", "it is empty"),
        JobExistsError("there", "it is full", 1, "pci:0"),
    ],
)
def test_errors_name_stage_and_device_and_survive_another_process(error: RunnerError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.stage, again.device) == (type(error), str(error), error.stage, error.device)


def test_an_error_says_where() -> None:
    assert str(errors.DeviceUnavailableError("it is gone", 2, "usb:1")) == "stage 2 on device 'usb:1': it is gone"
    assert isinstance(errors.DeviceUnavailableError("it is gone"), ConnectionError)
    assert isinstance(InvalidJobError("there", "it is empty"), ValueError)
