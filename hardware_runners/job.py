"""Job folders: what a host needs to time one pipeline, written whole or not at all and read with every file checked.

The format is described in `hardware_runners.jobs.format`. A folder that holds something else is never overwritten.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from hardware_runners.errors import InvalidJobError, JobExistsError, UnwritableJobError
from hardware_runners.jobs.check import checked_job
from hardware_runners.jobs.format import (
    FORMAT,
    GRAPH_FILE,
    JOB_FILE,
    VERSION,
    Constant,
    Job,
    JobFile,
    JobSegment,
    TensorSpec,
)
from hardware_runners.jobs.plan import TimingPlan

__all__ = [
    "GRAPH_FILE",
    "JOB_FILE",
    "Constant",
    "Job",
    "JobFile",
    "JobSegment",
    "TensorSpec",
    "is_vacant",
    "read_job",
    "write_job",
]

Content = Union[bytes, Path]
"""Of a file to write: its bytes, or the path of a file to copy."""

_MAX_JOB_BYTES = 64 * 2**20
_AGAIN = ": copy the folder again, or write it anew with `respect split`"


def write_job(
    folder: Union[str, Path],
    *,
    model: str,
    num_stages: int,
    objective: str,
    solver: str,
    stage_of: Sequence[int],
    profile: Mapping[str, Constant],
    files: Mapping[str, Content],
    suits_pipeline: bool = False,
    plan: Optional[TimingPlan] = None,
    whole: Optional[JobSegment] = None,
    segments: Sequence[JobSegment] = (),
    reference: Optional[str] = None,
) -> Job:
    """Write a job folder whole, or not at all.

    Args:
        folder: Where to; its parent must exist. A folder with exactly this content is left as it is.
        model: Name of the model.
        num_stages: Number of stages K, at least 1.
        objective: What the schedule minimised.
        solver: Who made the schedule.
        stage_of: Stage of every op, in [0, num_stages). Shape (n,).
        profile: Constants of the device's profile, with its ``name``.
        files: Content of every file by its name, `GRAPH_FILE` for instance; of a path, the file there is copied.
        suits_pipeline: Whether pycoral's pipeline can take the segments.
        plan: How often to run it; without one, the defaults of `TimingPlan`.
        whole: The uncut model, where there are segments.
        segments: The model of every stage in order, or none where only the graph is known.
        reference: Name of the file of reference items, if there is one.

    Returns:
        The job as `read_job` would return it.

    Raises:
        InvalidJobError: Something that `read_job` would refuse.
        JobExistsError: The folder exists with other content; it is left untouched.
        UnwritableJobError: The folder cannot be written, or a file to copy cannot be read.
    """
    folder = Path(folder)
    try:
        listed = {name: _described(content) for name, content in sorted(files.items())}
    except OSError as error:
        raise UnwritableJobError(folder, f"{error.filename} cannot be read ({error.strerror or error})") from error
    content = {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "num_stages": num_stages,
        "objective": objective,
        "solver": solver,
        "stage_of": [int(stage) for stage in stage_of],
        "suits_pipeline": suits_pipeline,
        "profile": dict(profile),
        "plan": asdict(plan or TimingPlan()),
        "files": listed,
        "whole": None if whole is None else _plain(whole),
        "segments": [_plain(segment) for segment in segments],
        "reference": reference,
    }
    job = checked_job(folder, content)
    text = json.dumps(content, allow_nan=False) + "\n"
    if not is_vacant(folder):
        return _same_or_raise(folder, job)
    staging = folder.parent / f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        staging.mkdir()
        for name, data in {**files, JOB_FILE: text.encode("ascii")}.items():
            _write_durably(staging / name, data)
        try:
            staging.replace(folder)
        except OSError:
            if is_vacant(folder):
                raise
            return _same_or_raise(folder, job)  # somebody else wrote it meanwhile
    except OSError as error:
        raise UnwritableJobError(folder, f"it cannot be written ({error.strerror or error})") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return job


def is_vacant(folder: Path) -> bool:
    """Tell whether a job can be written here: nothing is there, or an empty folder."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return False
    return not folder.exists() or not any(folder.iterdir())


def read_job(folder: Union[str, Path]) -> Job:
    """Read a job folder and check every file it lists.

    Files that it does not list are none of its business.

    Raises:
        InvalidJobError: `job.json` is missing, cut short or not of this format and version; a key is missing, unknown
            or of the wrong type; a file is missing or its sha256 differs. The message names it.
    """
    folder = Path(folder)
    job = checked_job(folder, _parse(folder))
    for file in job.files:
        path, stage = folder / file.name, _stage_of(job, file.name)
        try:
            size = path.stat().st_size
            if size != file.num_bytes:
                why = f"file {file.name!r} has {size} bytes, {file.num_bytes} are expected{_AGAIN}"
                raise InvalidJobError(folder, why, stage)
            found = _sha256(path)
        except FileNotFoundError as error:
            raise InvalidJobError(folder, f"file {file.name!r} is missing{_AGAIN}", stage) from error
        except OSError as error:
            raise InvalidJobError(folder, f"file {file.name!r} cannot be read ({error.strerror})", stage) from error
        if found != file.sha256:
            why = f"file {file.name!r} has sha256 {found}, {file.sha256} is expected{_AGAIN}"
            raise InvalidJobError(folder, why, stage)
    return job


def _stage_of(job: Job, name: str) -> Optional[int]:
    """Return the stage whose segment a file is, None for every other file."""
    return next((k for k, one in enumerate(job.segments) if name in (one.file, one.compiled)), None)


# -- reading ----------------------------------------------------------------------------------------------------------


def _parse(folder: Path) -> Any:
    path = folder / JOB_FILE
    try:
        size = path.stat().st_size
        if size > _MAX_JOB_BYTES:
            raise InvalidJobError(folder, f"{JOB_FILE} has {size} bytes, at most {_MAX_JOB_BYTES} are read")
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError as error:
        why = f"{JOB_FILE} is missing" if folder.is_dir() else "there is no such folder"
        raise InvalidJobError(folder, f"{why}: `respect split MODEL.tflite --out DIR` writes one") from error
    except NotADirectoryError as error:
        raise InvalidJobError(folder, f"it is no folder: name the one that holds {JOB_FILE}") from error
    except OSError as error:
        raise InvalidJobError(folder, f"{JOB_FILE} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InvalidJobError(folder, f"{JOB_FILE} is not text ({error.reason} at byte {error.start})") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJobError(folder, f"{JOB_FILE} is not JSON, perhaps it was cut short ({error}){_AGAIN}") from error


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(2**20), b""):
            digest.update(block)
    return digest.hexdigest()


# -- writing ----------------------------------------------------------------------------------------------------------


def _plain(segment: JobSegment) -> Dict[str, Any]:
    """Return a segment as `job.json` has it."""

    def tensors(specs: Sequence[TensorSpec]) -> List[Dict[str, Any]]:
        return [{"name": spec.name, "dtype": spec.dtype, "shape": [int(size) for size in spec.shape]} for spec in specs]

    return {
        "file": segment.file,
        "compiled": segment.compiled,
        "inputs": tensors(segment.inputs),
        "outputs": tensors(segment.outputs),
    }


def _described(content: Content) -> Dict[str, Any]:
    """Return the entry of a file in `job.json`."""
    if isinstance(content, bytes):
        return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    return {"sha256": _sha256(content), "bytes": content.stat().st_size}


def _same_or_raise(folder: Path, wanted: Job) -> Job:
    try:
        found = read_job(folder)
    except InvalidJobError as error:
        raise JobExistsError(folder, f"it exists and is not this job; choose another folder ({error.why})") from error
    if found != wanted:
        raise JobExistsError(folder, "it exists and holds another job; choose another folder or remove it")
    return found


def _write_durably(path: Path, content: Content) -> None:
    with path.open("wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            with content.open("rb") as source:
                shutil.copyfileobj(source, file, 2**20)
        file.flush()
        os.fsync(file.fileno())
