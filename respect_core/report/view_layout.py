"""Where the ops of a graph are drawn: in layers from top to bottom, the layers of a stage together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from respect_core.graph import DnnGraph
from respect_core.report.view_order import Layers, order_layers
from respect_core.report.view_places import places

OP_WIDTH: Final = 186
OP_HEIGHT: Final = 42
LAYER_GAP: Final = 26
BAND_GAP: Final = 40
"""Additional room between the layers of two stages, for what crosses the boundary."""
MARGIN: Final = 28
_LABEL_ROOM: Final = 12.0
"""Additional room above the first layer, for the name of its stage."""
_MOST_BENDS: Final = 6_000
"""Most places that are kept free for edges over several layers; further such edges run behind the ops."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Positions in pixels; y grows downwards and every edge leads down."""

    layer: tuple[int, ...]
    """Layer of every op, from 0 without a gap. Shape (n,)."""
    x: tuple[float, ...]
    """Centre of every op. Shape (n,)."""
    y: tuple[float, ...]
    """Centre of every op. Shape (n,)."""
    routes: tuple[tuple[Point, ...], ...]
    """For every edge of `DnnGraph.edges` the points from its producer's lower to its reader's upper rim."""
    bands: tuple[tuple[float, float], ...]
    """Top and bottom of every stage; one band without a schedule."""
    width: float
    height: float


def lay_out(graph: DnnGraph, stage_of: Sequence[int] | None = None, num_stages: int = 1) -> Layout:
    """Place every op in a layer below its producers, order the layers against crossings, and straighten the edges.

    Layers are those of the longest path, stage by stage: a stage begins below the last layer of the one before, so
    stages are bands. Edges over several layers keep a free place in each of them.

    Args:
        graph: The graph.
        stage_of: A legal schedule, or None. Shape (n,).
        num_stages: Number of stages of the schedule.

    Returns:
        The layout; no two ops overlap.
    """
    stages = list(stage_of) if stage_of is not None else [0] * graph.num_ops
    layer = layers_of(graph, stages)
    layers, chains = _with_bends(graph, layer)
    order_layers(layers)
    is_bend = [i >= graph.num_ops for i in range(len(layers.layer))]
    place = places(layers, is_bend, _spine(graph, layer, chains), _separation(graph.num_ops))
    shift = MARGIN + OP_WIDTH / 2 - min(place[: graph.num_ops])
    bend_left = min((place[i] for i in range(graph.num_ops, len(place))), default=0.0) + shift
    shift += max(0.0, MARGIN - bend_left)
    x = [round(value + shift, 1) for value in place]
    top, bands = _rows(layer, stages, num_stages)
    half = OP_HEIGHT / 2
    y = [top[at] + half for at in layer]
    routes = []
    for (u, v), chain in zip(graph.edges.tolist(), chains, strict=True):
        points = [(x[u], y[u] + half)]
        for at, bend in enumerate(chain, start=layer[u] + 1):
            points += [(x[bend], top[at]), (x[bend], top[at] + OP_HEIGHT)]
        routes.append(_without_straight([*points, (x[v], y[v] - half)]))
    return Layout(
        layer=tuple(layer),
        x=tuple(x[: graph.num_ops]),
        y=tuple(y),
        routes=tuple(routes),
        bands=bands,
        width=max(*x, max(x[: graph.num_ops]) + OP_WIDTH / 2) + MARGIN,
        height=bands[-1][1] + MARGIN,
    )


def layers_of(graph: DnnGraph, stages: Sequence[int]) -> list[int]:
    """Return the layer of every op: below all its producers and below every op of an earlier stage. Shape (n,)."""
    order = sorted(graph.topological_order.tolist(), key=lambda v: stages[v])
    layer = [0] * graph.num_ops
    last: dict[int, int] = {}
    first, current = 0, -1
    for v in order:
        if stages[v] != current:
            first, current = max(last.values(), default=-1) + 1, stages[v]
        layer[v] = max([first, *(layer[u] + 1 for u in graph.parents[v])])
        last[current] = max(last.get(current, first), layer[v])
    for v in reversed(order):
        if not graph.parents[v] and graph.children[v]:  # what starts somewhere stands right above its reader
            layer[v] = max(layer[v], min(last[stages[v]], min(layer[c] for c in graph.children[v]) - 1))
    used = {at: index for index, at in enumerate(sorted(set(layer)))}
    return [used[at] for at in layer]


def _with_bends(graph: DnnGraph, layer: list[int]) -> tuple[Layers, list[list[int]]]:
    """Fill the layers with ops and with bends, the places of edges that pass; return them and every edge's bends."""
    edges = graph.edges.tolist()
    layers = Layers.empty(max(layer) + 1)
    for v in graph.topological_order.tolist():
        layers.add(v, layer[v])
    chains: list[list[int]] = [[] for _ in edges]
    kept = 0
    for e in sorted(range(len(edges)), key=lambda e: layer[edges[e][1]] - layer[edges[e][0]]):
        u, v = edges[e]
        between = range(layer[u] + 1, layer[v])
        kept += len(between)
        if kept > _MOST_BENDS:
            break
        previous = u
        for at in between:
            bend = len(layers.layer)
            layers.add(bend, at)
            layers.join(previous, bend)
            chains[e].append(bend)
            previous = bend
        layers.join(previous, v)
    return layers, chains


def _spine(graph: DnnGraph, layer: list[int], chains: list[list[int]]) -> set[int]:
    """Return the ops and bends of one path from the lowest layer upwards, always to the nearest producer."""
    v = max(range(graph.num_ops), key=lambda v: layer[v])
    found = {v}
    bends = dict(zip(map(tuple, graph.edges.tolist()), chains, strict=True))
    while graph.parents[v]:
        u = max(graph.parents[v], key=lambda u: layer[u])
        found.update((u, *bends[u, v]))
        v = u
    return found


def _separation(num_ops: int) -> Callable[[int, int], float]:
    """Return the least distance between the centres of two neighbours, of which those before ``num_ops`` are ops."""
    of_ops = (16.0, OP_WIDTH / 2 + 16, OP_WIDTH + 24.0)
    return lambda a, b: of_ops[(a < num_ops) + (b < num_ops)]


def _rows(layer: list[int], stages: list[int], num_stages: int) -> tuple[list[float], tuple[tuple[float, float], ...]]:
    """Return the top of every layer, and the top and bottom of every stage."""
    stage_at = dict(zip(layer, stages, strict=True))
    top: list[float] = []
    bands: list[tuple[float, float]] = []
    y = MARGIN + _LABEL_ROOM
    for at in range(len(stage_at)):
        if at and stage_at[at] != stage_at[at - 1]:
            bands.append((bands[-1][1] if bands else 0.0, y - LAYER_GAP / 2 + BAND_GAP / 2))
            y += BAND_GAP
        top.append(y)
        y += OP_HEIGHT + LAYER_GAP
    bands.append((bands[-1][1] if bands else 0.0, y - LAYER_GAP + MARGIN))
    return top, tuple(bands) if len(bands) == num_stages else ((0.0, bands[-1][1]),)


def _without_straight(points: list[Point]) -> tuple[Point, ...]:
    """Leave out the points inside straight stretches."""
    kept = [points[0]]
    for inside, after in pairwise(points[1:]):
        if not kept[-1][0] == inside[0] == after[0]:
            kept.append(inside)
    return (*kept, points[-1])
