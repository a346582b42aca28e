"""Runs a measurement in a process of its own, because drivers of devices bring down the process that they are in.

Whatever happens there becomes a typed error here, and what was measured until then is kept as the error's `partial`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Optional, Tuple, Type

from hardware_runners.errors import InvalidJobError, RunnerClosedError, RunnerError, UnwritableResultError
from hardware_runners.jobs.format import Job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.measuring.process_errors import crash_of, error_of, stall_of
from hardware_runners.measuring.record import LOG_FILE, MOVES_FILE, REQUEST_FILE, STDERR_FILE, Moves, Read
from hardware_runners.measuring.request import Request
from hardware_runners.protocol import Timings, host_text

STALL_S = 120.0
"""A measurement in which nothing goes on for so long is ended."""

START_UP_S = 60.0
"""How much longer it may take until the process has imported the interpreter and says so."""

_POLL_S = 0.05
_MOST_SAID = 300


class ProcessRunner:
    """A runner that measures in a process of its own: what `litert` and `coral` share."""

    name = ""
    is_simulated = False

    def __init__(self, stall_s: float) -> None:
        """Configure how long nothing may go on before a measurement is ended."""
        self._stall_s, self._open = stall_s, False

    def __enter__(self) -> ProcessRunner:
        self._open = True
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._open = False

    def time(self, job: Job, plan: TimingPlan) -> Timings:
        """Run the job's pipeline as the plan says; see `PipelineRunner.time`."""
        if not self._open:
            raise RunnerClosedError(f"runner {self.name!r} is closed, use it as 'with open_runner(...) as runner'")
        if not job.segments:
            raise InvalidJobError(job.folder, "it has no segments to run: write it with `respect split MODEL.tflite`")
        return run_in_process(self.name, job, self._request(job, plan), self._stall_s)

    def _request(self, job: Job, plan: TimingPlan) -> Request:
        raise RunnerClosedError(f"runner {self.name!r} cannot run anything")


def run_in_process(runner: str, job: Job, request: Request, stall_s: float) -> Timings:
    """Run one measurement.

    Args:
        runner: Name of the runner, for the timings.
        job: The job.
        request: What to do.
        stall_s: The process is ended when nothing goes on for so long.

    Returns:
        Everything that the plan asks for.

    Raises:
        RunnerError: Anything else; its `partial` holds what was measured until then.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="respect-run-"))
    except OSError as error:
        raise UnwritableResultError(f"no temporary folder can be made ({error.strerror or error})") from error
    try:
        request.write(folder / REQUEST_FILE)
        moves = Moves(folder / MOVES_FILE, job.num_stages)
        try:
            status, is_stalled = _watched(folder, moves, stall_s)
            counts = moves.counts()
        finally:
            moves.close()
        read = Read(folder / LOG_FILE)
        timings = _timings(runner, job, read)
        if read.is_done and status == 0 and timings is not None:
            return timings
        failed: RunnerError
        if read.error is not None:
            failed = error_of(read.error, job)
        elif is_stalled:
            failed = stall_of(stall_s, read, counts, request)
        else:
            failed = crash_of(status, read, counts, request, _last_words(folder / STDERR_FILE))
        failed.partial = timings if timings and (timings.latency or timings.pipelined) else None
        raise failed
    finally:
        shutil.rmtree(str(folder), ignore_errors=True)


def _watched(folder: Path, moves: Moves, stall_s: float) -> Tuple[int, bool]:
    """Start the process and wait for its end; returns its exit status and whether it had to be ended."""
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, env.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "hardware_runners.measuring.measure", str(folder)]
    with (folder / STDERR_FILE).open("wb") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=env, start_new_session=True
        )
    try:
        seen, since = None, time.monotonic()
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(timeout=_POLL_S), False
            now = (moves.counts(), _size(folder / LOG_FILE))
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > stall_s + (0 if now[1] else START_UP_S):
                _kill(process)
                return process.wait(), True
    except BaseException:
        _kill(process)
        process.wait()
        raise


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process that was not waited for yet, and with it the group that it leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0


def _timings(runner: str, job: Job, read: Read) -> Optional[Timings]:
    """Return what was measured, None where it did not come to that."""
    if not read.ready:
        return None
    return Timings(
        runner=runner,
        is_simulated=False,
        device=read.ready["device"],
        host=host_text(),
        versions=read.ready["versions"],
        num_stages=job.num_stages,
        latency=tuple(read.latency),
        stage_ns=tuple(read.stage_ns),
        pipelined=tuple(read.pipelined),
        whole_ns=tuple(read.whole_ns),
        energy=read.energy,
        notes=tuple(read.notes),
    )


def _last_words(path: Path) -> str:
    """Return the last line before a stack trace of what the process printed."""
    try:
        text = path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return ""
    before, _, _ = text.partition("Fatal Python error")  # after it come stack traces, which tell a user nothing
    lines = [line.strip() for line in before.splitlines() if line.strip()]
    return lines[-1][:_MOST_SAID] if lines else ""
