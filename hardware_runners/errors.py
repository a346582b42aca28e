"""Every deliberate error of a runner: a `RunnerError` that is also the builtin a caller would catch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Optional, Union


class RunnerError(Exception):
    """Base of all errors that runners raise on purpose; its message is one sentence meant for the user.

    Attributes:
        why: What went wrong and the way out.
        stage: Stage of the pipeline it concerns, None where it concerns all of them.
        device: Device it concerns, None where there is none.
        partial: What a runner had measured until then (`hardware_runners.protocol.Timings`), None where nothing was.
    """

    partial: Optional[Any] = None

    def __init__(self, why: str, stage: Optional[int] = None, device: Optional[str] = None) -> None:
        self.why, self.stage, self.device = why, stage, device
        place = "" if stage is None else f"stage {stage}"
        if device is not None:
            place += f" on device {device!r}" if place else f"device {device!r}"
        super().__init__(f"{place}: {why}" if place else why)

    def __reduce__(self) -> tuple:  # type: ignore[type-arg]
        return type(self), (self.why, self.stage, self.device)


class DeviceUnavailableError(RunnerError, ConnectionError):
    """A device that the pipeline needs is missing, held by somebody else, or has vanished."""


class PipelineFailedError(RunnerError, RuntimeError):
    """A stage of a running pipeline failed."""


class WrongOutputError(PipelineFailedError):
    """The pipeline does not compute what the uncut model computes."""


class RuntimeTooOldError(RunnerError, RuntimeError):
    """An interpreter or an Edge TPU runtime is older than a segment needs."""


class RuntimeMissingError(RunnerError, ImportError):
    """No TFLite interpreter can be imported on this host, or not the one that is asked for."""


class MeterUnavailableError(RunnerError, ConnectionError):
    """A power meter is not there, cannot be read, or saw too little of a run."""


class InvalidPlanError(RunnerError, ValueError):
    """A timing plan or an option of a runner cannot be used; the message says what is allowed."""


class RunnerClosedError(RunnerError, RuntimeError):
    """A runner was used outside its ``with`` block."""


class UnknownRunnerError(RunnerError, LookupError, ValueError):
    """There is no runner of this name."""

    def __init__(self, name: str, allowed: Iterable[str]) -> None:
        self.name, self.allowed = name, tuple(allowed)
        super().__init__(f"unknown runner {name!r}: choose from {', '.join(self.allowed)}")

    def __reduce__(self) -> tuple:  # type: ignore[type-arg]
        return type(self), (self.name, self.allowed)


class _JobFolderError(RunnerError):
    """Something is wrong with one job folder.

    Attributes:
        folder: The job folder.
    """

    def __init__(
        self, folder: Union[str, Path], why: str, stage: Optional[int] = None, device: Optional[str] = None
    ) -> None:
        self.folder, self._reason = str(folder), why
        super().__init__(f"job folder {folder}: {why}", stage, device)

    def __reduce__(self) -> tuple:  # type: ignore[type-arg]
        return type(self), (self.folder, self._reason, self.stage, self.device)


class InvalidJobError(_JobFolderError, ValueError):
    """A job folder cannot be read as one; the message names the file or key and what is expected."""


class JobExistsError(_JobFolderError, FileExistsError):
    """A job folder would overwrite something else."""


class UnwritableJobError(_JobFolderError, OSError):
    """A job folder cannot be written."""


class InvalidResultError(RunnerError, ValueError):
    """A result file cannot be read as one, or belongs to another job; the message names the file, key and expectation.

    Attributes:
        path: The result file.
    """

    def __init__(
        self, path: Union[str, Path], why: str, stage: Optional[int] = None, device: Optional[str] = None
    ) -> None:
        self.path, self._reason = str(path), why
        super().__init__(f"result {path}: {why}", stage, device)

    def __reduce__(self) -> tuple:  # type: ignore[type-arg]
        return type(self), (self.path, self._reason, self.stage, self.device)


class UnwritableResultError(RunnerError, OSError):
    """A result cannot be written."""
