"""What can be said about the stage of every op before any search: merged ops, stage windows and simple bounds.

A schedule that is no worse than a known one puts at most ``limit`` into each stage, so the ancestors of an op fill some
number of stages before it and its descendants some number after it. What is left is the op's *window* of stages; on
networks that are long and narrow the windows of almost all ops hold a single stage.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from respect_core.graph import UNKNOWN, BoolArray, DnnGraph, IntArray
from respect_core.solve.protocol import Problem

_ROWS_AT_ONCE = 512
_LARGEST_PRODUCT = 2**62

Windows = tuple[IntArray, IntArray]
"""First and last stage that every block may be in, two arrays of shape (b,)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Blocks:
    """The ops of a problem, those merged that must share a stage; blocks are numbered by their first op."""

    block_of: IntArray
    """Shape (n,)."""
    members: tuple[tuple[int, ...], ...]
    """Ascending ops of every block; b tuples."""
    order: tuple[int, ...]
    """The blocks in a topological order."""
    before: BoolArray
    """``before[v, u]``: block u is a proper ancestor of block v. Shape (b, b)."""
    edges: tuple[tuple[int, int], ...]
    """Transitively reduced precedence between blocks."""

    @property
    def num_blocks(self) -> int:
        """Number of blocks b."""
        return len(self.members)

    def sums(self, per_op: IntArray) -> IntArray:
        """Sum a number of every op over the blocks. Shape (b,)."""
        out = np.zeros(self.num_blocks, dtype=np.int64)
        np.add.at(out, self.block_of, per_op)
        return out

    def ancestor_sums(self, per_block: IntArray) -> IntArray:
        """Sum over every block and its ancestors. Shape (b,)."""
        out = per_block.copy()
        for start in range(0, self.num_blocks, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            out[rows] += self.before[rows] @ per_block
        return out

    def descendant_sums(self, per_block: IntArray) -> IntArray:
        """Sum over every block and its descendants. Shape (b,)."""
        out = per_block.copy()
        for start in range(0, self.num_blocks, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            out += per_block[rows] @ self.before[rows]
        return out

    def last_of(self, blocks: Collection[int]) -> list[int]:
        """Drop the blocks that have a descendant in the set: what holds for the rest in time holds for them too."""
        return sorted(u for u in blocks if not any(self.before[v, u] for v in blocks))


def merge_ops(problem: Problem) -> Blocks:
    """Merge ops that must share a stage, by a constraint or because they lie between two such ops."""
    graph = problem.graph
    pairs = problem.constraints.same_stage_pairs(graph)
    block_of = np.arange(graph.num_ops, dtype=np.int64)
    if pairs:
        block_of = _strong_components(graph, pairs)
    members: list[list[int]] = [[] for _ in range(int(block_of.max()) + 1)]
    for v, block in enumerate(block_of.tolist()):
        members[block].append(v)
    parents: list[set[int]] = [set() for _ in members]
    for u, v in block_of[graph.edges].tolist():
        if u != v:
            parents[v].add(u)
    order = _topological(parents)
    before = np.zeros((len(members), len(members)), dtype=np.bool_)
    edges: list[tuple[int, int]] = []
    for v in order:
        for u in parents[v]:
            before[v] |= before[u]
        edges += [(u, v) for u in sorted(parents[v]) if not before[v, u]]
        before[v, list(parents[v])] = True
    return Blocks(
        block_of=block_of,
        members=tuple(map(tuple, members)),
        order=tuple(order),
        before=before,
        edges=tuple(edges),
    )


def _strong_components(graph: DnnGraph, pairs: tuple[tuple[int, int], ...]) -> IntArray:
    import networkx as nx

    both_ways: nx.DiGraph[int] = nx.DiGraph()
    both_ways.add_nodes_from(range(graph.num_ops))
    both_ways.add_edges_from(graph.edges.tolist())
    for a, b in pairs:
        both_ways.add_edge(a, b)
        both_ways.add_edge(b, a)
    block_of = np.empty(graph.num_ops, dtype=np.int64)
    for number, ops in enumerate(sorted(map(sorted, nx.strongly_connected_components(both_ways)))):
        block_of[ops] = number
    return block_of


def _topological(parents: list[set[int]]) -> list[int]:
    children: list[list[int]] = [[] for _ in parents]
    waiting = [len(p) for p in parents]
    for v, before in enumerate(parents):
        for u in before:
            children[u].append(v)
    order = [v for v, w in enumerate(waiting) if w == 0]
    for u in order:
        for v in children[u]:
            waiting[v] -= 1
            if waiting[v] == 0:
                order.append(v)
    return order


class Domains:
    """Windows and lower bounds of one problem; what they need is computed once.

    Windows keep **every** legal schedule whose first component is at most the limit, not just one of them, so the
    lexicographically smallest optimum stays within.
    """

    def __init__(self, problem: Problem, blocks: Blocks) -> None:
        self.problem, self.blocks = problem, blocks

    def windows(self, limit: int | None = None) -> Windows | None:
        """Return the stages every block may be in.

        Args:
            limit: Largest allowed first component of the objective (bytes, ns or the weighted sum); None for any.

        Returns:
            First and last stage of every block, monotone along edges; None if some block has no stage left, which
            proves that no schedule is legal and within the limit.
        """
        low, high = (bounds.copy() for bounds in self._static)
        stage_limit = self._limit_of_a_stage(limit)
        if stage_limit is not None:
            if stage_limit < 0:
                return None
            from_loads = self._time_windows if self.problem.objective == "throughput" else self._memory_windows
            first, last = from_loads(stage_limit)
            low, high = np.maximum(low, first), np.minimum(high, last)
        for v in self.blocks.order:
            for u in self._parents[v]:
                low[v] = max(low[v], low[u])
        for v in reversed(self.blocks.order):
            for u in self._parents[v]:
                high[u] = min(high[u], high[v])
        return None if bool(np.any(low > high)) else (low, high)

    @cached_property
    def lower_bound(self) -> int | None:
        """A proven bound on the first component, None where the windows already show that nothing is legal."""
        if self.windows() is None:
            return None
        weakest = self.simple_bound
        step = 1
        while self.windows(weakest + step - 1) is None:
            step *= 2
        low, high = weakest + step // 2, weakest + step - 1
        while low < high:
            middle = (low + high) // 2
            if self.windows(middle) is None:
                low = middle + 1
            else:
                high = middle
        return low

    # -- from constraints and from counting ------------------------------------------------------------------------

    @cached_property
    def _parents(self) -> list[list[int]]:
        out: list[list[int]] = [[] for _ in range(self.blocks.num_blocks)]
        for u, v in self.blocks.edges:
            out[v].append(u)
        return out

    @cached_property
    def _static(self) -> Windows:
        """Windows from pins, inputs and outputs, and from every other stage needing a block of its own."""
        problem, blocks = self.problem, self.blocks
        K, b = problem.num_stages, blocks.num_blocks
        ones = np.ones(b, dtype=np.int64)
        low = np.maximum(0, K - 1 - b + blocks.ancestor_sums(ones))
        high = np.minimum(K - 1, b - blocks.descendant_sums(ones))
        for v in problem.constraints.last_stage_ops(problem.graph):
            low[blocks.block_of[v]] = K - 1
        for group in problem.constraints.first_stage_groups(problem.graph):
            if len(group) == 1:
                high[blocks.block_of[group[0]]] = 0
        for v, stage in problem.constraints.pins:
            block = blocks.block_of[v]
            low[block], high[block] = max(low[block], stage), min(high[block], stage)
        return low, high

    # -- from loads ------------------------------------------------------------------------------------------------

    def _limit_of_a_stage(self, limit: int | None) -> int | None:
        if limit is None or self.problem.objective != "weighted":
            return limit
        return limit // self.problem.ratio if self.problem.ratio else None

    @cached_property
    def simple_bound(self) -> int:
        """A bound on the first component without windows: the average and the largest block, or a stage's overhead."""
        problem, K = self.problem, self.problem.num_stages
        if problem.objective == "throughput":
            return problem.terms.overhead_ns
        loads = self.blocks.sums(problem.graph.param_bytes)
        peak = max(int(loads.max()), -(-int(loads.sum()) // K))
        return peak * problem.ratio if problem.objective == "weighted" else peak

    @cached_property
    def _memory(self) -> tuple[IntArray, IntArray]:
        loads = self.blocks.sums(self.problem.graph.param_bytes)
        return self.blocks.ancestor_sums(loads), self.blocks.descendant_sums(loads)

    def _memory_windows(self, limit: int) -> Windows:
        before, after = self._memory
        if limit == 0:
            nothing, K = np.zeros_like(before), self.problem.num_stages
            return np.where(before > 0, K, nothing), np.where(after > 0, -1, nothing + K - 1)
        return -(-before // limit) - 1, self.problem.num_stages - -(-after // limit)

    @cached_property
    def _times(self) -> tuple[list[IntArray], list[IntArray]]:
        """Compute, streaming, always streamed and certain transfer times, summed over ancestors and descendants."""
        terms = self.problem.terms
        per_op = (terms.compute_ns, terms.streaming_ns, terms.always_ns, certain_transfers(self.problem, self.blocks))
        per_block = [self.blocks.sums(x) for x in per_op]
        return [self.blocks.ancestor_sums(x) for x in per_block], [self.blocks.descendant_sums(x) for x in per_block]

    def _time_windows(self, limit: int) -> Windows:
        before, after = self._times
        return self._stages_needed(before, limit) - 1, self.problem.num_stages - self._stages_needed(after, limit)

    def _stages_needed(self, sums: list[IntArray], limit: int) -> IntArray:
        """Return the fewest stages of time ``limit`` that can hold the summed work, K + 1 if K do not.

        Stage time never falls when work is added, and work spread over j stages hides at most what the sums would hide
        together, so the time of j stages is at least that of the sums with j times the room for parameters.
        """
        compute, streaming, always, transfers = sums
        terms, K = self.problem.terms, self.problem.num_stages
        spare = limit - terms.overhead_ns
        needed = np.ones(compute.size, dtype=np.int64)
        if spare < 0:
            return needed + K
        room = min(terms.capacity_ns, terms.shared_capacity_ns)
        for j in range(1, K + 1):
            spilled = np.maximum(0, streaming - min(j * room, _LARGEST_PRODUCT)) + always
            shorter = np.minimum(compute, spilled)
            whole, rest = np.divmod(shorter, terms.overlap_den)
            hidden = whole * terms.overlap_num + rest * terms.overlap_num // terms.overlap_den
            needed += compute + spilled - hidden + transfers > min(j * spare, _LARGEST_PRODUCT)
        return needed


def certain_transfers(problem: Problem, blocks: Blocks) -> IntArray:
    """Return what an op's stage receives and sends wherever anything else is, in ns. Shape (n,).

    That is the input of an `input` op, a graph output, and a graph input that only one block reads.
    """
    graph, terms = problem.graph, problem.terms
    out = np.zeros(graph.num_ops, dtype=np.int64)
    from_host = set(graph.input_ops)
    for t, producer in enumerate(graph.tensor_producer.tolist()):
        if producer == UNKNOWN:
            readers = graph.tensor_consumers[t]
            if readers and len(set(blocks.block_of[list(readers)].tolist())) == 1:
                out[readers[0]] += terms.input_ns[t]
            continue
        if producer in from_host:
            out[producer] += terms.input_ns[t]
        if graph.tensor_is_output[t]:
            out[producer] += terms.output_ns[t]
    return out
