"""Which sets of ops may leave a stage for a neighbouring one, as bits of a word.

An op leaves its stage upwards together with its descendants in that stage, downwards with its ancestors in it: then
every edge still points forwards. Two groups of such sets, one from each of two neighbouring stages, may change places
where no edge leads from what goes up to what comes down.

The arrays ``weight``, ``first``, ``near``, ``window`` and ``order`` are those of `SearchGraph`, ``work`` is
`work_for`'s. They come one by one: taking them out of a tuple costs the innermost loops more than their work.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.local_search_graph import MOST_SETS, SIDE_SPACE, Int

_ONE: Final = np.int64(1)


@compiled
def listed(num_ops: int, side: int) -> int:
    """Return where in the scratch space a side's list of ops begins."""
    return 8 * num_ops + 1 + side * SIDE_SPACE + MOST_SETS


@compiled
def collect_sets(
    weight: IntArray,
    first: IntArray,
    near: IntArray,
    window: IntArray,
    order: IntArray,
    stage_of: IntArray,
    work: IntArray,
    stage: int,
    other: int,
    limit: Int,
    side: int,
) -> int:
    """List the ops whose sets may leave a stage for a neighbouring one and weigh something, lightest set first.

    The ops are looked at from the boundary inwards, so that what an op takes along is known before it; of an op that
    cannot leave, nothing behind it can.

    Args:
        weight: Shape (n,).
        first: Shape (2 (n + 1),).
        near: Shape (2 e,).
        window: Shape (2 n,).
        order: A topological order. Shape (n,).
        stage_of: Stage of every op. Shape (n,).
        work: Receives the list (`listed`), and of the set that leaves with each op, bits at ``4 n + op``, weight at
            ``5 n + op``, and what edges lead to from it as bits of the other side's ops, at ``6 n + op``.
        stage: The stage that is left.
        other: The stage before or after it.
        limit: Largest weight of a set.
        side: 1, or 0 after side 1 received the sets that may come from ``other``: what edges lead to is of side 0.

    Returns:
        Number of ops listed. Of a stage of which more than `MOST_SETS` ops can leave, those nearest the boundary.
    """
    n = stage_of.size
    direction = 0 if other > stage else 1
    rows, bounds = direction * (n + 1), (1 - direction) * n
    masks, totals, reaches, bits = 4 * n, 5 * n, 6 * n, 7 * n
    listed_at = listed(n, side)
    by_bit = listed_at - MOST_SETS
    num_bits, found = 0, 0
    for i in range(n):
        v = order[n - 1 - i] if direction == 0 else order[i]
        if stage_of[v] != stage:
            continue
        work[totals + v] = -1
        total = weight[v]
        if total > limit or window[bounds + v] == stage or num_bits == MOST_SETS:
            continue
        mask, reach = np.int64(0), np.int64(0)
        for r in range(first[rows + v], first[rows + v + 1]):
            u = near[r]
            if stage_of[u] == stage:
                if work[totals + u] < 0:
                    total = np.int64(-1)
                    break
                more = work[masks + u] & ~mask
                if more == work[masks + u]:
                    total += work[totals + u]
                elif more != 0:
                    for b in range(num_bits):
                        if (more >> b) & 1:
                            total += weight[work[by_bit + b]]
                mask |= more
                reach |= work[reaches + u]
            elif side == 0 and stage_of[u] == other and work[totals + u] >= 0:
                reach |= _ONE << work[bits + u]
        if total < 0 or total > limit:
            continue
        mask |= _ONE << num_bits
        work[masks + v], work[totals + v], work[reaches + v], work[bits + v] = mask, total, reach, num_bits
        work[by_bit + num_bits] = v
        num_bits += 1
        if total > 0:
            at = listed_at + found
            while at > listed_at and work[totals + work[at - 1]] > total:
                work[at] = work[at - 1]
                at -= 1
            work[at] = v
            found += 1
    return found


@compiled
def nearest_set(
    work: IntArray, num_ops: int, side: int, size: int, clash: Int, twice: Int, closest: Int
) -> tuple[int, Int]:
    """Find the listed set whose doubled weight is nearest to a number.

    Args:
        work: Holds the list, lightest set first.
        num_ops: n.
        side: Whose list.
        size: Number of ops in it.
        clash: Bits that a set must not have: for side 1 among its ops, for side 0 among what edges lead to from it.
        twice: The number.
        closest: How far away the doubled weight must not be.

    Returns:
        The op and the distance; (-1, ``closest``) if none is nearer.
    """
    totals, clashing = 5 * num_ops, 6 * num_ops - 2 * num_ops * side
    begin = listed(num_ops, side)
    low, high = begin, begin + size
    while low < high:
        middle = (low + high) // 2
        if 2 * work[totals + work[middle]] < twice:
            low = middle + 1
        else:
            high = middle
    found = -1
    for at in range(low, begin + size):
        v = work[at]
        if 2 * work[totals + v] - twice >= closest:
            break
        if work[clashing + v] & clash == 0:
            closest, found = 2 * work[totals + v] - twice, v
            break
    for at in range(low - 1, begin - 1, -1):
        v = work[at]
        if twice - 2 * work[totals + v] >= closest:
            break
        if work[clashing + v] & clash == 0:
            closest, found = twice - 2 * work[totals + v], v
            break
    return found, closest
