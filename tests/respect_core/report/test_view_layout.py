"""Properties of the layout: everything has a place, edges lead down, nothing overlaps, stages are bands."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from respect_core.graph import DnnGraph
from respect_core.report.view_layout import LAYER_GAP, OP_HEIGHT, OP_WIDTH, Layout, lay_out
from respect_core.report.view_order import Layers, order_layers
from respect_core.report.view_places import fit_in_order, weighted_median
from respect_core.sources.catalog import resolve_model
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.respect_core.report.view_input import five_ops, schedule_for
from tests.strategies import graphs


def check(graph: DnnGraph, layout: Layout) -> None:
    """Check what every layout promises."""
    assert len(layout.x) == len(layout.y) == len(layout.layer) == graph.num_ops
    assert len(layout.routes) == len(graph.edges)
    assert set(layout.layer) == set(range(max(layout.layer) + 1))
    for u, v in graph.edges.tolist():
        assert layout.layer[u] < layout.layer[v]
        assert layout.y[u] + OP_HEIGHT + LAYER_GAP <= layout.y[v]
    rows: dict[int, list[tuple[float, float]]] = {}
    for at, x, y in zip(layout.layer, layout.x, layout.y, strict=True):
        rows.setdefault(at, []).append((x, y))
        assert OP_WIDTH / 2 <= x <= layout.width - OP_WIDTH / 2
        assert OP_HEIGHT / 2 <= y <= layout.height - OP_HEIGHT / 2
    for row in rows.values():
        assert len({y for _, y in row}) == 1
        assert all(b - a > OP_WIDTH for a, b in pairwise(sorted(x for x, _ in row)))
    for (u, v), route in zip(graph.edges.tolist(), layout.routes, strict=True):
        assert route[0] == (layout.x[u], layout.y[u] + OP_HEIGHT / 2)
        assert route[-1] == (layout.x[v], layout.y[v] - OP_HEIGHT / 2)
        assert all(above[1] < below[1] for above, below in pairwise(route))
        assert all(0 <= x <= layout.width for x, _ in route)


def passes_behind(layout: Layout) -> list[int]:
    """Return the edges that pass behind an op: a straight piece of their route goes through its box."""
    by_layer: dict[float, list[float]] = {}
    for x, y in zip(layout.x, layout.y, strict=True):
        by_layer.setdefault(y, []).append(x)
    return [
        e
        for e, route in enumerate(layout.routes)
        for (x0, y0), (x1, y1) in pairwise(route)
        for y, row in by_layer.items()
        if x0 == x1 and y0 < y < y1 and any(abs(x - x0) < OP_WIDTH / 2 for x in row)
    ]


@given(graphs(max_ops=24))
def test_a_layout_without_stages(graph: DnnGraph) -> None:
    layout = lay_out(graph)
    check(graph, layout)
    assert len(layout.bands) == 1
    assert passes_behind(layout) == []
    assert lay_out(graph) == layout


@given(graphs(max_ops=24), st.data())
def test_stages_are_bands_one_below_the_other(graph: DnnGraph, data: st.DataObject) -> None:
    num_stages = data.draw(st.integers(1, graph.num_ops))
    stage_of = schedule_for(graph, num_stages).stage_of
    layout = lay_out(graph, stage_of, num_stages)
    check(graph, layout)
    assert len(layout.bands) == num_stages
    assert all(above[1] == below[0] for above, below in pairwise(layout.bands))
    for k, y in zip(stage_of, layout.y, strict=True):
        top, bottom = layout.bands[k]
        assert top <= y - OP_HEIGHT / 2 and y + OP_HEIGHT / 2 <= bottom
    assert passes_behind(layout) == []


@pytest.mark.parametrize(
    ("model", "widest", "straight"),
    [
        ("InceptionResNetV2", 1000, 0.8),
        ("DenseNet201", 400, 0.95),
        ("ResNet152", 600, 0.9),
        ("NASNetMobile", 3500, 0.5),
    ],
)
def test_deep_models_stay_narrow_and_straight(model: str, widest: int, straight: float) -> None:
    graph = resolve_model(model)
    layout = lay_out(graph)
    check(graph, layout)
    assert layout.width <= widest
    edges = graph.edges.tolist()
    assert sum(abs(layout.x[u] - layout.x[v]) < 1 for u, v in edges) >= straight * len(edges)


def test_many_long_edges_are_laid_out_too() -> None:
    graph = generate_graph(SyntheticSpec(family="wide", num_ops=400, seed=1), 0)
    check(graph, lay_out(graph, *_cut(graph, 5)))


def _cut(graph: DnnGraph, num_stages: int) -> tuple[tuple[int, ...], int]:
    return schedule_for(graph, num_stages).stage_of, num_stages


def test_a_second_input_stands_right_above_its_reader() -> None:
    graph = five_ops()
    assert lay_out(graph).layer == (0, 1, 2, 2, 3)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 4)), min_size=1, max_size=3), min_size=1, max_size=6
    )
)
def test_fitting_keeps_order_and_distance_and_beats_every_shift(wanted: list[list[tuple[int, int]]]) -> None:
    offsets = [10.0 * i for i in range(len(wanted))]
    found = fit_in_order(wanted, offsets)
    assert all(b - a >= 10 - 1e-9 for a, b in pairwise(found))

    def cost(places: list[float]) -> float:
        return sum(w * abs(x - d) for x, wishes in zip(places, wanted, strict=True) for d, w in wishes)

    for at in range(len(found)):
        for shift in (-3, -1, 1, 3):
            for part in (slice(at, None), slice(None, at + 1), slice(at, at + 1)):
                moved = list(found)
                moved[part] = [x + shift for x in moved[part]]
                if all(b - a >= 10 - 1e-9 for a, b in pairwise(moved)):
                    assert cost(moved) >= cost(found) - 1e-9


def test_weighted_medians() -> None:
    assert weighted_median([(1, 1), (2, 1), (9, 1)]) == 2
    assert weighted_median([(1, 1), (9, 1)]) == 5
    assert weighted_median([(1, 1), (9, 3)]) == 9
    assert weighted_median([(4, 2)]) == 4


def test_sweeps_untangle_what_can_be_untangled() -> None:
    layers = Layers.empty(2)
    for member in range(6):
        layers.add(member, member // 3)
    for upper, lower in ((0, 5), (1, 4), (2, 3)):
        layers.join(upper, lower)
    assert layers.crossings() == 3
    order_layers(layers)
    assert layers.crossings() == 0
    assert [sorted(row) for row in layers.rows] == [[0, 1, 2], [3, 4, 5]]
