"""A line of servers with bounded queues between them, simulated event by event in integer nanoseconds.

The line is what pycoral's pipeline is: one thread a segment, one queue between two segments, the host pushing into the
first queue and popping from the last. Every server serves one item at a time, in order; a server whose next queue is
full keeps its finished item and is blocked until there is room.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Deque, List, Optional, Sequence, Tuple

from hardware_runners.errors import InvalidPlanError

UNBOUNDED: Optional[int] = None


@dataclass(frozen=True)
class LineTrace:
    """What happened to every item; N items, S servers, S - 1 queues."""

    start_ns: Tuple[Tuple[int, ...], ...]
    """When every server began with every item: N tuples of S."""
    leave_ns: Tuple[Tuple[int, ...], ...]
    """When every item left every server, waiting for room included: N tuples of S."""
    largest_queue: Tuple[int, ...]
    """Most items that ever waited in every queue. Shape (S - 1,)."""
    most_in_flight: int
    """Most items that were ever between entering the first and leaving the last server."""


class _Line:
    def __init__(
        self,
        service_ns: Sequence[int],
        queue_sizes: Sequence[Optional[int]],
        num_items: int,
        max_in_flight: Optional[int],
    ) -> None:
        self.service_ns, self.queue_sizes = service_ns, queue_sizes
        self.num_items, self.max_in_flight = num_items, max_in_flight
        count = len(service_ns)
        self.last = count - 1
        self.queues: List[Deque[int]] = [deque() for _ in range(self.last)]
        self.serving: List[Optional[int]] = [None] * count
        self.blocked = [False] * count
        self.events: List[Tuple[int, int, int]] = []
        self.sent, self.done, self.counter, self.most_in_flight = 0, 0, 0, 0
        self.largest_queue = [0] * self.last
        self.start = [[0] * count for _ in range(num_items)]
        self.leave = [[0] * count for _ in range(num_items)]

    def run(self) -> LineTrace:
        self._settle(0)
        while self.events:
            now, _, server = heapq.heappop(self.events)
            self.blocked[server] = True  # finished: it now waits for room, perhaps for no time at all
            self._settle(now)
        return LineTrace(
            tuple(map(tuple, self.start)),
            tuple(map(tuple, self.leave)),
            tuple(self.largest_queue),
            self.most_in_flight,
        )

    def _settle(self, now: int) -> None:
        """Move every item that can move at this moment; one that moves may make room for the one behind it."""
        moved = True
        while moved:
            moved = False
            for server in range(self.last, -1, -1):
                moved = self._hand_on(server, now) or moved
                moved = self._take(server, now) or moved

    def _hand_on(self, server: int, now: int) -> bool:
        item = self.serving[server]
        if item is None or not self.blocked[server]:
            return False
        if server == self.last:
            self.done += 1
        elif self.queue_sizes[server] == 0:
            if self.serving[server + 1] is not None:
                return False
            self._begin(server + 1, item, now)
        else:
            size, queue = self.queue_sizes[server], self.queues[server]
            if size is not None and len(queue) >= size:
                return False
            queue.append(item)
        self.serving[server], self.blocked[server] = None, False
        self.leave[item][server] = now
        if server < self.last:
            self._take(server + 1, now)
            self.largest_queue[server] = max(self.largest_queue[server], len(self.queues[server]))
        return True

    def _take(self, server: int, now: int) -> bool:
        """Let an idle server begin with the item in front of it."""
        if self.serving[server] is not None:
            return False
        if server > 0:
            if not self.queues[server - 1]:
                return False
            self._begin(server, self.queues[server - 1].popleft(), now)
            return True
        in_flight = self.sent - self.done
        if self.sent == self.num_items or (self.max_in_flight is not None and in_flight >= self.max_in_flight):
            return False
        self._begin(0, self.sent, now)
        self.sent += 1
        self.most_in_flight = max(self.most_in_flight, in_flight + 1)
        return True

    def _begin(self, server: int, item: int, now: int) -> None:
        self.serving[server] = item
        self.start[item][server] = now
        self.counter += 1
        heapq.heappush(self.events, (now + self.service_ns[server], self.counter, server))


def simulate_line(
    service_ns: Sequence[int],
    queue_sizes: Sequence[Optional[int]],
    num_items: int,
    *,
    max_in_flight: Optional[int] = None,
) -> LineTrace:
    """Send items through a line of servers, as fast as it takes them.

    Args:
        service_ns: Time that every server needs for an item, at least 0. Shape (S,).
        queue_sizes: Items that fit between two servers, `UNBOUNDED` for any number. Shape (S - 1,).
        num_items: Items N to send, all ready at time 0.
        max_in_flight: Most items in the line at once; 1 sends the next only when the one before has left.

    Returns:
        The trace. Every item leaves every server once, in order. With sizes of any kind, item i leaves the line at
        ``sum(service_ns) + i * max(service_ns)`` unless `max_in_flight` holds it back.

    Raises:
        InvalidPlanError: No server, a negative time, a negative size, or sizes for another number of servers.
    """
    if not service_ns or any(time < 0 for time in service_ns):
        raise InvalidPlanError(f"service times are {list(service_ns)}, one or more of at least 0 ns are needed")
    if len(queue_sizes) != len(service_ns) - 1:
        raise InvalidPlanError(f"{len(queue_sizes)} queues for {len(service_ns)} servers, one fewer is needed")
    if any(size is not None and size < 0 for size in queue_sizes):
        raise InvalidPlanError(f"queue sizes are {list(queue_sizes)}, at least 0 is needed")
    if num_items < 0 or (max_in_flight is not None and max_in_flight < 1):
        raise InvalidPlanError(f"{num_items} items with {max_in_flight} in flight, allowed are 0 and 1 or more")
    return _Line(service_ns, queue_sizes, num_items, max_in_flight).run()
