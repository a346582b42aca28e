"""Set moves between neighbouring stages that even their loads out.

An op leaves its stage upwards together with its descendants in that stage, downwards with its ancestors in it: then
every edge still points forwards. Two such sets, one from each of two neighbouring stages, may change places where no
edge leads from the set that goes up to the set that comes down.

The arrays ``weight``, ``first``, ``near`` and ``window`` are those of `SearchGraph`, ``work`` is `work_for`'s. They
come one by one: taking them out of a tuple costs the innermost loops more than their work.
"""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.local_search_graph import MOST_OPS, MOST_TRIES, Int


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
    work[9 * n] += 1
    mark = work[9 * n]
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
def gather_all(
    weight: IntArray,
    first: IntArray,
    near: IntArray,
    window: IntArray,
    order: IntArray,
    stage_of: IntArray,
    work: IntArray,
    stage: int,
    direction: int,
    limit: Int,
    side: int,
) -> int:
    """Find the ops of a stage whose sets may leave it and weigh something.

    An op cannot leave where one that must go with it cannot: in the right order, most sets are not even begun.

    Args:
        weight: Shape (n,).
        first: Shape (2 (n + 1),).
        near: Shape (2 e,).
        window: Shape (2 n,).
        order: A topological order. Shape (n,).
        stage_of: Stage of every op. Shape (n,).
        work: Receives the ops at ``(4 + side) * n`` and the weights of their sets ``2 n`` further on.
        stage: The stage.
        direction: `UP` or `DOWN`.
        limit: Largest weight of a set.
        side: 0 or 1.

    Returns:
        Number of these ops.
    """
    n = stage_of.size
    rows, roots, blocked = direction * (n + 1), (4 + side) * n, 8 * n
    work[9 * n] += 1
    barrier = work[9 * n]
    found = 0
    for i in range(n):
        v = order[n - 1 - i] if direction == 0 else order[i]
        if stage_of[v] != stage:
            continue
        free = weight[v] <= limit
        for r in range(first[rows + v], first[rows + v + 1]):
            if work[blocked + near[r]] == barrier:
                free = False
        total = weight[v]
        if free:
            size, total = gather(weight, first, near, window, stage_of, work, v, direction, limit, side)
            free = size > 0
        if not free:
            work[blocked + v] = barrier
        elif total > 0:
            work[roots + found], work[roots + 2 * n + found] = v, total
            found += 1
    return found


@compiled
def put(stage_of: IntArray, work: IntArray, side: int, size: int, target: int) -> None:
    """Move a collected set to another stage."""
    base = (2 + side) * stage_of.size
    for i in range(size):
        stage_of[work[base + i]] = target


@compiled
def exchangeable(
    weight: IntArray,
    first: IntArray,
    near: IntArray,
    window: IntArray,
    stage_of: IntArray,
    work: IntArray,
    a: int,
    b: int,
    direction: int,
) -> bool:
    """Tell whether the sets of ``a``, which goes in ``direction``, and of ``b`` in the stage there may change places.

    Both sets are left in ``work``.
    """
    n = stage_of.size
    unlimited = np.int64(2**62)
    gather(weight, first, near, window, stage_of, work, a, direction, unlimited, 0)
    mark = work[9 * n]
    size, _ = gather(weight, first, near, window, stage_of, work, b, 1 - direction, unlimited, 1)
    rows = (1 - direction) * (n + 1)
    for i in range(size):
        v = work[3 * n + i]
        for r in range(first[rows + v], first[rows + v + 1]):
            if work[near[r]] == mark:
                return False
    return True


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
) -> bool:
    """Make the move or swap between two neighbouring stages that evens their loads out best.

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

    Returns:
        Whether anything was moved: the larger of the two loads is lower then.
    """
    n = stage_of.size
    surplus = load[heavy] - load[light]
    if surplus < 2:
        return False
    direction = 0 if light > heavy else 1
    limit = min(load[heavy], surplus + slack)
    best = surplus  # twice the distance of a transfer from half the surplus: a transfer of 0 or all of it gains nothing
    best_a, best_b = -1, -1
    num_a = gather_all(weight, first, near, window, order, stage_of, work, heavy, direction, limit, 0)
    for i in range(4 * n, 4 * n + num_a):
        distance = abs(2 * work[2 * n + i] - surplus)
        if distance < best and work[2 * n + i] < load[heavy]:
            best, best_a = distance, work[i]
    if best > 1:
        num_b = gather_all(weight, first, near, window, order, stage_of, work, light, 1 - direction, limit - 1, 1)
        tries = 0
        for i in range(4 * n, 4 * n + num_a):
            twice = 2 * work[2 * n + i] - surplus
            for j in range(5 * n, 5 * n + num_b):
                distance = abs(twice - 2 * work[2 * n + j])
                if distance < best and tries < MOST_TRIES:
                    tries += 1
                    if exchangeable(weight, first, near, window, stage_of, work, work[i], work[j], direction):
                        best, best_a, best_b = distance, work[i], work[j]
    if best_a < 0:
        return False
    size, total = gather(weight, first, near, window, stage_of, work, best_a, direction, load[heavy], 0)
    if best_b >= 0:
        size_b, total_b = gather(weight, first, near, window, stage_of, work, best_b, 1 - direction, load[light], 1)
        put(stage_of, work, 1, size_b, heavy)
        total -= total_b
        count[heavy] += size_b
        count[light] -= size_b
    put(stage_of, work, 0, size, light)
    load[heavy] -= total
    load[light] += total
    count[heavy] -= size
    count[light] += size
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
        if even_out(weight, first, near, window, order, stage_of, work, load, count, heavy, light, slack):
            for d in range(max(0, chosen - 1), min(num_pairs, chosen + 2)):
                closed[d] = 0
        else:
            closed[chosen] = 1
