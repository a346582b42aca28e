"""Synthetic graphs: the definition, reproducibility and errors."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from respect_core.errors import BadInputError, UnknownNameError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.sources import synthetic
from respect_core.sources.synthetic import (
    FAMILIES,
    GENERATOR_VERSION,
    SyntheticSpec,
    generate_graph,
    graph_id,
    parse_graph_id,
)
from respect_core.sources.synthetic_loops import MAX_IN_DEGREE, draw, empty_arrays
from tests.same_graph import differences

SPECS = st.builds(
    SyntheticSpec, family=st.sampled_from(FAMILIES), num_ops=st.integers(20, 50), seed=st.integers(0, 2**32 - 1)
) | st.builds(SyntheticSpec, family=st.sampled_from(["local", "wide"]), num_ops=st.integers(1, 80))
INDICES = st.integers(0, 2**32 - 1)


def digest(graph: DnnGraph) -> str:
    parts = (graph.edges, graph.param_bytes, graph.macs, graph.tensor_bytes)
    return hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in parts)).hexdigest()[:16]


# -- the definition ----------------------------------------------------------------------------------------------


@given(SPECS, INDICES)
def test_a_graph_is_as_defined(spec: SyntheticSpec, index: int) -> None:
    graph = generate_graph(spec, index)
    n = spec.num_ops
    assert (graph.name, graph.source) == (graph_id(spec, index), "synthetic")
    assert graph.num_ops == graph.num_tensors == n
    assert set(graph.op_kinds) == {"conv2d"}
    assert graph.tensor_producer.tolist() == list(range(n))
    assert graph.tensor_is_output.tolist() == [not readers for readers in graph.tensor_consumers]
    assert graph.param_bytes.min() >= 0
    assert graph.param_bytes.max() <= 5000
    assert graph.tensor_bytes.min() >= 1
    assert graph.tensor_bytes.max() <= 5000
    assert graph.macs.tolist() == (196 * graph.param_bytes).tolist()
    assert set(graph.compiled_bytes.tolist()) == {UNKNOWN}
    assert graph.max_in_degree <= 6
    window = n if spec.family == "wide" else 8
    for v, parents in enumerate(graph.parents):
        assert len(parents) >= min(v, 1)
        assert all(v - window <= u < v for u in parents)
    if spec.family == "paper":
        assert 10 <= graph.depth + 1 <= 25


@given(SPECS, INDICES)
def test_the_id_alone_makes_the_graph_again(spec: SyntheticSpec, index: int) -> None:
    graph = generate_graph(spec, index)
    again_spec, again_index = parse_graph_id(graph.name)
    assert (again_spec, again_index) == (spec, index)
    generate_graph(spec, (index + 1) % 2**32)
    assert differences(graph, generate_graph(pickle.loads(pickle.dumps(again_spec)), again_index)) == []


def test_seed_size_family_and_index_all_matter() -> None:
    specs = [
        SyntheticSpec(family="local", num_ops=30),
        SyntheticSpec(family="wide", num_ops=30),
        SyntheticSpec(family="local", num_ops=31),
        SyntheticSpec(family="local", num_ops=30, seed=1),
        SyntheticSpec(family="local", num_ops=30, seed=2**32 - 1),
    ]
    drawn = [tuple(generate_graph(spec, index).tensor_bytes[:20].tolist()) for spec in specs for index in range(20)]
    assert len(set(drawn)) == len(drawn)


def test_a_paper_graph_is_the_first_local_draw_that_fits() -> None:
    for index in range(50):
        rng = np.random.default_rng([FAMILIES.index("paper"), 15, 3, index])
        parents, numbers = empty_arrays(15)
        while not 10 <= draw(rng.random(1 + 10 * 15), 8, parents, numbers) <= 25:
            pass
        graph = generate_graph(SyntheticSpec(family="paper", num_ops=15, seed=3), index)
        assert graph.parents == tuple(tuple(u for u in row if u >= 0) for row in parents.tolist())
        assert graph.tensor_bytes.tolist() == numbers[2].tolist()


# -- the distributions -------------------------------------------------------------------------------------------


def within(count: int, total: int, probability: float) -> bool:
    """Tell whether a count is within five standard deviations of its mean."""
    return abs(count - total * probability) <= 5 * np.sqrt(total * probability * (1 - probability)) + 1e-9


def numbers_drawn(repeats: int = 4000) -> Iterator[tuple[int, DnnGraph]]:
    """`local` graphs of 10 ops: every op from the 8th on has 8 candidates."""
    spec = SyntheticSpec(family="local", num_ops=10, seed=5)
    for index in range(repeats):
        yield index, generate_graph(spec, index)


def test_distributions() -> None:
    graphs = [graph for _, graph in numbers_drawn()]
    total = len(graphs)
    params = np.concatenate([graph.param_bytes for graph in graphs])
    assert within(int((params == 0).sum()), params.size, 1 / 3)
    for numbers in (params[params > 0], np.concatenate([graph.tensor_bytes for graph in graphs])):
        counts = np.histogram(numbers, bins=10, range=(0.5, 5000.5))[0]
        assert all(within(int(count), numbers.size, 0.1) for count in counts)
        assert numbers.min() <= 5
        assert numbers.max() >= 4996
    # In-degree d of an op with 8 candidates: the mean over D = 2..6 of 1/D where d <= D.
    in_degrees = Counter(len(graph.parents[9]) for graph in graphs)
    for d in range(1, 7):
        assert within(in_degrees[d], total, sum(1 / D for D in range(2, 7) if d <= D) / 5)
    # Each of the 8 candidates is as likely a parent as any other, alone and in pairs.
    parents = [graph.parents[9] for graph in graphs]
    mean = sum(map(len, parents)) / total
    assert all(within(sum(u in p for p in parents), total, mean / 8) for u in range(1, 9))
    pairs = Counter((min(p), max(p)) for p in parents if len(p) == 2)
    assert len(pairs) == 28
    assert all(within(count, in_degrees[2], 1 / 28) for count in pairs.values())


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5, 1 - 2**-53]))
def test_draw_equals_choosing_from_a_list(n: int, window: int, seed: int, extreme: float) -> None:
    """The oracle takes the j-th parent out of a list of candidates; extreme numbers stay in range."""
    uniform = np.random.default_rng(seed).random(1 + 10 * n)
    uniform[np.random.default_rng(seed + 1).random(uniform.size) < 0.2] = extreme
    parents, numbers = empty_arrays(n)
    levels = draw(uniform, window, parents, numbers)
    largest = 2 + int(uniform[0] * 5)
    level: list[int] = []
    for v in range(n):
        row = uniform[1 + 10 * v : 11 + 10 * v].tolist()
        candidates = list(range(max(0, v - window), v))
        wanted = min(1 + int(row[0] * largest), len(candidates))
        chosen = sorted(candidates.pop(int(row[1 + j] * len(candidates))) for j in range(wanted))
        assert parents[v].tolist() == chosen + [-1] * (MAX_IN_DEGREE - wanted)
        level.append(1 + max((level[u] for u in chosen), default=0))
        assert numbers[:, v].tolist() == [
            level[v],
            0 if row[7] < 1 / 3 else 1 + int(row[8] * 5000),
            1 + int(row[9] * 5000),
        ]
    assert levels == max(level)


# -- golden ------------------------------------------------------------------------------------------------------

GOLDEN = {
    "local-30-s0-0000000": "d0b28b27582cb728",
    "local-30-s0-0000001": "33ff517679bd48fc",
    "local-1-s0-0000000": "608029a157bee4d3",
    "local-200-s7-0000012": "a0bc1a7117cb7301",
    "wide-30-s0-0000000": "ac6e4ad50a733702",
    "wide-30-s7-0000123": "7e02c55bd07e5ef7",
    "wide-100-s0-4294967295": "6644c8ec93bccf37",
    "paper-30-s0-0000000": "306f5306cce1c187",
    "paper-30-s0-0000012": "c82f204b9bfb68cf",
    "paper-30-s1-0000999": "d9a4caa34efb477a",
    "paper-50-s0-0000000": "bbca6d016e6a4ca5",
}


@pytest.mark.parametrize(("name", "expected"), GOLDEN.items())
def test_graphs_do_not_drift(name: str, expected: str) -> None:
    """If this fails on purpose, raise `GENERATOR_VERSION`; published graphs can then not be made again."""
    assert GENERATOR_VERSION == 1
    assert digest(generate_graph(*parse_graph_id(name))) == expected


# -- errors ------------------------------------------------------------------------------------------------------


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(
        UnknownNameError, match="unknown family of synthetic graphs 'deep': choose from local, wide, paper"
    ):
        SyntheticSpec(family="deep")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_ops": 0}, "num_ops of synthetic graphs is 0, expected 1.."),
        ({"num_ops": -3}, "num_ops of synthetic graphs is -3"),
        ({"num_ops": 2.0}, "num_ops of synthetic graphs is 2.0, expected a whole number"),
        ({"num_ops": True}, "num_ops of synthetic graphs is True, expected a whole number"),
        ({"seed": -1}, "seed of synthetic graphs is -1, expected 0..4294967295"),
        ({"seed": 2**32}, "seed of synthetic graphs is 4294967296, expected 0..4294967295"),
    ],
)
def test_bad_specs_are_named(changes: dict[str, int], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        SyntheticSpec(family="local", **changes)
    assert message in str(caught.value)


@pytest.mark.parametrize("index", [-1, 2**32, 1.5])
def test_a_bad_index_is_named(index: int) -> None:
    spec = SyntheticSpec(family="local")
    for refuse in (graph_id, generate_graph):
        with pytest.raises(BadInputError, match=f"index of synthetic graphs is {index}"):
            refuse(spec, index)


@pytest.mark.parametrize(
    ("num_ops", "why"), [(9, "fewer than 10 ops have fewer than 10 levels"), (194, "every 8 ops add a level")]
)
def test_impossible_sizes_of_paper_graphs_are_refused_at_once(num_ops: int, why: str) -> None:
    with pytest.raises(BadInputError, match=f"impossible with num_ops {num_ops} because {why}.*choose 10..193"):
        SyntheticSpec(family="paper", num_ops=num_ops)
    SyntheticSpec(family="local", num_ops=num_ops)


def test_193_ops_can_have_25_levels_and_194_cannot() -> None:
    """The fewest levels: each op reads the shallowest op among the previous 8."""
    levels = [1]
    for v in range(1, 194):
        levels.append(1 + min(levels[max(0, v - 8) :]))
    assert levels[192] == 25
    assert levels[193] == 26


def test_a_chain_of_ten_ops_is_found() -> None:
    assert generate_graph(SyntheticSpec(family="paper", num_ops=10), 0).depth == 9


def test_drawing_ends_where_a_fit_is_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "MOST_DRAWS", 500)
    with pytest.raises(BadInputError, match="'paper-190-s0-0000003': none of 500 draws of 190 ops had 10-25 levels"):
        generate_graph(SyntheticSpec(family="paper", num_ops=190), 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ResNet50",
        "local",
        "local-30-s0",
        "local-30-s0-12",
        "local-30-0-0000012",
        "local-30-s0--000012",
        "local-30-s0-0000012 ",
        "local-30-s0-0000012\n",
        "local-030-s0-0000012",
        "local-30-s00-0000012",
        "local-30-s0-00000012",
        "local-30-s0-000001２",
    ],
)
def test_what_is_no_id_is_named(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_graph_id(text)
    assert repr(text) in str(caught.value)
    assert "local-30-s0-0000012" in str(caught.value)


def test_ids_of_graphs_that_do_not_exist_are_named() -> None:
    with pytest.raises(UnknownNameError, match="'deep'"):
        parse_graph_id("deep-30-s0-0000012")
    for wrong in (
        "local-0-s0-0000012",
        "paper-9-s0-0000012",
        f"local-30-s{10**30}-0000012",
        f"local-30-s0-{'9' * 5000}",
    ):
        with pytest.raises(BadInputError):
            parse_graph_id(wrong)


@given(st.text(max_size=30))
def test_any_text_is_an_id_or_refused(text: str) -> None:
    try:
        spec, index = parse_graph_id(text)
    except BadInputError:
        return
    assert graph_id(spec, index) == text


@settings(max_examples=20)
@given(SPECS, INDICES)
def test_ids_sort_like_their_graphs(spec: SyntheticSpec, index: int) -> None:
    assume(index < 9_999_999)
    assert graph_id(spec, index) < graph_id(spec, index + 1)


def test_the_names_are_known_without_the_compiler() -> None:
    """Commands offer families as choices, so that must not cost the import of numba."""
    code = "import sys, respect_core.sources.synthetic; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
