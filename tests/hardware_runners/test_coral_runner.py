"""The runner `coral` on a contract double of pycoral, tflite-runtime and libedgetpu, aborts included."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hardware_runners.devices import delegates
from hardware_runners.errors import (
    DeviceUnavailableError,
    InvalidJobError,
    InvalidPlanError,
    PipelineFailedError,
    RunnerError,
    RuntimeMissingError,
    RuntimeTooOldError,
)
from hardware_runners.job import Job
from hardware_runners.measuring import engines_coral
from hardware_runners.measuring.request import Request
from hardware_runners.measuring.stages import failure
from hardware_runners.protocol import PipelineRunner, TimingPlan, Timings, open_runner
from tests.conftest import ROOT
from tests.hardware_runners import coral_double
from tests.hardware_runners.contract import PLAN, RealRunnerContract
from tests.hardware_runners.jobs import SKIPPING_STAGES, skipping_model, write_segment_job
from tests.tflite_models import RunnableModel

ENGINES = ("pycoral", "litert")
OPTIONS: dict[str, Any] = {"wait_s": 0.0, "library": "libedgetpu-double.so.1", "runtime": "tflite-runtime"}
Behave = Callable[..., None]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Behave:
    """A made-up host of three devices; call it to change how it behaves."""
    (tmp_path / "host").mkdir()
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("PYTHONPATH", coral_double.install(tmp_path / "host"))
    monkeypatch.setenv("CORAL_DOUBLE_STATE", str(tmp_path / "state"))

    def behave(**settings: Any) -> None:
        monkeypatch.setenv("CORAL_DOUBLE", json.dumps({"links": ["pci", "usb", "usb"], **settings}))

    behave()
    return behave


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3)


def timed(job: Job, engine: str, plan: TimingPlan = PLAN, **options: Any) -> Timings:
    with open_runner("coral", engine=engine, **{**OPTIONS, **options}) as runner:
        return runner.time(job, plan)


@pytest.mark.usefixtures("host")
class TestPycoralContract(RealRunnerContract):
    @pytest.fixture
    def runner(self) -> PipelineRunner:
        return open_runner("coral", engine="pycoral", **OPTIONS)

    @pytest.fixture
    def job(self, job: Job) -> Job:
        return job


@pytest.mark.usefixtures("host")
class TestLiteRtContract(RealRunnerContract):
    @pytest.fixture
    def runner(self) -> PipelineRunner:
        return open_runner("coral", engine="litert", **OPTIONS)

    @pytest.fixture
    def job(self, job: Job) -> Job:
        return job


@pytest.mark.parametrize("engine", ENGINES)
def test_it_records_devices_links_and_versions(host: Behave, job: Job, engine: str) -> None:
    timings = timed(job, engine, devices=["usb:0", "usb:1", "pci:0"])
    assert timings.device == "3 Edge TPUs, usb, pcie"
    assert timings.versions["engine"] == engine
    assert timings.versions["tflite-runtime"] == "2.14.0"
    assert timings.notes == ()
    if engine == "pycoral":
        assert timings.versions["pycoral"] == "2.0.0"
        assert "RuntimeVersion(14)" in timings.versions["libedgetpu"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [1, 2])
def test_bounded_ends_neither_block_for_ever_nor_lose_items(host: Behave, job: Job, engine: str, size: int) -> None:
    timings = timed(job, engine, TimingPlan(warm_up=0, repeats=0, items=40), input_queue=size, output_queue=size)
    assert len(timings.pipelined) == 40


@pytest.mark.parametrize("engine", ENGINES)
def test_flaky_loads_are_tried_again_and_told(host: Behave, job: Job, engine: str) -> None:
    host(flaky={":1": 2})
    timings = timed(job, engine)
    assert timings.notes == ("device ':1' of stage 1 opened at try 3",)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_device_that_never_opens_is_named_with_its_stage(host: Behave, job: Job, engine: str) -> None:
    host(flaky={":1": 99})
    with pytest.raises(
        DeviceUnavailableError, match=r"stage 1 on device ':1': .* 3 tries .*Failed to load delegate"
    ) as caught:
        timed(job, engine, retries=2)
    assert (caught.value.stage, caught.value.device) == (1, ":1")


def test_fewer_devices_than_stages_are_found_before_anything_is_opened(host: Behave, job: Job, tmp_path: Path) -> None:
    host(links=["usb", "usb"])
    with pytest.raises(DeviceUnavailableError, match=r"stage 2 on device ':2': 2 Edge TPUs are attached, .* 3 stages"):
        timed(job, "pycoral")
    assert list((tmp_path / "state").iterdir()) == []
    with pytest.raises(DeviceUnavailableError, match="stage 2 on device ':2': the device cannot be opened"):
        timed(job, "litert", retries=0)
    for engine in ENGINES:
        with pytest.raises(DeviceUnavailableError, match="stage 2: 2 devices are given"):
            timed(job, engine, devices=[":0", ":1"])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_runtime_too_old_says_which_is_needed(host: Behave, job: Job, engine: str) -> None:
    host(runtime=13)
    with pytest.raises(RuntimeTooOldError, match="runtime 14 and this one is 13: update") as caught:
        timed(job, engine)
    assert (caught.value.stage, caught.value.device) == (0, ":0")


def test_a_missing_library_is_named(host: Behave, job: Job) -> None:
    with pytest.raises(DeviceUnavailableError, match=r"libedgetpu-missing.so.1 cannot be loaded .*libedgetpu1-std"):
        timed(job, "litert", library="libedgetpu-missing.so.1")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_segment_that_is_not_compiled_is_named(host: Behave, tmp_path: Path, engine: str) -> None:
    job = write_segment_job(tmp_path / "plain", skipping_model(), SKIPPING_STAGES, 3, with_compiled=False)
    with pytest.raises(InvalidJobError, match=r"stage 0: .*'net_segment_0_of_3.tflite' is not compiled") as caught:
        timed(job, engine)
    assert caught.value.stage == 0


# -- what goes wrong in the middle ------------------------------------------------------------------------------------

MANY = TimingPlan(warm_up=1, repeats=10, items=3000)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stage_that_fails_is_named_and_what_was_measured_is_kept(host: Behave, job: Job, engine: str) -> None:
    host(fail={"device": ":1", "after": 60, "how": "raise"})
    with pytest.raises(PipelineFailedError, match=r"stage 1 on device ':1': .*Could not map pages") as caught:
        timed(job, engine, MANY)
    partial = caught.value.partial
    assert len(partial.latency) == len(partial.stage_ns) == MANY.repeats
    assert 0 < len(partial.pipelined) < MANY.items
    assert not partial.is_complete(MANY)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_device_that_fails_while_items_run_alone_leaves_those(host: Behave, job: Job, engine: str) -> None:
    host(fail={"device": ":2", "after": 10, "how": "raise"})
    with pytest.raises(PipelineFailedError, match="stage 2 on device ':2'") as caught:
        timed(job, engine, MANY)
    assert 0 < len(caught.value.partial.latency) < MANY.repeats


@pytest.mark.parametrize("engine", ENGINES)
def test_a_device_that_vanishes_is_unavailable(host: Behave, job: Job, engine: str, tmp_path: Path) -> None:
    made_up = tmp_path / "root/sys/bus/usb/devices/1-1"
    made_up.mkdir(parents=True)
    (made_up / "idVendor").write_text("18d1\n")
    (made_up / "idProduct").write_text("9302\n")
    unplug = [str(made_up / "idVendor")] if engine == "litert" else []
    host(fail={"device": ":2", "after": 60, "how": "vanish"}, unplug=unplug)
    with pytest.raises(
        DeviceUnavailableError, match="stage 2 on device ':2': the device vanished while it ran"
    ) as caught:
        timed(job, engine, MANY, root=str(tmp_path / "root"))
    assert caught.value.partial.latency


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("how", "said"), [("abort", "SIGABRT.*device lost"), ("segv", r"SIGSEGV\) in the phase '[a-z ]+'; libedgetpu and")]
)
def test_a_process_that_is_brought_down_is_a_typed_error(
    host: Behave, job: Job, engine: str, how: str, said: str
) -> None:
    host(fail={"device": ":1", "after": 12, "how": how})
    with pytest.raises(PipelineFailedError, match=f"stage 1 on device ':1': .*{said}") as caught:
        timed(job, engine, MANY)
    assert caught.value.partial is None or caught.value.partial.latency


@pytest.mark.parametrize("engine", ENGINES)
def test_an_abort_in_the_full_pipeline_keeps_what_was_measured(host: Behave, job: Job, engine: str) -> None:
    host(fail={"device": ":1", "after": 2000, "how": "abort"})
    with pytest.raises(PipelineFailedError, match=r"SIGABRT.* in the phase 'the full pipeline'") as caught:
        timed(job, engine, MANY)
    assert len(caught.value.partial.latency) == MANY.repeats


def test_a_device_that_aborts_pycorals_pipeline_as_it_vanishes_is_named(host: Behave, job: Job, tmp_path: Path) -> None:
    folders = []
    for k in range(3):
        folder = tmp_path / f"root/sys/bus/usb/devices/1-{k}"
        folder.mkdir(parents=True)
        (folder / "idVendor").write_text("18d1\n")
        (folder / "idProduct").write_text("9302\n")
        folders.append(folder)
    fail = {"device": ":1", "after": 60, "how": "unplugged"}
    host(links=["usb"] * 3, fail=fail, unplug=[str(folders[1] / "idVendor")])
    with pytest.raises(DeviceUnavailableError, match=r"stage 1 on device ':1': the device vanished .*\(1-1\).*SIGABRT"):
        timed(job, "pycoral", MANY, root=str(tmp_path / "root"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("when", ["load", "run"])
def test_a_device_that_hangs_is_given_up(host: Behave, job: Job, engine: str, when: str) -> None:
    host(fail={"device": ":1", "after": 12, "how": "hang", "when": when})
    expected: type[RunnerError] = DeviceUnavailableError if when == "load" else PipelineFailedError
    with pytest.raises(expected, match=r"stage 1 on device ':1': .*for 3 s|stage 1 on device ':1': .*within 3 s"):
        timed(job, engine, MANY, stall_s=3)


def test_a_crash_tells_that_library_and_interpreter_do_not_fit(
    host: Behave, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "root/usr/lib/libedgetpu.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    status = tmp_path / "root/var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text("Package: libedgetpu1-std\nStatus: install ok installed\nVersion: 16.0\n")
    host(fail={"device": ":0", "after": 0, "how": "segv"})
    with pytest.raises(
        PipelineFailedError, match=r"SIGSEGV.*libedgetpu1-std 16\.0 is made of TensorFlow 2\.5, ai-edge"
    ):
        timed(job, "litert", root=str(tmp_path / "root"))


def test_a_crash_while_a_device_opens_names_it(host: Behave, job: Job) -> None:
    host(fail={"device": ":2", "how": "abort", "when": "load"})
    with pytest.raises(PipelineFailedError, match=r"stage 2 on device ':2': .*while it opened the device"):
        timed(job, "litert")


# -- pycoral's traps --------------------------------------------------------------------------------------------------


def test_a_dataflow_that_would_abort_is_refused_with_the_way_out(host: Behave, tmp_path: Path) -> None:
    net = RunnableModel(random.Random(0))
    a = net.dense("a", net.given("x", 4), 4)
    early = net.model([a, net.dense("b", a, 4)])
    job = write_segment_job(tmp_path / "early", early, [0, 1], 2)
    assert not job.suits_pipeline
    with pytest.raises(InvalidJobError, match="pycoral's pipeline would abort: use --engine litert"):
        timed(job, "pycoral")
    assert len(timed(job, "litert").pipelined) == PLAN.items


def test_outputs_wider_than_a_byte_need_the_other_engine(host: Behave, tmp_path: Path) -> None:
    from ai_edge_litert import schema_py_generated as tflite

    from tests.tflite_models import OP, M, O, T

    floats = M(
        tensors=[
            T(name="x", scale=(0.05,)),
            T(name="y", scale=(0.05,)),
            T(name="z", type=tflite.TensorType.FLOAT32),
        ],
        ops=[
            O(builtin=OP.RELU, inputs=(0,), outputs=(1,)),
            O(builtin=OP.DEQUANTIZE, inputs=(1,), outputs=(2,), options=tflite.DequantizeOptionsT()),
        ],
        outputs=(2,),
    )
    job = write_segment_job(tmp_path / "floats", floats, [0, 1], 2)
    with pytest.raises(InvalidJobError, match=r"stage 1: .*output 'z' is float32.*--engine litert"):
        timed(job, "pycoral")
    assert len(timed(job, "litert").pipelined) == PLAN.items


def test_pypis_pycoral_is_told_apart(host: Behave, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pypi").mkdir()
    found = coral_double.install(tmp_path / "pypi", pycoral="0.2.0")
    (tmp_path / "pypi/pycoral/utils/edgetpu.py").unlink()
    monkeypatch.setenv("PYTHONPATH", found)
    with pytest.raises(RuntimeMissingError, match=r"pycoral 0\.2\.0 is PyPI's package"):
        timed(job, "pycoral")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_device_may_round_otherwise_than_the_cpu_and_that_is_told(host: Behave, job: Job, engine: str) -> None:
    host(off_by_one=True)
    notes = timed(job, engine).notes
    assert any("the pipeline gives other bits here than the LiteRT interpreter" in note for note in notes)


def test_the_double_behaves_as_documented(host: Behave, job: Job, tmp_path: Path) -> None:
    paths = [str(job.path(str(segment.compiled))) for segment in job.segments]
    stages = [coral_double.make_interpreter(path, f":{k}") for k, path in enumerate(paths)]
    for stage in stages:
        stage.allocate_tensors()
    with pytest.raises(ValueError, match="At least one"):
        coral_double.PipelinedModelRunner([])
    with pytest.raises(ValueError, match="can not get its input"):
        coral_double.PipelinedModelRunner([stages[0], stages[2]])
    runner = coral_double.PipelinedModelRunner(stages)
    item = {d["name"]: np.zeros(d["shape"], d["dtype"]) for d in stages[0].get_input_details()}
    with pytest.raises(ValueError, match="length 2"):
        runner.push({"y": item["y"]})
    with pytest.raises(KeyError):
        runner.push({"y": item["y"], "other": item["y"]})
    with pytest.raises(ValueError, match="numpy array of type"):
        runner.push({name: value.astype(np.int32) for name, value in item.items()})
    runner.push(item)
    assert list(runner.pop() or {}) == ["d"]
    runner.push({})
    with pytest.raises(RuntimeError, match="turned off"):
        runner.push({})
    assert runner.pop() is None and runner.pop() is None


def test_inputs_that_would_fill_the_memory_wait_in_a_bounded_queue(
    host: Behave, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TimingPlan(warm_up=0, repeats=0, items=1_000_000)
    engine = object.__new__(engines_coral.PycoralEngine)
    notes: list[str] = []
    engine.job, engine.request = job, Request(job.folder, plan, "pycoral")
    engine.log = SimpleNamespace(event=lambda what, text: notes.append(text))  # type: ignore[assignment]
    assert engine._input_queue() is None
    monkeypatch.setattr(engines_coral, "MOST_WAITING_BYTES", 32 * 1000)
    assert engine._input_queue() == 1000 and "1000 items wait" in notes[0]


LIBRARY = """
#include <stddef.h>
struct device { int type; const char* path; };
static struct device devices[2] = {{0, "/dev/apex_0"}, {1, "/sys/bus/usb/devices/2-1"}};
struct device* edgetpu_list_devices(size_t* count) { *count = 2; return devices; }
void edgetpu_free_devices(struct device* devices) {}
const char* edgetpu_version(void) { return "BuildLabel(double), RuntimeVersion(14)"; }
"""


def test_the_library_tells_its_devices_and_version(host: Behave, job: Job, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here to build a library with")
    (tmp_path / "library.c").write_text(LIBRARY)
    library = tmp_path / "libdouble.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "library.c")], check=True)
    assert delegates.attached(str(library)) == [("pcie", "/dev/apex_0"), ("usb", "/sys/bus/usb/devices/2-1")]
    assert delegates.runtime_version(str(library)) == "BuildLabel(double), RuntimeVersion(14)"
    assert delegates.attached("no-such-library.so") is None and delegates.runtime_version("no-such-library.so") is None
    with pytest.raises(DeviceUnavailableError, match=r"stage 2 on device ':2': 2 Edge TPUs are attached, .* 3 stages"):
        timed(job, "litert", library=str(library))


@pytest.mark.parametrize(
    ("said", "kind", "named"),
    [
        (
            "Package requires runtime version (14), which is newer than this runtime version (12)",
            RuntimeTooOldError,
            "12",
        ),
        (
            "Didn't find op for builtin opcode 'CONV_2D' version '8'. Old?",
            RuntimeTooOldError,
            "CONV_2D is of version 8",
        ),
        ("Encountered unresolved custom op: edgetpu-custom-op.", PipelineFailedError, "its delegate is not there"),
        ("Something else\nhappened", PipelineFailedError, "Something else happened"),
    ],
)
def test_what_an_interpreter_says_becomes_a_typed_error(said: str, kind: type[RunnerError], named: str) -> None:
    error = failure(RuntimeError(said), "run", 2, "usb:1")
    assert type(error) is kind and named in str(error)
    assert (error.stage, error.device) == (2, "usb:1")


def test_a_measurement_ends_with_the_process_that_started_it(host: Behave, job: Job, tmp_path: Path) -> None:
    host(fail={"device": ":1", "after": 0, "how": "hang"})
    command = [sys.executable, "-m", "hardware_runners", str(job.folder), "--runner", "coral"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])}
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    started = subprocess.Popen(command, env={**env, "TMPDIR": str(temporary)}, stderr=subprocess.DEVNULL)
    measuring = _wait_for(lambda: _child_of(started.pid))
    _wait_for((tmp_path / "state" / "load_1").exists)
    started.kill()
    started.wait()
    _wait_for(lambda: not Path(f"/proc/{measuring}/cmdline").exists() or "Z" in _state(measuring))


def _child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else 0


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _wait_for(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen within 30 s")


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"engine": "steam"}, "'steam': choose from pycoral, litert"),
        ({"devices": ["tpu0"]}, "'tpu0' is none"),
        ({"devices": [":0", ":0"]}, "one device twice"),
        ({"devices": ["usb", "usb:1"]}, "one device twice"),
        ({"devices": [":0", "usb:1"]}, "one device twice"),
        ({"retries": -1}, "retries is -1"),
        ({"wait_s": float("nan")}, "wait_s"),
        ({"input_queue": 0}, "input_queue is 0"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidPlanError, match=named):
        open_runner("coral", **options)
