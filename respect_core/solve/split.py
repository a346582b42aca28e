"""The optimal contiguous split of a topological order, under every objective and constraint."""

from __future__ import annotations

import heapq

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import BoolArray, IntArray
from respect_core.solve.order_arrays import order_arrays
from respect_core.solve.protocol import Problem
from respect_core.solve.split_loops import (
    INFINITE,
    cheapest_within,
    crossing_weights,
    fastest_split,
    smallest_peak,
    smallest_peak_constrained,
)

Value = tuple[int, ...]


def split_order(problem: Problem, order: IntArray) -> IntArray | None:
    """Cut a topological order optimally into contiguous stages; see `Splitter` for many orders of one problem."""
    return Splitter(problem).split(order)


class Splitter:
    """Cuts topological orders of one problem into K contiguous segments, each optimally for the objective."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        graph, constraints = problem.graph, problem.constraints
        self._same = constraints.same_stage_pairs(graph)
        self._group_of = _forced_groups(problem) if self._same else None
        self._first_groups = constraints.first_stage_groups(graph)
        self._allowed = self._static_domains()
        self._free = not (
            self._same
            or self._first_groups
            or constraints.outputs_last
            or constraints.pins
            or constraints.different_stages
            or constraints.implications
        )

    def split(self, order: IntArray) -> IntArray | None:
        """Return the lexicographically optimal contiguous split of ``order``.

        Args:
            order: A topological order of the ops. Shape (n,). Where constraints force ops into one stage, they are
                first moved next to each other (at the earliest position of the group that precedence allows).

        Returns:
            The stage of every op, shape (n,); None if no contiguous split is legal.

        Raises:
            BadInputError: ``order`` is not a topological order.
        """
        graph = self.problem.graph
        order = np.array(order, dtype=np.int64)  # a copy: compiled code is made anew for read-only arrays
        if not graph.is_topological(order):
            raise BadInputError(f"graph {graph.name!r}: the order to split is not a topological order of its ops")
        if self._group_of is not None:
            order = _regrouped(self.problem, order, self._group_of)
        found = _Cut(self, order).best(self._allowed, None)
        if found is None:
            return None
        stage_of = np.empty(graph.num_ops, dtype=np.int64)
        stage_of[order] = np.repeat(np.arange(self.problem.num_stages), np.diff(found[1]))
        return stage_of

    def _static_domains(self) -> BoolArray:
        """Return which op may be in which stage as far as it does not depend on the order. Shape (n, K)."""
        problem = self.problem
        allowed = np.ones((problem.graph.num_ops, problem.num_stages), dtype=np.bool_)
        for v in problem.constraints.last_stage_ops(problem.graph):
            allowed[v, :-1] = False
        for v, k in problem.constraints.pins:
            allowed[v, :k] = allowed[v, k + 1 :] = False
        return allowed


class _Cut:
    """One order of one problem, prepared for the compiled loops."""

    def __init__(self, splitter: Splitter, order: IntArray) -> None:
        self.splitter, self.problem, self.order = splitter, splitter.problem, order
        graph = self.problem.graph
        n = graph.num_ops
        self.position = np.empty(n, dtype=np.int64)
        self.position[order] = np.arange(n)
        tensors, readers = graph.reads
        self.cut_bytes, self.cut_edges, self.last = crossing_weights(
            self.position, graph.tensor_producer, graph.tensor_bytes, tensors, readers, graph.edges
        )
        self.prefix = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(graph.param_bytes[order], out=self.prefix[1:])
        self.cuttable = np.ones(n + 1, dtype=np.bool_)
        for a, b in splitter._same:
            first, second = sorted((self.position[a], self.position[b]))
            self.cuttable[first + 1 : second + 1] = False

    def best(self, allowed: BoolArray, incumbent: Value | None) -> tuple[Value, IntArray] | None:
        """Return the best value and bounds; implications are met by branching on the first one broken."""
        found = self._relaxed(allowed)
        if found is None or (incumbent is not None and found[0] >= incumbent):
            return None
        bounds = found[1]
        for rule in self.problem.constraints.implications:
            if self._stage(bounds, rule.if_op) != rule.if_stage:
                continue
            if self._stage(bounds, rule.then_op) == rule.then_stage:
                continue
            elsewhere, obeyed = allowed.copy(), allowed.copy()
            elsewhere[rule.if_op, rule.if_stage] = False
            for op, stage in ((rule.if_op, rule.if_stage), (rule.then_op, rule.then_stage)):
                obeyed[op, :stage] = obeyed[op, stage + 1 :] = False
            best: tuple[Value, IntArray] | None = None
            for branch in (elsewhere, obeyed):
                better = self.best(branch, incumbent)
                if better is not None:
                    best, incumbent = better, better[0]
            return best
        return found

    def _stage(self, bounds: IntArray, op: int) -> int:
        return int(np.searchsorted(bounds, self.position[op], side="right")) - 1

    def _reach(self, allowed: BoolArray) -> IntArray:
        """Return the largest end of stage k when it starts at position i. Shape (K, n)."""
        n, num_stages = self.order.size, self.problem.num_stages
        if self.splitter._free:
            return np.full((num_stages, n), n, dtype=np.int64)
        by_position = allowed[self.order].copy()
        for group in self.splitter._first_groups:
            by_position[min(self.position[v] for v in group), 1:] = False
        reach = np.empty((num_stages, n), dtype=np.int64)
        limit = np.full(n + 1, n, dtype=np.int64)
        for a, b in self.problem.constraints.different_stages:
            first, second = sorted((int(self.position[a]), int(self.position[b])))
            limit[first] = min(limit[first], second)
        limit = np.minimum.accumulate(limit[::-1])[::-1][:n]
        for k in range(num_stages):
            end = n
            for i in range(n - 1, -1, -1):
                if not by_position[i, k]:
                    end = i
                reach[k, i] = min(end, limit[i])
        return reach

    def _relaxed(self, allowed: BoolArray) -> tuple[Value, IntArray] | None:
        """Solve without the implications."""
        reach = self._reach(allowed)
        if self.problem.objective == "throughput":
            return self._fastest(reach)
        num_stages = self.problem.num_stages
        if self.splitter._free:
            peak = smallest_peak(self.prefix, num_stages)
        else:
            peak = smallest_peak_constrained(self.prefix, self.cuttable, reach, num_stages)
        if peak == INFINITE:
            return None
        if self.problem.objective == "peak-memory":
            cost, bounds = cheapest_within(self.prefix, self.cut_bytes, self.cuttable, reach, num_stages, peak)
            return (int(peak), int(cost)), bounds
        return self._weighted(reach, int(peak))

    def _weighted(self, reach: IntArray, smallest: int) -> tuple[Value, IntArray]:
        """Minimise ratio * peak + crossings over the budgets that can still pay for themselves."""
        ratio, num_stages = self.problem.ratio, self.problem.num_stages
        crossings, bounds = cheapest_within(self.prefix, self.cut_edges, self.cuttable, reach, num_stages, smallest)
        best = ratio * smallest + int(crossings), bounds
        budget = smallest + int(crossings) // ratio if ratio else int(self.prefix[-1])
        while budget > smallest:
            crossings, bounds = cheapest_within(self.prefix, self.cut_edges, self.cuttable, reach, num_stages, budget)
            peak = int(np.diff(self.prefix[bounds]).max())
            if ratio * peak + int(crossings) < best[0]:
                best = ratio * peak + int(crossings), bounds
            budget = peak - 1
            if not ratio:
                break
        return (best[0],), best[1]

    def _fastest(self, reach: IntArray) -> tuple[Value, IntArray] | None:
        graph, terms = self.problem.graph, self.problem.terms
        rows = order_arrays(graph)
        scalars = (terms.overhead_ns, terms.capacity_ns, terms.shared_capacity_ns, terms.overlap_num, terms.overlap_den)

        def run(limit: int, want_latency: bool) -> tuple[int, IntArray]:
            return fastest_split(
                self.order,
                self.position,
                self.last,
                graph.tensor_producer,
                graph.tensor_is_output,
                rows.read_start,
                rows.read,
                rows.made_start,
                rows.made,
                rows.is_input_op,
                np.stack([terms.compute_ns, terms.streaming_ns, terms.always_ns]),
                np.stack([terms.input_ns, terms.output_ns, terms.occupied_ns]),
                np.array(scalars, dtype=np.int64),
                self.cuttable,
                reach,
                self.problem.num_stages,
                limit,
                want_latency,
            )

        bottleneck, bounds = run(int(INFINITE) - 1, False)
        if bottleneck == INFINITE:
            return None
        latency, bounds = run(int(bottleneck), True)
        return (int(bottleneck), int(latency)), bounds


def _forced_groups(problem: Problem) -> IntArray:
    """Return a number for each set of ops that constraints and precedence force into one stage. Shape (n,).

    If two ops share a stage, so does everything on a path between them: the strongly connected components of the
    precedence graph with an edge each way between ops that must share a stage.
    """
    import networkx as nx

    forced: nx.DiGraph[int] = nx.DiGraph()
    forced.add_nodes_from(range(problem.graph.num_ops))
    forced.add_edges_from(problem.graph.edges.tolist())
    for a, b in problem.constraints.same_stage_pairs(problem.graph):
        forced.add_edge(a, b)
        forced.add_edge(b, a)
    group_of = np.empty(problem.graph.num_ops, dtype=np.int64)
    for number, members in enumerate(nx.strongly_connected_components(forced)):
        group_of[list(members)] = number
    return group_of


def _regrouped(problem: Problem, order: IntArray, group_of: IntArray) -> IntArray:
    """Return a topological order with every group in one piece, as close to ``order`` as its first members are."""
    members: dict[int, list[int]] = {}
    for v in order.tolist():
        members.setdefault(int(group_of[v]), []).append(v)
    rank = {group: r for r, group in enumerate(members)}
    followers: dict[int, set[int]] = {group: set() for group in members}
    for u, v in group_of[problem.graph.edges].tolist():
        if u != v:
            followers[u].add(v)
    waiting = dict.fromkeys(members, 0)
    for group in followers.values():
        for g in group:
            waiting[g] += 1
    ready = [(rank[g], g) for g, w in waiting.items() if w == 0]
    heapq.heapify(ready)
    out: list[int] = []
    while ready:
        _, g = heapq.heappop(ready)
        out += members[g]
        for follower in followers[g]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, (rank[follower], follower))
    return np.array(out, dtype=np.int64)
