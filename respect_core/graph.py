"""`DnnGraph`: an immutable, checked graph of ops and tensors."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from respect_core.errors import InvalidGraphError
from respect_core.graph_checks import (
    MAX_TOTAL,
    SOURCES,
    UNKNOWN,
    check_ids,
    check_names,
    check_numbers,
    frozen_array,
    read_only,
    reader_ids,
)
from respect_core.kinds import INPUT

if TYPE_CHECKING:
    import networkx as nx

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

__all__ = ["MAX_TOTAL", "SOURCES", "UNKNOWN", "BoolArray", "DnnGraph", "FloatArray", "IntArray"]


@dataclass(frozen=True, eq=False, kw_only=True)
class DnnGraph:
    """A network of n ops and m tensors; every array is read-only.

    Construct it with arrays of matching lengths; everything is checked then and the first offender is named.

    Raises:
        InvalidGraphError: No ops, a duplicate or empty name, an unknown source, a number that is negative, too large
            or not whole, a dangling id, an op reading its own output, or a cycle.
    """

    name: str
    source: str
    """What the bytes mean, one of `SOURCES`: `keras` is one byte a parameter."""
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
        self._set("op_names", tuple(self.op_names))
        self._set("op_kinds", tuple(self.op_kinds))
        self._set("tensor_names", tuple(self.tensor_names))
        self._set("tensor_consumers", tuple(self.tensor_consumers))
        check_names(self)
        self._set(
            "tensor_consumers",
            tuple(reader_ids(self, *pair) for pair in zip(self.tensor_names, self.tensor_consumers, strict=True)),
        )
        for attribute, dtype in (
            ("param_bytes", np.int64),
            ("macs", np.int64),
            ("compiled_bytes", np.int64),
            ("always_streamed_bytes", np.int64),
            ("op_time_us", np.float64),
            ("tensor_bytes", np.int64),
            ("tensor_producer", np.int64),
            ("tensor_is_output", np.bool_),
        ):
            self._set(attribute, frozen_array(self, attribute, dtype))
        check_numbers(self)
        check_ids(self)
        self._set("_order", self._smallest_first_order())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copied or sent graph; NumPy's own copies of read-only arrays can be written to."""
        self.__dict__.update(state)
        for value in state.values():
            for array in value if isinstance(value, tuple) else (value,):
                if isinstance(array, np.ndarray):
                    read_only(array)

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
        return read_only(np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2))

    @cached_property
    def reads(self) -> tuple[IntArray, IntArray]:
        """Every (tensor, reading op) pair as two arrays, sorted by tensor, then op."""
        pairs = [(t, v) for t, readers in enumerate(self.tensor_consumers) for v in readers]
        flat = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return read_only(flat[:, 0].copy()), read_only(flat[:, 1].copy())

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
        return read_only(level)

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

    # -- construction --------------------------------------------------------------------------------------------

    def _set(self, attribute: str, value: object) -> None:
        object.__setattr__(self, attribute, value)

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
        return read_only(np.array(order, dtype=np.int64))

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
