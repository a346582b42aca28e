"""Off-chip traffic: nothing where the peak fits, optimal replacement for equal tensors, hand-made cases."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.memory.order import order_memory
from respect_core.memory.peak import peak_bytes
from respect_core.memory.rules import MemoryRules
from respect_core.memory.traffic import off_chip_traffic
from respect_core.sources.memory_networks import load_memory_network
from tests.memory_graphs import graph_of
from tests.memory_oracles import least_faults
from tests.strategies import graphs

PLACEMENTS = st.sampled_from(["in-place", "separate"])


@given(graphs(max_ops=9), st.builds(MemoryRules, concat=PLACEMENTS, elementwise=PLACEMENTS), st.integers(0, 12000))
def test_no_traffic_where_the_peak_fits_and_no_more_than_all_tensors_moving(
    graph: DnnGraph, rule: MemoryRules, room: int
) -> None:
    order = order_memory(graph, rule).order
    peak = peak_bytes(graph, order, rule)
    assert off_chip_traffic(graph, peak, order, rule).total_bytes == 0
    found = off_chip_traffic(graph, room, order, rule)
    assert found.written_bytes <= graph.tensor_bytes.sum()
    assert found.read_bytes <= sum(
        int(size) * len(readers) for size, readers in zip(graph.tensor_bytes, graph.tensor_consumers, strict=True)
    )
    if room >= peak:
        assert (found.total_bytes, found.streamed_ops) == (0, 0)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.integers(1, 4))
def test_as_few_reads_as_any_choice_of_what_moves_out(accesses: list[int], room: int) -> None:
    # Five graph inputs of one size, read one at a time in a given order by ops that make nothing.
    graph = graph_of(
        [0] * len(accesses),
        [[]] + [[v] for v in range(len(accesses) - 1)],
        inputs=[(1, [v for v, block in enumerate(accesses) if block == b]) for b in range(5)],
    )
    first = {block: accesses.index(block) for block in set(accesses)}
    preloaded = sorted(first, key=lambda block: first[block])[:room]
    # What is on chip at the start costs nothing here; the oracle fetches it one by one in front.
    faults = least_faults([*preloaded, *accesses], room) - len(preloaded)
    found = off_chip_traffic(graph, room)
    assert (found.read_bytes, found.written_bytes) == (faults, 0)


def test_a_skipped_tensor_moves_out_and_back() -> None:
    graph = graph_of([10, 10, 10, 10], [[], [0], [1], [0, 2]])
    assert peak_bytes(graph) == 30
    found = off_chip_traffic(graph, 20)
    # While op 2 runs, what op 0 made is outside; op 3 needs three tensors and streams one of them.
    assert (found.written_bytes, found.read_bytes, found.streamed_ops) == (20, 10, 1)
    assert off_chip_traffic(graph, 30).total_bytes == 0


def test_without_any_room_everything_streams() -> None:
    graph = graph_of([4, 2], [[], [0]], inputs=[(8, [0])])
    found = off_chip_traffic(graph, 0)
    assert (found.written_bytes, found.read_bytes, found.streamed_ops) == (6, 12, 2)


def test_negative_room_is_refused() -> None:
    with pytest.raises(BadInputError, match="-1 bytes"):
        off_chip_traffic(graph_of([1], [[]]), -1)


def test_the_optimal_order_of_swiftnets_first_cell_needs_no_traffic_at_256_kb() -> None:
    graph = load_memory_network("SwiftNet-HPD-A")
    assert off_chip_traffic(graph, 256 * 1000).total_bytes > 0
    assert off_chip_traffic(graph, 256 * 1000, order_memory(graph).order).total_bytes == 0
