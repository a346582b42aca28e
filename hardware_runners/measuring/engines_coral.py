"""Engines that run compiled segments on Edge TPUs: by the interpreter with libedgetpu, and by pycoral's pipeline."""

from __future__ import annotations

import platform
from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from hardware_runners.devices.delegates import attached, check_count, open_device, runtime_version
from hardware_runners.devices.edgetpus import devices_text
from hardware_runners.devices.runtime import Runtime, as_numbers, find_runtime, package_version
from hardware_runners.errors import DeviceUnavailableError, InvalidJobError, RunnerError, RuntimeMissingError
from hardware_runners.jobs.format import Job, JobSegment
from hardware_runners.measuring.chain import Left
from hardware_runners.measuring.engines import run_in_threads
from hardware_runners.measuring.pycoral_pipeline import run_pycoral
from hardware_runners.measuring.record import Log, Moves
from hardware_runners.measuring.request import Request
from hardware_runners.measuring.stages import Stage, allocated, failure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Held = Dict[str, "NDArray[Any]"]


MOST_WAITING_BYTES = 256 * 2**20
"""Inputs that may wait before pycoral's first segment, which copies what is pushed, unless the user says otherwise."""


class DelegateEngine:
    """Compiled segments by the interpreter with libedgetpu's delegate, one thread a stage."""

    def __init__(self, job: Job, request: Request, log: Log, moves: Moves) -> None:
        """Import the interpreter and count the devices; raises `RunnerError`."""
        self.job, self.request, self.log, self.moves = job, request, log, moves
        self.runtime = self._runtime()
        self.attached = self._attached()
        count = None if self.attached is None else len(self.attached)
        check_count(request.devices, count, job.num_stages)
        self.device = devices_text(request.devices[: job.num_stages], self.attached)
        self.versions = {"engine": request.engine, self.runtime.name: self.runtime.version, **self._versions()}

    def _runtime(self) -> Runtime:
        runtime = find_runtime(*([(self.request.runtime,)] if self.request.runtime else []))
        if runtime.name == "tflite-runtime" and as_numbers(runtime.version)[:2] == (2, 5):
            self.log.event(
                "note",
                text=f"tflite-runtime {runtime.version} is known to corrupt some newly quantised models in silence: "
                "compare the outputs",
            )
        return runtime

    def _attached(self) -> Optional[List[Tuple[str, str]]]:
        return attached(self.request.library)

    def _versions(self) -> Dict[str, str]:
        return {
            "libedgetpu": runtime_version(self.request.library) or "unknown",
            "python": platform.python_version(),
            "numpy": package_version("numpy") or "unknown",
        }

    def open(self) -> List[Stage]:
        """Open device after device and put its segment on it."""
        return [self._stage(segment, k) for k, segment in enumerate(self.job.segments)]

    def open_whole(self) -> Optional[Stage]:
        """Open the compiled uncut model on the first device, where the job has it."""
        whole = self.job.whole
        return None if whole is None or whole.compiled is None else self._stage(whole, None)

    def _stage(self, segment: JobSegment, number: Optional[int]) -> Stage:
        stage = number or 0
        device = self.request.devices[stage]
        if segment.compiled is None:
            raise InvalidJobError(
                self.job.folder,
                f"segment {segment.file!r} is not compiled for the Edge TPU: run `respect split` where "
                "edgetpu_compiler is on the PATH, or use the runner litert",
                number,
            )
        path = str(self.job.path(segment.compiled))
        self.log.event("loading", stage=stage, device=device)
        interpreter = allocated(self._interpreter(path, stage, device), number, device)
        self.log.event("loaded", stage=stage)
        return Stage(interpreter, segment, self.job, number, device)

    def _interpreter(self, path: str, stage: int, device: str) -> Any:
        delegate = self._open(self.runtime.load_delegate, stage, device)
        try:
            return self.runtime.on_device(path, delegate)
        except (RuntimeError, ValueError) as error:
            raise failure(error, "load", stage, device) from error

    def _open(self, load: Callable[..., Any], stage: int, device: str) -> Any:
        return open_device(
            load,
            self.request.library,
            stage,
            device,
            retries=self.request.retries,
            wait_s=self.request.wait_s,
            note=lambda text: self.log.event("note", text=text),
        )

    def run(self, stages: Sequence[Stage], items: "Iterable[Held]", on_left: Callable[[int, Left], None]) -> None:
        """Run items in threads."""
        run_in_threads(self.job, self.request, self.moves, stages, items, on_left)

    def explained(self, error: RunnerError) -> RunnerError:
        """Say that a device vanished, if fewer are attached than there were."""
        now = self._attached()
        if self.attached is None or now is None or len(now) >= len(self.attached):
            return error
        gone = [path for one in self.attached if one not in now for path in one[1:]]
        stage, device = error.stage, error.device
        if stage is None:
            stage = next((k for k, one in enumerate(self.attached[: self.job.num_stages]) if one not in now), None)
            device = None if stage is None else self.request.devices[stage]
        return DeviceUnavailableError(
            f"the device vanished while it ran ({', '.join(gone) or 'fewer are attached now'}): check cable, power and "
            f"cooling ({error.why})",
            stage,
            device,
        )


class PycoralEngine(DelegateEngine):
    """Compiled segments by pycoral's `PipelinedModelRunner`.

    Latency is measured by chaining the interpreters before the pipeline takes them over.
    """

    def _runtime(self) -> Runtime:
        check_pycoral(self.job)
        self._pycoral = import_pycoral()
        return find_runtime(("tflite-runtime",))  # pycoral brings its own TFLite, which no other interpreter fits

    def _attached(self) -> Optional[List[Tuple[str, str]]]:
        listed = self._pycoral.list_edge_tpus()
        return [("usb" if one["type"] == "usb" else "pcie", str(one["path"])) for one in listed]

    def _versions(self) -> Dict[str, str]:
        said = self._pycoral.get_runtime_version()
        return {**super()._versions(), "pycoral": package_version("pycoral") or "unknown", "libedgetpu": str(said)}

    def _interpreter(self, path: str, stage: int, device: str) -> Any:
        def make(library: str, options: Dict[str, str]) -> Any:
            return self._pycoral.make_interpreter(path, device=options.get("device"))

        try:
            return self._open(make, stage, device)
        except RuntimeError as error:
            raise failure(error, "load", stage, device) from error

    def run(self, stages: Sequence[Stage], items: "Iterable[Held]", on_left: Callable[[int, Left], None]) -> None:
        """Run items in pycoral's pipeline."""
        run_pycoral(
            self._pycoral.PipelinedModelRunner,
            stages,
            [spec.name for spec in self.job.whole.outputs] if self.job.whole else [],
            items,
            on_left,
            input_queue=self._input_queue(),
            output_queue=self.request.output_queue,
        )

    def _input_queue(self) -> Optional[int]:
        """Bound the queue before the first segment where copies of all items would fill the memory."""
        size = sum(spec.num_bytes for spec in self.job.segments[0].inputs)
        items = self.request.plan.warm_up + self.request.plan.items
        if self.request.input_queue is not None or size * items <= MOST_WAITING_BYTES:
            return self.request.input_queue
        fitting = max(2 * self.job.num_stages + 1, MOST_WAITING_BYTES // max(1, size))
        self.log.event("note", text=f"at most {fitting} items wait before the first segment, to spare the memory")
        return fitting


def check_pycoral(job: Job) -> None:
    """Refuse what would abort pycoral's pipeline, or what it cannot give back, before anything is opened.

    Raises:
        InvalidJobError: The dataflow does not suit it, or an output is wider than a byte; stage and tensor are named.
    """
    way_out = "use --engine litert, whose host relays every tensor itself"
    if not job.suits_pipeline:
        raise InvalidJobError(
            job.folder, f"its segments were cut for any runner, pycoral's pipeline would abort: {way_out}"
        )
    last = job.num_stages - 1
    for spec in job.segments[last].outputs:
        if spec.num_bytes != _count(spec.shape):
            raise InvalidJobError(
                job.folder,
                f"its output {spec.name!r} is {spec.dtype}, pycoral's pipeline gives back elements of one byte only: "
                f"{way_out}",
                last,
            )


def import_pycoral() -> Any:
    """Import what is needed of pycoral.

    Raises:
        RuntimeMissingError: It is not there, or it is PyPI's package of that name.
    """
    try:
        utils = import_module("pycoral.utils.edgetpu")
        runner = import_module("pycoral.pipeline.pipelined_model_runner")
    except ImportError as error:
        version = package_version("pycoral")
        wrong = version is not None and version.startswith("0.")
        raise RuntimeMissingError(
            f"pycoral {version} is PyPI's package of that name, which is no part of Coral's software: pip uninstall it "
            "and install Coral's own, or use --engine litert"
            if wrong
            else f"pycoral cannot be imported ({error}): install Coral's own (not PyPI's), or use --engine litert"
        ) from error

    class Pycoral:
        make_interpreter = staticmethod(utils.make_interpreter)
        list_edge_tpus = staticmethod(utils.list_edge_tpus)
        get_runtime_version = staticmethod(utils.get_runtime_version)
        PipelinedModelRunner = runner.PipelinedModelRunner

    return Pycoral


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
