"""Typed errors on their way from the measuring process to the one that started it, and how its end is explained."""

from __future__ import annotations

import re
import signal
import sys
from typing import Any, Dict, Optional, Sequence, Type

from hardware_runners import errors
from hardware_runners.errors import (
    DeviceUnavailableError,
    InvalidJobError,
    PipelineFailedError,
    RunnerError,
    RuntimeMissingError,
)
from hardware_runners.jobs.format import Job
from hardware_runners.measuring.record import Read
from hardware_runners.measuring.request import Request

_MISSING = re.compile(r"ModuleNotFoundError: No module named '(\w+)'")


def facts_of(error: RunnerError) -> Dict[str, Any]:
    """Return an error as plain values."""
    why = getattr(error, "_reason", None) or error.why
    return {"kind": type(error).__name__, "why": why, "stage": error.stage, "device": error.device}


def error_of(facts: Dict[str, Any], job: Job) -> RunnerError:
    """Return the error that plain values describe."""
    if facts["kind"] == InvalidJobError.__name__:
        return InvalidJobError(job.folder, facts["why"], facts["stage"], facts["device"])
    kind: Type[RunnerError] = getattr(errors, facts["kind"], PipelineFailedError)
    return kind(facts["why"], facts["stage"], facts["device"])


def crash_of(status: int, read: Read, moves: Sequence[int], request: Request, said: str) -> RunnerError:
    """Say why a measuring process ended, and at which stage.

    Args:
        status: Its exit status, negative for a signal.
        read: What it had written down.
        moves: Counters of the stages, odd while one is at work.
        request: What it was to do.
        said: The end of its standard error.
    """
    missing = _MISSING.search(said)
    if missing:
        package = missing.group(1)
        return RuntimeMissingError(f"{package} cannot be imported by {sys.executable}: pip install {package}")
    name = _signal_name(-status) if status < 0 else f"exit status {status}"
    told = f": {said}" if said else ""
    if read.loading is not None:
        stage, device = read.loading["stage"], read.loading["device"]
        return PipelineFailedError(
            f"the process was brought down ({name}) while it opened the device{told}; {_hint(status, said)}",
            stage,
            device,
        )
    active = active_stages(moves)
    stage = active[0] if len(active) == 1 else None
    where = "" if stage is not None else _where(active, request)
    device_text = _device(request, stage)
    return PipelineFailedError(
        f"the process was brought down ({name}) in the phase {read.phase!r}{where}{told}; {_hint(status, said)}",
        stage,
        device_text,
    )


def stall_of(stall_s: float, read: Read, moves: Sequence[int], request: Request) -> RunnerError:
    """Say where a measuring process was that did not go on and was ended."""
    if read.loading is not None:
        return DeviceUnavailableError(
            f"the device did not open within {stall_s:g} s: attach it again, and see `respect doctor`",
            read.loading["stage"],
            read.loading["device"],
        )
    active = active_stages(moves)
    stage = active[0] if len(active) == 1 else None
    where = "" if stage is not None else _where(active, request)
    return PipelineFailedError(
        f"nothing went on for {stall_s:g} s in the phase {read.phase!r}{where}, so it was ended: attach the device "
        "again, or allow more time with --stall",
        stage,
        _device(request, stage),
    )


def active_stages(moves: Sequence[int]) -> Sequence[int]:
    """Return the stages that were at work."""
    return [stage for stage, count in enumerate(moves) if count % 2]


def _where(active: Sequence[int], request: Request) -> str:
    """Say which stages it may have been, with their devices: pycoral's pipeline does not tell which one is at work."""
    stages = active or range(len(request.devices))
    places = [f"{stage} ({_device(request, stage)!r})" if request.devices else str(stage) for stage in stages]
    return f" in one of the stages {', '.join(places)}" if places else ""


def _device(request: Request, stage: Optional[int]) -> Optional[str]:
    return request.devices[stage] if stage is not None and stage < len(request.devices) else None


def _hint(status: int, said: str) -> str:
    if -status == signal.SIGSEGV:
        return (
            "libedgetpu and the interpreter must be of one TensorFlow generation (the stock library crashes with "
            "interpreters after 2.11): `respect doctor` tells both"
        )
    if -status == signal.SIGABRT:
        return (
            "libedgetpu and pycoral abort on a lost device, on more than 1.5 GB of PCIe mappings, and on tensors that "
            "no segment takes"
        )
    if -status == signal.SIGKILL:
        return "the system ended it, perhaps for want of memory"
    return "those were its last words" if said else "it left no word"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
