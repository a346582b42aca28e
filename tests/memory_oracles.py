"""Live activation bytes and the best order from the definitions alone, with sets and all topological orders.

Shares no arithmetic with `respect_core.memory`, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from respect_core.graph import DnnGraph
from respect_core.memory.rules import ELEMENTWISE, MemoryRules


class MemoryOracle:
    """Judges orders of one graph under one counting rule."""

    def __init__(self, graph: DnnGraph, rules: MemoryRules) -> None:
        self.graph, self.rules = graph, rules
        self.readers = [set(r) for r in graph.tensor_consumers]
        self.makers: list[int | None] = [
            None if p < 0 or graph.op_kinds[p] == "input" else p for p in graph.tensor_producer.tolist()
        ]
        self.parents = [
            {p for t, p in enumerate(graph.tensor_producer.tolist()) if p >= 0 and v in self.readers[t]}
            for v in range(graph.num_ops)
        ]

    def size(self, tensor: int) -> int:
        """Bytes that count."""
        if self.makers[tensor] is None and not self.rules.count_inputs:
            return 0
        return int(self.graph.tensor_bytes[tensor])

    def is_needed(self, tensor: int, done: set[int]) -> bool:
        """Whether a tensor has to be kept after these ops."""
        maker = self.makers[tensor]
        exists = maker is None or maker in done
        return exists and (bool(self.graph.tensor_is_output[tensor]) or not self.readers[tensor] <= done)

    def live(self, done: set[int]) -> set[int]:
        """The tensors to be kept after these ops."""
        return {t for t in range(self.graph.num_tensors) if self.is_needed(t, done)}

    def held(self, done: set[int], op: int) -> int:
        """Bytes held while an op runs after these."""
        before, after = self.live(done), self.live({*done, op})
        made = {t for t, maker in enumerate(self.makers) if maker == op}
        dying = {t for t in before - after if op in self.readers[t]}
        held = sum(self.size(t) for t in before | made)
        made_bytes = sum(self.size(t) for t in made)
        kind = self.graph.op_kinds[op]
        if kind == "concat" and self.rules.concat == "in-place":
            held -= min(made_bytes, sum(self.size(t) for t in dying))
        elif (
            (kind == "accumulating_conv2d" or (kind in ELEMENTWISE and self.rules.elementwise == "in-place"))
            and len(made) == 1
            and any(self.size(t) == made_bytes for t in dying)
        ):
            held -= made_bytes
        return held

    def profile(self, order: Sequence[int]) -> tuple[list[int], list[int]]:
        """Bytes held at every step, and live after it."""
        done: set[int] = set()
        step, after = [], []
        for v in order:
            step.append(self.held(done, v))
            done.add(v)
            after.append(sum(self.size(t) for t in self.live(done)))
        return step, after

    def orders(self) -> Iterator[tuple[int, ...]]:
        """All topological orders."""

        def extend(prefix: list[int]) -> Iterator[tuple[int, ...]]:
            if len(prefix) == self.graph.num_ops:
                yield tuple(prefix)
            for v in range(self.graph.num_ops):
                if v not in prefix and self.parents[v] <= set(prefix):
                    yield from extend([*prefix, v])

        return extend([])

    def least_peak(self) -> int:
        """The smallest peak of all topological orders."""
        return min(max(self.profile(order)[0]) for order in self.orders())


def least_peak(graph: DnnGraph, rules: MemoryRules) -> int:
    """The smallest peak by dynamic programming over all down-sets, without any reduction."""
    oracle = MemoryOracle(graph, rules)
    states: dict[frozenset[int], int] = {frozenset(): 0}
    for _ in range(graph.num_ops):
        following: dict[frozenset[int], int] = {}
        for done, peak in states.items():
            for v in set(range(graph.num_ops)) - done:
                if oracle.parents[v] <= done:
                    key = done | {v}
                    now = max(peak, oracle.held(set(done), v))
                    following[key] = min(now, following.get(key, now))
        states = following
    return states[frozenset(range(graph.num_ops))]


def least_faults(accesses: list[int], capacity: int) -> int:
    """Fewest fetches that serve these accesses in order, by trying every choice of what to drop."""
    states: dict[frozenset[int], int] = {frozenset(): 0}
    for block in accesses:
        following: dict[frozenset[int], int] = {}
        for held, faults in states.items():
            options = [held] if block in held else [held | {block}]
            if len(options[0]) > capacity:
                options = [options[0] - {other} for other in held]
            for option in options:
                now = faults + (block not in held)
                following[option] = min(now, following.get(option, now))
        states = following
    return min(states.values())
