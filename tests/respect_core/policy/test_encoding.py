from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.policy.encoding import MAX_PARENTS, NO_ID, NUM_FEATURES, node_features, row_edges, row_order
from tests.strategies import graphs


def star(parents: int) -> DnnGraph:
    """Op ``parents`` reads all others; op 0 also feeds op 1, so op 1 is on level 2."""
    n = parents + 1
    readers = [tuple({parents, 1} if v == 0 else {parents}) for v in range(parents)] + [()]
    return DnnGraph(
        name="star",
        source="json",
        op_names=tuple(f"op{v}" for v in range(n)),
        op_kinds=("add",) * n,
        param_bytes=np.arange(n),
        macs=np.zeros(n, np.int64),
        compiled_bytes=np.full(n, UNKNOWN),
        always_streamed_bytes=np.zeros(n, np.int64),
        op_time_us=np.full(n, np.nan),
        tensor_names=tuple(f"t{v}" for v in range(n)),
        tensor_bytes=np.ones(n, np.int64),
        tensor_producer=np.arange(n),
        tensor_consumers=tuple(readers),
        tensor_is_output=np.arange(n) == parents,
    )


@given(graphs(max_ops=12))
def test_every_number_is_finite_and_in_range(graph):
    rows = node_features(graph)
    assert rows.shape == (graph.num_ops, NUM_FEATURES)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert rows.min() >= -1 and rows.max() <= 1


@given(graphs(max_ops=12))
def test_rows_are_in_topological_order_and_edges_follow_them(graph):
    order = row_order(graph)
    assert graph.is_topological(order)
    edges = row_edges(graph)
    assert (edges[:, 0] < edges[:, 1]).all()
    assert {(int(order[a]), int(order[b])) for a, b in edges} == {tuple(e) for e in graph.edges.tolist()}


@given(graphs(max_ops=9, measured=False))
def test_features_read_back_as_levels_parents_ids_and_memory(graph):
    rows, order, n = node_features(graph), row_order(graph), graph.num_ops
    row_of = {int(v): i for i, v in enumerate(order)}
    top = int(graph.levels.max())
    for i, v in enumerate(order.tolist()):
        assert round(float(rows[i, 0]) * top) == graph.levels[v]
        assert round(float(rows[i, 13]) * n) == i
        shown = [round(float(x) * n) for x in rows[i, 7:13] if x != NO_ID]
        expected = sorted((row_of[u] for u in graph.parents[v]), key=lambda r: (-graph.levels[order[r]], -r))
        assert shown == expected[:MAX_PARENTS]
        levels = [round(float(x) * top) for x in rows[i, 1:7] if x != 0]
        assert levels == [int(graph.levels[order[r]]) for r in shown]
        assert np.isclose(rows[i, 14], graph.param_bytes[v] / max(1, graph.param_bytes.max()))


@given(graphs(max_ops=8))
def test_the_scale_of_the_bytes_does_not_matter(graph):
    scaled = replace(graph, param_bytes=graph.param_bytes * 1000)
    assert np.allclose(node_features(graph), node_features(scaled))


def test_of_more_than_six_parents_the_deepest_are_shown():
    graph = star(9)
    last = node_features(graph)[-1]
    order = row_order(graph)
    assert np.count_nonzero(last[7:13] != NO_ID) == MAX_PARENTS
    assert order[round(float(last[7]) * graph.num_ops)] == 1, "the only parent on level 2 comes first"
