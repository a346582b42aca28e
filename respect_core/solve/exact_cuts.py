"""The least sum of crossings where there are too many down-sets to list: only those that little crosses are listed.

The smallest weight of a down-set at each boundary comes first; the sum of these bounds every chain from below. A chain
whose sum exceeds that bound by some surplus never uses a set that exceeds its boundary's smallest by more, so the
surplus is raised until a chain within it is found, which is then the cheapest of all.
"""

from __future__ import annotations

import numpy as np

from respect_core.graph import IntArray
from respect_core.solve.exact_chains import States
from respect_core.solve.exact_levels import LevelBuilder
from respect_core.solve.exact_model import Model
from respect_core.solve.exact_phases import Phases
from respect_core.solve.exact_tensors import NO_CAP


def least_sum_by_cuts(
    model: Model, budget: int, most: int, max_sets: int, stop: IntArray
) -> tuple[Phases, list[States]] | None:
    """Find the least sum of weights within a budget.

    Args:
        model: An untimed model.
        budget: Largest load of a stage.
        most: Largest sum of interest.
        max_sets: Most down-sets to list at a time.
        stop: Gives up once ``stop[0]`` is not 0.

    Returns:
        The listed sets and the states on them, None if no chain within the budget has a sum of at most ``most``.

    Raises:
        LimitError: Too many sets, or stopped.
    """
    builder = LevelBuilder(model, budget, stop)
    if not builder.is_possible:
        return None
    K = model.num_stages
    smallest: list[int] = []
    cap = int(model.tensors.columns[0].max(initial=0))
    for k in range(1, K):
        least = _smallest_weight(builder, k, cap, max_sets)
        if least is None:
            return None
        smallest.append(least)
    total = sum(smallest)
    surplus = total // 32 + 1
    while True:
        is_all = total + surplus >= most or surplus >= NO_CAP // 4
        limit = most - total if total + surplus >= most else surplus
        if limit < 0:
            return None
        inner, room = [], max_sets
        for k, least in enumerate(smallest, start=1):
            inner.append(builder.list_boundary(k, room, min(least + limit, NO_CAP - 1)))
            room -= inner[-1].shape[0]
        levels = builder.finish(inner)
        if levels is not None:
            phases = Phases(model, levels, stop)
            states = phases.least_sum(budget, total + limit)
            if states is not None:
                return phases, states
        if is_all:
            return None
        surplus *= 3


def _smallest_weight(builder: LevelBuilder, k: int, cap: int, max_sets: int) -> int | None:
    """Return the smallest weight of a down-set of a boundary, None if it has none."""
    while True:
        capped = min(cap, NO_CAP - 1)
        sets = builder.list_boundary(k, max_sets, capped)
        if sets.shape[0]:
            return int(np.min(builder.weigh(sets, k)))
        if capped == NO_CAP - 1:
            return None
        cap = 4 * cap + 1
