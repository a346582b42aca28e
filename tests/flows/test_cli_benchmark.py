"""`respect benchmark` on job folders and on results of other hosts, and what reaches the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result as CliResult
from typer.testing import CliRunner

from flows.cli import app
from hardware_runners.job import Job
from hardware_runners.result_check import read_result
from respect_core.tables.benchmarks import BENCHMARKS
from tasks.home import Home
from tests.hardware_runners import coral_double
from tests.hardware_runners.jobs import SKIPPING_STAGES, skipping_model, write_segment_job


def run(*arguments: str) -> CliResult:
    return CliRunner().invoke(app, ["benchmark", *arguments])


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def rows(home: Path) -> list[dict[str, Any]]:
    dataset = Home(path=home).dataset(BENCHMARKS)
    return [row for partition in dataset.partitions() for row in dataset.read(partition).to_pylist()]


def test_segments_run_for_real_and_their_rows_are_published(job: Job, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    result = run(str(job.folder), "--runner", "litert", "--home", str(home), "--out", str(out))
    assert result.exit_code == 0, result.output
    for part in ("measured by litert on cpu", "throughput", "uncut model", "speed-up", "benchmarks: 8 rows published"):
        assert part in result.stdout
    found = rows(home)
    assert len(found) == job.plan.repeats + job.plan.items
    assert {row["is_simulated"] for row in found} == {False} and all(row["device"].startswith("cpu") for row in found)
    taken_in = run("--results", str(out), str(job.folder), "--home", str(tmp_path / "other"), "--json")
    assert taken_in.exit_code == 0, taken_in.output
    assert json.loads(taken_in.stdout)["published"]["rows"] == len(found)
    assert rows(tmp_path / "other") == found
    again = run("--results", str(out), "--home", str(tmp_path / "other"))
    assert "rows reused" in again.stdout and rows(tmp_path / "other") == found


def test_json_holds_the_means_and_the_raw_times(job: Job, home: Path) -> None:
    result = run(str(job.folder), "--runner", "simulated", "--home", str(home), "--no-record", "--items", "7", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["is_simulated"] and found["published"] is None and found["speed_up"] > 0
    assert len(found["pipelined"]) == 7 and found["plan"]["repeats"] == job.plan.repeats
    assert found["energy"]["is_modelled"]
    assert not (home / "datasets").exists()


def test_a_partial_result_is_kept_marked_and_never_reaches_the_table(
    job: Job, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("host", "state"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PYTHONPATH", coral_double.install(tmp_path / "host"))
    monkeypatch.setenv("CORAL_DOUBLE_STATE", str(tmp_path / "state"))
    fail = {"device": ":1", "after": 60, "how": "vanish"}
    monkeypatch.setenv("CORAL_DOUBLE", json.dumps({"links": ["usb"] * 3, "fail": fail}))
    result = run(str(job.folder), "--runner", "coral", "--items", "3000", "--home", str(home))
    assert result.exit_code == 5, result.output
    assert "kept in" in result.stderr and "marked as partial" in result.stderr
    (kept,) = (home / "results").iterdir()
    assert kept.name.endswith(".partial.json") and not read_result(kept, job).is_complete
    refused = run("--results", str(kept), "--home", str(home))
    assert refused.exit_code == 2
    assert "it is partial and does not enter the table" in refused.stderr and "of 3000 pipelined" in refused.stderr
    assert rows(home) == []


def test_a_result_cut_short_or_of_another_job_leaves_the_table_clean(job: Job, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert (
        run(str(job.folder), "--runner", "simulated", "--home", str(home), "--no-record", "--out", str(out)).exit_code
        == 0
    )
    (tmp_path / "cut.json").write_bytes(out.read_bytes()[:500])
    result = run("--results", str(out), "--results", str(tmp_path / "cut.json"), "--home", str(home))
    assert result.exit_code == 2 and "cut.json" in result.stderr and "cut short" in result.stderr
    (tmp_path / "two").mkdir()
    other = write_segment_job(tmp_path / "two/job", skipping_model(), [0, 0, 1, 2], 3)
    result = run("--results", str(out), str(other.folder), "--home", str(home))
    assert result.exit_code == 2 and "another job" in result.stderr
    assert rows(home) == []


def test_a_result_that_was_changed_is_not_taken_for_the_published_one(job: Job, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    given = ("--runner", "simulated", "--home", str(home))
    assert run(str(job.folder), *given, "--out", str(out)).exit_code == 0
    assert "rows reused" in run("--results", str(out), "--home", str(home)).stdout
    content = json.loads(out.read_text())
    for changed in ({"host": "another"}, {"versions": {"simulator": "0"}}, {"is_simulated": False}):
        out.write_text(json.dumps({**content, **changed}))
        assert "reused" not in run("--results", str(out), "--home", str(home)).stdout


def test_rows_that_break_a_rule_are_kept_aside(job: Job, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert (
        run(str(job.folder), "--runner", "simulated", "--home", str(home), "--no-record", "--out", str(out)).exit_code
        == 0
    )
    content = json.loads(out.read_text())
    out.write_text(json.dumps({**content, "is_simulated": False}))
    result = run("--results", str(out), "--home", str(home))
    assert result.exit_code == 4 and "simulated_is_marked" in result.stderr
    assert rows(home) == [] and list((home / "rejected" / "benchmarks").iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (("--runner", "toaster"), 2, "'toaster'"),
        (("--runner", "coral", "--devices", ":0,:1"), 5, "2 devices are given"),
        (("--runner", "coral", "--engine", "steam"), 2, "'steam'"),
        (("--runner", "litert", "--items", "1"), 2, "items is 1"),
        (("--runner", "litert", "--engine", "litert"), 2, "engine"),
        (("--runner", "litert", "--meter", "abacus"), 2, "abacus"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    job: Job, home: Path, arguments: tuple[str, ...], code: int, named: str
) -> None:
    result = run(str(job.folder), *arguments, "--home", str(home))
    assert result.exit_code == code, result.output
    assert named in result.stderr and "Traceback" not in result.output


def test_a_runner_that_needs_segments_says_so_without_a_job(home: Path) -> None:
    result = run("--runner", "litert", "--home", str(home))
    assert result.exit_code == 2 and "respect split" in result.stderr


def test_the_host_part_is_exported(tmp_path: Path) -> None:
    result = run("--export-host", str(tmp_path / "host"), "--json")
    files = json.loads(result.stdout)["files"]
    assert "hardware_runners/__main__.py" in files and "hardware_runners/simulated.py" not in files
    assert all((tmp_path / "host" / name).is_file() for name in files)
