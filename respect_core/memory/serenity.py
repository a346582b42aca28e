"""SERENITY's plain algorithm, kept as the baseline to compare with (Ahn et al., MLSys 2020).

Dynamic programming over execution orders in plain Python: states are keyed by the set of ops that could run next, and
of the orders that lead to a state the one with the lowest peak is kept. The network is divided at cut nodes. An
adaptive soft budget prunes: it starts at the peak of Kahn's order; if a step of the programme takes too long, it is
halved; if nothing is left within it, it goes half-way back up.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from respect_core.graph import DnnGraph, IntArray
from respect_core.memory.live import OVER_ALL, OVER_ONE, LiveTensors, Rows, lists, live_tensors
from respect_core.memory.order import OrderResult, order_result
from respect_core.memory.peak import checked_order, peak_of
from respect_core.memory.rules import DEFAULT_RULES, MemoryRules
from respect_core.memory.series import sections
from respect_core.solve.protocol import SolveOptions, Stopwatch


class SerenitySolver:
    """The published algorithm with this project's counting rules.

    Args:
        step_limit_s: Seconds that one step of the dynamic programme may take before the budget is halved.
        use_budget: Whether there is a soft budget at all.
    """

    name = "serenity"
    version = "1"

    def __init__(self, step_limit_s: float = 1.0, *, use_budget: bool = True) -> None:
        self.step_limit_s, self.use_budget = step_limit_s, use_budget

    def solve(
        self,
        graph: DnnGraph,
        rules: MemoryRules = DEFAULT_RULES,
        options: SolveOptions = SolveOptions(),  # noqa: B008
    ) -> OrderResult:
        """Find an order with the smallest peak; Kahn's order for what is not ready when the time is up."""
        watch = Stopwatch(options.time_limit_s)
        live = live_tensors(graph, rules)
        known = checked_order(graph, None)
        order = known.copy()
        is_proven = True
        for section in sections(live, known, _cut_sizes(live.parents, known)):
            part = _Programme(section.live, watch)
            found = part.run(self.step_limit_s, self.use_budget)
            is_proven = is_proven and found is not None
            order[section.ops] = known[section.ops[part.kahn if found is None else found]]
        bound = peak_of(order, live) if is_proven else live.at_start
        return order_result(self, graph, rules, order, bound, watch.seconds)


def _cut_sizes(parents_of_ops: Rows, order: IntArray) -> IntArray:
    """Return the sizes of the prefixes that end with a cut node: one that each other op comes before or after."""
    n = order.size
    parents = lists(parents_of_ops)
    before = [0] * n
    comparable = [0] * n
    for v in order.tolist():
        for u in parents[v]:
            before[v] |= before[u] | 1 << u
        comparable[v] += before[v].bit_count()
        for u in range(n):
            comparable[u] += before[v] >> u & 1
    ends = {0, n} | {at + 1 for at, v in enumerate(order.tolist()) if comparable[v] == n - 1}
    return np.array(sorted(ends), dtype=np.int64)


@dataclass(slots=True)
class _State:
    """The best order known that leads to a set of ops."""

    peak: int
    live: int
    done: int
    """The ops, a bit each."""
    op: int
    previous: _State | None


class _TooLongError(Exception):
    """A step took longer than its limit."""


class _Programme:
    """The dynamic programme for the ops between two cut nodes."""

    def __init__(self, live: LiveTensors, watch: Stopwatch) -> None:
        self.live, self.watch = live, watch
        n = live.num_ops
        all_parents, all_readers = lists(live.parents), lists(live.readers)
        self.size = live.size.tolist()
        self.before = [sum(1 << u for u in parents) for parents in all_parents]
        self.children: list[list[int]] = [[] for _ in range(n)]
        for v, parents in enumerate(all_parents):
            for u in parents:
                self.children[u].append(v)
        self.readers = [sum(1 << v for v in readers) for readers in all_readers]
        self.inputs: list[list[int]] = [[] for _ in range(n)]
        self.outputs: list[list[int]] = [[] for _ in range(n)]
        for t, readers in enumerate(all_readers):
            if live.maker[t] >= 0:
                self.outputs[int(live.maker[t])].append(t)
            for v in readers:
                self.inputs[v].append(t)
        self.kahn = self._kahn_order()

    def run(self, step_limit_s: float, use_budget: bool) -> list[int] | None:
        """Return an order with the smallest peak, None if the time is up."""
        old = new = peak_of(np.array(self.kahn), self.live)
        while self.watch.left > 0:
            try:
                found = self._search(new, step_limit_s if use_budget else float("inf"))
            except _TooLongError:
                if new == 0:
                    return None
                old, new = new, new // 2
                continue
            if found is not None:
                return found
            new, old = (new + old + 1) // 2, new
        return None

    def _search(self, budget: int, step_limit_s: float) -> list[int] | None:
        ready = frozenset(v for v, before in enumerate(self.before) if before == 0)
        states = {ready: _State(0, self.live.at_start, 0, -1, None)}
        for _ in range(self.live.num_ops):
            step = Stopwatch(min(step_limit_s, self.watch.left))
            following: dict[frozenset[int], _State] = {}
            for waiting, state in states.items():
                if step.left <= 0:
                    raise _TooLongError
                for v in waiting:
                    held, live = self._run(state, v)
                    peak = max(state.peak, held)
                    if peak > budget:
                        continue
                    done = state.done | 1 << v
                    freed = [c for c in self.children[v] if self.before[c] & ~done == 0]
                    key = waiting.difference((v,)).union(freed)
                    known = following.get(key)
                    if known is None or peak < known.peak:
                        following[key] = _State(peak, live, done, v, state)
            states = following
        for state in states.values():
            order: list[int] = []
            at: _State | None = state
            while at is not None and at.op >= 0:
                order.append(at.op)
                at = at.previous
            return order[::-1]
        return None

    def _run(self, state: _State, op: int) -> tuple[int, int]:
        """Return the bytes held while an op runs, and live after it: allocate, update, free."""
        done = state.done | 1 << op
        made = sum(self.size[t] for t in self.outputs[op])
        kept = sum(self.size[t] for t in self.outputs[op] if self.readers[t] or self.live.stays[t])
        dying = [self.size[t] for t in self.inputs[op] if self.readers[t] & ~done == 0 and not self.live.stays[t]]
        shared = 0
        if self.live.writes[op] == OVER_ALL:
            shared = min(made, sum(dying))
        elif self.live.writes[op] == OVER_ONE and len(self.outputs[op]) == 1 and made in dying:
            shared = made
        return state.live + made - shared, state.live + kept - sum(dying)

    def _kahn_order(self) -> list[int]:
        waiting = [before.bit_count() for before in self.before]
        queue = deque(v for v, count in enumerate(waiting) if count == 0)
        order = []
        while queue:
            v = queue.popleft()
            order.append(v)
            for c in self.children[v]:
                waiting[c] -= 1
                if waiting[c] == 0:
                    queue.append(c)
        return order
