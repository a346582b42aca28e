"""What a sweep found: for each variant and validation set the mean gap over the seeds, with a 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from respect_core.graph import FloatArray

EVERYTHING: Final = "all"
"""Name of all problems of all sets together: what trainings are judged by."""

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over training seeds; gaps are fractions."""

    mean: float
    half_width: float | None
    """Half of Student's interval for the mean; None for a single seed."""
    seeds: int

    @classmethod
    def of(cls, values: FloatArray) -> Estimate:
        """Estimate a mean; ``values`` has shape (seeds,)."""
        if values.size < 2:
            return cls(mean=float(values.mean()), half_width=None, seeds=int(values.size))
        from scipy.special import stdtrit

        quantile = float(stdtrit(values.size - 1, (1 + CONFIDENCE) / 2))
        half_width = quantile * float(values.std(ddof=1)) / math.sqrt(values.size)
        return cls(mean=float(values.mean()), half_width=half_width, seeds=int(values.size))

    def __str__(self) -> str:
        """In per cent."""
        return f"{self.mean:.2%}" if self.half_width is None else f"{self.mean:.2%} ± {100 * self.half_width:.2f}"


@dataclass(frozen=True, kw_only=True)
class VariantSummary:
    """What is known about one variant."""

    variant: str
    sets: dict[str, Estimate]
    """By validation set, all problems together first."""
    against_first: Estimate
    """Difference to the first variant over all problems, seed by seed."""


def summary_of(sweeps: pa.Table, variants: Sequence[str]) -> list[VariantSummary]:
    """Summarise the rows of one sweep, in the order of ``variants``."""
    frame = sweeps.to_pandas()
    pivot = frame.pivot_table(index=["variant", "training_seed"], columns="set_name", values="mean_gap")
    names = [EVERYTHING, *(name for name in dict.fromkeys(frame["set_name"].tolist()) if name != EVERYTHING)]
    first: FloatArray = pivot.loc[variants[0], EVERYTHING].to_numpy(dtype=np.float64)
    found = []
    for variant in variants:
        gaps = {name: pivot.loc[variant, name].to_numpy(dtype=np.float64) for name in names}
        found.append(
            VariantSummary(
                variant=variant,
                sets={name: Estimate.of(values) for name, values in gaps.items()},
                against_first=Estimate.of(gaps[EVERYTHING] - first),
            )
        )
    return found


def summary_markdown(summary: Sequence[VariantSummary]) -> str:
    """Return the comparison as a table in Markdown."""
    names, seeds = list(summary[0].sets), summary[0].sets[EVERYTHING].seeds
    difference = f"against {summary[0].variant}"
    head = f"| variant | {' | '.join(names)} | {difference} |"
    rule = "|---|" + "---:|" * (len(names) + 1)
    lines = [
        f"| {line.variant} | {' | '.join(str(line.sets[name]) for name in names)} | {line.against_first} |"
        for line in summary
    ]
    over = f"{seeds} training seeds, with 95 % intervals of the mean (Student)" if seeds > 1 else "one training seed"
    about = (
        "Mean gap to the optimal peak memory of each training's best network: best of eight greedy orders, without "
        f"local search. Means over {over}; `{EVERYTHING}` counts every problem once, and the last column compares it "
        "seed by seed."
    )
    return "\n".join([head, rule, *lines, "", about])
