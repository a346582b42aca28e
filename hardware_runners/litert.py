"""`LiteRtRunner`: runs the segments of a job for real, on the host's processor.

It involves no Edge TPU, and its rows say so: their device is the processor. What it shows is that the segments chain
and compute what the uncut model computes, bit by bit, and what a pipeline of threads makes of them on this host.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from hardware_runners.devices.runtime import check_runtime
from hardware_runners.errors import InvalidPlanError
from hardware_runners.jobs.format import Job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.measuring.process import STALL_S, ProcessRunner
from hardware_runners.measuring.request import Request


class LiteRtRunner(ProcessRunner):
    """One thread a stage, bounded queues between them, the host relays every tensor."""

    name = "litert"

    def __init__(
        self,
        *,
        runtime: Optional[str] = None,
        input_queue: Optional[int] = None,
        output_queue: Optional[int] = None,
        meter: Optional[str] = None,
        meter_options: Optional[Dict[str, Any]] = None,
        stall_s: float = STALL_S,
    ) -> None:
        """Configure the pipeline.

        Args:
            runtime: Package of the interpreter, a key of `RUNTIMES`; None for the first that is there.
            input_queue: Items that fit before the first stage, None for any number (pycoral's default).
            output_queue: Items that fit after the last stage, likewise.
            meter: Name of a power meter, None for none.
            meter_options: Keyword arguments of that meter.
            stall_s: A measurement in which nothing goes on for so long is ended.

        Raises:
            InvalidPlanError: A queue that holds nothing, or a time that is not positive.
        """
        super().__init__(stall_s)
        check_queues(input_queue, output_queue, stall_s)
        check_runtime(runtime)
        self._runtime = runtime
        self._input_queue, self._output_queue = input_queue, output_queue
        self._meter, self._meter_options = meter, dict(meter_options or {})

    def _request(self, job: Job, plan: TimingPlan) -> Request:
        return Request(
            job=job.folder,
            plan=plan,
            engine="cpu",
            runtime=self._runtime,
            input_queue=self._input_queue,
            output_queue=self._output_queue,
            meter=self._meter,
            meter_options=self._meter_options,
        )


def check_queues(input_queue: Optional[int], output_queue: Optional[int], stall_s: float) -> None:
    """Raise `InvalidPlanError` for a queue that holds nothing, or a time that is not positive."""
    for option, size in (("input_queue", input_queue), ("output_queue", output_queue)):
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise InvalidPlanError(f"{option} is {size!r}, at least 1 is needed (None for any number)")
    if not stall_s > 0:
        raise InvalidPlanError(f"stall_s is {stall_s!r}, more than 0 is needed")
