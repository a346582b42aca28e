"""A problem as the exact search sees it: nodes in topological order, numbers to add up, tensors, rules.

Ops that constraints force into one stage, and all ops on paths between them, become one node.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from respect_core.constraints import Pair
from respect_core.graph import UNKNOWN, BoolArray, DnnGraph, IntArray
from respect_core.solve.downsets import closure_sums, closures, num_words
from respect_core.solve.protocol import Problem

COUNT_FROM = 3
"""Where K is above this part of the nodes, non-empty stages bound the windows too."""


class InfeasibleError(Exception):
    """The constraints alone rule every schedule out; never leaves the solver."""


@dataclass(frozen=True, kw_only=True)
class Tensors:
    """Tensors (or, for `weighted`, edges) between nodes; readers in the maker's own node are left out."""

    maker: IntArray
    """Node, or -1 for a graph input. Shape (m,)."""
    read_start: IntArray
    """Shape (m + 1,)."""
    reader: IntArray
    columns: IntArray
    """Crossing weight; for `throughput` the ns to receive, to send (0 for graph outputs) and occupied. Shape (3, m)."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """The search's view of one problem."""

    num_stages: int
    node_of: IntArray
    """Node of every op. Shape (n,)."""
    num_nodes: int
    before: IntArray
    """Ancestors of every node, itself included. Shape (nodes, words)."""
    after: IntArray
    first: IntArray
    """Earliest stage of every node. Shape (nodes,)."""
    last: IntArray
    """Latest stage of every node. Shape (nodes,)."""
    measures: IntArray
    """Numbers whose sum over a stage bounds the first component from below. Shape (measures, nodes)."""
    shifts: tuple[int, ...]
    """A stage within budget B has a measure of at most ``B + shift``; a measure beyond these counts nodes."""
    sums: IntArray
    """Per-node numbers that a stage's cost is computed from. Shape (5 for `throughput`, else 1; nodes)."""
    tensors: Tensors
    early_groups: tuple[tuple[int, ...], ...]
    """Of each group of nodes, one must be in stage 0."""
    apart: IntArray
    """Pairs of nodes that may not share a stage. Shape (pairs, 2)."""
    rules: IntArray
    """Implications (if node, if stage, then node, then stage). Shape (rules, 4)."""
    clock: tuple[int, ...]
    """Empty but for `throughput`: overhead, capacity, shared capacity, overlap numerator and denominator."""
    reach: tuple[IntArray, IntArray]
    """Measures summed over ancestors and over descendants. Each of shape (measures, nodes)."""

    may_be_empty: bool = False
    """Whether stages without nodes count as legal."""

    @cached_property
    def totals(self) -> IntArray:
        """Measures summed over all nodes. Shape (measures,)."""
        return np.asarray(self.measures.sum(axis=1))

    @property
    def timed(self) -> bool:
        """Whether a stage's cost is its time."""
        return bool(self.clock)

    @property
    def ruled(self) -> bool:
        """Whether a stage's legality depends on more than its two down-sets' windows."""
        return bool(self.apart.size or self.rules.size)

    @property
    def plain(self) -> bool:
        """Whether nothing but precedence and non-empty stages restricts the schedules."""
        K = self.num_stages
        free = not (self.ruled or self.early_groups) and self.num_nodes == self.node_of.size
        return free and bool(np.all(self.first == 0) and np.all(self.last == K - 1))

    def stage_of(self, stage_of_node: IntArray) -> IntArray:
        """Return the stage of every op."""
        return stage_of_node[self.node_of]


def build_model(problem: Problem) -> Model:
    """Contract, number and propagate.

    Raises:
        InfeasibleError: The constraints alone rule every schedule out.
    """
    graph, constraints, num_stages = problem.graph, problem.constraints, problem.num_stages
    pairs = constraints.same_stage_pairs(graph)
    node_of, num_nodes = _nodes(graph, pairs)
    if num_stages > num_nodes:
        raise InfeasibleError(f"{num_nodes} groups of ops cannot fill {num_stages} stages")
    edges = node_of[graph.edges]
    edges = edges[edges[:, 0] != edges[:, 1]]
    edges = edges[np.argsort(edges[:, 1], kind="stable")]
    parent_start = np.zeros(num_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(edges[:, 1], minlength=num_nodes), out=parent_start[1:])
    parent = np.ascontiguousarray(edges[:, 0])
    before, after = closures(parent_start, parent, num_words(num_nodes))
    first, last, groups = _domains(problem, node_of, num_nodes, parent_start, parent)
    apart = node_of[np.array(constraints.different_stages, dtype=np.int64).reshape(-1, 2)]
    if np.any(apart[:, 0] == apart[:, 1]):
        raise InfeasibleError("ops that must share a stage must be in different stages")
    rules = np.array(constraints.implications, dtype=np.int64).reshape(-1, 4)
    rules[:, 0], rules[:, 2] = node_of[rules[:, 0]], node_of[rules[:, 2]]
    tensors, sums, clock = _numbers(problem, node_of, num_nodes)
    measures, shifts = _measures(sums, clock)
    if COUNT_FROM * num_stages > num_nodes:
        measures = np.concatenate([measures, np.ones((1, num_nodes), dtype=np.int64)])
    return Model(
        num_stages=num_stages,
        node_of=node_of,
        num_nodes=num_nodes,
        before=before,
        after=after,
        first=first,
        last=last,
        measures=measures,
        shifts=shifts,
        sums=sums,
        tensors=tensors,
        early_groups=groups,
        apart=apart,
        rules=rules,
        clock=clock,
        reach=(closure_sums(before, measures), closure_sums(after, measures)),
    )


def _nodes(graph: DnnGraph, pairs: tuple[Pair, ...]) -> tuple[IntArray, int]:
    """Give every op a node, in topological order; those of a strong component (with the pairs both ways) share it."""
    n = graph.num_ops
    node_of = np.empty(n, dtype=np.int64)
    if not pairs:
        node_of[graph.topological_order] = np.arange(n)
        return node_of, n
    import networkx as nx

    linked: nx.DiGraph[int] = nx.DiGraph()
    linked.add_nodes_from(range(n))
    linked.add_edges_from(graph.edges.tolist())
    linked.add_edges_from(pairs)
    linked.add_edges_from((b, a) for a, b in pairs)
    merged = nx.condensation(linked)
    for at, component in enumerate(nx.topological_sort(merged)):
        node_of[list(merged.nodes[component]["members"])] = at
    return node_of, merged.number_of_nodes()


def _domains(
    problem: Problem, node_of: IntArray, num_nodes: int, parent_start: IntArray, parent: IntArray
) -> tuple[IntArray, IntArray, tuple[tuple[int, ...], ...]]:
    """Return the earliest and latest stage of every node after propagation along edges, and the open early groups."""
    constraints, graph = problem.constraints, problem.graph
    first = np.zeros(num_nodes, dtype=np.int64)
    last = np.full(num_nodes, problem.num_stages - 1, dtype=np.int64)
    groups = []
    for ops in constraints.first_stage_groups(graph):
        nodes = tuple(dict.fromkeys(node_of[list(ops)].tolist()))
        if len(nodes) == 1:
            last[nodes[0]] = 0
        else:
            groups.append(nodes)
    outputs = list(constraints.last_stage_ops(graph))
    first[node_of[outputs]] = problem.num_stages - 1
    for op, stage in constraints.pins:
        node = node_of[op]
        first[node], last[node] = max(first[node], stage), min(last[node], stage)
    if problem.constraints.pins or outputs or problem.constraints.inputs_first:
        for v in range(num_nodes):
            for u in parent[parent_start[v] : parent_start[v + 1]]:
                first[v] = max(first[v], first[u])
        for v in range(num_nodes - 1, -1, -1):
            for u in parent[parent_start[v] : parent_start[v + 1]]:
                last[u] = min(last[u], last[v])
        if np.any(first > last):
            raise InfeasibleError("an op must be in an earlier stage than one that feeds it")
    open_groups = tuple(group for group in groups if all(last[v] > 0 for v in group))
    return first, last, open_groups


def _numbers(problem: Problem, node_of: IntArray, num_nodes: int) -> tuple[Tensors, IntArray, tuple[int, ...]]:
    graph = problem.graph
    if problem.objective == "weighted":
        edges = node_of[graph.edges]
        edges = edges[edges[:, 0] != edges[:, 1]]
        count = edges.shape[0]
        columns = np.zeros((3, count), dtype=np.int64)
        columns[0] = 1
        edge_like = Tensors(
            maker=np.ascontiguousarray(edges[:, 0]),
            read_start=np.arange(count + 1, dtype=np.int64),
            reader=np.ascontiguousarray(edges[:, 1]),
            columns=columns,
        )
        return edge_like, _per_node(graph.param_bytes, node_of, num_nodes)[None, :], ()
    made = graph.tensor_producer != UNKNOWN
    maker = np.where(made, node_of[graph.tensor_producer], -1)
    which, readers = graph.reads
    reader = node_of[readers]
    if problem.objective == "peak-memory":
        columns = np.zeros((3, graph.num_tensors), dtype=np.int64)
        columns[0] = graph.tensor_bytes
        sums = _per_node(graph.param_bytes, node_of, num_nodes)[None, :]
        return _kept(maker, which, reader, columns, made), sums, ()
    terms = problem.terms
    from_host = np.isin(graph.tensor_producer, graph.input_ops) & made
    is_output = graph.tensor_is_output & made
    columns = np.stack([terms.input_ns, np.where(is_output, 0, terms.output_ns), terms.occupied_ns])
    fixed = np.where(from_host, terms.input_ns, 0) + np.where(is_output, terms.output_ns, 0)
    makers = maker[made]
    sums = np.stack(
        [
            _per_node(terms.compute_ns, node_of, num_nodes),
            _per_node(terms.streaming_ns, node_of, num_nodes),
            _per_node(terms.always_ns, node_of, num_nodes),
            _per_node(fixed[made], makers, num_nodes),
            _per_node(np.where(from_host, terms.occupied_ns, 0)[made], makers, num_nodes),
        ]
    )
    clock = (
        terms.overhead_ns,
        terms.capacity_ns,
        terms.shared_capacity_ns,
        terms.overlap_num,
        terms.overlap_den,
    )
    return _kept(maker, which, reader, columns, np.ones_like(made)), sums, clock


def _kept(maker: IntArray, which: IntArray, reader: IntArray, columns: IntArray, wanted: BoolArray) -> Tensors:
    """Keep the wanted tensors that another node than their maker's reads."""
    outside = (reader != maker[which]) & wanted[which]
    which, reader = which[outside], reader[outside]
    counts = np.bincount(which, minlength=maker.size)
    chosen = np.flatnonzero(counts)
    read_start = np.zeros(chosen.size + 1, dtype=np.int64)
    np.cumsum(counts[chosen], out=read_start[1:])
    return Tensors(
        maker=maker[chosen],
        read_start=read_start,
        reader=reader,
        columns=np.ascontiguousarray(columns[:, chosen]),
    )


def _per_node(values: IntArray, node_of: IntArray, num_nodes: int) -> IntArray:
    out = np.zeros(num_nodes, dtype=np.int64)
    np.add.at(out, node_of, values)
    return out


def _measures(sums: IntArray, clock: tuple[int, ...]) -> tuple[IntArray, tuple[int, ...]]:
    """Return linear lower bounds of a stage's cost.

    With overlap o, ``C + S - o min(C, S)`` is at least ``C + (1 - o) S`` and ``(1 - o) C + S``, and S is at least the
    sum of what always streams, and at least that plus all other bytes less the capacity.
    """
    if not clock:
        return np.ascontiguousarray(sums), (0,)
    overhead, capacity, shared, num, den = clock
    compute, streaming, always, fixed, _ = sums
    room = max(0, min(capacity, shared))

    def shown(values: IntArray) -> IntArray:
        return values // den * (den - num) + values % den * (den - num) // den

    rows = [fixed + compute + shown(always)]
    shifts = [-overhead]
    if int(streaming.sum()) > room:
        rows += [fixed + compute + shown(always + streaming), fixed + shown(compute) + always + streaming]
        shifts += [-overhead - (-room * (den - num) // den), room - overhead]
    return np.stack(rows), tuple(shifts)


def least_value(model: Model, problem: Problem, bound: int) -> tuple[int, ...]:
    """Return a value that no schedule is below, given a bound of the first component."""
    if problem.objective == "weighted":
        return (bound * problem.ratio,)
    if problem.objective == "peak-memory":
        return bound, 0
    return bound, model.num_stages * model.clock[0] + int(model.measures[0].sum())


def largest_budget(model: Model) -> int:
    """Return a budget that every schedule stays within."""
    total = int(model.sums[: 4 if model.timed else 1].sum())
    if model.timed:
        total += model.clock[0] + int(model.tensors.columns[0].sum()) + int(model.tensors.columns[1].sum())
    return total


def first_bound(model: Model) -> int:
    """Return a simple lower bound of the first component: the average and the largest node under every measure."""
    bound = 0
    for row, shift in zip(model.measures, model.shifts, strict=False):
        bound = max(bound, -(-int(row.sum()) // model.num_stages) - shift, int(row.max()) - shift)
    return bound
