"""`DnnGraph`: an immutable, checked graph of ops and tensors."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from respect_core.errors import InvalidGraphError
from respect_core.kinds import INPUT

if TYPE_CHECKING:
    import networkx as nx

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

UNKNOWN: Final = -1
"""Stands for "not known" in `compiled_bytes` and for "no producing op" in `tensor_producer`."""

MAX_TOTAL: Final = 2**53
"""Largest sum of bytes or MACs of a graph: what JSON readers and float64 keep exactly."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DnnGraph:
    """A network of n ops and m tensors; every array is read-only.

    Construct it with arrays of matching lengths; everything is checked then and the first offender is named.

    Raises:
        InvalidGraphError: No ops, a duplicate or empty name, a negative or too large number, a dangling id, an op
            reading its own output, or a cycle.
    """

    name: str
    source: str
    """What the bytes mean: `keras` (one byte a parameter), `tflite`, `synthetic` or `json`."""
    op_names: tuple[str, ...]
    op_kinds: tuple[str, ...]
    param_bytes: IntArray
    """Bytes of the constants of every op. Shape (n,)."""
    macs: IntArray
    """Multiply-accumulate operations of every op. Shape (n,)."""
    compiled_bytes: IntArray
    """Bytes on the device once compiled, `UNKNOWN` where not known. Shape (n,)."""
    always_streamed_bytes: IntArray
    """Bytes streamed on every inference even when the rest fits. Shape (n,)."""
    op_time_us: FloatArray
    """Measured compute time of every op in microseconds, NaN where not measured. Shape (n,)."""
    tensor_names: tuple[str, ...]
    tensor_bytes: IntArray
    """Shape (m,)."""
    tensor_producer: IntArray
    """Index of the op that makes a tensor, `UNKNOWN` for a graph input. Shape (m,)."""
    tensor_consumers: tuple[tuple[int, ...], ...]
    """Ascending indices of the distinct ops that read a tensor; m tuples."""
    tensor_is_output: BoolArray
    """True where a tensor is an output of the graph. Shape (m,)."""
    _order: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._set("tensor_consumers", tuple(tuple(sorted(set(map(int, c)))) for c in self.tensor_consumers))
        self._set("op_names", tuple(self.op_names))
        self._set("op_kinds", tuple(self.op_kinds))
        self._set("tensor_names", tuple(self.tensor_names))
        self._check_names()
        n, m = self.num_ops, self.num_tensors
        for attribute, length, dtype in (
            ("param_bytes", n, np.int64),
            ("macs", n, np.int64),
            ("compiled_bytes", n, np.int64),
            ("always_streamed_bytes", n, np.int64),
            ("op_time_us", n, np.float64),
            ("tensor_bytes", m, np.int64),
            ("tensor_producer", m, np.int64),
            ("tensor_is_output", m, np.bool_),
        ):
            self._set(attribute, self._frozen(attribute, length, dtype))
        self._check_numbers()
        self._check_ids()
        self._set("_order", self._smallest_first_order())

    # -- sizes ---------------------------------------------------------------------------------------------------

    @property
    def num_ops(self) -> int:
        """Number of ops n."""
        return len(self.op_names)

    @property
    def num_tensors(self) -> int:
        """Number of tensors m."""
        return len(self.tensor_names)

    def __repr__(self) -> str:
        return f"DnnGraph({self.name!r}, {self.num_ops} ops, {self.num_tensors} tensors, source={self.source!r})"

    # -- structure -----------------------------------------------------------------------------------------------

    @cached_property
    def edges(self) -> IntArray:
        """Distinct (producer op, reader op) pairs, sorted. Shape (e, 2)."""
        pairs = {
            (int(p), c)
            for p, readers in zip(self.tensor_producer, self.tensor_consumers, strict=True)
            if p != UNKNOWN
            for c in readers
        }
        return _read_only(np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2))

    @cached_property
    def reads(self) -> tuple[IntArray, IntArray]:
        """Every (tensor, reading op) pair as two arrays, sorted by tensor, then op."""
        pairs = [(t, v) for t, readers in enumerate(self.tensor_consumers) for v in readers]
        flat = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return _read_only(flat[:, 0].copy()), _read_only(flat[:, 1].copy())

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Ascending predecessors of every op; n tuples."""
        found: list[list[int]] = [[] for _ in range(self.num_ops)]
        for u, v in self.edges.tolist():
            found[v].append(u)
        return tuple(tuple(p) for p in found)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Ascending successors of every op; n tuples."""
        found: list[list[int]] = [[] for _ in range(self.num_ops)]
        for u, v in self.edges.tolist():
            found[u].append(v)
        return tuple(tuple(c) for c in found)

    @cached_property
    def levels(self) -> IntArray:
        """Ops on the longest path that ends in each op, 1 for an op without parents. Shape (n,)."""
        level = np.ones(self.num_ops, dtype=np.int64)
        for v in self._order.tolist():
            for u in self.parents[v]:
                level[v] = max(level[v], level[u] + 1)
        return _read_only(level)

    @property
    def depth(self) -> int:
        """Edges on the longest path."""
        return int(self.levels.max()) - 1

    @property
    def max_in_degree(self) -> int:
        """Largest number of distinct predecessors of an op."""
        return max(len(p) for p in self.parents)

    @property
    def topological_order(self) -> IntArray:
        """The topological order that always takes the smallest ready op index. Shape (n,)."""
        return self._order

    @cached_property
    def input_ops(self) -> tuple[int, ...]:
        """Ops of kind `input`: each receives its output tensor from the host."""
        return tuple(v for v, kind in enumerate(self.op_kinds) if kind == INPUT)

    @cached_property
    def output_ops(self) -> tuple[int, ...]:
        """Ascending ops that make a graph output."""
        made = {int(p) for p in self.tensor_producer[self.tensor_is_output] if p != UNKNOWN}
        return tuple(sorted(made))

    def op_index(self, name: str) -> int:
        """Return the index of the op of this name.

        Raises:
            InvalidGraphError: There is none.
        """
        index = self._op_index_of.get(name)
        if index is None:
            raise InvalidGraphError(self.name, f"there is no op {name!r}")
        return index

    @cached_property
    def _op_index_of(self) -> dict[str, int]:
        return {name: v for v, name in enumerate(self.op_names)}

    def is_topological(self, order: Sequence[int] | IntArray) -> bool:
        """Tell whether ``order`` holds every op once, parents before children."""
        order = np.asarray(order, dtype=np.int64)
        if order.shape != (self.num_ops,) or not np.array_equal(np.sort(order), np.arange(self.num_ops)):
            return False
        position = np.empty(self.num_ops, dtype=np.int64)
        position[order] = np.arange(self.num_ops)
        return bool(np.all(position[self.edges[:, 0]] < position[self.edges[:, 1]]))

    def to_networkx(self) -> nx.DiGraph[int]:
        """Return the ops as a networkx graph: nodes carry the op's numbers, edges the bytes that flow."""
        import networkx as nx

        out: nx.DiGraph[int] = nx.DiGraph(name=self.name)
        for v, name in enumerate(self.op_names):
            facts: dict[str, Any] = {
                "name": name,
                "kind": self.op_kinds[v],
                "param_bytes": int(self.param_bytes[v]),
                "macs": int(self.macs[v]),
            }
            out.add_node(v, **facts)
        for t, producer in enumerate(self.tensor_producer.tolist()):
            if producer == UNKNOWN:
                continue
            for reader in self.tensor_consumers[t]:
                before = out.edges[producer, reader]["bytes"] if out.has_edge(producer, reader) else 0
                out.add_edge(producer, reader, bytes=before + int(self.tensor_bytes[t]))
        return out

    # -- checks --------------------------------------------------------------------------------------------------

    def _set(self, attribute: str, value: object) -> None:
        object.__setattr__(self, attribute, value)

    def _frozen(self, attribute: str, length: int, dtype: type) -> NDArray[Any]:
        try:
            array: NDArray[Any] = np.array(getattr(self, attribute), dtype=dtype)
        except OverflowError:
            raise InvalidGraphError(self.name, f"{attribute} holds a number above {MAX_TOTAL}") from None
        if array.shape != (length,):
            raise InvalidGraphError(self.name, f"{attribute} has shape {array.shape}, expected ({length},)")
        return _read_only(array)

    def _check_names(self) -> None:
        if not self.op_names:
            raise InvalidGraphError(self.name, "it has no ops, at least one is needed")
        if len(self.op_kinds) != len(self.op_names):
            raise InvalidGraphError(self.name, f"{len(self.op_kinds)} kinds for {len(self.op_names)} ops")
        if len(self.tensor_consumers) != len(self.tensor_names):
            raise InvalidGraphError(
                self.name, f"{len(self.tensor_consumers)} consumer lists for {len(self.tensor_names)} tensors"
            )
        for what, names in (("op", self.op_names), ("tensor", self.tensor_names)):
            seen: set[str] = set()
            for name in names:
                if not name:
                    raise InvalidGraphError(self.name, f"the name of {what} number {names.index(name)} is empty")
                if name in seen:
                    raise InvalidGraphError(self.name, f"two {what}s are named {name!r}, names must be unique")
                seen.add(name)

    def _check_numbers(self) -> None:
        for attribute, names, what, lowest in (
            ("param_bytes", self.op_names, "op", 0),
            ("macs", self.op_names, "op", 0),
            ("compiled_bytes", self.op_names, "op", UNKNOWN),
            ("always_streamed_bytes", self.op_names, "op", 0),
            ("tensor_bytes", self.tensor_names, "tensor", 0),
        ):
            array: IntArray = getattr(self, attribute)
            low = np.flatnonzero(array < lowest)
            if low.size:
                name, value = names[low[0]], int(array[low[0]])
                raise InvalidGraphError(self.name, f"{what} {name!r} has {attribute} {value}, at least 0 is needed")
            total = sum(int(x) for x in array if x > 0)
            if total > MAX_TOTAL:
                worst = names[int(array.argmax())]
                raise InvalidGraphError(
                    self.name, f"{attribute} sums to {total}, at most 2**53 is allowed (largest: {what} {worst!r})"
                )
        times = self.op_time_us
        bad = np.flatnonzero((times < 0) | np.isinf(times) | (times > MAX_TOTAL / 1000))
        if bad.size:
            name = self.op_names[bad[0]]
            raise InvalidGraphError(
                self.name, f"op {name!r} has time_us {times[bad[0]]}, a finite number of at least 0 is needed"
            )

    def _check_ids(self) -> None:
        n = self.num_ops
        outside = np.flatnonzero((self.tensor_producer < UNKNOWN) | (self.tensor_producer >= n))
        if outside.size:
            name, producer = self.tensor_names[outside[0]], int(self.tensor_producer[outside[0]])
            raise InvalidGraphError(self.name, f"tensor {name!r} is made by op {producer}, ops are 0..{n - 1}")
        for t, readers in enumerate(self.tensor_consumers):
            name = self.tensor_names[t]
            for v in readers:
                if not 0 <= v < n:
                    raise InvalidGraphError(self.name, f"tensor {name!r} is read by op {v}, ops are 0..{n - 1}")
            if self.tensor_producer[t] in readers:
                op = self.op_names[self.tensor_producer[t]]
                raise InvalidGraphError(self.name, f"there is a cycle: op {op!r} reads its own tensor {name!r}")

    def _smallest_first_order(self) -> IntArray:
        waiting = [len(p) for p in self.parents]
        ready = [v for v, w in enumerate(waiting) if w == 0]
        order: list[int] = []
        while ready:
            v = heapq.heappop(ready)
            order.append(v)
            for c in self.children[v]:
                waiting[c] -= 1
                if waiting[c] == 0:
                    heapq.heappush(ready, c)
        if len(order) < self.num_ops:
            raise InvalidGraphError(self.name, f"there is a cycle: {self._a_cycle(set(order))}")
        return _read_only(np.array(order, dtype=np.int64))

    def _a_cycle(self, done: set[int]) -> str:
        """Describe one cycle among the ops that could not be ordered: each of them has an unordered parent."""
        v = next(v for v in range(self.num_ops) if v not in done)
        path: list[int] = []
        seen: dict[int, int] = {}
        while v not in seen:
            seen[v] = len(path)
            path.append(v)
            v = next(u for u in self.parents[v] if u not in done)
        loop = [*reversed(path[seen[v] :])]
        shown = loop if len(loop) <= 6 else [*loop[:5], loop[-1]]
        names = [repr(self.op_names[u]) for u in shown]
        if len(loop) > 6:
            names.insert(5, "...")
        return " -> ".join([*names, names[0]])


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
