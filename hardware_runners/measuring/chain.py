"""A pipeline of stages in threads: one thread a stage, bounded queues between them, the host relays every tensor.

It has the shape of pycoral's pipeline: any number of items may wait at both ends by default, one between two stages.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, List, Optional, Protocol, Sequence, Tuple

from hardware_runners.errors import InvalidPlanError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Held = Dict[str, "NDArray[Any]"]

BETWEEN_STAGES = 1
"""Items that fit between two stages."""

Moved = Callable[[int], None]
"""Told the stage whenever it begins or ends with an item."""


class Runnable(Protocol):
    """What the chain needs of a stage; `hardware_runners.measuring.stages.Stage` is one."""

    number: Optional[int]
    device: Optional[str]

    @property
    def inputs(self) -> "Sequence[Tuple[str, int]]":
        """Names of the tensors that it takes, first in each pair."""

    def run(self, held: "Held") -> "Held":
        """Run one item and return what the stage makes of it."""


@dataclass(frozen=True)
class Left:
    """An item that has left the pipeline."""

    start_ns: int
    """When the first stage began with it."""
    end_ns: int
    """When the last stage had finished it."""
    held: "Held"
    """The tensors that are wanted in the end."""


class StoppedError(Exception):
    """A queue was stopped because a stage failed."""


class BoundedQueue:
    """Items on their way from one thread to the next, in order; full, it makes the one that puts wait."""

    def __init__(self, size: Optional[int] = None) -> None:
        """Make an empty queue.

        Args:
            size: Items that fit, at least 1; None for any number.

        Raises:
            InvalidPlanError: Less than 1.
        """
        if size is not None and size < 1:
            raise InvalidPlanError(f"a queue of size {size} between threads holds nothing, at least 1 is needed")
        self._size, self._is_stopped = size, False
        self._items: "Deque[Any]" = deque()
        self._changed = threading.Condition()
        self.largest = 0
        """Most items that ever waited."""

    def put(self, item: Any) -> None:
        """Add an item, once there is room; raises `StoppedError`."""
        with self._changed:
            while not self._is_stopped and self._size is not None and len(self._items) >= self._size:
                self._changed.wait()
            if self._is_stopped:
                raise StoppedError
            self._items.append(item)
            self.largest = max(self.largest, len(self._items))
            self._changed.notify_all()

    def get(self) -> Any:
        """Take the oldest item, once there is one; raises `StoppedError`."""
        with self._changed:
            while not self._is_stopped and not self._items:
                self._changed.wait()
            if self._is_stopped:
                raise StoppedError
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def stop(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()


def needed_later(stages: Sequence[Runnable], wanted: Iterable[str]) -> List[frozenset]:  # type: ignore[type-arg]
    """Return for every stage the tensors that a later one reads, or that are wanted in the end."""
    needed, found = frozenset(wanted), []
    for stage in reversed(stages):
        found.append(needed)
        needed |= {name for name, _ in stage.inputs}
    return found[::-1]


def run_alone(
    stages: Sequence[Runnable], held: "Held", wanted: Sequence[str], moved: Moved = lambda stage: None
) -> Tuple[Left, Tuple[int, ...]]:
    """Run one item through all stages, one after the other, in this thread.

    Args:
        stages: The stages in order.
        held: The model's inputs by name.
        wanted: Tensors to return.
        moved: Told the stage when it begins and when it ends.

    Returns:
        The item, and the nanoseconds that every stage took, transfers included.
    """
    held = dict(held)
    times = []
    first = start = time.perf_counter_ns()
    for k, stage in enumerate(stages):
        moved(k)
        held.update(stage.run(held))
        moved(k)
        end = time.perf_counter_ns()
        times.append(end - start)
        start = end
    return Left(first, start, {name: held[name] for name in wanted}), tuple(times)


_END = object()


class ThreadedPipeline:
    """Runs items through stages with a thread each.

    Attributes:
        queues: One before every stage and one after the last.
    """

    def __init__(
        self,
        stages: Sequence[Runnable],
        wanted: Sequence[str],
        *,
        input_queue: Optional[int] = None,
        output_queue: Optional[int] = None,
        moved: Moved = lambda stage: None,
    ) -> None:
        """Configure the pipeline.

        Args:
            stages: The stages in order, each used by one thread only.
            wanted: Tensors that are wanted in the end.
            input_queue: Items that fit before the first stage, None for any number.
            output_queue: Items that fit after the last stage, likewise.
            moved: Told the stage when it begins and when it ends, by its thread.
        """
        self._stages, self._wanted, self._moved = stages, wanted, moved
        self._needed = needed_later(stages, wanted)
        between = [BoundedQueue(BETWEEN_STAGES) for _ in stages[1:]]
        self.queues = [BoundedQueue(input_queue), *between, BoundedQueue(output_queue)]
        self._errors: List[BaseException] = []
        self._lock = threading.Lock()

    def run(self, items: "Iterable[Held]", on_left: Callable[[int, Left], None]) -> None:
        """Run items, in order, as fast as the pipeline takes them; a pipeline runs once.

        Args:
            items: The model's inputs by name, of every item.
            on_left: Called in this thread with the number of every item that has left, in order.

        Raises:
            RunnerError: A stage failed; all others are stopped before.
        """
        threads = [threading.Thread(target=self._guarded, args=(self._push, items), daemon=True)]
        threads += [
            threading.Thread(target=self._guarded, args=(self._serve, k), daemon=True) for k in range(len(self._stages))
        ]
        for thread in threads:
            thread.start()
        try:
            number = 0
            while True:
                left = self.queues[-1].get()
                if left is _END:
                    break
                on_left(number, left)
                number += 1
        except StoppedError:
            pass
        finally:
            for queue in self.queues:
                queue.stop()
            for thread in threads:
                thread.join()
        if self._errors:
            raise self._errors[0]

    def _guarded(self, work: Callable[[Any], None], argument: Any) -> None:
        """Do one thread's work; the first error stops all of them."""
        try:
            work(argument)
        except StoppedError:
            return
        except BaseException as error:  # raised again in the caller's thread
            with self._lock:
                self._errors.append(error)
            for queue in self.queues:
                queue.stop()

    def _push(self, items: "Iterable[Held]") -> None:
        for held in items:
            self.queues[0].put((None, held))
        self.queues[0].put(_END)

    def _serve(self, k: int) -> None:
        stage, source, sink = self._stages[k], self.queues[k], self.queues[k + 1]
        is_last = k + 1 == len(self._stages)
        while True:
            item = source.get()
            if item is _END:
                sink.put(_END)
                return
            start, held = item
            if start is None:
                start = time.perf_counter_ns()
            self._moved(k)
            made = stage.run(held)
            self._moved(k)
            end = time.perf_counter_ns()
            held = {name: value for name, value in (*held.items(), *made.items()) if name in self._needed[k]}
            sink.put(Left(start, end, held) if is_last else (start, held))
