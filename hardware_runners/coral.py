"""`CoralRunner`: runs the compiled segments of a job on Edge TPUs, one a stage.

With engine `pycoral` by pycoral's `PipelinedModelRunner`, with engine `litert` by ai-edge-litert (or tflite-runtime),
libedgetpu's delegate and threads of our own, which also relays what pycoral's pipeline cannot.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Tuple

from hardware_runners.devices.delegates import RETRIES, WAIT_S, check_count, library_name
from hardware_runners.devices.edgetpus import EdgeTpu, find_edge_tpus, is_device_text, of_device
from hardware_runners.devices.runtime import check_runtime
from hardware_runners.errors import (
    DeviceUnavailableError,
    InvalidJobError,
    InvalidPlanError,
    PipelineFailedError,
    RunnerError,
    WrongOutputError,
)
from hardware_runners.host.software import check_software, package_versions
from hardware_runners.jobs.format import Job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.litert import check_queues
from hardware_runners.measuring.process import STALL_S, ProcessRunner
from hardware_runners.measuring.request import Request
from hardware_runners.protocol import Timings

CORAL_ENGINES = ("pycoral", "litert")

_NUMBERED = re.compile(r"(|usb|pci):\d+")


class CoralRunner(ProcessRunner):
    """Edge TPUs in a pipeline."""

    name = "coral"

    def __init__(
        self,
        *,
        engine: str = "pycoral",
        devices: Optional[Sequence[str]] = None,
        library: Optional[str] = None,
        retries: int = RETRIES,
        wait_s: float = WAIT_S,
        runtime: Optional[str] = None,
        input_queue: Optional[int] = None,
        output_queue: Optional[int] = None,
        meter: Optional[str] = None,
        meter_options: Optional[Dict[str, Any]] = None,
        stall_s: float = STALL_S,
        root: str = "/",
    ) -> None:
        """Configure the pipeline.

        Args:
            engine: `pycoral` or `litert`.
            devices: One a stage, `:N`, `usb:N` or `pci:N`; None for `:0`, `:1`, ...
            library: Name or path of libedgetpu, for engine `litert`.
            retries: How often to try again to open a device.
            wait_s: Time before the first new try.
            runtime: Package of the interpreter, a key of `RUNTIMES`; None for the first that is there.
            input_queue: Items that fit before the first stage, None for any number (pycoral's default).
            output_queue: Items that fit after the last stage, likewise.
            meter: Name of a power meter, None for none.
            meter_options: Keyword arguments of that meter.
            stall_s: A measurement in which nothing goes on for so long is ended.
            root: Folder with `sys` and `dev`, where attached devices are looked for after a crash.

        Raises:
            InvalidPlanError: An option that cannot be; the message says what is allowed.
        """
        super().__init__(stall_s)
        if engine not in CORAL_ENGINES:
            raise InvalidPlanError(f"unknown engine {engine!r}: choose from {', '.join(CORAL_ENGINES)}")
        check_queues(input_queue, output_queue, stall_s)
        check_runtime(runtime)
        self._runtime = runtime
        if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= 100 or not wait_s >= 0:
            raise InvalidPlanError(f"retries is {retries!r} and wait_s {wait_s!r}, allowed are 0..100 and 0 or more")
        self._devices = None if devices is None else _checked(tuple(devices))
        self._engine, self._root = engine, Path(root)
        self._library = library or library_name()
        self._retries, self._wait_s = retries, wait_s
        self._input_queue, self._output_queue = input_queue, output_queue
        self._meter, self._meter_options = meter, dict(meter_options or {})

    def time(self, job: Job, plan: TimingPlan) -> Timings:
        """Run the job's pipeline as the plan says; see `PipelineRunner.time`."""
        before = find_edge_tpus(self._root)
        try:
            return super().time(job, plan)
        except WrongOutputError:
            raise
        except PipelineFailedError as error:
            explained = self._explained(error, job, before)
            explained.partial = error.partial
            raise explained from error

    def _explained(self, error: PipelineFailedError, job: Job, before: Sequence[EdgeTpu]) -> RunnerError:
        """Say that a device vanished, or that libedgetpu and the interpreter do not fit, where this host shows it."""
        now = [one.name for one in find_edge_tpus(self._root)]
        gone = [one.name for one in before if one.name not in now]
        if not gone:
            fit = check_software(self._root, package_versions(), has_devices=True)
            misfits = [found.what for found in fit if found.check == "runtime fit" and found.level == "error"]
            return PipelineFailedError("; ".join([error.why, *misfits]), error.stage, error.device)
        stage, device = error.stage, error.device
        if stage is None:
            known = [of_device(one, before) for one in self._chosen(job)]
            stage = next((k for k, one in enumerate(known) if one is not None and one.name in gone), None)
            device = None if stage is None else self._chosen(job)[stage]
        why = f"the device vanished while it ran ({', '.join(gone)}): check cable, power and cooling ({error.why})"
        return DeviceUnavailableError(why, stage, device)

    def _chosen(self, job: Job) -> Tuple[str, ...]:
        return self._devices or tuple(f":{k}" for k in range(job.num_stages))

    def _request(self, job: Job, plan: TimingPlan) -> Request:
        for stage, segment in enumerate(job.segments):
            if segment.compiled is None:
                raise InvalidJobError(
                    job.folder,
                    f"segment {segment.file!r} is not compiled for the Edge TPU: run `respect split` where "
                    "edgetpu_compiler is on the PATH, or use the runner litert",
                    stage,
                )
        devices = self._chosen(job)
        check_count(devices, None, job.num_stages)
        return Request(
            job=job.folder,
            plan=plan,
            engine=self._engine,
            devices=devices,
            library=self._library,
            retries=self._retries,
            wait_s=self._wait_s,
            runtime=self._runtime,
            input_queue=self._input_queue,
            output_queue=self._output_queue,
            meter=self._meter,
            meter_options=self._meter_options,
        )


def _checked(devices: Tuple[str, ...]) -> Tuple[str, ...]:
    """Refuse device texts that are none, or that could mean one device twice."""
    for device in devices:
        if not is_device_text(device):
            raise InvalidPlanError(f"device {device!r} is none: allowed are :N, usb:N and pci:N")
    if len(devices) > 1:
        plain = [device for device in devices if device.startswith(":")]
        unnumbered = [device for device in devices if not _NUMBERED.fullmatch(device)]
        if unnumbered or len(set(devices)) < len(devices) or 0 < len(plain) < len(devices):
            raise InvalidPlanError(
                f"devices {', '.join(map(repr, devices))} may mean one device twice: give every stage its own, all as "
                ":N or all as usb:N and pci:N"
            )
    return devices
