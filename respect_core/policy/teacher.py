"""What a label teaches: at every step of an order that follows it, which ops were allowed and which the label takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, FloatArray, IntArray
from respect_core.solve.local_search_random import Word, below


@compiled
def follow_label(
    load: IntArray,
    first: IntArray,
    near: IntArray,
    stage_of: NDArray[np.int16],
    num_stages: int,
    budget: int,
    state: Word,
    allowed: BoolArray,
    led: BoolArray,
    dynamic: FloatArray,
) -> None:
    """Follow a label in a random order that takes its stages one after the other.

    Args:
        load: Shape (n,).
        first: As in `respect_core.solve.local_search_graph.SearchGraph`.
        near: Likewise.
        stage_of: The label. Shape (n,).
        num_stages: K.
        budget: What a stage may hold.
        state: Random numbers.
        allowed: Written to: the ops that are ready and fit at each step. Shape (n, n): step, op.
        led: Written to: those of them that are in the label's current stage. Shape (n, n).
        dynamic: Written to: `decode_inputs` at each step. Shape (n, 2).
    """
    n = load.size
    allowed[:, :] = False
    led[:, :] = False
    waiting = np.empty(n, np.int64)
    ready = np.empty(n, np.int64)
    num_ready = 0
    left = np.zeros(num_stages, np.int64)
    for v in range(n):
        left[stage_of[v]] += 1
        waiting[v] = first[n + 2 + v] - first[n + 1 + v]
        if waiting[v] == 0:
            ready[num_ready] = v
            num_ready += 1
    stage, filled = 0, np.int64(0)
    for step in range(n):
        while left[stage] == 0:
            stage += 1
            filled = np.int64(0)
        count = 0
        for i in range(num_ready):
            v = ready[i]
            if filled + load[v] <= budget:
                allowed[step, v] = True
            if stage_of[v] == stage:
                allowed[step, v] = True
                led[step, v] = True
                count += 1
        dynamic[step, 0] = (budget - filled) / max(1, budget)
        dynamic[step, 1] = stage / max(1, num_stages - 1)
        pick = below(state, count)
        at = 0
        for i in range(num_ready):
            if stage_of[ready[i]] == stage:
                if pick == 0:
                    at = i
                    break
                pick -= 1
        v = ready[at]
        num_ready -= 1
        ready[at] = ready[num_ready]
        filled += load[v]
        left[stage] -= 1
        for r in range(first[v], first[v + 1]):
            c = near[r]
            waiting[c] -= 1
            if waiting[c] == 0:
                ready[num_ready] = c
                num_ready += 1
