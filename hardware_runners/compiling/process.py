"""One run of `edgetpu_compiler`: a process group with a deadline, and a verdict on what it wrote."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import List, Optional, Set, Tuple

from hardware_runners.compiling.log import CompilerFacts, parse_log, printed_tolerance

_NAME = "respect_segment"
"""Under which name the compiler sees a segment, whatever the file is called."""

GRACE_S = 10.0
"""The compiler has its own time limit; it is killed so much later."""

_MOST_TEXT = 2**22
"""Bytes of its output that are read."""

_COMPILED_OP = b"edgetpu-custom-op"
_IDENTIFIER = b"TFL3"


@dataclass(frozen=True)
class Attempt:
    """One run of the compiler on one segment."""

    status: str
    """`compiled`, or a key of `FAILURES`."""
    detail: str
    """The line or exit status behind a failure."""
    text: str
    """What it printed, and its operation log after it."""
    facts: CompilerFacts
    seconds: float
    output: Optional[Path]
    """The compiled model, None where there is none that is whole."""


class CompilerProcesses:
    """Runs compilers from several threads; `stop` ends all that are running and lets no more start."""

    def __init__(self, command: Path, timeout_s: float, min_runtime_version: Optional[int] = None) -> None:
        self._command, self._timeout_s = command, timeout_s
        self._min_runtime_version = min_runtime_version
        self._running: Set[int] = set()
        self._lock = threading.Lock()
        self.stopped = False

    def stop(self) -> None:
        """Kill every running compiler with all its children."""
        with self._lock:
            self.stopped = True
            for pid in self._running:
                _kill_group(pid)

    def run(self, segment: Path, folder: Path) -> Attempt:
        """Compile one segment in a folder of its own, which is made.

        Raises:
            OSError: The process cannot be started, or the folder not be written.
        """
        folder.mkdir()
        given = folder / f"{_NAME}.tflite"
        _link_or_copy(segment, given)
        command = [str(self._command), "-o", str(folder), "-t", f"{self._timeout_s:.0f}"]
        if self._min_runtime_version is not None:
            command += ["-m", str(self._min_runtime_version)]
        printed = folder / "printed"
        start = time.monotonic()
        code, timed_out = self._run([*command, str(given)], folder, printed)
        seconds = time.monotonic() - start
        text = _text_of(printed, folder / f"{_NAME}_edgetpu.log").replace(str(folder) + os.sep, "")
        facts = _renamed(parse_log(text), segment)  # parsed first: a file's name could look like a line of its own
        text = text.replace(_NAME, segment.stem)
        status, detail = _verdict(facts, folder / f"{_NAME}_edgetpu.tflite", code, timed_out)
        if status != "compiled" and facts.failure is None:
            facts = replace(facts, failure=status, failure_line=detail)
        output = folder / f"{_NAME}_edgetpu.tflite" if status == "compiled" else None
        return Attempt(status, detail, text, facts, seconds, output)

    def _run(self, command: List[str], folder: Path, printed: Path) -> Tuple[int, bool]:
        """Return the exit status, negative for a signal, and whether the time ran out."""
        with printed.open("wb") as stream:
            with self._lock:
                if self.stopped:
                    return -signal.SIGTERM, False
                process = subprocess.Popen(
                    command, cwd=str(folder), stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                    start_new_session=True,
                )  # fmt: skip
                self._running.add(process.pid)
            try:
                return process.wait(timeout=self._timeout_s + GRACE_S), False
            except subprocess.TimeoutExpired:
                _kill_group(process.pid)
                return process.wait(), True
            finally:
                with self._lock:
                    self._running.discard(process.pid)


def _kill_group(pid: int) -> None:
    """Kill a process that was not waited for yet, and with it the group that it leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _renamed(facts: CompilerFacts, segment: Path) -> CompilerFacts:
    """Return the facts with the segment's own name where the compiler speaks of the one it was given."""
    return replace(
        facts,
        input_model=facts.input_model and facts.input_model.replace(_NAME, segment.stem),
        output_model=facts.output_model and facts.output_model.replace(_NAME, segment.stem),
        failure_line=facts.failure_line.replace(_NAME, segment.stem),
    )


def _verdict(facts: CompilerFacts, output: Path, code: int, timed_out: bool) -> Tuple[str, str]:
    """Return the status of a run and the detail that shows it."""
    if timed_out:
        return "timed_out", ""
    if code < 0:
        return "crashed", f"ended by {_signal_name(-code)}"
    if facts.failure is not None:
        return facts.failure, facts.failure_line
    if not output.is_file():
        if code > 128:  # a shell around it tells a signal so
            return "crashed", f"ended by {_signal_name(code - 128)}"
        return "no_output", f"exit status {code}"
    damage = _damage(output, facts)
    if damage:
        return "damaged_output", damage
    if code != 0:
        return "compilation_failed", f"exit status {code} although it wrote a model"
    return "compiled", ""


def _damage(output: Path, facts: CompilerFacts) -> str:
    """Return what is wrong with the compiled model, empty if it is whole."""
    data = output.read_bytes()
    if len(data) < 16 or data[4:8] != _IDENTIFIER:
        return f"its {len(data)} bytes do not begin like a TFLite file"
    if facts.output_bytes is not None and abs(len(data) - facts.output_bytes) > printed_tolerance(facts.output_bytes):
        return f"it has {len(data)} bytes, the compiler speaks of {facts.output_bytes}"
    if facts.edge_tpu_ops and _COMPILED_OP not in data:
        return f"it has no {_COMPILED_OP.decode()}"
    return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(str(source.resolve()), str(target))
    except OSError:  # another file system, or one without links
        shutil.copyfile(str(source), str(target))


def _text_of(*paths: Path) -> str:
    """Return the readable text of files that may not exist, one after the other."""
    parts = []
    for path in paths:
        with contextlib.suppress(OSError), path.open("rb") as stream:
            parts.append(re.sub(r"\r\n?", "\n", stream.read(_MOST_TEXT).decode("utf-8", errors="replace")))
    return "\n".join(parts)
