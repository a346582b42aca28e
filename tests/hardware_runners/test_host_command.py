"""``python -m hardware_runners`` as a Coral host has it: a copied folder, Python 3.9 and NumPy alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hardware_runners.__main__ import main
from hardware_runners.job import Job
from hardware_runners.result_check import read_result
from tasks.host_part import export_host
from tests.hardware_runners import coral_double
from tests.hardware_runners.jobs import SKIPPING_STAGES, skipping_model, write_segment_job

BLOCKED = """
import runpy, sys
from importlib.abc import MetaPathFinder

ALLOWED = set(sys.argv[1].split(",")) | {"numpy", "hardware_runners"}

class Block(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ALLOWED:
            raise ImportError(f"{name} is not to be had on a Coral host")

sys.meta_path.insert(0, Block())
sys.path.insert(0, sys.argv[2])
sys.argv = ["hardware_runners", *sys.argv[3:]]
runpy.run_module("hardware_runners", run_name="__main__")
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    export_host(tmp_path / "copied")
    return tmp_path / "copied"


def test_the_copied_folder_measures_where_every_other_import_is_blocked(
    job: Job, copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter is imported by the measuring process alone, so this one can do without it."""
    out = tmp_path / "result.json"
    allowed = ",".join(sorted(sys.stdlib_module_names))
    given = [str(job.folder), "--runner", "litert", "--out", str(out), "--json"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", BLOCKED, allowed, str(copied), *given],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert read_result(out, job).is_complete
    assert json.loads(done.stdout)["model"] == "net"


@pytest.fixture(scope="session")
def python_3_9(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A virtual environment of Python 3.9 with NumPy alone."""
    from tests.hardware_runners.test_device_host_part import _a_python_3_9

    python = _a_python_3_9()
    if python is None:
        pytest.skip("there is no Python 3.9 here; the test with blocked imports stands in for it")
    folder = tmp_path_factory.mktemp("python39") / "venv"
    made = subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], capture_output=True, check=False)
    found = str(folder / "bin" / "python")
    if made.returncode or not installed(found, "numpy<2"):
        pytest.skip(
            "no environment with NumPy can be made for Python 3.9; the test with blocked imports stands in for it"
        )
    return found


def installed(python: str, *packages: str) -> bool:
    """Install packages into a virtual environment that has no pip of its own, which takes long to make."""
    into = str(Path(python).parents[1] / "lib/python3.9/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
    which = ["--python-version", "3.9", "--only-binary", ":all:", "--no-deps", "--target", into]
    return subprocess.run([*pip, *which, *packages], capture_output=True, timeout=300, check=False).returncode == 0


@pytest.mark.slow
def test_python_3_9_with_numpy_alone_runs_the_command(python_3_9: str, job: Job, copied: Path) -> None:
    """It reads and checks the job, says that an interpreter is missing, and looks at the host."""

    def run(*given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python_3_9, "-m", "hardware_runners", *given],
            cwd=copied, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    done = run(str(job.folder), "--runner", "litert")
    assert done.returncode == 2 and "no TFLite interpreter can be imported here" in done.stderr, done.stderr
    done = run(str(job.folder), "--runner", "coral")
    assert done.returncode == 2 and "pycoral cannot be imported" in done.stderr, done.stderr
    done = run("--doctor", "--json")
    checks = {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert "3.9" in checks["host python"]["what"] and checks["interpreter"]["way_out"]
    check = "import numpy, sys; from hardware_runners.measuring.items import items_of; "
    check += "from hardware_runners.job import read_job; "
    check += "assert len(items_of(read_job(sys.argv[1]))) == 3 and not {'respect_core', 'pandas'} & set(sys.modules)"
    done = subprocess.run(
        [python_3_9, "-c", check, str(job.folder)], cwd=copied, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_python_3_9_runs_segments_where_it_has_an_interpreter(
    python_3_9: str, job: Job, copied: Path, tmp_path: Path
) -> None:
    if not installed(python_3_9, "tflite-runtime"):
        pytest.skip("tflite-runtime cannot be installed here")
    out = tmp_path / "result.json"
    done = subprocess.run(
        [python_3_9, "-m", "hardware_runners", str(job.folder), "--runner", "litert", "--out", str(out)],
        cwd=copied, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = read_result(out, job)
    assert result.is_complete and result.timings.versions["python"].startswith("3.9")


# -- on the double ----------------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("PYTHONPATH", coral_double.install(tmp_path / "host"))
    monkeypatch.setenv("CORAL_DOUBLE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CORAL_DOUBLE", json.dumps({"links": ["usb", "usb", "usb"]}))


@pytest.mark.usefixtures("host")
def test_it_times_a_job_on_devices_and_writes_the_result(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "result.json"
    given = ["--engine", "litert", "--runtime", "tflite-runtime", "--devices", "usb:0,usb:1,usb:2", "--items", "4"]
    assert main([str(job.folder), *given, "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "measured by coral on 3 Edge TPUs, usb" in said and "throughput" in said and "uncut model" in said
    assert len(read_result(out, job).timings.pipelined) == 4


@pytest.mark.usefixtures("host")
def test_what_was_measured_until_an_abort_is_kept_and_marked(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = {"device": ":1", "after": 60, "how": "abort"}
    monkeypatch.setenv("CORAL_DOUBLE", json.dumps({"links": ["usb"] * 3, "fail": fail}))
    out = tmp_path / "result.json"
    assert main([str(job.folder), "--items", "3000", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "SIGABRT" in said and "stages 0 (':0'), 1 (':1'), 2 (':2')" in said and f"kept in {out}" in said
    result = read_result(out, job)
    assert not result.is_complete and result.failure is not None
    assert result.failure.kind == "PipelineFailedError"


@pytest.mark.usefixtures("host")
def test_without_a_result_file_a_partial_one_is_left_where_the_command_runs(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = {"device": ":1", "after": 60, "how": "vanish"}
    monkeypatch.setenv("CORAL_DOUBLE", json.dumps({"links": ["usb"] * 3, "fail": fail}))
    monkeypatch.chdir(tmp_path)
    assert main([str(job.folder), "--items", "3000"]) == 5
    said = capsys.readouterr().err
    assert "stage 1 on device ':1': the device vanished" in said and "kept in job-coral.partial.json" in said
    assert not read_result(tmp_path / "job-coral.partial.json", job).is_complete


def test_a_host_without_numpy_says_what_to_install(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "bare"))
    assert main([str(job.folder), "--runner", "litert"]) == 2
    said = capsys.readouterr().err
    assert f"error: numpy cannot be imported by {sys.executable}: pip install numpy" in said


def test_an_interrupt_is_one_line(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hardware_runners.__main__.time_job", interrupted)
    assert main([str(job.folder), "--runner", "litert"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_exit_statuses_tell_bad_input_and_missing_devices_apart(
    job: Job, host: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CORAL_DOUBLE", json.dumps({"links": ["usb"]}))
    assert main([str(job.folder)]) == 5
    assert "stage 1 on device ':1': 1 Edge TPUs are attached" in capsys.readouterr().err
    assert main([str(tmp_path / "nowhere")]) == 2
    assert main([str(job.folder), "--items", "1"]) == 2
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2


def test_a_wrong_sha256_is_refused_before_anything_runs(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    path = job.path(str(job.segments[1].file))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert main([str(job.folder), "--runner", "litert"]) == 2
    assert f"file {path.name!r} has sha256" in capsys.readouterr().err


def test_it_looks_at_the_host(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert status == (2 if any(finding["level"] == "error" for finding in findings) else 0)
    assert main(["--doctor"]) == status
    assert "host python" in capsys.readouterr().out


def test_nothing_of_the_environment_of_the_caller_is_lost(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/one", "/two"]))
    assert main([str(job.folder), "--runner", "litert", "--items", "2", "--repeats", "1"]) == 0
