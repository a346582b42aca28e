from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.errors import BadInputError
from respect_core.sources.randwire import RandWireSpec, randwire_graph, small_world


@given(n=st.integers(3, 40), half=st.integers(1, 4), p=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_small_world_keeps_the_number_of_edges(n: int, half: int, p: float, seed: int) -> None:
    if 2 * half >= n:
        half = 1
    edges = small_world(n, 2 * half, p, np.random.default_rng(seed))
    ring = n * half
    assert len(set(edges)) == len(edges) == ring
    assert all(0 <= u < v < n for u, v in edges)


def test_without_rewiring_it_is_a_ring() -> None:
    edges = small_world(6, 2, 0.0, np.random.default_rng(0))
    assert edges == [(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_network_of_the_paper() -> None:
    graph = randwire_graph(RandWireSpec())
    assert graph.num_ops == 3 * 33 + 5
    assert graph.is_topological(np.arange(graph.num_ops))
    assert graph.input_ops == (0,)
    assert graph.output_ops == (graph.num_ops - 1,)
    assert graph.op_kinds.count("separable_conv2d") == 96
    readers = dict(zip(graph.tensor_names, graph.tensor_consumers, strict=True))
    assert all(readers[f"stage{k}_node{v}:0"] for k in range(3) for v in range(32))
    node = graph.op_index("stage1_node31")
    sources = len(graph.parents[node])
    assert graph.param_bytes[node] == sources + 9 * 156 + 156 * 156 + 4 * 156


def test_depends_on_the_spec_alone() -> None:
    first, again = randwire_graph(RandWireSpec(seed=5)), randwire_graph(RandWireSpec(seed=5))
    other = randwire_graph(RandWireSpec(seed=6))
    assert np.array_equal(first.edges, again.edges)
    assert not np.array_equal(first.edges, other.edges)
    assert first.name != other.name


def test_random_bytes() -> None:
    graph = randwire_graph(RandWireSpec(random_bytes=True))
    assert graph.param_bytes.max() <= 5000
    assert 0.15 < (graph.param_bytes == 0).mean() < 0.5
    assert graph.tensor_bytes.min() >= 1


@pytest.mark.parametrize(
    "wrong",
    [{"num_nodes": 2}, {"neighbours": 3}, {"neighbours": 32}, {"rewired": 1.5}, {"num_stages": 0}, {"seed": -1}],
)
def test_wrong_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        RandWireSpec(**wrong)
