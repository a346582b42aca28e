"""How many TPUs: the published figures of a real pipeline, and the rule by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.errors import SolverFailedError
from respect_core.solve.recommend import MARGIN, Candidate, recommend


def candidates(per_second: list[float | None], streamed: list[int] | None = None, host_ns: int = 0) -> list[Candidate]:
    streamed = streamed or [0] * len(per_second)
    return [
        Candidate(
            num_stages=k,
            status="optimal" if rate else "infeasible",
            bottleneck_ns=round(1e9 / rate) if rate else None,
            host_ns=host_ns * k,
            peak_param_bytes=2**20 if rate else None,
            streamed_bytes=streamed[k - 1] if rate else None,
            message="" if rate else "no room",
        )
        for k, rate in enumerate(per_second, start=1)
    ]


def test_the_measured_resnet152_gets_as_many_as_its_parameters_need() -> None:
    """Measured items a second of ResNet-152 over 1 to 8 TPUs: 59.4 MiB find room on eight chips of 7.7 MiB."""
    measured: list[float | None] = [6.9, 15.3, 25.9, 38.9, 51.8, 79.9, 129.9, 141.3]
    found = recommend(candidates(measured, [2**20] * 6 + [0, 0]))
    assert found.num_stages == 7
    assert "18.8x one TPU" in found.why and "all parameters stay on the chips" in found.why
    assert "14% more hardware" in found.why and "+9%" in found.why


def test_a_small_model_needs_one() -> None:
    found = recommend(candidates([100.0, 150.0, 170.0]))
    assert found.num_stages == 1
    assert found.why.startswith("one TPU suffices") and "+50%" in found.why


def test_what_driving_the_stages_costs_bounds_the_throughput() -> None:
    found = recommend(candidates([4000.0, 9000.0], host_ns=244_000))
    assert found.num_stages == 1
    assert found.candidates[1].period_ns == 488_000


def test_stages_without_a_schedule_are_passed_over_and_said() -> None:
    found = recommend(candidates([None, 100.0, None]))
    assert found.num_stages == 2
    assert "3 have no schedule (no room)" in found.why
    with pytest.raises(SolverFailedError, match=r"1\.\.2 \(no room\)"):
        recommend(candidates([None, None]))


def test_the_last_compared_says_so() -> None:
    assert "more than 2 were not compared" in recommend(candidates([10.0, 40.0], [5, 5])).why


@given(st.lists(st.one_of(st.none(), st.floats(1, 1e5)), min_size=1, max_size=8))
def test_it_is_the_smallest_of_the_good(rates: list[float | None]) -> None:
    if not any(rates):
        return
    found = recommend(candidates(rates))
    values = {c.num_stages: c.per_second_and_tpu for c in found.candidates if c.per_second_and_tpu is not None}
    good = [k for k, value in values.items() if value >= (1 - MARGIN) * max(values.values())]
    assert found.num_stages == min(good)
    assert str(found.num_stages) in found.why or "one TPU" in found.why
