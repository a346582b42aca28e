"""The smallest peak memory of a model without constraints: a search over the nodes that have parameters only.

Nodes without parameters never matter for the peak: of two down-sets with the same parameters the larger can be reached
wherever the smaller can. So the order among the loaded nodes alone is searched, with many fewer down-sets. A stage
could come out without any op this way, so what is found is a lower bound that the next phase confirms.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from respect_core.graph import IntArray
from respect_core.solve.downsets import restricted
from respect_core.solve.exact_levels import build_levels
from respect_core.solve.exact_model import Model, Tensors
from respect_core.solve.exact_phases import Phases


def loaded_part(model: Model) -> Model:
    """Return the model of the nodes with parameters, whose stages may be empty."""
    chosen = np.flatnonzero(model.sums[0] > 0)
    before, after = restricted(model.before, model.after, chosen)
    none = np.zeros(0, dtype=np.int64)
    loads = np.ascontiguousarray(model.sums[:1, chosen])
    return replace(
        model,
        node_of=np.arange(chosen.size),
        num_nodes=chosen.size,
        before=before,
        after=after,
        first=np.zeros(chosen.size, dtype=np.int64),
        last=np.full(chosen.size, model.num_stages - 1),
        measures=loads,
        sums=loads,
        tensors=Tensors(
            maker=none, read_start=np.zeros(1, dtype=np.int64), reader=none, columns=np.zeros((3, 0), dtype=np.int64)
        ),
        reach=(
            np.ascontiguousarray(model.reach[0][:1, chosen]),
            np.ascontiguousarray(model.reach[1][:1, chosen]),
        ),
        may_be_empty=True,
    )


class PeakSearch:
    """Raises a budget until a schedule stays within it; can be resumed with a larger limit of sets.

    Args:
        model: A model whose sets of any size are cheap: `loaded_part`, or the whole where there are constraints.
        bound: A proven lower bound of the first component.
        stop: The search gives up once ``stop[0]`` is not 0.
    """

    def __init__(self, model: Model, bound: int, stop: IntArray) -> None:
        self.model, self.bound, self.stop = model, bound, stop
        self._budget, self._step = bound, bound // 65536 + 1
        self.is_done = False

    def run(self, highest: int, max_sets: int) -> Phases | None:
        """Search budgets up to ``highest``.

        Returns:
            The sets that attain the smallest first component, which is then ``bound``; None if it is above ``highest``.

        Raises:
            LimitError: Too many sets, or stopped; ``bound`` holds what is proven so far.
        """
        while True:
            budget = min(self._budget, highest)
            levels = build_levels(self.model, budget, max_sets, self.stop)
            if levels is not None:
                phases = Phases(self.model, levels, self.stop)
                found = phases.smallest_peak(budget, self.bound)
                if found is not None:
                    self.bound, self.is_done = found, True
                    return phases
            self.bound = max(self.bound, budget + 1)
            if budget >= highest:
                return None
            self._budget += self._step
            num_sets = 0 if levels is None else levels.num_sets
            self._step *= 4 if num_sets < 128 else 2 if num_sets < 1024 else 1

    def is_impossible(self, budget: int, max_sets: int) -> bool:
        """Whether no schedule stays within a budget; the bound is raised if so.

        Raises:
            LimitError: Too many sets, or stopped.
        """
        levels = build_levels(self.model, budget, max_sets, self.stop)
        if levels is not None and Phases(self.model, levels, self.stop).smallest_peak(budget, self.bound) is not None:
            return False
        self.bound = max(self.bound, budget + 1)
        return True

    def try_at(self, budget: int) -> None:
        """Try this budget next."""
        self._budget = budget
