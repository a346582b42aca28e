"""`respect split` as a script sees it: a job folder of verified segments, or one sentence and nothing written."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from hardware_runners.job import read_job
from hardware_runners.jobs.reference import read_reference
from hardware_runners.protocol import TimingPlan, open_runner
from respect_core.segments.verify import run_model
from tests.conftest import SHARED
from tests.flows.test_cli import SCHEDULE_KEYS
from tests.hardware_runners.compiler_double import calls_noted, put_on_path
from tests.tflite_models import OP, M, O, RunnableModel, T, write_model

RUNNER = CliRunner()
MODELS = SHARED / "data" / "models"
BIRDS = "mobilenet_v2_1.0_224_inat_bird_quant"
FAST = ("--solver", "order-file")
FLOAT32 = 0


def run(*args: object) -> Any:
    return RUNNER.invoke(app, [str(arg) for arg in args])


def net_of(num_ops: int, seed: int = 0, **more: Any) -> bytes:
    """Write a chain of dense ops called op0, op1, ... with a skip to the last one."""
    net = RunnableModel(random.Random(seed))
    flow = first = net.given("image:0", 4)
    for v in range(num_ops - 1):
        flow = net.dense(f"op{v}", flow, 4)
    return write_model(net.model([net.add(f"op{num_ops - 1}", flow, first if num_ops == 1 else flow)], **more))


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(net_of(6))
    return path


# -- what is written --------------------------------------------------------------------------------------------------


def test_the_folder_is_a_complete_job(net: Path, tmp_path: Path, no_compiler: None) -> None:
    out = tmp_path / "job"
    result = run("split", net, "--stages", 3, "--out", out, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    names = [f"net_segment_{k}_of_3.tflite" for k in range(3)]
    assert sorted(p.name for p in out.iterdir()) == sorted(
        [*names, "net.tflite", "graph.json", "schedule.json", "job.json", "reference.npz"]
    )
    job = read_job(out)
    assert job.suits_pipeline and job.num_stages == 3 and job.plan == TimingPlan()
    assert [segment.file for segment in job.segments] == names == [s["file"] for s in facts["segments"]]
    assert job.whole is not None and job.path("net.tflite").read_bytes() == net.read_bytes()
    assert [spec.name for spec in job.whole.inputs] == ["image:0"]
    schedule = json.loads((out / "schedule.json").read_text())
    shown = run(
        "schedule", net, "--stages", 3, "--constraint", "outputs_last", "--constraint", "inputs_first", "--json"
    )
    assert set(schedule) >= SCHEDULE_KEYS
    assert {**schedule, "solve_seconds": 0} == {**json.loads(shown.stdout), "solve_seconds": 0}
    assert schedule == {key: facts[key] for key in schedule}
    assert list(job.stage_of) == schedule["stage_of"]
    reference = read_reference(job)
    assert reference.num_items == 3
    assert run_model(net, reference.inputs)[0].tobytes() == reference.outputs[0].tobytes()
    assert facts["verification"]["identical"] and facts["verification"]["items"] == 3
    assert facts["compiler"] is None and sum("edgetpu_compiler" in note for note in facts["notes"]) == 1
    with open_runner("simulated") as runner:
        timings = runner.time(job, TimingPlan(warm_up=0, repeats=1, items=2))
    assert list(timings.mean_stage_us) == pytest.approx(facts["time_us"])


def test_the_same_command_writes_the_same_files(net: Path, tmp_path: Path, no_compiler: None) -> None:
    for folder in ("one", "two"):
        assert run("split", net, "-k", 2, "-o", tmp_path / folder, *FAST).exit_code == 0
    for path in (tmp_path / "one").iterdir():
        if path.name not in ("schedule.json", "job.json"):  # they hold the seconds that solving took
            assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_people_see_stages_tensors_and_the_verdict(net: Path, tmp_path: Path, no_compiler: None) -> None:
    result = run("split", net, "-k", 2, "-o", tmp_path / "job", "--cuts", "op2")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    for words in ("8 MiB", "streamed", "'s", "op1", "bit-identical", "one item every", "net_segment_1_of_2.tflite"):
        assert words in text
    assert text.count("edgetpu_compiler") == 1


def test_cuts_by_hand_start_stages(net: Path, tmp_path: Path, no_compiler: None) -> None:
    result = run("split", net, "--cuts", "op1,op4", "--out", tmp_path / "job", "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["stage_of"] == [0, 1, 1, 1, 2, 2]
    assert (facts["solver"], facts["status"], facts["num_stages"]) == ("cuts", "feasible", 3)
    assert [tensor["name"] for tensor in facts["boundary_tensors"]] == ["op0", "op3"]
    assert facts["boundary_tensors"][0] | {"cost_us": 0} == {
        "name": "op0", "bytes": 16, "made_in": 0, "read_in": [1], "cost_us": 0,
    }  # fmt: skip
    repeated = run("split", net, "--cuts", "op1", "--cuts", "op4", "--out", tmp_path / "again", "--json")
    assert json.loads(repeated.stdout)["stage_of"] == facts["stage_of"]


def test_auto_recommends_one_for_a_small_model_and_says_why(net: Path, tmp_path: Path, no_compiler: None) -> None:
    result = run("split", net, "--stages", "auto", "--out", tmp_path / "job", "--json", *FAST)
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["num_stages"] == facts["recommendation"]["num_stages"] == 1
    assert "one TPU suffices" in facts["recommendation"]["why"]
    assert [c["num_stages"] for c in facts["recommendation"]["candidates"]] == [1, 2, 3, 4, 5, 6]
    shown = run("split", net, "--stages", "auto", "--out", tmp_path / "shown", *FAST)
    assert "<- best" in shown.stdout and "one TPU suffices" in shown.stdout


def test_a_pipeline_that_gains_nothing_is_said(net: Path, tmp_path: Path, no_compiler: None) -> None:
    facts = json.loads(run("split", net, "-k", 2, "-o", tmp_path / "job", "--json", *FAST).stdout)
    assert any("one TPU alone is predicted to be as fast" in note for note in facts["notes"])


def test_given_items_are_verified_first_and_kept(net: Path, tmp_path: Path, no_compiler: None) -> None:
    given = np.full((2, 1, 2, 2, 4), 7, np.int8)
    np.save(tmp_path / "items.npy", given)
    args = ("--input", tmp_path / "items.npy", "--items", 1, "--json", *FAST)
    result = run("split", net, "-k", 2, "-o", tmp_path / "job", *args)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["verification"]["items"] == 3
    assert np.array_equal(read_reference(read_job(tmp_path / "job")).inputs[0][:2], given)


def test_without_verification_there_is_no_reference(net: Path, tmp_path: Path, no_compiler: None) -> None:
    result = run("split", net, "-k", 2, "-o", tmp_path / "job", "--no-verify", "--json", *FAST)
    assert json.loads(result.stdout)["verification"] is None
    assert read_job(tmp_path / "job").reference is None
    assert not (tmp_path / "job" / "reference.npz").exists()


def test_names_that_come_twice_are_told_apart(tmp_path: Path, no_compiler: None) -> None:
    net = RunnableModel(random.Random(3))
    a = net.dense("same:0", net.given("same:0", 4), 4)
    (tmp_path / "net.tflite").write_bytes(write_model(net.model([net.dense("same:0", a, 4)])))
    result = run("split", tmp_path / "net.tflite", "-k", 2, "-o", tmp_path / "job", "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert [tensor["name"] for tensor in facts["boundary_tensors"]] == ["same:0_2"]
    renamed = [note for note in facts["notes"] if "another name" in note]
    assert len(renamed) == 1 and "'same:0_2'" in renamed[0] and "1 more" in renamed[0]


# -- the compiler -----------------------------------------------------------------------------------------------------


def test_segments_are_compiled_where_a_compiler_is(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    put_on_path(monkeypatch, tmp_path / "bin")
    result = run("split", net, "-k", 2, "-o", tmp_path / "job", "--json", *FAST)
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["compiler"]["version"].startswith("16.")
    for segment in facts["segments"]:
        assert segment["compiled"]["status"] == "compiled" and segment["compiled"]["off_chip_bytes"] == 0
    job = read_job(tmp_path / "job")
    assert [segment.compiled for segment in job.segments] == [f"net_segment_{k}_of_2_edgetpu.tflite" for k in (0, 1)]
    assert (tmp_path / "job" / "net_segment_0_of_2_edgetpu.log").is_file()
    shown = run("split", net, "-k", 2, "-o", tmp_path / "shown", *FAST)
    assert "on chip" in shown.stdout and "CPU ops" in shown.stdout
    assert run("split", net, "-k", 2, "-o", tmp_path / "off", "--no-compile", *FAST).exit_code == 0
    assert len(calls_noted(tmp_path / "bin")) == 2 * (1 + 2)


def test_a_segment_that_does_not_compile_is_named_and_other_cuts_are_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = tmp_path / "net.tflite"
    net.write_bytes(net_of(6))
    (tmp_path / "bin").mkdir()
    behave = put_on_path(monkeypatch, tmp_path / "bin")
    behave("large_activations:has=op1 && op3")
    args = ("split", net, "-k", 2, "--cuts", "op4", "--json")
    result = run(*args, "-o", tmp_path / "fails")
    assert result.exit_code == 4
    facts = json.loads(result.stdout)
    assert facts["segments"][0]["compiled"]["status"] == "large_activations"
    assert any("segment 0 (net_segment_0_of_2.tflite) was not compiled" in note for note in facts["notes"])
    job = read_job(tmp_path / "fails")
    assert job.segments[0].compiled is None and job.segments[1].compiled is not None
    again = run(*args, "-o", tmp_path / "works", "--retry-cuts", 5)
    assert again.exit_code == 0, again.stderr
    assert "trying other cuts" in again.stderr
    facts = json.loads(again.stdout)
    assert facts["solver"] == "retry-cuts" and facts["verification"]["identical"]
    assert facts["stage_of"][1] != facts["stage_of"][3]
    assert all(segment.compiled for segment in read_job(tmp_path / "works").segments)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bin", "fails", "net.tflite", "works"]


def test_without_success_the_cuts_with_the_fewest_failures_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = tmp_path / "net.tflite"
    net.write_bytes(net_of(6))
    (tmp_path / "bin").mkdir()
    behave = put_on_path(monkeypatch, tmp_path / "bin")
    behave("large_activations:has=op0 && op2\nlarge_activations:has=op2 && op4\nlarge_activations:has=op1 && op4")
    args = ("split", net, "-k", 2, "--cuts", "op4", "--retry-cuts", 1, "--json")
    result = run(*args, "-o", tmp_path / "job")
    assert result.exit_code == 4
    facts = json.loads(result.stdout)
    assert "trying other cuts" in result.stderr
    assert facts["stage_of"] == [0, 0, 0, 0, 1, 1] and facts["solver"] == "cuts"
    assert [segment["compiled"]["status"] for segment in facts["segments"]] == ["large_activations", "compiled"]
    assert any("1 other cut" in note and "fewest" in note for note in facts["notes"])


def test_segments_that_stay_as_they_are_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = tmp_path / "net.tflite"
    net.write_bytes(net_of(8))
    (tmp_path / "bin").mkdir()
    behave = put_on_path(monkeypatch, tmp_path / "bin")
    behave("large_activations:has=op0 && op3")
    pins = [{"op": "op5", "stage": 1}, {"op": "op6", "stage": 2}]
    (tmp_path / "pins.json").write_text(json.dumps({"pin": pins}))
    args = ("split", net, "--cuts", "op4,op6", "--retry-cuts", 9, "--constraints", tmp_path / "pins.json", "--json")
    result = run(*args, "-o", tmp_path / "job")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["segments"][2]["first_op"] == "op6"
    assert [segment["compiled"]["tries"] for segment in facts["segments"]] == [1, 1, 0]
    others = result.stderr.count("trying other cuts")
    assert len(calls_noted(tmp_path / "bin")) == 1 + 3 + 2 * others


# -- what is refused --------------------------------------------------------------------------------------------------


def float_net() -> bytes:
    tensors = [T(name=name, type=FLOAT32) for name in ("x", "y", "z")]
    ops = [O(builtin=OP.RELU, inputs=(0,), outputs=(1,)), O(builtin=OP.NEG, inputs=(1,), outputs=(2,))]
    return write_model(M(tensors=tensors, ops=ops, outputs=(2,)))


def dynamic_range_net() -> bytes:
    tensors = [
        T(name="x", type=FLOAT32),
        T(name="w", shape=(4, 4), data=bytes(16)),
        T(name="y", type=FLOAT32),
        T(name="z", type=FLOAT32),
    ]
    ops = [
        O(builtin=OP.FULLY_CONNECTED, inputs=(0, 1, -1), outputs=(2,)),
        O(builtin=OP.NEG, inputs=(2,), outputs=(3,)),
    ]
    return write_model(M(tensors=tensors, ops=ops, outputs=(3,)))


def compiled_net() -> bytes:
    ops = [O(builtin=OP.CUSTOM, inputs=(0,), outputs=(1,), custom="edgetpu-custom-op")]
    return write_model(M(tensors=[T(name="x"), T(name="y")], ops=ops, outputs=(1,)))


def custom_net() -> bytes:
    tensors = [T(name=name) for name in ("x", "y", "z")]
    ops = [
        O(builtin=OP.RELU, inputs=(0,), outputs=(1,)),
        O(builtin=OP.CUSTOM, inputs=(1,), outputs=(2,), custom="MyDecoder"),
    ]
    return write_model(M(tensors=tensors, ops=ops, outputs=(2,)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (float_net(), ("'y'", "FLOAT32", "full integer quantisation", "--any-runner")),
        (dynamic_range_net(), ("'y'", "dynamic range", "full integer quantisation", "--any-runner")),
        (compiled_net(), ("'y'", "already compiled", "before compilation")),
        (custom_net(), ("'z'", "MyDecoder", "--no-verify")),
        (net_of(3, subgraphs=2), ("2 subgraphs",)),
        (net_of(3)[:500], ("damaged or truncated",)),
        (b"", ("not a TFLite file",)),
        (b"not a model at all", ("not a TFLite file",)),
    ],
)
def test_a_model_that_cannot_be_split_is_refused_in_one_sentence(
    tmp_path: Path, content: bytes, words: tuple[str, ...], no_compiler: None
) -> None:
    (tmp_path / "net.tflite").write_bytes(content)
    result = run("split", tmp_path / "net.tflite", "-k", 2, "-o", tmp_path / "job", *FAST, "--json")
    assert result.exit_code == 2
    assert result.stdout == "" and result.stderr.count("\n") == 1
    for word in ("net.tflite", *words):
        assert word in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["net.tflite"]


def test_float_models_and_custom_ops_have_a_way(tmp_path: Path, no_compiler: None) -> None:
    (tmp_path / "float.tflite").write_bytes(float_net())
    result = run("split", tmp_path / "float.tflite", "-k", 2, "-o", tmp_path / "a", *FAST, "--any-runner", "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["verification"]["identical"] and facts["suits_pipeline"]
    assert any("output 'z' is float32" in note and "wider than a byte" in note for note in facts["notes"])
    (tmp_path / "custom.tflite").write_bytes(custom_net())
    result = run("split", tmp_path / "custom.tflite", "-k", 2, "-o", tmp_path / "b", *FAST, "--no-verify", "--json")
    assert result.exit_code == 0, result.stderr
    assert any("'z'" in note and "does not run on the Edge TPU" in note for note in json.loads(result.stdout)["notes"])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-k", "0"), ("0 stages", "1..6")),
        (("-k", "7"), ("7 stages", "1..6")),
        (("-k", "many"), ("--stages", "'many'", "auto")),
        (("-k", "-1"), ("--stages", "'-1'")),
        ((), ("--stages", "auto")),
        (("-k", "auto", "--cuts", "op1"), ("--stages", "--cuts")),
        (("-k", "3", "--cuts", "op1"), ("1 cuts make 2 stages", "--stages is 3")),
        (("--cuts", "op9"), ("'op9'", "did you mean")),
        (("--cuts", "op0"), ("'op0'", "stage 0")),
        (("--cuts", "op3,op1"), ("'op1'", "before op 'op3'")),
        (("--cuts", "op3,op3"), ("'op3'", "twice")),
        (("-k", "2", "--solver", "best"), ("best", "order-file")),
        (("-k", "2", "--objective", "speed"), ("speed", "throughput")),
        (("-k", "2", "--device", "usb4"), ("usb4", "usb3")),
        (("-k", "2", "--constraint", "fast"), ("fast", "colocate_children")),
        (("-k", "2", "--constraints", "/nowhere.json"), ("/nowhere.json",)),
        (("-k", "2", "--input", "/nowhere.npy"), ("/nowhere.npy",)),
        (("-k", "2", "--items", "0"), ("--items",)),
    ],
)
def test_bad_options_exit_with_2_and_write_nothing(
    net: Path, tmp_path: Path, args: tuple[str, ...], words: tuple[str, ...], no_compiler: None
) -> None:
    result = run("split", net, "--out", tmp_path / "job", *args)
    assert result.exit_code == 2
    for word in words:
        assert word in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["net.tflite"]


def test_a_folder_with_other_files_is_left_alone(net: Path, tmp_path: Path, no_compiler: None) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")
    args = ("split", net, "-k", 2, *FAST, "--out")
    for out in (theirs, theirs / "thesis.txt"):
        result = run(*args, out)
        assert result.exit_code == 2 and str(out) in result.stderr and "choose another folder" in result.stderr
    result = run(*args, tmp_path / "none" / "job")
    assert result.exit_code == 2 and str(tmp_path / "none") in result.stderr and "does not exist" in result.stderr
    assert [path.name for path in theirs.iterdir()] == ["thesis.txt"]
    (tmp_path / "empty").mkdir()
    assert run(*args, tmp_path / "empty").exit_code == 0
    assert run(*args, tmp_path / "empty").exit_code == 2, "a job is not replaced either"


def test_outputs_in_the_middle_are_refused_by_name(tmp_path: Path, no_compiler: None) -> None:
    net = RunnableModel(random.Random(0))
    a = net.dense("early", net.given("x", 4), 4)
    b = net.dense("mid", a, 4)
    (tmp_path / "net.tflite").write_bytes(write_model(net.model([a, net.dense("late", b, 4)])))
    args = ("split", tmp_path / "net.tflite", "-k", 2, *FAST)
    result = run(*args, "-o", tmp_path / "job", "--json")
    assert result.exit_code == 3
    assert "'early'" in result.stderr and "'late'" in result.stderr and "--any-runner" in result.stderr
    assert "1 is the most" in result.stderr
    assert json.loads(result.stdout)["stage_of"] is None
    assert not (tmp_path / "job").exists()
    by_hand = run("split", tmp_path / "net.tflite", "--cuts", "mid", "-o", tmp_path / "job")
    assert by_hand.exit_code == 2 and "outputs_last" in by_hand.stderr and "'early'" in by_hand.stderr
    result = run(*args, "-o", tmp_path / "job", "--any-runner", "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["suits_pipeline"] is False and "'early'" in facts["pipeline_fault"]
    assert not read_job(tmp_path / "job").suits_pipeline


def test_segments_that_differ_exit_with_4(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from respect_core.errors import VerificationError

    def differ(*_: object) -> None:
        raise VerificationError("stage 1 does not compute what the model computes")

    monkeypatch.setattr("tasks.split.run_in_child", differ)
    result = run("split", net, "-k", 2, "-o", tmp_path / "job", *FAST)
    assert result.exit_code == 4 and "stage 1" in result.stderr
    assert not (tmp_path / "job").exists()


def test_an_interpreter_that_dies_is_said(net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.split.verify_bounded", _die)
    result = run("split", net, "-k", 2, "-o", tmp_path / "job", *FAST)
    assert result.exit_code == 2 and "did not survive" in result.stderr and "--no-verify" in result.stderr
    assert not (tmp_path / "job").exists()


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


# -- nothing half-written ---------------------------------------------------------------------------------------------


def test_a_full_disk_leaves_nothing(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_compiler: None
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hardware_runners.job.os.fsync", full)
    result = run("split", net, "-k", 2, "-o", tmp_path / "job", *FAST)
    assert result.exit_code == 2 and "No space left" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["net.tflite"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_from_outside_leaves_nothing(net: Path, tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import sys, time, hardware_runners.job as job\n"
        "def slow(_):\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(60)\n"
        "job.os.fsync = slow\n"
        "from flows.cli import main\n"
        "main()\n"
    )
    args = ["split", str(net), "-k", "2", "-o", str(tmp_path / "job"), *FAST, "--no-verify", "--no-compile"]
    process = subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "writing\n"
    process.send_signal(number)
    assert process.wait(timeout=60) != 0
    process.stdout.close()
    assert [path.name for path in tmp_path.iterdir()] == ["net.tflite"]


def test_a_kill_leaves_no_folder_of_that_name(net: Path, tmp_path: Path) -> None:
    args = ["split", str(net), "-k", "2", "-o", str(tmp_path / "job"), *FAST, "--no-verify", "--no-compile"]
    code = "import os, hardware_runners.job as job\njob.os.fsync = lambda _: os.kill(os.getpid(), 9)\n"
    code += "from flows.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", code, *args], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "job").exists()
    assert run("split", net, "-k", 2, "-o", tmp_path / "job", *FAST).exit_code == 0


def test_split_needs_neither_platform_nor_torch(net: Path, tmp_path: Path) -> None:
    forbid = "prefect mlflow great_expectations torch keras plotly tensorflow"
    forbid += " numba scipy pandas pyarrow networkx ortools"  # not beside the model's bytes: they take as much memory
    code = f"import sys\nfor name in {forbid.split()!r}: sys.modules[name] = None\nfrom flows.cli import main\nmain()\n"
    args = ["split", str(net), "-k", "2", "-o", str(tmp_path / "job"), *FAST, "--no-verify", "--json"]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- real models ------------------------------------------------------------------------------------------------------


def test_names_are_shown_as_they_are(tmp_path: Path, no_compiler: None) -> None:
    net = RunnableModel(random.Random(0))
    last = net.dense("b:dog:0", net.dense("[red]:cat:0", net.given("x", 4), 4), 4)
    (tmp_path / "a:b:c.tflite").write_bytes(write_model(net.model([last])))
    result = run("split", tmp_path / "a:b:c.tflite", "-k", 2, "-o", tmp_path / "job", *FAST)
    assert result.exit_code == 0, result.stderr
    assert "a:b:c: 2 ops" in result.stdout and "[red]:cat:0" in result.stdout


def test_what_is_no_file_of_a_model_is_said_with_the_way_out(net: Path, tmp_path: Path, no_compiler: None) -> None:
    args = ("-k", 2, "-o", tmp_path / "job", *FAST)
    (tmp_path / "graph.json").write_text("{}")
    os.mkfifo(tmp_path / "pipe")
    for model, words in (
        ("graph.json", ("graph.json", "no weights", "respect view")),
        ("ResNet50-int8", ("ResNet50-int8", "respect models build")),
        ("none.tflite", ("none.tflite", "No such file")),
        ("pipe", ("pipe", "not a regular file")),
        (".", ("not a regular file",)),
    ):
        result = run("split", tmp_path / model, *args)
        assert result.exit_code == 2
        for word in words:
            assert word in result.stderr
    result = run("split", net, *args, "--input", tmp_path / "pipe")
    assert result.exit_code == 2 and "pipe" in result.stderr and "not a regular file" in result.stderr
    result = run("split", net, "-k", 2, "-o", net / "job", *FAST)
    assert result.exit_code == 2 and "net.tflite is no folder" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.json", "net.tflite", "pipe"]


@pytest.mark.shared
def test_the_rule_gives_the_real_compilers_segments(tmp_path: Path, no_compiler: None) -> None:
    out = tmp_path / "job"
    result = run("split", MODELS / f"{BIRDS}.tflite", "-k", 3, "--solver", "compiler-rule", "-o", out, "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert [segment["num_ops"] for segment in facts["segments"]] == [54, 7, 4]
    assert facts["param_bytes"] == [1_040_704, 802_560, 1_653_780]
    assert [s["file"] for s in facts["segments"]] == [f"{BIRDS}_segment_{k}_of_3.tflite" for k in range(3)]


@pytest.mark.shared
def test_split_concat_in_three(tmp_path: Path, no_compiler: None) -> None:
    args = ("split", MODELS / "split_concat.tflite", "-k", 3, *FAST, "-o", tmp_path / "job")
    result = run(*args)
    assert result.exit_code == 3
    for word in ("'concat/split0'", "outputs_last", "2 is the most", "--any-runner"):
        assert word in result.stderr
    assert run(*args, "--any-runner").exit_code == 0


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("keras_lstm_mnist_ptq_edgetpu.tflite", ("already compiled",)),
        ("model_invoking_error.tflite", ("buffer", "missing")),
        ("posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite", ("'poses'", "PosenetDecoderOp", "--no-verify")),
    ],
)
def test_real_models_that_cannot_be_split(name: str, words: tuple[str, ...], tmp_path: Path, no_compiler: None) -> None:
    result = run("split", MODELS / name, "-k", 2, *FAST, "-o", tmp_path / "job")
    assert result.exit_code == 2
    for word in (name, *words):
        assert word in result.stderr
    assert not (tmp_path / "job").exists()
