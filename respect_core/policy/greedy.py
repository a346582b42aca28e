"""How good the network is by itself: the best of eight greedy orders, split optimally, without local search."""

from __future__ import annotations

import numpy as np

from respect_core.graph import FloatArray, IntArray
from respect_core.policy.batches import NO_PROFILE, adjacency
from respect_core.policy.chunks import LabelChunk
from respect_core.policy.scoring import GREEDY_BUDGETS, BudgetPath, Scorer
from respect_core.solve.local_search_graph import SearchGraph, turned_round, work_for
from respect_core.solve.local_search_orders import SCORED, order_space
from respect_core.solve.local_search_peak import no_incumbent, search_peak, stage_space
from respect_core.solve.local_search_random import gumbel_table, random_state
from respect_core.solve.local_search_run import load_bound

_NONE = np.zeros(0, dtype=np.int64)


def greedy_gaps(chunk: LabelChunk, labels: IntArray, scorer: Scorer) -> FloatArray:
    """Return the gap to the optimal peak memory for some labels of a chunk.

    Args:
        chunk: The labels.
        labels: Which of them. Shape (B,).
        scorer: The network.

    Returns:
        Shape (B,); 0 where the optimal peak is 0.
    """
    gaps, gumbel, state = np.zeros(labels.size), gumbel_table(), random_state(0)
    for b, label in enumerate(labels.tolist()):
        at = int(chunk.graph_of[label])
        graph, stages = bare_graph(chunk, at), int(chunk.num_stages[label])
        made, n = chunk.made_bytes[chunk.op_start[at] : chunk.op_start[at + 1]], graph.weight.size
        bound = load_bound(graph.weight, stages)
        best, path = no_incumbent(n), BudgetPath(bound)
        space, at_stages, work = order_space(n), stage_space(n, stages), work_for(graph)
        turned = turned_round(graph)
        for step in range(GREEDY_BUDGETS):
            budget, backwards = path.next_greedy(step, int(best.value[0]) if step else None), step % 2 == 1
            scores = scorer.scores(turned if backwards else graph, made, stages, budget, NO_PROFILE).ravel()
            search_peak(
                graph, stages, bound, False, False, SCORED, scores, 0.0, backwards, np.array([budget]), 0, False,
                gumbel, state, space, at_stages, work, best,
            )  # fmt: skip
        optimum = int(chunk.peaks[label])
        gaps[b] = int(best.value[0]) / optimum - 1 if optimum else 0.0
    return gaps


def bare_graph(chunk: LabelChunk, graph: int) -> SearchGraph:
    """Return the arrays of one graph of a chunk without its tensors: peaks need none of them."""
    ops = slice(chunk.op_start[graph], chunk.op_start[graph + 1])
    load = np.ascontiguousarray(chunk.loads[ops])
    n = load.size
    first, near = adjacency(chunk.edges[chunk.edge_start[graph] : chunk.edge_start[graph + 1]], n)
    no_rows = np.zeros(n + 1, dtype=np.int64)
    return SearchGraph(
        weight=load,
        first=first,
        near=near,
        order=_topological(first, near, n),
        window=np.repeat(np.array([0, n]), n),
        made_start=no_rows,
        made=_NONE,
        read_start=no_rows,
        read=_NONE,
        tensor_producer=_NONE,
        tensor_bytes=_NONE,
        reader_start=np.zeros(1, dtype=np.int64),
        reader=_NONE,
    )


def _topological(first: IntArray, near: IntArray, n: int) -> IntArray:
    """Return Kahn's order. Shape (n,)."""
    waiting = np.diff(first[n + 1 :]).tolist()
    order = [v for v in range(n) if waiting[v] == 0]
    for v in order:
        for c in near[first[v] : first[v + 1]].tolist():
            waiting[c] -= 1
            if waiting[c] == 0:
                order.append(c)
    return np.array(order, dtype=np.int64)
