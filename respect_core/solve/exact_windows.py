"""Windows of the exact search: which nodes can lie before a boundary if every stage stays within a budget."""

from __future__ import annotations

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.solve.downsets import Int

FREE, INSIDE, OUTSIDE = 0, 1, 2
"""Where a node is relative to a boundary."""


@compiled
def find_windows(
    reach: tuple[IntArray, IntArray],
    totals: IntArray,
    most: IntArray,
    first: IntArray,
    last: IntArray,
    num_stages: Int,
    lowest: IntArray,
    highest: IntArray,
    status: IntArray,
) -> bool:
    """Fill in the sums that the nodes before each boundary can have, and which nodes are free there.

    Args:
        reach: Measures summed over each node's ancestors and over its descendants. Each of shape (measures, nodes).
        totals: Measures summed over all nodes. Shape (measures,).
        most: Largest measures of a stage; a measure beyond these counts nodes, of which every stage has at least one.
        first: Earliest stage of every node.
        last: Latest stage of every node.
        num_stages: K.
        lowest: Written to: smallest measures before each boundary. Shape (K + 1, measures).
        highest: Written to: largest measures. Shape (K + 1, measures).
        status: Written to: `FREE`, `INSIDE` or `OUTSIDE`. Shape (K + 1, nodes).

    Returns:
        False if some boundary cannot be placed.
    """
    before, after = reach
    for k in range(num_stages + 1):
        for c in range(totals.size):
            if c >= most.size:
                lowest[k, c] = totals[c] if k == num_stages else k
                highest[k, c] = 0 if k == 0 else totals[c] - (num_stages - k)
            else:
                if most[c] < 0 or (totals[c] > 0 and most[c] < (totals[c] - 1) // num_stages + 1):
                    return False
                # k * most without overflow: beyond the total it does not matter
                highest[k, c] = totals[c] if k * (most[c] / (totals[c] + 1)) > 2 else min(totals[c], k * most[c])
                rest = num_stages - k
                left = totals[c] if rest * (most[c] / (totals[c] + 1)) > 2 else min(totals[c], rest * most[c])
                lowest[k, c] = totals[c] - left
    for k in range(num_stages + 1):
        for v in range(first.size):
            inside = last[v] < k
            outside = first[v] >= k
            for c in range(totals.size):
                inside = inside or totals[c] - after[c, v] < lowest[k, c]
                outside = outside or before[c, v] > highest[k, c]
            if inside and outside:
                return False
            status[k, v] = INSIDE if inside else OUTSIDE if outside else FREE
    return True
