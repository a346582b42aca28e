"""`DnnGraph`: structure against networkx, and every broken rule named."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from respect_core.errors import BadInputError, InvalidGraphError
from respect_core.graph import MAX_TOTAL, SOURCES, UNKNOWN, DnnGraph
from respect_core.kinds import INPUT
from tests.same_graph import differences
from tests.strategies import graphs


def two_ops(**changes: Any) -> DnnGraph:
    """a -> b, with fields replaced."""
    parts: dict[str, Any] = {
        "name": "two",
        "source": "json",
        "op_names": ("a", "b"),
        "op_kinds": ("conv2d", "add"),
        "param_bytes": [1, 2],
        "macs": [3, 4],
        "compiled_bytes": [UNKNOWN, UNKNOWN],
        "always_streamed_bytes": [0, 0],
        "op_time_us": [np.nan, np.nan],
        "tensor_names": ("s", "t"),
        "tensor_bytes": [5, 6],
        "tensor_producer": [0, 1],
        "tensor_consumers": ((1,), ()),
        "tensor_is_output": [False, True],
    }
    return DnnGraph(**{**parts, **changes})


def oracle(graph: DnnGraph) -> nx.DiGraph:
    """The ops as networkx sees them, built from the tensors alone."""
    out: nx.DiGraph = nx.DiGraph()
    out.add_nodes_from(range(graph.num_ops))
    for producer, readers in zip(graph.tensor_producer.tolist(), graph.tensor_consumers, strict=True):
        out.add_edges_from((producer, reader) for reader in readers if producer != UNKNOWN)
    return out


# -- structure ---------------------------------------------------------------------------------------------------


@given(graphs(max_ops=12))
def test_structure_equals_networkx(graph: DnnGraph) -> None:
    seen = oracle(graph)
    assert nx.is_directed_acyclic_graph(seen)
    assert [tuple(edge) for edge in graph.edges.tolist()] == sorted(seen.edges)
    assert graph.parents == tuple(tuple(sorted(seen.predecessors(v))) for v in range(graph.num_ops))
    assert graph.children == tuple(tuple(sorted(seen.successors(v))) for v in range(graph.num_ops))
    assert graph.depth == nx.dag_longest_path_length(seen)
    assert graph.max_in_degree == max(degree for _, degree in seen.in_degree)
    for level, ops in enumerate(nx.topological_generations(seen), start=1):
        assert all(graph.levels[v] == level for v in ops)


@given(graphs(max_ops=12))
def test_the_topological_order_takes_the_smallest_ready_op(graph: DnnGraph) -> None:
    order = graph.topological_order.tolist()
    assert order == list(nx.lexicographical_topological_sort(oracle(graph)))
    assert graph.is_topological(order)


@given(graphs(max_ops=8), st.data())
def test_is_topological_agrees_with_the_definition(graph: DnnGraph, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(graph.num_ops)))
    legal = all(order.index(u) < order.index(v) for u, v in graph.edges.tolist())
    assert graph.is_topological(order) == legal
    assert not graph.is_topological(order[:-1])
    assert not graph.is_topological([*order[:-1], order[0]]) or graph.num_ops == 1


@given(graphs(max_ops=10))
def test_to_networkx_keeps_numbers_and_sums_what_flows(graph: DnnGraph) -> None:
    given_out = graph.to_networkx()
    assert sorted(given_out.edges) == sorted(oracle(graph).edges)
    assert [given_out.nodes[v]["param_bytes"] for v in range(graph.num_ops)] == graph.param_bytes.tolist()
    for u, v, flow in given_out.edges(data="bytes"):
        shared = [
            t for t in range(graph.num_tensors) if graph.tensor_producer[t] == u and v in graph.tensor_consumers[t]
        ]
        assert flow == int(graph.tensor_bytes[shared].sum())


@given(graphs())
def test_inputs_outputs_and_reads(graph: DnnGraph) -> None:
    assert [graph.op_kinds[v] for v in graph.input_ops] == [kind for kind in graph.op_kinds if kind == INPUT]
    outputs = {int(p) for t, p in enumerate(graph.tensor_producer) if graph.tensor_is_output[t] and p != UNKNOWN}
    assert graph.output_ops == tuple(sorted(outputs))
    tensors, ops = graph.reads
    pairs = [(t, v) for t, readers in enumerate(graph.tensor_consumers) for v in readers]
    assert list(zip(tensors.tolist(), ops.tolist(), strict=True)) == sorted(pairs)
    assert all(graph.op_index(name) == v for v, name in enumerate(graph.op_names))
    with pytest.raises(InvalidGraphError, match="no op 'nobody'"):
        graph.op_index("nobody")


# -- immutability ------------------------------------------------------------------------------------------------


@given(graphs())
def test_nothing_can_be_changed(graph: DnnGraph) -> None:
    _ = graph.reads, graph.edges, graph.levels
    for other in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert differences(graph, other) == []
        arrays = [getattr(other, field.name) for field in fields(DnnGraph)] + [other.edges, other.levels, *other.reads]
        assert not any(array.flags.writeable for array in arrays if isinstance(array, np.ndarray))
    with pytest.raises(FrozenInstanceError):
        graph.name = "other"  # type: ignore[misc]


def test_it_does_not_share_memory_with_what_it_was_made_from() -> None:
    mine = np.array([1, 2])
    graph = two_ops(param_bytes=mine)
    mine[0] = 99
    assert graph.param_bytes.tolist() == [1, 2]


def test_whole_floats_and_small_integer_types_are_taken() -> None:
    graph = two_ops(
        param_bytes=np.ones(2), tensor_bytes=np.array([1, 2], dtype=np.uint8), tensor_consumers=([1, 1], [])
    )
    assert graph.param_bytes.dtype == graph.tensor_bytes.dtype == np.int64
    assert graph.tensor_consumers == ((1,), ())


def test_the_largest_sum_is_allowed() -> None:
    assert two_ops(param_bytes=[MAX_TOTAL - 1, 1]).param_bytes.sum() == MAX_TOTAL


def test_every_source_of_the_tables_is_allowed() -> None:
    from respect_core.tables.graphs import GRAPHS

    allowed = next(column.allowed for column in GRAPHS.columns if column.name == "source")
    assert allowed == SOURCES
    assert all(two_ops(source=source).source == source for source in SOURCES)


# -- broken rules ------------------------------------------------------------------------------------------------

BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "its name must be a text"),
    ({"source": "onnx"}, "its source is 'onnx', choose from keras, tflite, synthetic, json"),
    ({"op_names": (), "op_kinds": ()}, "no ops, at least one"),
    ({"op_names": ("a", "a")}, "two ops are named 'a'"),
    ({"op_names": ("a", "")}, "the name of op number 1 is empty"),
    ({"op_names": ("a", 7)}, "the name of op number 1 is 7"),
    ({"op_names": ("a", "\ud800")}, "the name of op number 1 is '\\ud800'"),
    ({"op_kinds": ("add",)}, "1 kinds for 2 ops"),
    ({"op_kinds": ("add", None)}, "op 'b' has kind None"),
    ({"tensor_names": ("t", "t")}, "two tensors are named 't'"),
    ({"tensor_consumers": ((1,),)}, "1 consumer lists for 2 tensors"),
    ({"param_bytes": [1]}, "param_bytes has shape (1,), expected (2,)"),
    ({"param_bytes": [[1], [2, 3]]}, "param_bytes is not a list of 2 numbers"),
    ({"param_bytes": [1, -2]}, "op 'b' has param_bytes -2, at least 0"),
    ({"param_bytes": [1, 2.5]}, "op 'b' has param_bytes 2.5, a whole number"),
    ({"param_bytes": [1, np.nan]}, "op 'b' has param_bytes nan, a whole number"),
    ({"param_bytes": [1, "2"]}, "op 'b' has param_bytes '2', a number"),
    ({"param_bytes": [1, 2**200]}, "op 'b' has param_bytes 1606"),
    ({"param_bytes": np.array([1, 2**64 - 1], dtype=np.uint64)}, "op 'b' has param_bytes 18446744073709551615"),
    (
        {"param_bytes": [MAX_TOTAL, 1]},
        "param_bytes sums to 9007199254740993, at most 2**53 is allowed (largest: op 'a')",
    ),
    ({"macs": [0, -1]}, "op 'b' has macs -1"),
    ({"compiled_bytes": [-2, 0]}, "op 'a' has compiled_bytes -2"),
    ({"always_streamed_bytes": [0, -1]}, "op 'b' has always_streamed_bytes -1"),
    ({"op_time_us": [0, -0.5]}, "op 'b' has time_us -0.5"),
    ({"op_time_us": [np.inf, 1]}, "op 'a' has time_us inf"),
    ({"op_time_us": [10**400, 1]}, "op 'a' has op_time_us 1000"),
    ({"op_time_us": [np.nan, 10**400]}, "op 'b' has op_time_us 1000"),
    ({"tensor_bytes": [0, -7]}, "tensor 't' has tensor_bytes -7"),
    ({"tensor_is_output": [2, 0]}, "tensor 's' has tensor_is_output 2, true or false"),
    ({"tensor_producer": [0, 2]}, "tensor 't' is made by op 2, ops are 0..1"),
    ({"tensor_producer": [-2, 1]}, "tensor 's' is made by op -2, ops are 0..1"),
    ({"tensor_consumers": ((2,), ())}, "tensor 's' is read by op 2, ops are 0..1"),
    ({"tensor_consumers": ((-1,), ())}, "tensor 's' is read by op -1, ops are 0..1"),
    ({"tensor_consumers": ((1.0,), ())}, "the readers of tensor 's' must be indices of ops"),
    ({"tensor_consumers": ((1,), None)}, "the readers of tensor 't' must be indices of ops"),
    ({"tensor_consumers": ((0,), ())}, "cycle: op 'a' reads its own tensor 's'"),
    ({"tensor_consumers": ((1,), (0,))}, "cycle: 'b' -> 'a' -> 'b'"),
]


@pytest.mark.parametrize(("changes", "message"), BROKEN, ids=[message for _, message in BROKEN])
def test_the_offender_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        two_ops(**changes)
    assert message in str(caught.value)
    assert isinstance(caught.value, BadInputError)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@given(st.integers(2, 10), st.data())
def test_a_named_cycle_is_one(n: int, data: st.DataObject) -> None:
    """Ops whose edges are drawn without care: either there is no cycle, or the one named exists."""
    readers = data.draw(st.lists(st.sets(st.integers(0, n - 1), max_size=2), min_size=n, max_size=n))
    edges = {(u, v) for u in range(n) for v in readers[u]}
    names = tuple(f"op{v}" for v in range(n))
    parts = {
        "op_names": names, "op_kinds": ("add",) * n, "tensor_names": names, "tensor_producer": range(n),
        "tensor_consumers": readers, "tensor_is_output": [False] * n, "op_time_us": [np.nan] * n,
        **dict.fromkeys(("param_bytes", "macs", "compiled_bytes", "always_streamed_bytes", "tensor_bytes"), [0] * n),
    }  # fmt: skip
    acyclic = nx.is_directed_acyclic_graph(nx.DiGraph(list(edges)))
    if acyclic:
        two_ops(**parts)
        return
    with pytest.raises(InvalidGraphError, match="there is a cycle") as caught:
        two_ops(**parts)
    if "reads its own" in caught.value.why:
        return
    loop = [piece.strip().strip("'") for piece in caught.value.why.partition(": ")[2].split("->")]
    assert loop[0] == loop[-1]
    steps = [(one, other) for one, other in pairwise(loop) if "..." not in (one, other)]
    assert all((names.index(one), names.index(other)) in edges for one, other in steps)
