"""Rules of the tables `benchmarks`, `training`, `validation` and `sweeps`."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from respect_core.graph import BoolArray
from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.domain_checks.columns import DomainColumns, equals, holds, is_null, numbers

SIMULATED: Final = "simulated"
"""Name of the one runner that computes instead of running anything."""

_TOLERANCE: Final = 1e-6
"""Relative difference of two sums of the same times that floating point may cause."""


def benchmark_checks(benchmarks: pa.Table) -> DomainColumns:
    """Check timed inferences.

    Returns:
        For every row: `is_simulated` tells the truth; items of a run are numbered from 0 without a hole; the first item
        has no interval and every other one has; one item at a time, an item leaves no sooner after the one before than
        it takes itself; in a simulated full pipeline, whose host costs less than its stages, no later than that; and
        energy is given with its source and window or not at all, and for full pipelines only.
    """
    simulated = equals(benchmarks, "runner", SIMULATED)
    item, interval, latency = (numbers(benchmarks, name) for name in ("item", "interval_us", "latency_us"))
    timed = ~is_null(benchmarks, "interval_us")
    slack = _TOLERANCE * latency
    one_at_a_time = equals(benchmarks, "mode", "latency")
    parts = [~is_null(benchmarks, f"energy_{name}") for name in ("uj_per_inference", "window_us", "source")]
    return DomainColumns(
        columns={
            "simulated_is_marked": holds(numbers(benchmarks, "is_simulated").astype(np.bool_) == simulated),
            "items_contiguous": holds(_contiguous(benchmarks, BENCHMARKS.key, "item")),
            "interval_but_for_first": holds(timed == (item > 0)),
            "latency_positive": holds(latency > 0),
            "latency_mode_not_overlapping": holds(interval >= latency - slack, timed & one_at_a_time),
            "pipelined_interval_within_latency": holds(
                interval <= latency + slack, timed & simulated & equals(benchmarks, "mode", "pipelined")
            ),
            "energy_whole_or_none": holds((np.all(parts, axis=0) & ~one_at_a_time) | ~np.any(parts, axis=0)),
        }
    )


def training_checks(training: pa.Table) -> DomainColumns:
    """Check that the epochs of every run are numbered from 1 without a hole."""
    return DomainColumns(columns={"epochs_contiguous": holds(_contiguous(training, ("run_id", "epoch"), "epoch", 1))})


def validation_checks(validation: pa.Table) -> DomainColumns:
    """Check that every point of a run was validated on the same sets, with equally many problems."""
    return DomainColumns(
        columns={
            "sets_complete": holds(_as_often(validation, ("run_id", "phase", "step"), ("run_id",))),
            "problems_constant": holds(_constant(validation, ("run_id", "set_name"), "problems")),
        }
    )


def sweep_checks(sweeps: pa.Table) -> DomainColumns:
    """Check that every training of a sweep was judged on the same sets, with equally many problems."""
    return DomainColumns(
        columns={
            "sets_complete": holds(_as_often(sweeps, ("sweep", "variant", "training_seed"), ("sweep",))),
            "problems_constant": holds(_constant(sweeps, ("sweep", "set_name"), "problems")),
        }
    )


def _as_often(table: pa.Table, key: tuple[str, ...], group: tuple[str, ...]) -> BoolArray:
    """Tell where a key has as many sets as there are in its whole group."""
    frame = table.select([*key, "set_name"]).to_pandas()
    found = frame.groupby(list(key), dropna=False, observed=True)["set_name"].transform("nunique")
    wanted = frame.groupby(list(group), dropna=False, observed=True)["set_name"].transform("nunique")
    return np.asarray((found == wanted).to_numpy(dtype=np.bool_, na_value=False))


def _constant(table: pa.Table, key: tuple[str, ...], name: str) -> BoolArray:
    """Tell where a column has one value a key."""
    frame = table.select([*key, name]).to_pandas()
    values = frame.groupby(list(key), dropna=False, observed=True)[name].transform("nunique")
    return np.asarray((values == 1).to_numpy(dtype=np.bool_, na_value=False))


def _contiguous(table: pa.Table, key: tuple[str, ...], index: str, first: int = 0) -> BoolArray:
    """Tell where an index is one of the first ones from ``first`` on, which with a unique key leaves no hole."""
    frame = table.select(list(key)).to_pandas()
    group = [name for name in key if name != index]
    sizes = frame.groupby(group, dropna=False, observed=True)[index].transform("size")
    return np.asarray((frame[index] < sizes + first).to_numpy(dtype=np.bool_, na_value=False))
