"""The order of least memory: equal to brute force, never above another order, its bound never above the optimum."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.memory.bounds import MAX_PAIRED_OPS
from respect_core.memory.live import live_tensors
from respect_core.memory.order import order_memory
from respect_core.memory.part import subgraph
from respect_core.memory.peak import checked_order, peak_bytes
from respect_core.memory.rules import MemoryRules
from respect_core.memory.serenity import SerenitySolver
from respect_core.memory.series import forced_sizes, sections
from respect_core.memory.set_bounds import least_after, least_until_a_death
from respect_core.memory.steps import BEFORE, step_model
from respect_core.solve.protocol import SolveOptions, Stopwatch
from respect_core.sources.memory_networks import load_memory_network, memory_networks
from respect_core.sources.randwire import RandWireSpec, randwire_graph
from respect_core.sources.swiftnet import CELLS, swiftnet_graph
from tests.memory_graphs import graph_of, random_graph
from tests.memory_oracles import MemoryOracle, least_peak
from tests.strategies import graphs

PLACEMENTS = st.sampled_from(["in-place", "separate"])


def rules() -> st.SearchStrategy[MemoryRules]:
    return st.builds(MemoryRules, concat=PLACEMENTS, elementwise=PLACEMENTS, count_inputs=st.booleans())


@given(st.one_of(graphs(max_ops=6, largest=9), graphs(max_ops=6)), rules())
def test_equal_to_the_best_of_all_orders(graph: DnnGraph, rule: MemoryRules) -> None:
    found = order_memory(graph, rule)
    assert graph.is_topological(found.order)
    assert found.status == "optimal"
    assert found.gap == 0
    assert found.peak_bytes == found.lower_bound == MemoryOracle(graph, rule).least_peak()
    assert found.peak_bytes == max(MemoryOracle(graph, rule).profile(found.order)[0])
    assert found.peak_bytes <= found.file_order_peak_bytes == peak_bytes(graph, rules=rule)


@settings(max_examples=150)
@given(
    st.integers(6, 11), st.sampled_from([0, 3, 5]), st.integers(1, 3), st.integers(0, 10**6),
    st.sampled_from([3, 20, 5000]), rules(),
)  # fmt: skip
def test_equal_to_dynamic_programming_without_reductions(
    num_ops: int, window: int, degree: int, seed: int, largest: int, rule: MemoryRules
) -> None:
    graph = random_graph(num_ops, window, degree, seed, largest)
    optimum = least_peak(graph, rule)
    found = order_memory(graph, rule)
    assert (found.peak_bytes, found.status) == (optimum, "optimal")
    assert SerenitySolver().solve(graph, rule).peak_bytes == optimum


@given(st.integers(2, 40), st.sampled_from([0, 4, 8]), st.integers(1, 4), st.integers(0, 10**6), rules())
@settings(max_examples=40)
def test_never_above_another_order_and_the_first_bound_never_above_the_peak(
    num_ops: int, window: int, degree: int, seed: int, rule: MemoryRules
) -> None:
    graph = random_graph(num_ops, window, degree, seed)
    found = order_memory(graph, rule, SolveOptions(time_limit_s=0.3))
    assert graph.is_topological(found.order)
    assert found.lower_bound <= found.peak_bytes
    assert step_model(live_tensors(graph, rule)).bound <= found.peak_bytes
    rng = np.random.default_rng(seed)
    for _ in range(20):
        waiting = [len(p) for p in graph.parents]
        ready, order = [v for v in range(num_ops) if waiting[v] == 0], []
        while ready:
            v = ready.pop(int(rng.integers(len(ready))))
            order.append(v)
            for c in graph.children[v]:
                waiting[c] -= 1
                if waiting[c] == 0:
                    ready.append(c)
        assert found.peak_bytes <= peak_bytes(graph, order, rule) or found.status != "optimal"
        assert found.lower_bound <= peak_bytes(graph, order, rule)


@given(
    st.integers(3, 9), st.sampled_from([0, 3]), st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([1, 9]),
    rules(), st.data(),
)  # fmt: skip
def test_bounds_of_a_set_are_never_above_what_its_best_completion_needs(
    num_ops: int, window: int, degree: int, seed: int, largest: int, rule: MemoryRules, data: st.DataObject
) -> None:
    graph = random_graph(num_ops, window, degree, seed, largest)
    oracle = MemoryOracle(graph, rule)
    links, facts, _, _, least, more, later, run, spared = step_model(live_tensors(graph, rule)).steps
    before = [{u for u in range(num_ops) if int(links[BEFORE, v, 0]) >> u & 1} for v in range(num_ops)]
    done: set[int] = set()
    for _ in range(data.draw(st.integers(0, num_ops - 1))):
        done.add(data.draw(st.sampled_from([v for v in range(num_ops) if v not in done and before[v] <= done])))

    @cache
    def needs(run_before: frozenset[int]) -> int:
        ready = [v for v in range(num_ops) if v not in run_before and before[v] <= run_before]
        return min((max(oracle.held(set(run_before), v), needs(run_before | {v})) for v in ready), default=0)

    bits = np.array([sum(1 << v for v in done)])
    live = sum(oracle.size(t) for t in oracle.live(done))
    best = needs(frozenset(done))
    assert least_after(bits, least, more, later, np.empty(num_ops, dtype=np.int64)) <= best
    for threshold in (0, best // 2, best):
        bound = least_until_a_death(bits, live, threshold, facts, run, spared)
        assert bound <= max(best, threshold)


@given(graphs(max_ops=9))
def test_every_order_passes_through_the_forced_sets_and_no_others(graph: DnnGraph) -> None:
    order = checked_order(graph, None)
    sizes = forced_sizes(live_tensors(graph).parents, order).tolist()
    before: list[set[int]] = [set() for _ in range(graph.num_ops)]
    for v in order.tolist():
        for u in graph.parents[v]:
            before[v] |= before[u] | {u}
    expected = [
        k for k in range(graph.num_ops + 1) if all(set(order[:k].tolist()) <= before[v] for v in order[k:].tolist())
    ]
    assert sizes == expected
    parts = sections(live_tensors(graph), order, np.array(sizes))
    assert [part.ops.size for part in parts] == [b - a for a, b in pairwise(sizes) if b - a > 1]


@pytest.mark.parametrize(
    ("ops", "in_place", "separate"),
    [
        (CELLS["A"], 250880, 275968),
        (CELLS["B"], 81536, 122304),
        (CELLS["C"], 32536, 53900),
        (range(85), 301056, 301056),
    ],
)
def test_swiftnet_is_optimal_at_the_published_peaks(ops: range, in_place: int, separate: int) -> None:
    graph = subgraph(swiftnet_graph(), ops)
    for concat, peak in (("in-place", in_place), ("separate", separate)):
        rule = MemoryRules(concat=concat)  # type: ignore[arg-type]
        for solver in (None, SerenitySolver()):
            found = solver.solve(graph, rule) if solver else order_memory(graph, rule)
            assert (found.peak_bytes, found.lower_bound, found.status) == (peak, peak, "optimal")
            assert peak_bytes(graph, found.order, rule) == peak


@pytest.mark.parametrize("name", memory_networks())
def test_ours_and_serenity_agree_on_the_networks_of_the_paper(name: str) -> None:
    graph = load_memory_network(name)
    found = order_memory(graph)
    assert found.status == "optimal"
    assert SerenitySolver().solve(graph).peak_bytes == found.peak_bytes


@pytest.mark.parametrize("seed", range(5))
def test_randwire_of_32_nodes_is_proven(seed: int) -> None:
    for is_random in (False, True):
        graph = randwire_graph(RandWireSpec(num_stages=1, seed=seed, random_bytes=is_random))
        found = order_memory(graph, options=SolveOptions(time_limit_s=20))
        assert found.status == "optimal"


def test_a_chain_of_2000_ops() -> None:
    graph = graph_of([v % 97 for v in range(2000)], [[], *([v] for v in range(1999))])
    found = order_memory(graph)
    assert found.order == tuple(range(2000))
    assert found.peak_bytes == found.lower_bound == 96 + 95


def test_a_graph_without_edges() -> None:
    graph = graph_of([3] * 500, [[]] * 500, inputs=[(5, [v]) for v in range(500)])
    found = order_memory(graph)
    assert (found.peak_bytes, found.status) == (2503, "optimal")
    single = order_memory(graph_of([7], [[]]))
    assert (single.order, single.peak_bytes, single.status) == ((0,), 7, "optimal")


def test_no_bytes_at_all() -> None:
    found = order_memory(graph_of([0] * 6, [[], [], [0, 1], [1], [2], [3, 4]]))
    assert (found.peak_bytes, found.lower_bound, found.gap, found.status) == (0, 0, 0.0, "optimal")


def test_a_tensor_read_by_hundreds_of_ops() -> None:
    n = 400
    graph = graph_of([10] + [1] * n + [5], [[], *([0] for _ in range(n)), list(range(1, n + 1))])
    found = order_memory(graph)
    assert (found.peak_bytes, found.status) == (10 + n, "optimal")


def test_several_outputs_are_held_to_the_end() -> None:
    # The large output is made last: what is read for it is smaller.
    graph = graph_of([10, 100, 60, 1], [[], [0], [0], [2]], outputs=[1, 3])
    found = order_memory(graph)
    assert found.order == (0, 2, 3, 1)
    assert found.peak_bytes == 111


@pytest.mark.parametrize("num_ops", [120, 600])
def test_the_deadline_is_kept_on_wide_graphs_with_a_bound(num_ops: int) -> None:
    graph = random_graph(num_ops, 0, 2, 1)
    order_memory(random_graph(12, 0, 2, 1))
    watch = Stopwatch(0.5)
    found = order_memory(graph, options=SolveOptions(time_limit_s=0.5))
    assert watch.seconds < 10  # a sign of life, no measurement
    assert graph.is_topological(found.order)
    assert 0 < found.lower_bound <= found.peak_bytes <= found.file_order_peak_bytes
    assert found.status == ("optimal" if found.gap == 0 else "feasible")


@pytest.mark.parametrize("num_ops", [MAX_PAIRED_OPS - 1, MAX_PAIRED_OPS + 1])
def test_the_first_bound_of_large_graphs_covers_what_each_op_reads_and_makes(num_ops: int) -> None:
    graph = random_graph(num_ops, 40, 3, 1)
    rule = MemoryRules(concat="separate")
    needs = [0] * num_ops
    for size, maker, readers in zip(
        graph.tensor_bytes.tolist(), graph.tensor_producer.tolist(), graph.tensor_consumers, strict=True
    ):
        for v in {maker, *readers} - {UNKNOWN}:
            needs[v] += size
    found = order_memory(graph, rule, SolveOptions(time_limit_s=0))
    assert max(needs) <= found.lower_bound <= found.peak_bytes <= found.file_order_peak_bytes


def test_without_any_time_there_is_still_an_order() -> None:
    graph = random_graph(60, 0, 3, 2)
    for solver in (None, SerenitySolver()):
        options = SolveOptions(time_limit_s=0)
        found = solver.solve(graph, options=options) if solver else order_memory(graph, options=options)
        assert graph.is_topological(found.order)
        assert found.lower_bound <= found.peak_bytes
