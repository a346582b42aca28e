"""The measuring process: runs one job as asked and writes down what happens; started by `process`.

In this order: the uncut model, if it is there; every segment, opened on its device; one item after the other through
all of them (latency, with the time of every stage); many items at once (throughput), with a power meter if there is
one.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from hardware_runners.errors import MeterUnavailableError, PipelineFailedError, RunnerError, RuntimeTooOldError
from hardware_runners.job import Job, read_job
from hardware_runners.measuring.chain import Left, run_alone
from hardware_runners.measuring.engines import ENGINE_CLASSES, Engine
from hardware_runners.measuring.items import Items, check_equal, difference, items_of, largest_difference
from hardware_runners.measuring.process_errors import facts_of
from hardware_runners.measuring.record import LOG_FILE, MOVES_FILE, REQUEST_FILE, Log, Moves
from hardware_runners.measuring.request import Request
from hardware_runners.measuring.stages import Stage
from hardware_runners.power import PowerMeter, energy_of, open_meter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Held = Dict[str, "NDArray[Any]"]


_LOOK_S = 0.5
"""How often it is looked whether the process that started this one is still there."""


def main(folder: Path) -> int:
    """Do what a folder's request asks for; returns the exit status, 0 also where a typed error was written down."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    request = Request.read(folder / REQUEST_FILE)
    with Log(folder / LOG_FILE) as log:
        try:
            job = read_job(request.job)
            _Measuring(request, job, log, Moves(folder / MOVES_FILE, job.num_stages)).run()
        except RunnerError as error:
            log.event("error", **facts_of(error))
        else:
            log.event("done")
    return 0


def _end_with_parent(parent: int) -> None:
    """End this process once the one that started it is gone: nobody would read what it finds, and it holds devices."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)


class _Measuring:
    """One measurement and what is known of it so far."""

    def __init__(self, request: Request, job: Job, log: Log, moves: Moves) -> None:
        self.request, self.job, self.log, self.moves = request, job, log, moves
        self.plan = request.plan
        self.items: Items = items_of(job)
        self.wanted = [spec.name for spec in job.whole.outputs] if job.whole else []
        self.on_device = request.engine != "cpu"
        self.engine: Engine
        self.stages: List[Stage] = []

    def run(self) -> None:
        module, _, attribute = ENGINE_CLASSES[self.request.engine].partition(":")
        make: Callable[[Job, Request, Log, Moves], Engine] = getattr(import_module(module), attribute)
        self.engine = make(self.job, self.request, self.log, self.moves)
        self.log.event("ready", device=self.engine.device, versions=self.engine.versions)
        with self._meter() as meter:
            try:
                expected = self._whole()
                self.log.event("phase", name="opening the devices" if self.on_device else "loading the segments")
                self.stages = self.engine.open()
                expected, repeats_itself = self._chain(expected)
                self._latency()
                self._pipelined(expected, repeats_itself, meter)
            except RunnerError as error:
                raise self.engine.explained(error) from error

    # -- outputs -----------------------------------------------------------------------------------------------------

    def _whole(self) -> "Optional[List[Held]]":
        """Time the uncut model and return what it makes of the items, None where it is not there."""
        self.log.event("phase", name="the uncut model")
        try:
            whole = self.engine.open_whole()
            if whole is None:
                return None
            outputs = [whole.run(held) for held in self.items.inputs]
        except RuntimeTooOldError:
            return None  # the segments need what the uncut model needs, and name their stage
        for i in range(self.plan.warm_up + self.plan.repeats):
            held = self.items.inputs[i % len(self.items)]
            start = time.perf_counter_ns()
            whole.run(held)
            end = time.perf_counter_ns()
            if i >= self.plan.warm_up:
                self.log.item("whole", end - start)
        del whole
        gc.collect()  # its device is needed by the first segment
        self._compare_with_reference(outputs, "the uncut model")
        return outputs

    def _compare_with_reference(self, outputs: "Sequence[Held]", what: str) -> None:
        """Note where outputs are not those that the job holds: another runtime or a device may round otherwise."""
        if self.items.outputs is None or not any(map(difference, self.items.outputs, outputs)):
            return
        largest = largest_difference(self.items.outputs, outputs)
        self.log.event(
            "note",
            text=f"{what} gives other bits here than the LiteRT interpreter gave where the job was written: at most "
            f"{largest:g} apart",
        )

    def _chain(self, expected: "Optional[List[Held]]") -> "Tuple[List[Held], bool]":
        """Run all items one after the other, compare, and run them again.

        Returns:
            The outputs, and whether the second time gave the same: then the model keeps no state.
        """
        self.log.event("phase", name="checking the outputs")
        outputs = [self._alone(held)[0].held for held in self.items.inputs]
        if self.on_device:
            self._compare_with_reference(outputs, "the pipeline")
            if expected is not None and any(map(difference, expected, outputs)):
                self.log.event("note", text="the pipeline gives other bits than the uncut model on one device")
        else:
            against = expected or self.items.outputs
            if against is None:
                self.log.event(
                    "note", text="outputs were not checked: the job has no uncut model and no reference items"
                )
            else:
                for number, (one, other) in enumerate(zip(against, outputs)):
                    check_equal(one, other, number, "the chain of segments")
        again = [self._alone(held)[0].held for held in self.items.inputs]
        return outputs, not any(map(difference, outputs, again))

    def _alone(self, held: "Held") -> "Tuple[Left, Tuple[int, ...]]":
        return run_alone(self.stages, held, self.wanted, self.moves.moved)

    # -- times -------------------------------------------------------------------------------------------------------

    def _latency(self) -> None:
        if not self.plan.repeats:
            return
        self.log.event("phase", name="one item at a time")
        for i in range(self.plan.warm_up + self.plan.repeats):
            left, times = self._alone(self.items.inputs[i % len(self.items)])
            if i >= self.plan.warm_up:
                self.log.item("latency", left.start_ns, left.end_ns, times)

    def _pipelined(self, expected: "List[Held]", repeats_itself: bool, meter: Optional[PowerMeter]) -> None:
        if not self.plan.items:
            return
        self.log.event("phase", name="the full pipeline")
        if not repeats_itself and not self.on_device:
            for stage in self.stages:
                stage.reset()
        total, first = self.plan.warm_up + self.plan.items, max(self.plan.warm_up - 1, 0)
        ends: List[int] = []

        def on_left(number: int, left: Left) -> None:
            ends.append(left.end_ns)
            if meter is not None and number == first:
                meter.start()
            if number >= self.plan.warm_up:
                self.log.item("pipelined", left.start_ns, left.end_ns)
            if meter is not None and number == total - 1:
                self._energy(meter, ends[-1] - ends[first], total - 1 - first)
            if repeats_itself or (number < len(self.items) and not self.on_device):
                check_equal(expected[number % len(self.items)], left.held, number, "the full pipeline")

        self.engine.run(self.stages, self._feed(total), on_left)
        if len(ends) != total:
            raise PipelineFailedError(f"{total} items went into the pipeline and {len(ends)} came out")

    def _feed(self, total: int) -> "Iterator[Held]":
        for i in range(total):
            yield self.items.inputs[i % len(self.items)]

    @contextlib.contextmanager
    def _meter(self) -> Iterator[Optional[PowerMeter]]:
        """Open the meter, first of all: one that is not there must not show after everything else was measured."""
        if self.request.meter is None:
            yield None
            return
        with open_meter(self.request.meter, **self.request.meter_options) as meter:
            yield meter

    def _energy(self, meter: PowerMeter, run_ns: int, items: int) -> None:
        """Write down the energy of an item; a meter that saw too little costs the energy only, not the times."""
        try:
            energy = energy_of(meter.stop(), run_ns, items, meter.source)
        except MeterUnavailableError as error:
            self.log.event("note", text=f"no energy: {error}")
            return
        self.log.event(
            "energy",
            uj_per_inference=energy.uj_per_inference,
            source=energy.source,
            is_modelled=energy.is_modelled,
            window_us=energy.window_us,
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
