"""A descent that evens out the memory of neighbouring stages: good schedules where an exact search is out of reach."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import Int

MAX_PAIRS = 2_000_000
"""Most pairs of nodes that a swap is chosen from; of larger stages only the first nodes are looked at."""


@compiled
def _reads(v: Int, u: Int, parent_start: IntArray, parent: IntArray) -> bool:
    """Whether u is a parent of v: then the two cannot swap."""
    for p in range(parent_start[v], parent_start[v + 1]):  # noqa: SIM110 (any() does not compile)
        if parent[p] == u:
            return True
    return False


@compiled
def even_out(
    parent_start: IntArray, parent: IntArray, loads: IntArray, num_stages: Int, stage_of: IntArray, stop: IntArray
) -> None:
    """Move single nodes, or swap two, between neighbouring stages as long as that brings their loads closer together.

    Args:
        parent_start: Where the parents of each node start in ``parent``. Shape (n + 1,).
        parent: Parents.
        loads: Load of every node. Shape (n,).
        num_stages: K.
        stage_of: A legal schedule; improved in place, and legal at any time. Shape (n,).
        stop: Returns soon once ``stop[0]`` is not 0.
    """
    n = loads.size
    totals = np.zeros(num_stages, np.int64)
    sizes = np.zeros(num_stages, np.int64)
    for v in range(n):
        totals[stage_of[v]] += loads[v]
        sizes[stage_of[v]] += 1
    earliest, latest = np.empty(n, np.int64), np.empty(n, np.int64)
    right, left = np.empty(n, np.int64), np.empty(n, np.int64)
    improved = True
    while improved and stop[0] == 0:
        improved = False
        for s in range(num_stages - 1):
            earliest[:] = 0
            latest[:] = num_stages - 1
            for v in range(n):
                for p in range(parent_start[v], parent_start[v + 1]):
                    earliest[v] = max(earliest[v], stage_of[parent[p]])
                    latest[parent[p]] = min(latest[parent[p]], stage_of[v])
            num_right, num_left = 0, 0  # who of stage s may move right, who of stage s + 1 may move left
            for v in range(n):
                if stage_of[v] == s and latest[v] > s:
                    right[num_right] = v
                    num_right += 1
                elif stage_of[v] == s + 1 and earliest[v] <= s:
                    left[num_left] = v
                    num_left += 1
            while num_right * num_left > MAX_PAIRS:
                num_right, num_left = (num_right + 1) // 2, (num_left + 1) // 2
            excess = totals[s] - totals[s + 1]
            best, first, second = abs(excess), -1, -1
            if sizes[s] > 1:
                for i in range(num_right):
                    after = abs(excess - 2 * loads[right[i]])
                    if after < best:
                        best, first, second = after, right[i], -1
            if sizes[s + 1] > 1:
                for j in range(num_left):
                    after = abs(excess + 2 * loads[left[j]])
                    if after < best:
                        best, first, second = after, -1, left[j]
            for i in range(num_right):
                for j in range(num_left):
                    after = abs(excess - 2 * (loads[right[i]] - loads[left[j]]))
                    if after < best and not _reads(left[j], right[i], parent_start, parent):
                        best, first, second = after, right[i], left[j]
            if best < abs(excess):
                improved = True
                if first >= 0:
                    stage_of[first] = s + 1
                    totals[s] -= loads[first]
                    totals[s + 1] += loads[first]
                    sizes[s] -= 1
                    sizes[s + 1] += 1
                if second >= 0:
                    stage_of[second] = s
                    totals[s] += loads[second]
                    totals[s + 1] -= loads[second]
                    sizes[s] += 1
                    sizes[s + 1] -= 1
