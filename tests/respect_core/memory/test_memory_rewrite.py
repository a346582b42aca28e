"""Rewriting for least memory: costs by the oracle, kept only where it helps, never worse than the network as it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.memory.order import MemoryOrderSolver, OrderResult, order_memory
from respect_core.memory.peak import memory_profile
from respect_core.memory.rewrite import ACCUMULATIONS, Rewritten, rewrite
from respect_core.memory.rewrite_search import RewriteOptions, rewrite_memory
from respect_core.memory.rules import ACCUMULATING_CONVOLUTION, DEFAULT_RULES, MemoryRules
from respect_core.memory.serenity import SerenitySolver
from respect_core.solve.protocol import SolveOptions
from respect_core.sources.memory_networks import load_memory_network, memory_networks
from tests.memory_graphs import graph_of, read_on
from tests.memory_oracles import MemoryOracle

OPTIONS = SolveOptions()

PLACEMENTS = st.sampled_from(["in-place", "separate"])
SHORT = SolveOptions(time_limit_s=4)

KINDS = ("conv2d", "depthwise_conv2d", "max_pool", "activation", "add", "conv2d")


def joint_graph(seed: int, num_joints: int = 2) -> DnnGraph:
    """Draw a graph with concatenations whose sizes add up, which one or two ops of any kind read."""
    rng = np.random.default_rng(seed)
    sizes, parents, kinds = [int(rng.integers(1, 9))], [[]], ["conv2d"]  # type: ignore[var-annotated]
    for _ in range(3):
        sizes.append(int(rng.integers(1, 9)))
        parents.append([int(rng.integers(len(sizes) - 1))])
        kinds.append("conv2d")
    for _ in range(num_joints):
        joined = rng.choice(len(sizes), min(len(sizes), int(rng.integers(2, 4))), replace=False).tolist()
        joint = len(sizes)
        sizes.append(sum(sizes[v] for v in joined))
        parents.append(joined)
        kinds.append("concat")
        for _ in range(int(rng.integers(1, 3))):
            kind = str(rng.choice(KINDS))
            sizes.append(int(rng.integers(1, 9)) if kind in ("conv2d", "add") else sizes[joint])
            parents.append([joint])
            kinds.append(kind)
    return graph_of(sizes, parents, kinds=kinds, inputs=[(5, [0])])


@given(st.integers(0, 10**6), st.sampled_from(ACCUMULATIONS), PLACEMENTS, PLACEMENTS)
def test_rewritten_networks_cost_what_the_oracle_says(
    seed: int, accumulation: str, concat: str, elementwise: str
) -> None:
    graph = joint_graph(seed)
    rule = MemoryRules(concat=concat, elementwise=elementwise)  # type: ignore[arg-type]
    found = rewrite(graph, accumulation=accumulation)  # type: ignore[arg-type]
    assert_same_network(graph, found)
    profile = memory_profile(found.graph, None, rule)
    step, after = MemoryOracle(found.graph, rule).profile(profile.order)
    assert (profile.step_bytes.tolist(), profile.after_bytes.tolist()) == (step, after)


def assert_same_network(graph: DnnGraph, found: Rewritten) -> None:
    """Inputs, outputs, parameters and MACs are those of the network, and no rewritten concatenation is left."""
    for what in ("param_bytes", "macs"):
        assert getattr(found.graph, what).sum() == getattr(graph, what).sum()
    for mask in (lambda g: g.tensor_is_output, lambda g: g.tensor_producer < 0):
        named = [
            {n: int(s) for n, s, hit in zip(g.tensor_names, g.tensor_bytes, mask(g), strict=True) if hit}
            for g in (graph, found.graph)
        ]
        assert named[0] == named[1]
    pieces = {piece.name: piece for piece in found.pieces}
    for site in found.sites:
        assert site.concat not in pieces or pieces[site.concat].kind != "concat"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(ACCUMULATIONS), PLACEMENTS)
def test_it_is_kept_only_where_it_lowers_the_peak(seed: int, accumulation: str, concat: str) -> None:
    graph, rule = joint_graph(seed), MemoryRules(concat=concat)  # type: ignore[arg-type]
    how = RewriteOptions(accumulation=accumulation)  # type: ignore[arg-type]
    found = rewrite_memory(graph, rule, SHORT, how)
    assert found.base.peak_bytes == order_memory(graph, rule).peak_bytes
    assert (found.rewritten is not None) == (found.best.peak_bytes < found.base.peak_bytes)
    assert found.best.file_order_peak_bytes == found.base.file_order_peak_bytes
    if found.rewritten is not None:
        assert memory_profile(found.rewritten.graph, found.best.order, rule).peak_bytes == found.best.peak_bytes


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_the_best_order_of_a_small_rewritten_network_is_that_of_brute_force(seed: int) -> None:
    found = rewrite(joint_graph(seed, num_joints=1))
    if found.graph.num_ops <= 10:
        rule = MemoryRules()
        assert order_memory(found.graph, rule).peak_bytes == MemoryOracle(found.graph, rule).least_peak()


def test_a_convolution_of_two_tensors_is_summed_up_in_place() -> None:
    # Two tensors of 6 joined, read by a convolution to 2: in place 12 + 2, else one tensor of 6 after the other.
    graph = graph_of([1, 6, 6, 12, 2], [[], [0], [0], [1, 2], [3]], kinds=["conv2d"] * 3 + ["concat", "conv2d"])
    found = rewrite_memory(graph)
    assert found.base.peak_bytes == 14
    assert found.best.peak_bytes == 6 + 2 + 1
    assert found.rewritten is not None
    assert [site.concat for site in found.rewritten.sites] == ["op3"]
    assert found.rewritten.sites[0].channel_wise == ("op4",)
    assert found.rewritten.graph.op_kinds.count(ACCUMULATING_CONVOLUTION) == 1
    summed = rewrite(graph, accumulation="add")
    assert summed.graph.op_kinds.count("add") == 1
    assert [p.is_first for p in summed.pieces if p.role == "partial"] == [True, False]


def test_a_depthwise_convolution_is_applied_to_each_and_what_follows_is_rewritten_too() -> None:
    kinds = ["conv2d"] * 3 + ["concat", "depthwise_conv2d", "conv2d"]
    graph = graph_of([1, 6, 6, 12, 12, 2], [[], [0], [0], [1, 2], [3], [4]], kinds=kinds)
    one = rewrite(graph, ["op3"])
    assert [(s.concat, s.kernel_wise, s.channel_wise) for s in one.sites] == [("op3", ("op4",), ())]
    assert sorted(one.graph.op_kinds).count("concat") == 1
    both = rewrite(graph)
    assert [site.concat for site in both.sites] == ["op3", "op4"]
    assert "concat" not in both.graph.op_kinds
    assert order_memory(both.graph).peak_bytes < order_memory(graph).peak_bytes


@pytest.mark.parametrize(
    ("sizes", "parents", "kinds", "more"),
    [
        ([1, 6, 6, 12, 2], [[], [0], [0], [1, 2], [3]], ["conv2d"] * 3 + ["concat", "add"], {}),
        ([1, 6, 6, 11, 2], [[], [0], [0], [1, 2], [3]], ["conv2d"] * 3 + ["concat", "conv2d"], {}),
        ([1, 6, 6, 12, 2], [[], [0], [0], [1, 2], [3]], ["conv2d"] * 3 + ["concat", "conv2d"], {"outputs": [3]}),
        ([1, 6, 6, 12], [[], [0], [0], [1, 2]], ["conv2d"] * 3 + ["concat"], {}),
        ([1, 6, 0, 6, 2], [[], [0], [0], [1, 2], [3]], ["conv2d"] * 3 + ["concat", "conv2d"], {}),
        ([1, 6, 6, 12, 2], [[], [0], [0], [1, 2], [3, 0]], ["conv2d"] * 3 + ["concat", "conv2d"], {}),
        ([1, 5, 6, 11, 7], [[], [0], [0], [1, 2], [3]], ["conv2d"] * 3 + ["concat", "depthwise_conv2d"], {}),
    ],
    ids=["read by an add", "sizes", "output", "unread", "empty input", "two inputs", "channels do not divide"],
)
def test_what_cannot_be_taken_apart_stays(
    sizes: list[int], parents: list[list[int]], kinds: list[str], more: dict[str, list[int]]
) -> None:
    graph = graph_of(sizes, parents, kinds=kinds, **more)  # type: ignore[arg-type]
    found = rewrite(graph)
    assert found.sites == ()
    assert found.graph.op_names == graph.op_names
    assert rewrite_memory(graph).rewritten is None


def test_refused_and_unchosen_ops_stay() -> None:
    graph = graph_of([1, 6, 6, 12, 2], [[], [0], [0], [1, 2], [3]], kinds=["conv2d"] * 3 + ["concat", "conv2d"])
    for kept in (rewrite(graph, refused={"op3"}), rewrite(graph, refused={"op4"}), rewrite(graph, [])):
        assert kept.sites == ()
    with pytest.raises(BadInputError, match="accumulation is 'all', choose from fused, add"):
        rewrite(graph, accumulation="all")  # type: ignore[arg-type]


def test_names_that_are_taken_are_not_given_again() -> None:
    graph = graph_of(
        [1, 6, 6, 12, 2, 3], [[], [0], [0], [1, 2], [3], [4]], kinds=["conv2d"] * 3 + ["concat"] + ["conv2d"] * 2
    )
    renamed = DnnGraph(
        **{
            **{name: getattr(graph, name) for name in graph.__dataclass_fields__ if not name.startswith("_")},
            "op_names": ("op4/part0", "a", "b", "op3", "op4", "c"),
            "tensor_names": ("t4/sum0", *graph.tensor_names[1:]),
        }
    )
    found = rewrite(renamed)
    assert len(set(found.graph.op_names)) == found.graph.num_ops
    assert found.graph.num_ops == 6


@pytest.mark.parametrize(
    ("cell", "published", "without"), [("A", 226_000, 250_880), ("B", 72_200, 81_536), ("C", 20_500, 32_536)]
)
def test_swiftnet_needs_less_than_published(cell: str, published: int, without: int) -> None:
    found = rewrite_memory(load_memory_network(f"SwiftNet-HPD-{cell}"))
    assert found.base.peak_bytes == without
    assert found.best.status == "optimal"
    assert found.best.peak_bytes < published


def test_the_published_peak_of_the_rewritten_darts_cell_takes_what_reads_the_cell() -> None:
    cell = load_memory_network("DARTS-normal")
    assert rewrite_memory(cell).rewritten is None
    tensor = 28 * 28 * 48 * 4
    found = rewrite_memory(read_on(cell, tensor))
    assert (found.base.peak_bytes, found.best.peak_bytes) == (6 * tensor, 5 * tensor) == (903_168, 752_640)


@pytest.mark.parametrize(("cell", "accumulation", "published"), [("A", "add", 225_792), ("B", "fused", 72_128)])
def test_the_published_peaks_of_rewritten_swiftnet_sum_up_in_the_order_of_the_file(
    cell: str, accumulation: str, published: int
) -> None:
    found = rewrite(load_memory_network(f"SwiftNet-HPD-{cell}"), accumulation=accumulation)  # type: ignore[arg-type]
    assert order_memory(found.graph).peak_bytes == published


def test_equal_seeds_give_equal_results_and_serenity_agrees() -> None:
    graph = load_memory_network("SwiftNet-HPD-C")
    one, other = rewrite_memory(graph), rewrite_memory(graph)
    assert one.best.order == other.best.order
    assert one.rewritten is not None
    check = SerenitySolver().solve(one.rewritten.graph, options=SolveOptions(time_limit_s=20))
    assert check.peak_bytes >= one.best.peak_bytes


@pytest.mark.parametrize("name", memory_networks())
def test_networks_of_the_papers_are_never_worse(name: str) -> None:
    found = rewrite_memory(load_memory_network(name), options=SolveOptions(time_limit_s=10))
    assert found.best.peak_bytes <= found.base.peak_bytes <= found.base.file_order_peak_bytes


def test_no_time_at_all_gives_an_order_still() -> None:
    found = rewrite_memory(load_memory_network("SwiftNet-HPD-A"), options=SolveOptions(time_limit_s=0))
    assert found.best.peak_bytes <= found.best.file_order_peak_bytes
    assert found.best.lower_bound <= found.best.peak_bytes


def test_a_network_with_nothing_to_rewrite_is_ordered_once_in_all_the_time() -> None:
    limits = []

    class Watching(MemoryOrderSolver):
        def solve(
            self, graph: DnnGraph, rules: MemoryRules = DEFAULT_RULES, options: SolveOptions = OPTIONS
        ) -> OrderResult:
            limits.append(options.time_limit_s)
            return super().solve(graph, rules, options)

    graph = load_memory_network("RandWire-CIFAR10-A")
    found = rewrite_memory(graph, MemoryRules(), SolveOptions(time_limit_s=40.0), solver=Watching())
    assert (found.rewritten, found.num_possible) == (None, 0)
    (limit,) = limits
    assert limit > 30
