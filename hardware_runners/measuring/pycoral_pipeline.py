"""Items through pycoral's `PipelinedModelRunner`, with its traps minded.

An item is pushed as a dict in the order of the first interpreter's inputs, of contiguous arrays of its types: another
order aborts the process, and strides are ignored. One thread pushes while another pops, so that neither can wait for
the other for ever. The pipeline is closed once, by an empty dict, by the thread that pushed.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, List, Optional, Sequence

import numpy as np

from hardware_runners.errors import PipelineFailedError
from hardware_runners.measuring.chain import Left
from hardware_runners.measuring.stages import Stage, failure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Held = Dict[str, "NDArray[Any]"]

_SEGMENT = re.compile(r"[Ss]egment\s+(?:number\s+)?(\d+)")


def run_pycoral(
    runner_class: Callable[[List[Any]], Any],
    stages: Sequence[Stage],
    wanted: Sequence[str],
    items: "Iterable[Held]",
    on_left: Callable[[int, Left], None],
    *,
    input_queue: Optional[int] = None,
    output_queue: Optional[int] = None,
) -> None:
    """Run items; an item's time begins when it is pushed, since nobody sees it enter the first stage.

    Args:
        runner_class: `PipelinedModelRunner`.
        stages: Every stage, whose interpreters the pipeline takes over.
        wanted: Tensors that are wanted in the end.
        items: The model's inputs by name, of every item.
        on_left: Called in this thread with the number of every item that has left, in order.
        input_queue: Items that fit before the first stage, None for any number.
        output_queue: Items that fit after the last stage, likewise.

    Raises:
        RunnerError: A segment failed, or the pipeline gave back less than went in.
    """
    try:
        runner = runner_class([stage.interpreter for stage in stages])
    except ValueError as error:
        raise PipelineFailedError(f"pycoral's pipeline does not take these segments ({error})") from error
    if input_queue is not None:
        runner.set_input_queue_size(input_queue)
    if output_queue is not None:
        runner.set_output_queue_size(output_queue)
    pusher = _Pusher(runner, [name for name, _ in stages[0].inputs], items)
    pusher.start()
    number = 0
    failed: Optional[RuntimeError] = None
    try:
        while True:
            made = runner.pop()
            if not made:
                break
            end = time.perf_counter_ns()
            on_left(number, Left(pusher.pushed.popleft(), end, {name: made[name] for name in wanted}))
            number += 1
    except RuntimeError as error:
        failed = error
    pusher.end()
    failed = failed or pusher.error
    if failed is not None:
        raise _placed(failed, stages) from failed
    if number != pusher.count:
        raise PipelineFailedError(f"{pusher.count} items went into pycoral's pipeline and {number} came out")


class _Pusher(threading.Thread):
    """Pushes all items and closes the pipeline."""

    def __init__(self, runner: Any, names: Sequence[str], items: "Iterable[Held]") -> None:
        super().__init__(name="push", daemon=True)
        self._runner, self._names, self._items = runner, names, items
        self._is_over = threading.Event()
        self.pushed: Deque[int] = deque()
        """When every item that has not left yet was pushed."""
        self.count = 0
        self.error: Optional[RuntimeError] = None

    def run(self) -> None:
        try:
            for held in self._items:
                if self._is_over.is_set():
                    return
                item = {name: np.ascontiguousarray(held[name]) for name in self._names}
                self.pushed.append(time.perf_counter_ns())
                self._runner.push(item)
                self.count += 1
            self._runner.push({})
        except RuntimeError as error:
            self.error = error

    def end(self) -> None:
        """Push no more, and wait for a push that is under way: it ends, since a failed pipeline refuses it."""
        self._is_over.set()
        self.join(timeout=10)


def _placed(error: RuntimeError, stages: Sequence[Stage]) -> Exception:
    """Return the error with its stage, where pycoral says which segment it was."""
    found = _SEGMENT.search(str(error))
    number = int(found.group(1)) if found else None
    if number is None or number >= len(stages):
        return failure(error, "run", None, None)
    return failure(error, "run", number, stages[number].device)
