"""Rules of the table `generalisation`."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from respect_core.graph import BoolArray
from respect_core.tables.domain_checks.columns import DomainColumns, holds, numbers
from respect_core.tables.generalisation import METHODS

_TOLERANCE: Final = 1e-9
"""Relative difference that the rounding of a mean may cause."""

_POINT: Final = ["policy", "changed", "value"]


def generalisation_checks(generalisation: pa.Table) -> DomainColumns:
    """Check gaps and counts of the generalisation test.

    Returns:
        For every row: no more optima are proven than there are graphs; the largest gap is no smaller than the mean one
        and no larger than what the mean allows; a point has every method, all with the same graphs and proofs; and no
        two points of a sweep have the same place.
    """
    graphs, proven, mean, worst = (
        numbers(generalisation, name) for name in ("num_graphs", "num_proven", "mean_gap", "worst_gap")
    )
    slack = _TOLERANCE * np.abs(worst)
    return DomainColumns(
        columns={
            "proven_within_graphs": holds(proven <= graphs),
            "gaps_not_negative": holds((mean >= 0) & (worst >= 0)),
            "worst_gap_fits_mean": holds((mean <= worst + slack) & (worst <= graphs * mean + slack)),
            "methods_complete": holds(_distinct(generalisation, _POINT, "method") == len(METHODS)),
            "graphs_constant": holds(_constant(generalisation, ("num_graphs", "num_proven", "point"))),
            "points_distinct": holds(_distinct(generalisation, ["changed", "point"], "value") == 1),
        }
    )


def _distinct(table: pa.Table, key: list[str], name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Count the distinct values of a column in every key. Shape (rows,)."""
    frame = table.select([*key, name]).to_pandas()
    found = frame.groupby(key, dropna=False, observed=True)[name].transform("nunique")
    return np.asarray(found.to_numpy(dtype=np.int64, na_value=0))


def _constant(table: pa.Table, names: tuple[str, ...]) -> BoolArray:
    """Tell where columns have one value a point. Shape (rows,)."""
    return np.asarray(np.all([_distinct(table, _POINT, name) == 1 for name in names], axis=0), dtype=np.bool_)
