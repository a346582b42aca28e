"""Result files: what is written is read, and whatever was changed on the way is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_runners.errors import (
    DeviceUnavailableError,
    InvalidResultError,
    PipelineFailedError,
    UnwritableResultError,
)
from hardware_runners.job import Job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.protocol import Energy, Inference, Timings
from hardware_runners.result_check import read_result
from hardware_runners.results import Result, job_sha256, result_of, write_result
from hardware_runners.summary import result_lines, speed_up_of
from hardware_runners.timing import time_job
from tests.hardware_runners.jobs import chain_graph, write_graph_job

PLAN = TimingPlan(warm_up=0, repeats=2, items=3)
STARTED = "2024-02-29T12:00:00+00:00"
WHOLE = Timings(
    runner="coral",
    is_simulated=False,
    device="2 Edge TPUs, usb 5000 Mbit/s",
    host="Linux x86_64",
    versions={"python": "3.9.2", "libedgetpu": "RuntimeVersion(14)"},
    num_stages=2,
    latency=(Inference(0, 40), Inference(50, 95)),
    stage_ns=((10, 30), (15, 30)),
    pipelined=(Inference(100, 140), Inference(110, 170), Inference(120, 200)),
    whole_ns=(60, 70),
    energy=Energy(12.5, "INA219 at I2C address 0x40", is_modelled=False, window_us=2e6),
    notes=("device ':1' of stage 1 opened at try 2",),
)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return write_graph_job(tmp_path / "job", chain_graph(), [0, 0, 0, 1, 1, 1], 2)


@pytest.fixture
def file(job: Job, tmp_path: Path) -> Path:
    write_result(tmp_path / "result.json", result_of(job, PLAN, WHOLE, STARTED))
    return tmp_path / "result.json"


def edited(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_result_comes_back_whole(job: Job, file: Path) -> None:
    result = read_result(file, job)
    assert result == result_of(job, PLAN, WHOLE, STARTED)
    assert result.is_complete and result.job_sha256 == job_sha256(job)
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**9)), max_size=5),
    st.lists(st.integers(0, 10**12), max_size=5),
    st.text(min_size=1),
)
def test_whatever_was_measured_comes_back(
    tmp_path_factory: pytest.TempPathFactory, alone: Any, ends: list[int], text: str
) -> None:
    folder = tmp_path_factory.mktemp("results")
    job = write_graph_job(folder / "job", chain_graph(), [0, 0, 0, 1, 1, 1], 2)
    alone.sort(key=lambda times: times[0] + times[1])
    timings = replace(
        WHOLE,
        device=text,
        latency=tuple(Inference(start, start + length) for start, length, _ in alone),
        stage_ns=tuple((stage, length) for _, length, stage in alone),
        pipelined=tuple(Inference(0, end) for end in sorted(ends)),
        energy=None,
    )
    plan = TimingPlan(repeats=max(1, len(alone)), items=len(ends) if len(ends) > 1 else 0)
    error = None if timings.is_complete(plan) else DeviceUnavailableError(text, 1, ":1")
    write_result(folder / "r.json", result_of(job, plan, timings, STARTED, error))
    assert read_result(folder / "r.json", job) == result_of(job, plan, timings, STARTED, error)


def test_a_file_cut_short_anywhere_is_refused(file: Path) -> None:
    whole = file.read_bytes()
    for size in [*range(0, len(whole) - 1, 37), len(whole) - 2]:
        file.write_bytes(whole[:size])
        with pytest.raises(InvalidResultError, match=r"result.json: it is not JSON, perhaps it was cut short"):
            read_result(file)


def test_a_partial_result_says_what_it_lacks_and_why(job: Job, tmp_path: Path) -> None:
    partial = replace(WHOLE, pipelined=WHOLE.pipelined[:1], energy=None)
    error = PipelineFailedError("the process was brought down (SIGABRT)", 1, ":1")
    write_result(tmp_path / "p.json", result_of(job, PLAN, partial, STARTED, error))
    result = read_result(tmp_path / "p.json", job)
    assert not result.is_complete
    assert result.missing == "2 of 2 items alone and 1 of 3 pipelined"
    assert result.failure is not None and (result.failure.stage, result.failure.device) == (1, ":1")
    text = "\n".join(result_lines(result))
    assert "PARTIAL, 2 of 2 items alone and 1 of 3 pipelined: stage 1 on device ':1'" in text


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda r: r.pop("host"), "lacks 'host'"),
        (lambda r: r.update(colour="red"), "unknown key 'colour'"),
        (lambda r: r.update(format="other"), "format is not"),
        (lambda r: r.update(version=2), "version is 2"),
        (lambda r: r.update(version=True), "version is True"),
        (lambda r: r.update(model=""), "model is ''"),
        (lambda r: r.update(started="yesterday"), "started is 'yesterday', expected a date and time"),
        (lambda r: r.update(started="2026-01-31T12:00:00"), "started is .* with its offset"),
        (lambda r: r.update(num_stages=0), "num_stages is 0"),
        (lambda r: r.update(num_stages=3), "contradict"),
        (lambda r: r.update(is_simulated=0), "is_simulated is 0"),
        (lambda r: r.update(versions={"python": 3}), "versions is"),
        (lambda r: r.update(notes="all well"), "notes is 'all well'"),
        (lambda r: r.update(job_sha256="abc"), "job_sha256 is 'abc'"),
        (lambda r: r["plan"].update(items=1), "plan: items is 1"),
        (lambda r: r["plan"].pop("items"), "plan is"),
        (lambda r: r["latency"].pop(), "contradict each other"),
        (lambda r: r["latency"][0].reverse(), "ends before it starts"),
        (lambda r: r["latency"][0].append(3), r"latency\[0\] is .* expected start and end"),
        (lambda r: r["pipelined"].reverse(), "overtakes"),
        (lambda r: r["pipelined"][0].__setitem__(0, 0.5), r"pipelined\[0\] is 0.5"),
        (lambda r: r["pipelined"].pop(), "complete is True with 2 of 2 items alone and 2 of 3"),
        (lambda r: r.update(period_us=31.0), "period_us is 31.0"),
        (lambda r: r.update(stage_us=[0.0125]), "stage_us is"),
        (lambda r: r.update(latency_us=None), "latency_us is None"),
        (lambda r: r.update(complete=False), "complete is False with 2 of 2"),
        (lambda r: r.update(error={"kind": "E", "message": "m", "stage": 0, "device": None}), "and an error"),
        (lambda r: r.update(error={"kind": "E"}), "error is"),
        (lambda r: r["energy"].update(uj_per_inference=-1.0), "contradict"),
        (lambda r: r["energy"].update(uj_per_inference="1"), "energy is"),
        (lambda r: r.update(energy={"source": "x"}), "energy is"),
        (lambda r: r.update(whole_ns=[True]), "whole_ns is True"),
        (lambda r: r.update(whole_us=float("nan")), "NaN is no number"),
    ],
)
def test_what_was_changed_is_named(file: Path, change: Callable[[dict[str, Any]], Any], named: str) -> None:
    edited(file, change)
    with pytest.raises(InvalidResultError, match=named):
        read_result(file)


def test_fewer_items_than_planned_without_an_error_are_refused(job: Job, tmp_path: Path) -> None:
    short = result_of(job, replace(PLAN, items=4), WHOLE, STARTED)
    write_result(tmp_path / "r.json", short)
    with pytest.raises(InvalidResultError, match="complete is True with 2 of 2 items alone and 3 of 4 pipelined"):
        read_result(tmp_path / "r.json")


def test_a_result_of_another_job_is_refused(file: Path, tmp_path: Path) -> None:
    other = write_graph_job(tmp_path / "other", chain_graph(), [0, 0, 1, 1, 1, 1], 2)
    with pytest.raises(InvalidResultError, match=r"another job .* sha256 of job.json differs"):
        read_result(file, other)
    third = write_graph_job(tmp_path / "third", chain_graph(), [0, 0, 1, 1, 2, 2], 3)
    with pytest.raises(InvalidResultError, match=r"num_stages is 2, job folder .*third has 3"):
        read_result(file, third)


def test_files_that_are_not_there_or_cannot_be_written_are_named(job: Job, tmp_path: Path) -> None:
    with pytest.raises(InvalidResultError, match=r"gone\.json: it cannot be read"):
        read_result(tmp_path / "gone.json")
    with pytest.raises(UnwritableResultError, match="no/result"):
        write_result(tmp_path / "no" / "result.json", result_of(job, PLAN, WHOLE, STARTED))


def test_a_result_in_words(job: Job) -> None:
    result: Result = result_of(job, PLAN, WHOLE, STARTED)
    text = "\n".join(result_lines(result))
    for part in (
        "measured by coral on 2 Edge TPUs",
        "uncut model",
        "speed-up",
        "energy",
        "INA219",
        "note: device ':1'",
    ):
        assert part in text
    assert speed_up_of(result) == pytest.approx(65 / 30)
    assert speed_up_of(result_of(job, PLAN, replace(WHOLE, whole_ns=()), STARTED)) is None


def test_calibration_reads_it(file: Path) -> None:
    from respect_core.calibration.own_results import read_timings

    (timing,) = read_timings(file)
    assert timing.period_ms == pytest.approx(30e-6) and len(timing.stage_ms) == 2


@pytest.mark.parametrize("where", ["nowhere/result.json", "a_folder", "a_file/result.json"])
@pytest.mark.parametrize("kept", ["out", "partial_out"])
def test_a_result_that_cannot_be_written_is_told_before_anything_runs(tmp_path: Path, where: str, kept: str) -> None:
    job = write_graph_job(tmp_path / "job", chain_graph(), [0, 0, 0, 1, 1, 1], 2)
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_file").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnwritableResultError, match=f"{where} cannot be written"):
        time_job(job.folder, "no such runner", **{kept: tmp_path / where})
    assert sorted(tmp_path.rglob("*")) == before
