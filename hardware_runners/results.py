"""Result files: what a runner measured for one job, as JSON that another host checks before it believes it.

A result is one object. For people and for `respect calibrate` it begins with the job (``model``, ``num_stages``,
``objective``, ``solver``), where it ran (``runner``, ``is_simulated``, ``device``, ``host``, ``versions``), and means
in microseconds (``latency_us``, ``period_us``, ``stage_us``, ``whole_us`` of the uncut model), null where not measured.
Then come the raw numbers, all in nanoseconds of one clock:

- ``format`` and ``version``: `FORMAT` and `VERSION`;
- ``job_sha256``: of the job's `job.json`, which holds the sha256 of every file of the job;
- ``started``: when, in UTC;
- ``plan``: ``warm_up``, ``repeats`` and ``items``;
- ``complete``: whether everything is there that the plan asks for; else ``error`` says what ended the run, with
  ``kind``, ``message``, ``stage`` and ``device``;
- ``latency``: [start, end] of every item that ran alone, and ``stage_ns`` its time in every stage;
- ``pipelined``: [start, end] of every item of the full pipeline;
- ``whole_ns``: times of the uncut model;
- ``energy``: null, or ``uj_per_inference``, ``source``, ``is_modelled`` and ``window_us``;
- ``notes``: what else there is to know.

It is written under a temporary name and renamed, so that a file of that name is whole; one that was cut short on its
way is no JSON any more and refused.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Optional, Union

from hardware_runners.errors import RunnerError, UnwritableResultError
from hardware_runners.jobs.format import JOB_FILE, Job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.protocol import Timings

FORMAT = "respect-result"
VERSION = 1

JOB_KEYS = ("model", "num_stages", "objective", "solver")
MEANS = ("latency_us", "period_us", "stage_us", "whole_us")
KEYS = (
    *JOB_KEYS, "runner", "is_simulated", "device", "host", "versions", *MEANS, "format", "version", "job_sha256",
    "started", "plan", "complete", "error", "latency", "stage_ns", "pipelined", "whole_ns", "energy", "notes",
)  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """What ended a run before it was complete."""

    kind: str
    """Name of the error's class."""
    message: str
    stage: Optional[int]
    device: Optional[str]


@dataclass(frozen=True)
class Result:
    """What a runner measured for one job."""

    model: str
    num_stages: int
    objective: str
    solver: str
    job_sha256: str
    started: str
    """UTC, as ISO 8601."""
    plan: TimingPlan
    timings: Timings
    failure: Optional[Failure]
    """None for a run that is complete."""

    @property
    def is_complete(self) -> bool:
        """Whether everything is there that the plan asks for."""
        return self.failure is None

    @property
    def missing(self) -> str:
        """What a partial result lacks, in words."""
        timings, plan = self.timings, self.plan
        alone, pipelined = len(timings.latency), len(timings.pipelined)
        return f"{alone} of {plan.repeats} items alone and {pipelined} of {plan.items} pipelined"


def job_sha256(job: Job) -> str:
    """Return the sha256 of a job's `job.json`."""
    return hashlib.sha256((job.folder / JOB_FILE).read_bytes()).hexdigest()


def result_of(
    job: Job, plan: TimingPlan, timings: Timings, started: str, error: Optional[RunnerError] = None
) -> Result:
    """Make a result of what a runner measured, all of it or until an error."""
    failure = None if error is None else Failure(type(error).__name__, str(error), error.stage, error.device)
    return Result(
        model=job.model,
        num_stages=job.num_stages,
        objective=job.objective,
        solver=job.solver,
        job_sha256=job_sha256(job),
        started=started,
        plan=plan,
        timings=timings,
        failure=failure,
    )


# -- writing ----------------------------------------------------------------------------------------------------------


def result_facts(result: Result) -> Dict[str, Any]:
    """Return a result as the plain values of its file."""
    timings = result.timings
    return {
        **{key: getattr(result, key) for key in JOB_KEYS},
        **{key: getattr(timings, key) for key in ("runner", "is_simulated", "device", "host", "versions")},
        **means_of(timings),
        "format": FORMAT,
        "version": VERSION,
        "job_sha256": result.job_sha256,
        "started": result.started,
        "plan": asdict(result.plan),
        "complete": result.is_complete,
        "error": None if result.failure is None else asdict(result.failure),
        "latency": [[one.start_ns, one.end_ns] for one in timings.latency],
        "stage_ns": [list(times) for times in timings.stage_ns],
        "pipelined": [[one.start_ns, one.end_ns] for one in timings.pipelined],
        "whole_ns": list(timings.whole_ns),
        "energy": None if timings.energy is None else asdict(timings.energy),
        "notes": list(timings.notes),
    }


def check_writable(path: Union[str, Path]) -> None:
    """Try whether a result can be written, before hours are spent on one; leaves nothing behind.

    Raises:
        UnwritableResultError: It cannot be.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        with tempfile.TemporaryFile(dir=str(path.parent)):
            pass
    except OSError as error:
        raise UnwritableResultError(f"result {path} cannot be written ({error.strerror or error})") from error


def write_result(path: Union[str, Path], result: Result) -> None:
    """Write a result file, whole or not at all; a file of this name is replaced.

    Raises:
        UnwritableResultError: It cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps(result_facts(result), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise UnwritableResultError(f"result {path} cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def means_of(timings: Timings) -> Dict[str, Any]:
    """Return the means that a result tells, in microseconds."""
    return {
        "latency_us": timings.mean_latency_us,
        "period_us": timings.period_us,
        "stage_us": list(timings.mean_stage_us),
        "whole_us": timings.mean_whole_us,
    }
