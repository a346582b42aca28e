"""The one number a training is judged by, and what it consists of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from respect_core.policy.chunks import LabelChunk
from respect_core.policy.config import NetworkConfig
from respect_core.policy.features import Float32Array
from respect_core.policy.frozen import FrozenSets, ValidationSet
from respect_core.policy.scoring import Scorer

HELD_OUT: Final = "held-out"
"""Name of the set of labels that a training sets aside."""


class Judge:
    """Validation sets and the gaps of networks on them.

    Args:
        config: The networks' sizes.
        held_out: Labels that a training sets aside.
        frozen: Further sets.
    """

    def __init__(self, config: NetworkConfig, held_out: LabelChunk, frozen: FrozenSets | None) -> None:
        self._config = config
        self._sets = (ValidationSet(name=HELD_OUT, chunk=held_out), *(frozen.sets if frozen else ()))

    def __call__(self, weights: Mapping[str, Float32Array]) -> tuple[float, dict[str, float]]:
        """Return the mean gap over all problems, every one counting once, and the mean gap of each set by its name.

        Gaps are those of the best of eight greedy orders, without local search, as fractions. The second is empty where
        there is no other set than the labels set aside.
        """
        scorer = Scorer(self._config, weights)
        gaps = {one.name: one.gaps(scorer) for one in self._sets}
        total = math.fsum(float(found.sum()) for found in gaps.values())
        mean = total / sum(found.size for found in gaps.values())
        return mean, {name: float(found.mean()) for name, found in gaps.items()} if len(gaps) > 1 else {}
