from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from hardware_runners import errors
from hardware_runners.errors import (
    InvalidJobError,
    InvalidPlanError,
    JobExistsError,
    RunnerError,
    UnwritableJobError,
)
from hardware_runners.job import JOB_FILE, JobSegment, TensorSpec, read_job, write_job
from hardware_runners.jobs.format import VERSION
from hardware_runners.protocol import RUNNERS, TimingPlan, open_runner

GOOD: dict[str, Any] = {
    "model": "tiny",
    "num_stages": 2,
    "objective": "throughput",
    "solver": "ilp",
    "stage_of": [0, 0, 1],
    "profile": {"name": "usb3", "overhead_ms": 0.13},
    "files": {"graph.json": b"{}", "a.tflite": b"abc", "b.tflite": b""},
}

IN, MID, SKIP, OUT = (TensorSpec(name, "int8", (1, 4)) for name in ("in", "mid:0", "skip", "out"))
FIRST = JobSegment("a.tflite", None, (IN,), (MID, SKIP))
LAST = JobSegment("b.tflite", None, (SKIP, MID), (OUT,))
WHOLE = JobSegment(None, None, (IN,), (OUT,))
CUT: dict[str, Any] = {
    **GOOD,
    "suits_pipeline": True,
    "plan": TimingPlan(warm_up=1, repeats=2, items=3),
    "whole": WHOLE,
    "segments": (FIRST, LAST),
    "reference": "graph.json",
}


def edited(folder: Path, change: Any) -> None:
    content = json.loads((folder / JOB_FILE).read_text())
    change(content)
    (folder / JOB_FILE).write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_job(tmp_path / "job", **GOOD)
    return tmp_path / "job"


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    write_job(tmp_path / "cut", **CUT)
    return tmp_path / "cut"


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


def test_segments_plan_and_reference_come_back(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job", **CUT)
    assert read_job(tmp_path / "job") == job
    assert (job.whole, job.segments) == (WHOLE, (FIRST, LAST))
    assert job.plan == TimingPlan(warm_up=1, repeats=2, items=3)
    assert job.reference == "graph.json"
    assert job.suits_pipeline
    assert OUT.num_bytes == 4 and TensorSpec("x", "float32", ()).num_bytes == 4


def test_a_graph_alone_suits_no_pipeline_and_has_the_usual_plan(folder: Path) -> None:
    job = read_job(folder)
    assert not job.suits_pipeline
    assert job.plan == TimingPlan()
    assert (job.whole, job.segments, job.reference) == (None, (), None)


def test_a_large_file_is_copied_from_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"x" * 3_000_000)
    job = write_job(tmp_path / "job", **{**GOOD, "files": {"graph.json": b"{}", "big": tmp_path / "model"}})
    assert read_job(tmp_path / "job") == job
    assert job.path("big").read_bytes() == b"x" * 3_000_000
    with pytest.raises(UnwritableJobError, match="gone"):
        write_job(tmp_path / "other", **{**GOOD, "files": {"big": tmp_path / "gone"}})


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
        ({"segments": (replace(FIRST, file="c.tflite"), LAST)}, r"segments\[0\] file 'c.tflite' is not among"),
        ({"segments": (replace(FIRST, file=None), LAST)}, r"segments\[0\] file is None, expected a text"),
        ({"segments": (replace(FIRST, compiled="c"), LAST)}, r"segments\[0\] compiled 'c' is not among"),
        ({"segments": (FIRST,)}, "expected none or one for each of 2 stages"),
        ({"segments": (FIRST, replace(LAST, file="a.tflite"))}, "'a.tflite' is named for two"),
        ({"segments": ()}, "whole and segments"),
        ({"whole": None}, "whole and segments"),
        ({"whole": None, "segments": ()}, "reference is given without"),
        ({"whole": None, "segments": (), "reference": None}, "suits_pipeline is given without"),
        ({"reference": "c.npz"}, "reference 'c.npz' is not among"),
        ({"whole": replace(WHOLE, inputs=(replace(IN, dtype="string"),))}, r"whole inputs\[0\] dtype is 'string'"),
        ({"whole": replace(WHOLE, inputs=(replace(IN, shape=(1, 0)),))}, r"whole inputs\[0\] shape is 0"),
        ({"whole": replace(WHOLE, inputs=(replace(IN, shape=(2**30, 2**30)),))}, r"2\*\*40 bytes"),
        ({"whole": replace(WHOLE, inputs=(replace(IN, name=""),))}, r"whole inputs\[0\] name is ''"),
        ({"whole": replace(WHOLE, inputs=(IN, IN))}, "whole inputs name tensor 'in' twice"),
    ],
)
def test_bad_jobs_are_not_written(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidJobError, match=named):
        write_job(tmp_path / "job", **{**CUT, **change})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "stage", "named"),
    [
        ({"segments": (FIRST, replace(LAST, inputs=(MID, SKIP, OUT)))}, 1, "'out', which no earlier segment makes"),
        ({"segments": (replace(FIRST, inputs=(IN, MID)), LAST)}, 0, "reads tensor 'mid:0', which no earlier"),
        ({"segments": (FIRST, replace(LAST, inputs=(replace(MID, shape=(4,)), SKIP)))}, 1, r"int8 \[4\], made as int8"),
        ({"segments": (FIRST, replace(LAST, inputs=(replace(MID, dtype="uint8"), SKIP)))}, 1, r"'mid:0' as uint8"),
        ({"segments": (FIRST, replace(LAST, outputs=(OUT, MID)))}, 1, "'mid:0', which stage 0 makes too"),
        ({"segments": (FIRST, replace(LAST, outputs=(OUT, IN)))}, 1, "'in', which is an input of the model"),
        ({"segments": (FIRST, replace(LAST, inputs=(MID,)))}, 0, "no later segment reads its output 'skip'"),
        (
            {
                "whole": replace(WHOLE, outputs=(OUT,)),
                "segments": (replace(FIRST, outputs=()), replace(LAST, inputs=(IN,))),
            },
            0,
            "it has no outputs",
        ),
        ({"whole": replace(WHOLE, outputs=(OUT, replace(OUT, name="lost")))}, None, "'lost', which no segment makes"),
        ({"whole": replace(WHOLE, outputs=(MID, OUT))}, 0, "it suits no pipeline: it makes the model's output 'mid:0'"),
        (
            {
                "whole": replace(WHOLE, inputs=(IN, replace(IN, name="late"))),
                "segments": (FIRST, replace(LAST, inputs=(MID, SKIP, replace(IN, name="late")))),
            },
            1,
            "it suits no pipeline: it reads the model's input 'late'",
        ),
    ],
)
def test_segments_that_do_not_chain_are_refused_by_stage(
    tmp_path: Path, change: dict[str, Any], stage: int | None, named: str
) -> None:
    with pytest.raises(InvalidJobError, match=named) as caught:
        write_job(tmp_path / "job", **{**CUT, **change})
    assert caught.value.stage == stage


def test_the_last_stage_may_pass_an_input_on(tmp_path: Path) -> None:
    passing = {
        "whole": replace(WHOLE, outputs=(OUT, IN)),
        "segments": (FIRST, replace(LAST, inputs=(MID, SKIP, IN), outputs=(OUT, IN))),
    }
    job = write_job(tmp_path / "job", **{**CUT, **passing})
    assert read_job(tmp_path / "job") == job and job.suits_pipeline
    changed = replace(LAST, inputs=(MID, SKIP, IN), outputs=(OUT, replace(IN, shape=(4,))))
    with pytest.raises(InvalidJobError, match="passes on tensor 'in'"):
        write_job(tmp_path / "other", **{**CUT, **passing, "segments": (FIRST, changed)})


def test_a_runner_that_relays_everything_takes_what_a_pipeline_does_not(tmp_path: Path) -> None:
    early = {"whole": replace(WHOLE, outputs=(MID, OUT)), "suits_pipeline": False}
    job = write_job(tmp_path / "job", **{**CUT, **early})
    assert read_job(tmp_path / "job") == job
    assert not job.suits_pipeline


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda c: c.pop("solver"), "lacks 'solver'"),
        (lambda c: c.update(extra=1), "unknown key 'extra'"),
        (lambda c: c.update(version=1), f"version is 1, this program reads version {VERSION}"),
        (lambda c: c.update(version=True), "version is True"),
        (lambda c: (c.update(version=1), c.pop("plan")), "version is 1"),
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
        (lambda c: c.update(segments=[[], []]), r"segments\[0\] is \[\]"),
        (lambda c: c["segments"][1].pop("outputs"), r"segments\[1\] lacks 'outputs'"),
        (lambda c: c["segments"][1]["inputs"][0].update(shape=4), r"segments\[1\] inputs\[0\] shape is 4"),
        (lambda c: c["segments"][1]["inputs"][0].update(shape=[1] * 40), "at most 32 dimensions"),
        (lambda c: c["segments"][1]["inputs"][0].update(dtype=["int8"]), r"inputs\[0\] dtype is \['int8'\]"),
        (lambda c: c["plan"].update(items=1), "plan: items is 1"),
        (lambda c: c["plan"].pop("items"), "plan lacks 'items'"),
        (lambda c: c.update(plan=None), "plan is None"),
        (lambda c: c.update(suits_pipeline=1), "suits_pipeline is 1, expected true or false"),
        (lambda c: c.update(reference=7), "reference is 7"),
    ],
)
def test_every_mistake_in_the_file_is_named(cut: Path, change: Any, named: str) -> None:
    edited(cut, change)
    with pytest.raises(InvalidJobError, match=named):
        read_job(cut)


def test_a_changed_missing_or_unlisted_file(folder: Path) -> None:
    (folder / "result.json").write_text("not listed, so not looked at")
    read_job(folder)
    way_out = ".*: copy the folder again, or write it anew with `respect split`"
    (folder / "a.tflite").write_bytes(b"abd")
    with pytest.raises(InvalidJobError, match=r"'a.tflite' has sha256" + way_out):
        read_job(folder)
    (folder / "a.tflite").write_bytes(b"ab")
    with pytest.raises(InvalidJobError, match=r"'a.tflite' has 2 bytes, 3 are expected" + way_out):
        read_job(folder)
    (folder / "a.tflite").unlink()
    with pytest.raises(InvalidJobError, match=r"'a.tflite' is missing" + way_out):
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
    write_job(folder, **CUT)
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


def test_what_is_no_job_folder_says_what_writes_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, why in (
        (tmp_path / "nowhere", "there is no such folder: `respect split"),
        (tmp_path / "empty", r"job\.json is missing: `respect split"),
        (folder / JOB_FILE, r"it is no folder: name the one that holds job\.json"),
    ):
        with pytest.raises(InvalidJobError, match=why):
            read_job(path)


@pytest.mark.parametrize("name", sorted(RUNNERS))
def test_an_option_that_a_runner_does_not_have_is_named_with_those_it_has(name: str) -> None:
    with pytest.raises(
        InvalidPlanError, match=f"runner '{name}' has no option 'colour': its options are .*input_queue"
    ):
        open_runner(name, colour="red")
