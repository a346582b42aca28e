"""The peak model: step by step against the definitions, the counting rules, parts, and the numbers of SwiftNet."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.memory.part import op_range, subgraph
from respect_core.memory.peak import memory_profile, peak_bytes
from respect_core.memory.rules import MemoryRules
from respect_core.sources.swiftnet import CELLS, swiftnet_graph
from tests.memory_graphs import graph_of
from tests.memory_oracles import MemoryOracle
from tests.strategies import graphs

SEPARATE = MemoryRules(concat="separate")


def rules() -> st.SearchStrategy[MemoryRules]:
    placement = st.sampled_from(["in-place", "separate"])
    return st.builds(MemoryRules, concat=placement, elementwise=placement, count_inputs=st.booleans())


@given(graphs(max_ops=9), rules(), st.randoms(use_true_random=False))
def test_every_step_is_what_the_definitions_say(graph: DnnGraph, rule: MemoryRules, random: object) -> None:
    order = _some_order(graph, random)
    profile = memory_profile(graph, order, rule)
    step, after = MemoryOracle(graph, rule).profile(order)
    assert profile.step_bytes.tolist() == step
    assert profile.after_bytes.tolist() == after
    assert profile.peak_bytes == max(step) == step[profile.peak_position]
    before = np.concatenate([[profile.start_bytes], profile.after_bytes[:-1]])
    assert (profile.step_bytes >= np.maximum(before, profile.after_bytes)).all()


@given(graphs(max_ops=9), st.randoms(use_true_random=False))
def test_sharing_room_never_needs_more(graph: DnnGraph, random: object) -> None:
    order = _some_order(graph, random)
    most = peak_bytes(graph, order, MemoryRules(concat="separate", elementwise="separate"))
    for concat in ("in-place", "separate"):
        for elementwise in ("in-place", "separate"):
            for count in (True, False):
                rule = MemoryRules(concat=concat, elementwise=elementwise, count_inputs=count)
                assert peak_bytes(graph, order, rule) <= most


def _some_order(graph: DnnGraph, random: object) -> list[int]:
    out: list[int] = []
    while len(out) < graph.num_ops:
        ready = [v for v in range(graph.num_ops) if v not in out and set(graph.parents[v]) <= set(out)]
        out.append(random.choice(ready))  # type: ignore[attr-defined]
    return out


def test_a_concatenation_takes_the_room_of_what_dies_there_only() -> None:
    # 0 and 1 make 10 and 20 bytes; 2 joins them; 3 reads what 1 made once more.
    graph = graph_of([10, 20, 30, 5], [[], [], [0, 1], [1, 2]], kinds=["conv2d", "conv2d", "concat", "conv2d"])
    assert memory_profile(graph).step_bytes.tolist() == [10, 30, 50, 55]
    assert memory_profile(graph, rules=SEPARATE).step_bytes.tolist() == [10, 30, 60, 55]
    joined = graph_of([10, 20, 30], [[], [], [0, 1]], kinds=["conv2d", "conv2d", "concat"])
    assert memory_profile(joined).step_bytes.tolist() == [10, 30, 30]
    assert memory_profile(joined).after_bytes.tolist() == [10, 30, 30]


def test_an_elementwise_op_writes_over_an_equal_input_that_dies() -> None:
    graph = graph_of([8, 8, 8, 8], [[], [0], [0, 1], [2]], kinds=["conv2d", "activation", "add", "activation"])
    in_place = MemoryRules(elementwise="in-place")
    assert memory_profile(graph).step_bytes.tolist() == [8, 16, 24, 16]
    assert memory_profile(graph, rules=in_place).step_bytes.tolist() == [8, 16, 16, 8]


def test_graph_inputs_live_until_their_last_reader_if_they_count() -> None:
    graph = graph_of([1, 2, 4], [[], [0], [1]], inputs=[(100, [0, 1]), (50, []), (7, [2])])
    assert memory_profile(graph).start_bytes == 107
    assert memory_profile(graph).step_bytes.tolist() == [108, 110, 13]
    assert memory_profile(graph, rules=MemoryRules(count_inputs=False)).step_bytes.tolist() == [1, 3, 6]


def test_graph_outputs_stay_and_unread_tensors_go() -> None:
    graph = graph_of([10, 20, 5], [[], [0], [0]], outputs=[0])
    assert memory_profile(graph).after_bytes.tolist() == [10, 30, 35]


def test_wrong_rules_orders_and_ranges_are_named() -> None:
    graph = graph_of([1, 2], [[], [0]])
    with pytest.raises(BadInputError, match="concat is 'apart', choose from in-place, separate"):
        MemoryRules(concat="apart")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="runs op 'op1' before 'op0'"):
        memory_profile(graph, [1, 0])
    with pytest.raises(BadInputError, match="2 entries, 1 of them distinct"):
        memory_profile(graph, [0, 0])
    assert op_range("0-1", graph) == range(2)
    for text in ("1", "1-0", "0-2", "a-b", "-1-1"):
        with pytest.raises(BadInputError, match=f"'{text}'"):
            op_range(text, graph)
    with pytest.raises(BadInputError, match="no op 2"):
        subgraph(graph, [0, 2])
    with pytest.raises(BadInputError, match="at least one op"):
        subgraph(graph, [])


@given(graphs(max_ops=9), st.data())
def test_a_part_has_the_inputs_and_outputs_that_cross_its_border(graph: DnnGraph, data: st.DataObject) -> None:
    chosen = sorted(data.draw(st.sets(st.integers(0, graph.num_ops - 1), min_size=1)))
    part = subgraph(graph, chosen)
    assert part.op_names == tuple(graph.op_names[v] for v in chosen)
    whole = {name: t for t, name in enumerate(graph.tensor_names)}
    inside = set(chosen)
    for t, name in enumerate(part.tensor_names):
        at = whole[name]
        maker, readers = int(graph.tensor_producer[at]), set(graph.tensor_consumers[at])
        assert {chosen[v] for v in part.tensor_consumers[t]} == readers & inside
        assert (part.tensor_producer[t] >= 0) == (maker in inside)
        is_output = maker in inside and (bool(graph.tensor_is_output[at]) or not readers <= inside)
        assert bool(part.tensor_is_output[t]) == is_output
    if len(chosen) == graph.num_ops and graph.is_topological(range(graph.num_ops)):
        assert peak_bytes(part) <= peak_bytes(graph)


@pytest.mark.parametrize(
    ("ops", "in_place", "separate"),
    [
        (CELLS["A"], 351232, 351232),
        (CELLS["B"], 128576, 147392),
        (CELLS["C"], 35868, 53900),
        (range(85), 351232, 351232),
    ],
)
def test_swiftnet_in_file_order(ops: range, in_place: int, separate: int) -> None:
    graph = subgraph(swiftnet_graph(), ops)
    assert peak_bytes(graph) == in_place
    assert peak_bytes(graph, rules=SEPARATE) == separate
