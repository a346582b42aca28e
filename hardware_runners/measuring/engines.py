"""Engines: what runs the stages of a job. Here the one for the host's processor, and what all of them share."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Protocol, Sequence

from hardware_runners.devices.runtime import KERNELS, find_runtime, package_version, processor_name
from hardware_runners.errors import RunnerError
from hardware_runners.jobs.format import Job, JobSegment
from hardware_runners.measuring.chain import Left, ThreadedPipeline
from hardware_runners.measuring.record import Log, Moves
from hardware_runners.measuring.request import Request
from hardware_runners.measuring.stages import Stage, allocated, failure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Held = Dict[str, "NDArray[Any]"]


class Engine(Protocol):
    """Opens the stages of a job and runs them in a pipeline."""

    device: str
    """Text for the table."""
    versions: Dict[str, str]

    def open(self) -> List[Stage]:
        """Open every stage in order; raises `RunnerError`, naming stage and device."""

    def open_whole(self) -> Optional[Stage]:
        """Open the uncut model on the first device, None where the job does not have it; before the stages."""

    def run(self, stages: Sequence[Stage], items: "Iterable[Held]", on_left: Callable[[int, Left], None]) -> None:
        """Run items through all stages, pipelined; raises `RunnerError`."""

    def explained(self, error: RunnerError) -> RunnerError:
        """Return an error of a running pipeline as it is to be told: a device may have vanished."""


class CpuEngine:
    """Segments on the host's processor, one thread a stage."""

    def __init__(self, job: Job, request: Request, log: Log, moves: Moves) -> None:
        """Import the interpreter; raises `RuntimeMissingError`."""
        self.job, self.request, self.log, self.moves = job, request, log, moves
        self.runtime = find_runtime(*([(request.runtime,)] if request.runtime else []))
        self.device = f"cpu {processor_name()}"
        self.versions = {
            self.runtime.name: self.runtime.version,
            "kernels": KERNELS,
            "python": platform.python_version(),
            "numpy": package_version("numpy") or "unknown",
        }

    def open(self) -> List[Stage]:
        """Open every segment."""
        return [self._stage(segment, k) for k, segment in enumerate(self.job.segments)]

    def open_whole(self) -> Optional[Stage]:
        """Open the uncut model."""
        whole = self.job.whole
        return None if whole is None or whole.file is None else self._stage(whole, None)

    def _stage(self, segment: JobSegment, number: Optional[int]) -> Stage:
        path = str(self.job.path(str(segment.file)))
        try:
            interpreter = self.runtime.on_cpu(path)
        except (RuntimeError, ValueError) as error:
            raise failure(error, "load", number, None) from error
        return Stage(allocated(interpreter, number, None), segment, self.job, number, None)

    def run(self, stages: Sequence[Stage], items: "Iterable[Held]", on_left: Callable[[int, Left], None]) -> None:
        """Run items in threads."""
        run_in_threads(self.job, self.request, self.moves, stages, items, on_left)

    def explained(self, error: RunnerError) -> RunnerError:
        """Return the error: there is no device that could vanish."""
        return error


ENGINE_CLASSES: Dict[str, str] = {
    "cpu": "hardware_runners.measuring.engines:CpuEngine",
    "litert": "hardware_runners.measuring.engines_coral:DelegateEngine",
    "pycoral": "hardware_runners.measuring.engines_coral:PycoralEngine",
}
"""Class of every engine by name, made of a job, a request, a log and the stages' counters."""


def run_in_threads(
    job: Job,
    request: Request,
    moves: Moves,
    stages: Sequence[Stage],
    items: "Iterable[Held]",
    on_left: Callable[[int, Left], None],
) -> None:
    """Run items in a `ThreadedPipeline` with the queues that the request asks for."""
    pipeline = ThreadedPipeline(
        stages,
        [spec.name for spec in job.whole.outputs] if job.whole else [],
        input_queue=request.input_queue,
        output_queue=request.output_queue,
        moved=moves.moved,
    )
    pipeline.run(items, on_left)
