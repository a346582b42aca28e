"""Set moves between neighbouring stages that even their loads out; the sets are those of `local_search_sets`."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.local_search_graph import MOST_OPS, MOST_PAIRS, Int
from respect_core.solve.local_search_sets import collect_sets, listed, nearest_set


@compiled
def gather(
    weight: IntArray,
    first: IntArray,
    near: IntArray,
    window: IntArray,
    stage_of: IntArray,
    work: IntArray,
    root: int,
    direction: int,
    limit: Int,
    side: int,
) -> tuple[int, int]:
    """Collect the set that must leave a stage with ``root``.

    Args:
        weight: Shape (n,).
        first: Shape (2 (n + 1),).
        near: Shape (2 e,).
        window: Shape (2 n,).
        stage_of: Stage of every op. Shape (n,).
        work: Receives the set's ops at ``(2 + side) * n`` and their mark at ``side * n + op``.
        root: The op that leaves its stage.
        direction: `UP` to the next stage (with its descendants in this one), `DOWN` to the one before (its ancestors).
        limit: Give up where the set weighs more.
        side: 0 or 1.

    Returns:
        Number of ops and weight of the set; (0, 0) where it weighs more than ``limit``, has more than `MOST_OPS` ops,
        or one of them must not go there.
    """
    n = stage_of.size
    stage = stage_of[root]
    marks, base, rows, bounds = side * n, (2 + side) * n, direction * (n + 1), (1 - direction) * n
    if window[bounds + root] == stage:
        return 0, 0
    work[8 * n] += 1
    mark = work[8 * n]
    work[base], work[marks + root] = root, mark
    size, at, total = 1, 0, weight[root]
    while at < size and total <= limit:
        v = work[base + at]
        at += 1
        for r in range(first[rows + v], first[rows + v + 1]):
            u = near[r]
            if stage_of[u] == stage and work[marks + u] != mark:
                if window[bounds + u] == stage:
                    return 0, 0
                if size == MOST_OPS:
                    return 0, 0
                work[marks + u] = mark
                work[base + size] = u
                size += 1
                total += weight[u]
    if total > limit:
        return 0, 0
    return size, total


@compiled
def put(stage_of: IntArray, work: IntArray, side: int, size: int, target: int) -> None:
    """Move a collected set to another stage."""
    base = (2 + side) * stage_of.size
    for i in range(size):
        stage_of[work[base + i]] = target


@compiled
def shift(
    weight: IntArray,
    first: IntArray,
    near: IntArray,
    stage_of: IntArray,
    work: IntArray,
    load: IntArray,
    count: IntArray,
    root: int,
    target: int,
) -> None:
    """Move an op to the stage before or after its own, with the set that must leave with it.

    Args:
        weight: Shape (n,).
        first: Shape (2 (n + 1),).
        near: Shape (2 e,).
        stage_of: Stage of every op; changed.
        work: Scratch space.
        load: Weight of every stage; changed.
        count: Ops of every stage; changed.
        root: The op.
        target: The stage.
    """
    n, source = stage_of.size, stage_of[root]
    base, rows = 2 * n, 0 if target > source else n + 1
    work[base], stage_of[root] = root, target
    size, at, total = 1, 0, weight[root]
    while at < size:
        v = work[base + at]
        at += 1
        for r in range(first[rows + v], first[rows + v + 1]):
            u = near[r]
            if stage_of[u] == source:
                stage_of[u] = target
                work[base + size] = u
                size += 1
                total += weight[u]
    load[source] -= total
    load[target] += total
    count[source] -= size
    count[target] += size


@compiled
def even_out(
    weight: IntArray,
    first: IntArray,
    near: IntArray,
    window: IntArray,
    order: IntArray,
    stage_of: IntArray,
    work: IntArray,
    load: IntArray,
    count: IntArray,
    heavy: int,
    light: int,
    slack: int,
    thorough: bool,
) -> bool:
    """Make the move or exchange between two neighbouring stages that evens their loads out best.

    One set moves or changes places with another one; where that helps nothing, two sets move, or change places with
    one, or one with two.

    Args:
        weight: Shape (n,).
        first: Shape (2 (n + 1),).
        near: Shape (2 e,).
        window: Shape (2 n,).
        order: A topological order. Shape (n,).
        stage_of: Stage of every op; changed.
        work: Scratch space.
        load: Weight of every stage; changed.
        count: Ops of every stage; changed.
        heavy: The stage with the larger load.
        light: The stage before or after it.
        slack: Sets that are heavier than the difference of the loads by more than this are not looked at.
        thorough: Whether two sets at a time are looked at too.

    Returns:
        Whether anything was moved: the larger of the two loads is lower then.
    """
    n, whole = stage_of.size, load[heavy]
    surplus = whole - load[light]
    if surplus < 2:
        return False
    limit = min(whole, surplus + slack)
    num_b = collect_sets(weight, first, near, window, order, stage_of, work, light, heavy, limit - 1, 1)
    num_a = collect_sets(weight, first, near, window, order, stage_of, work, heavy, light, limit, 0)
    a, b = listed(n, 0), listed(n, 1)
    masks, totals, reaches = 4 * n, 5 * n, 6 * n
    best = surplus  # twice the distance of a transfer from half the surplus: a transfer of 0 or all of it gains nothing
    a1, a2, b1, b2 = -1, -1, -1, -1
    for i in range(a, a + num_a):
        total = work[totals + work[i]]
        if abs(2 * total - surplus) < best and total < whole:
            best, a1 = abs(2 * total - surplus), work[i]
    if best > 1:
        for i in range(a, a + num_a):
            u = work[i]
            v, best = nearest_set(work, n, 1, num_b, work[reaches + u], 2 * work[totals + u] - surplus, best)
            if v >= 0:
                a1, b1 = u, v
    if a1 < 0 and thorough:
        pairs = 0
        for i in range(a, a + num_a):
            for j in range(a, min(i, a + MOST_PAIRS - pairs)):
                u, t = work[i], work[j]
                if work[masks + u] & work[masks + t]:
                    continue
                total = work[totals + u] + work[totals + t]
                if abs(2 * total - surplus) < best and total < whole:
                    best, a1, a2, b1 = abs(2 * total - surplus), u, t, -1
                v, best = nearest_set(
                    work, n, 1, num_b, work[reaches + u] | work[reaches + t], 2 * total - surplus, best
                )
                if v >= 0:
                    a1, a2, b1 = u, t, v
            pairs += i - a
        pairs = 0
        for i in range(b, b + num_b):
            for j in range(b, min(i, b + MOST_PAIRS - pairs)):
                v, t = work[i], work[j]
                if work[masks + v] & work[masks + t]:
                    continue
                total = work[totals + v] + work[totals + t]
                u, best = nearest_set(work, n, 0, num_a, work[masks + v] | work[masks + t], 2 * total + surplus, best)
                if u >= 0:
                    a1, a2, b1, b2 = u, -1, v, t
            pairs += i - b
    if a1 < 0:
        return False
    shift(weight, first, near, stage_of, work, load, count, a1, light)
    if a2 >= 0:
        shift(weight, first, near, stage_of, work, load, count, a2, light)
    if b1 >= 0:
        shift(weight, first, near, stage_of, work, load, count, b1, heavy)
    if b2 >= 0:
        shift(weight, first, near, stage_of, work, load, count, b2, heavy)
    return True


@compiled
def descend(
    weight: IntArray,
    first: IntArray,
    near: IntArray,
    window: IntArray,
    order: IntArray,
    stage_of: IntArray,
    work: IntArray,
    load: IntArray,
    count: IntArray,
    closed: IntArray,
    goal: int,
    slack: int,
) -> int:
    """Even out neighbouring stages, heaviest first, until nothing helps or no load is above ``goal``.

    Args:
        weight: Shape (n,).
        first: Shape (2 (n + 1),).
        near: Shape (2 e,).
        window: Shape (2 n,).
        order: A topological order. Shape (n,).
        stage_of: Stage of every op; changed.
        work: Scratch space.
        load: Weight of every stage; changed.
        count: Ops of every stage; changed.
        closed: Space for a mark a pair of stages. Shape (K,).
        goal: Loads up to this are good enough.
        slack: See `even_out`.

    Returns:
        The largest load.
    """
    num_pairs = load.size - 1
    closed[:] = 0
    while True:
        peak = np.int64(0)
        for k in range(num_pairs + 1):
            peak = max(peak, load[k])
        if peak <= goal:
            return int(peak)
        chosen, heaviest = -1, np.int64(-1)
        for d in range(num_pairs):
            larger = max(load[d], load[d + 1])
            if closed[d] == 0 and larger > heaviest:
                chosen, heaviest = d, larger
        if chosen < 0:
            return int(peak)
        heavy, light = (chosen, chosen + 1) if load[chosen] >= load[chosen + 1] else (chosen + 1, chosen)
        if even_out(
            weight, first, near, window, order, stage_of, work, load, count, heavy, light, slack, heaviest == peak
        ):
            for d in range(max(0, chosen - 1), min(num_pairs, chosen + 2)):
                closed[d] = 0
        else:
            closed[chosen] = 1
