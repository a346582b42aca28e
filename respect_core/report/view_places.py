"""Horizontal places for ordered layers: long edges stand straight, nothing overlaps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, pairwise
from typing import Final

from respect_core.report.view_order import Layers

Separation = Callable[[int, int], float]
Weighted = tuple[float, float]

_SWEEPS: Final = 14
_PULLS: Final = (1.0, 2.0, 8.0)
"""How strongly an edge between two ops, an op and a bend, and two bends wants to be straight."""
_SPINE_PULL: Final = 1e4


def places(layers: Layers, is_bend: Sequence[bool], spine: Collection[int], separation: Separation) -> list[float]:
    """Return the horizontal centre of every member.

    Sweeps down and up; each moves the members of a layer to the weighted median of their neighbours in the layer just
    passed, as far as their order and sizes allow. Medians, unlike means, keep a long edge exactly straight beside the
    ops that have to make way. The spine stays in the middle, or a layout of many layers would drift sideways.

    Args:
        layers: Ordered layers.
        is_bend: True for a member that is only the place where a long edge passes.
        spine: Members that want to stand in one line, at most one a layer.
        separation: Least distance between the centres of two neighbours.

    Returns:
        A number for every member; neighbours in a layer are at least their separation apart.
    """
    offsets = [list(accumulate((separation(a, b) for a, b in pairwise(row)), initial=0.0)) for row in layers.rows]
    place = [0.0] * len(layers.layer)
    for row, steps in zip(layers.rows, offsets, strict=True):
        for i, step in zip(row, steps, strict=True):
            place[i] = step - steps[-1] / 2
    order = range(len(layers.rows))
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        near = layers.above if down else layers.below
        for at in order if down else reversed(order):
            row = layers.rows[at]
            wanted = [
                [(0.0, _SPINE_PULL)]
                if i in spine
                else [(place[j], _PULLS[is_bend[i] + is_bend[j]]) for j in near[i]] or [(place[i], 0.01)]
                for i in row
            ]
            for i, x in zip(row, fit_in_order(wanted, offsets[at]), strict=True):
                place[i] = x
    return place


def fit_in_order(wanted: Sequence[Sequence[Weighted]], offsets: Sequence[float]) -> list[float]:
    """Place the members of one row so that the weighted distances to what they want are small.

    The least absolute distances in order are an isotonic regression, after the offsets are taken off: neighbours that
    would overlap are pooled and move together to their weighted median (pooling adjacent violators).

    Args:
        wanted: Places every member wants, with weights. Shape (n,) of lists that are not empty.
        offsets: Least distance of every member from the first. Shape (n,).

    Returns:
        Places; ``x[i + 1] - x[i] >= offsets[i + 1] - offsets[i]``. Shape (n,).
    """
    pools: list[tuple[float, list[Weighted], int]] = []
    for wishes, offset in zip(wanted, offsets, strict=True):
        values = sorted((x - offset, weight) for x, weight in wishes)
        middle, members = weighted_median(values), 1
        while pools and pools[-1][0] > middle:
            _, other, more = pools.pop()
            values = sorted(other + values)
            middle, members = weighted_median(values), members + more
        pools.append((middle, values, members))
    free = [middle for middle, _, members in pools for _ in range(members)]
    return [x + offset for x, offset in zip(free, offsets, strict=True)]


def weighted_median(values: Sequence[Weighted]) -> float:
    """Return the weighted median of sorted values; between two halves of the same weight, the middle."""
    half = sum(weight for _, weight in values) / 2
    passed = 0.0
    for (x, weight), after in zip(values, [*values[1:], values[-1]], strict=True):
        passed += weight
        if passed > half:
            return x
        if passed == half:
            return (x + after[0]) / 2
    return values[-1][0]
