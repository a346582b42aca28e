"""What determines the partition of the generalisation test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from respect_core.policy.generalisation import few_sweeps
from tasks.generalisation import GeneralisationSet
from tasks.plan import RunPlan

SMALL = GeneralisationSet(policy="0" * 64)


@pytest.mark.parametrize(
    "change", [{"policy": "1" * 64}, {"num_graphs": 6}, {"time_limit_s": 1.0}, {"sweeps": ("ops",)}]
)
def test_whatever_determines_the_rows_changes_the_partition(change: dict[str, object]) -> None:
    assert replace(SMALL, **change).partition != SMALL.partition  # type: ignore[arg-type]


def test_an_unchanged_policy_is_not_tested_again_with_another_seed() -> None:
    wanted = RunPlan.of("smoke", 0).generalisation("0" * 64)
    assert wanted.partition == RunPlan.of("smoke", 1).generalisation("0" * 64).partition
    assert wanted.sweeps == tuple(few_sweeps()) and wanted.num_graphs < RunPlan.of("full").generalisation("").num_graphs
