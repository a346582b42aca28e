from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hardware_runners.compiling.process as process_module
from hardware_runners.compiler import (
    CompiledSegment,
    CompileOptions,
    Compiler,
    CompilerFailedError,
    compile_segments,
    compiled_name,
    find_compiler,
)
from hardware_runners.compiling.log import FAILURES
from hardware_runners.errors import InvalidPlanError, RunnerError
from tests.hardware_runners.compiler_double import VERSION, calls_noted, compiled_model, put_on_path
from tests.tflite_models import SMALL_CNN, write_model

Behave = Callable[[str], Path]


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Behave:
    folder = tmp_path / "bin"
    folder.mkdir()
    return put_on_path(monkeypatch, folder)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def compiler() -> Compiler:
    found = find_compiler()
    assert found is not None
    return found


def segment_files(folder: Path, count: int = 3, name: str = "X") -> list[Path]:
    """Files of one model each, which differ in a note behind their end."""
    paths = [folder / f"{name}_segment_{i}_of_{count}.tflite" for i in range(count)]
    for i, path in enumerate(paths):
        path.write_bytes(write_model(SMALL_CNN) + f"marker{i}".encode())
    return paths


def compiled(paths: list[Path], out: Path, **options: Any) -> tuple[CompiledSegment, ...]:
    return compile_segments(paths, out, compiler=compiler(), options=CompileOptions(**options))


# -- the compiler ------------------------------------------------------------------------------------------------------


def test_the_compiler_is_found_with_its_version(double: Behave) -> None:
    assert find_compiler() == Compiler(path=double(""), version=VERSION)


def test_no_compiler_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler() is None


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("#!/bin/sh\necho 'error while loading shared libraries'\nexit 127\n", r"tells no version \(exit status 127"),
        ("#!/bin/sh\nexit 0\n", "it says nothing"),
        ("#!/no/such/interpreter\n", "cannot be run"),
    ],
)
def test_a_compiler_that_does_not_run_is_told(tmp_path: Path, script: str, why: str) -> None:
    path = tmp_path / "edgetpu_compiler"
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)
    with pytest.raises(CompilerFailedError, match=why) as caught:
        find_compiler(str(path))
    assert isinstance(caught.value, (RunnerError, OSError))
    assert str(path) in str(caught.value)


# -- success -----------------------------------------------------------------------------------------------------------


def test_every_segment_is_compiled_on_its_own(double: Behave, tmp_path: Path, out: Path) -> None:
    paths = segment_files(tmp_path)
    seen: list[int] = []
    done = compile_segments(paths, out, compiler=compiler(), on_done=lambda one: seen.append(one.stage))
    assert [one.stage for one in done] == [0, 1, 2] == sorted(seen)
    for one, path in zip(done, paths, strict=True):
        assert (one.status, one.ok, one.message, one.tries) == ("compiled", True, "", 1)
        assert one.output == out / f"{path.stem}_edgetpu.tflite"
        assert one.output.read_bytes() == compiled_model(path.read_bytes())
        assert one.facts.version == VERSION
        assert (one.facts.num_ops, one.facts.edge_tpu_ops, one.facts.cpu_ops) == (5, 5, 0)
        assert (one.facts.on_chip_bytes, one.facts.off_chip_bytes) == (3215, 0)  # 3.14KiB
        assert one.facts.input_model == path.name
        assert path.name in one.log.read_text(encoding="utf-8")
        assert "respect_segment" not in one.log.read_text(encoding="utf-8")
        assert one.seconds > 0
    expected = {name for path in paths for name in (compiled_name(path), f"{path.stem}_edgetpu.log")}
    assert {path.name for path in out.iterdir()} == expected
    calls = [call for call in calls_noted(tmp_path / "bin") if call != ["--version"]]
    assert len(calls) == 3
    assert all(call[:1] == ["-o"] and call[2:4] == ["-t", "180"] for call in calls)


def test_what_was_compiled_before_is_taken_over(double: Behave, tmp_path: Path, out: Path) -> None:
    double("large_activations:has=marker1\npartly_on_cpu:has=marker2")
    before = compiled(segment_files(tmp_path, 3), out)
    assert [one.status for one in before] == ["compiled", "large_activations", "compiled"]
    count = len(calls_noted(tmp_path / "bin"))
    later = tmp_path / "later"
    later.mkdir()
    contents = [before[2], before[1], before[0]]
    paths = [later / f"Y_segment_{i}_of_3.tflite" for i in range(3)]
    for path, one in zip(paths, contents, strict=True):
        path.write_bytes(one.segment.read_bytes())
    double("")
    done = compile_segments(paths, later, compiler=compiler(), reuse=before)
    assert [(one.status, one.tries) for one in done] == [("compiled", 0), ("compiled", 1), ("compiled", 0)]
    assert len(calls_noted(tmp_path / "bin")) == count + 2  # the version, and the segment that had failed
    for i, (path, one, earlier) in enumerate(zip(paths, done, contents, strict=True)):
        assert (one.stage, one.segment) == (i, path)
        assert one.output == later / compiled_name(path)
        assert one.output.read_bytes() == compiled_model(path.read_bytes())
        assert one.log.exists()
        if earlier.ok:
            assert one.facts == earlier.facts
    assert done[0].message.startswith("segment 0 (Y_segment_0_of_3.tflite): 2 of its ops stay on the CPU")
    before[0].output.unlink()  # type: ignore[union-attr]
    assert compile_segments(paths[2:], later, compiler=compiler(), reuse=before)[0].tries == 1


def test_the_runtime_version_is_passed_on(double: Behave, tmp_path: Path, out: Path) -> None:
    compiled(segment_files(tmp_path, 1), out, min_runtime_version=13, timeout_s=77)
    assert calls_noted(tmp_path / "bin")[-1][2:6] == ["-t", "77", "-m", "13"]


@pytest.mark.parametrize("name", ["a:b", "-rf", "with space", "näme", "$(touch x)", "a;b", 'quo"te', "line\nbreak"])
def test_odd_names_never_reach_the_compiler(double: Behave, tmp_path: Path, out: Path, name: str) -> None:
    paths = segment_files(tmp_path, 2, name)
    done = compiled(paths, out)
    assert [one.ok for one in done] == [True, True]
    assert [one.output.name for one in done if one.output] == [f"{path.stem}_edgetpu.tflite" for path in paths]
    assert all("respect_segment" in call[-1] for call in calls_noted(tmp_path / "bin")[1:])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("partly_on_cpu", r"2 of its ops stay on the CPU \(2 x QUANTIZE: Operation is otherwise"),
        ("all_on_cpu", "none of its ops runs on the Edge TPU"),
        ("subgraphs", "entered 2 times"),
        ("old_version", ""),
    ],
)
def test_what_to_know_of_a_compiled_segment_is_told(
    double: Behave, tmp_path: Path, out: Path, rules: str, message: str
) -> None:
    double(rules)
    (one,) = compiled(segment_files(tmp_path, 1), out)
    assert one.ok
    if not message:
        assert one.message == ""
        assert one.facts.on_chip_remaining_bytes is not None
    else:
        with pytest.raises(AssertionError, match=message):
            raise AssertionError(one.message)


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "status", "said"),
    [
        ("large_activations", "large_activations", "due to large activation tensors in model"),
        ("internal_error", "internal_error", "Internal compiler error"),
        ("delegate_failed", "delegate_failed", "Restored original execution plan"),
        ("unusable_model", "unusable_model", "unresolved custom op: Atan"),
        ("compilation_failed", "compilation_failed", "Compilation failed!"),
        ("timed_out", "timed_out", "timed out"),
        ("crashed", "crashed", "Segmentation fault"),
        ("killed", "crashed", "SIGSEGV"),
        ("version_only", "no_output", "exit status 0"),
        ("empty", "damaged_output", "0 bytes"),
        ("damaged", "damaged_output", "do not begin like a TFLite file"),
        ("cut_short", "damaged_output", "the compiler speaks of"),
    ],
)
def test_a_failed_segment_is_named_with_the_reason_and_the_way_out(
    double: Behave, tmp_path: Path, out: Path, behaviour: str, status: str, said: str
) -> None:
    double(f"{behaviour}:has=marker1")
    paths = segment_files(tmp_path)
    done = compiled(paths, out, retries=1)
    assert [one.status for one in done] == ["compiled", status, "compiled"]
    failed = done[1]
    assert failed.output is None
    assert not (out / compiled_name(paths[1])).exists()
    assert f"segment 1 ({paths[1].name}) was not compiled: {FAILURES[status].why}" in failed.message
    assert said in failed.message
    assert FAILURES[status].way_out in failed.message
    assert failed.log.name in failed.message
    assert "Edge TPU Compiler version" in failed.log.read_text(encoding="utf-8")
    assert failed.tries == (2 if FAILURES[status].is_fleeting else 1)
    assert failed.other_cuts_help == FAILURES[status].other_cuts_help
    assert failed.facts.failure == status
    assert not any(path.name.startswith(".") for path in out.iterdir())


@pytest.mark.parametrize("behaviour", ["killed", "internal_error", "version_only", "cut_short"])
def test_what_may_vanish_is_tried_again(double: Behave, tmp_path: Path, out: Path, behaviour: str) -> None:
    double(f"{behaviour}:first=2")
    (one,) = compiled(segment_files(tmp_path, 1), out, retries=2)
    assert (one.status, one.tries) == ("compiled", 3)


def test_a_segment_that_fails_leaves_no_output_of_an_earlier_call(double: Behave, tmp_path: Path, out: Path) -> None:
    paths = segment_files(tmp_path, 1)
    assert compiled(paths, out)[0].ok
    double("large_activations")
    assert not compiled(paths, out)[0].ok
    assert [path.name for path in out.iterdir()] == [f"{paths[0].stem}_edgetpu.log"]


def test_a_compiler_that_hangs_is_killed_with_its_children(
    double: Behave, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "GRACE_S", 0.0)
    double("slow:has=marker0")
    done = compiled(segment_files(tmp_path, 2), out, timeout_s=2)
    assert [one.status for one in done] == ["timed_out", "compiled"]
    (child,) = [call["child"] for call in calls_noted(tmp_path / "bin") if isinstance(call, dict)]
    assert _is_gone(child)


def test_an_error_in_the_callback_stops_the_others(double: Behave, tmp_path: Path, out: Path) -> None:
    double("slow:has=marker1")
    children: list[int] = []

    def fail(_: CompiledSegment) -> None:
        deadline = time.monotonic() + 20
        while not children and time.monotonic() < deadline:
            children.extend(call["child"] for call in calls_noted(tmp_path / "bin") if isinstance(call, dict))
            time.sleep(0.02)
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        compile_segments(
            segment_files(tmp_path, 2), out, compiler=compiler(), options=CompileOptions(workers=2), on_done=fail
        )
    assert _is_gone(children[0])
    assert threading.active_count() == before
    assert not any(path.name.startswith(".") for path in out.iterdir())


def _is_gone(pid: int) -> bool:
    """Whether a process ended; it may take its parent a moment to take notice."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        status = Path(f"/proc/{pid}/stat")
        if status.exists() and status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": 0}, {"timeout_s": 1.5}, {"retries": -1}, {"retries": 11}, {"workers": 0}, {"workers": True},
        {"min_runtime_version": 9}, {"timeout_s": None},
    ],
)  # fmt: skip
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidPlanError, match=next(iter(options))):
        CompileOptions(**options)


def test_files_are_checked_before_anything_runs(double: Behave, tmp_path: Path, out: Path) -> None:
    paths = segment_files(tmp_path, 2)
    with pytest.raises(InvalidPlanError, match=r"stage 2: segment .*no\.tflite is no file"):
        compiled([*paths, tmp_path / "no.tflite"], out)
    with pytest.raises(InvalidPlanError, match="no folder"):
        compiled(paths, tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    twin = tmp_path / "other" / paths[0].name
    twin.write_bytes(b"x")
    with pytest.raises(InvalidPlanError, match="would both be compiled"):
        compiled([*paths, twin], out)
    inside = out / compiled_name(paths[0])
    inside.write_bytes(b"x")
    with pytest.raises(InvalidPlanError, match="would replace the segment"):
        compiled([paths[0], inside], out)
    assert inside.read_bytes() == b"x"
    assert calls_noted(tmp_path / "bin") == [["--version"]] * 4


def test_no_segments_are_no_error(double: Behave, out: Path) -> None:
    assert compiled([], out) == ()
    assert list(out.iterdir()) == []


def test_a_compiler_that_vanished_is_an_error(tmp_path: Path, out: Path) -> None:
    gone = Compiler(path=tmp_path / "gone", version="1")
    with pytest.raises(CompilerFailedError, match=r"gone: No such file"):
        compile_segments(segment_files(tmp_path, 1), out, compiler=gone)
    assert list(out.iterdir()) == []


def test_results_survive_another_process(double: Behave, tmp_path: Path, out: Path) -> None:
    done = compiled(segment_files(tmp_path, 1), out)
    assert pickle.loads(pickle.dumps(done)) == done
    error = CompilerFailedError("why", 1)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
