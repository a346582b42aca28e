from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.errors import BadInputError
from respect_core.policy.baseline import p_value_lower, student_t_cdf


@pytest.mark.parametrize(
    ("t", "degrees", "probability"),
    [  # from printed tables of Student's distribution
        (6.314, 1, 0.95),
        (2.920, 2, 0.95),
        (1.833, 9, 0.95),
        (-1.833, 9, 0.05),
        (2.763, 28, 0.995),
        (1.660, 100, 0.95),
        (0.0, 7, 0.5),
    ],
)
def test_the_t_distribution_agrees_with_printed_tables(t, degrees, probability):
    assert student_t_cdf(t, degrees) == pytest.approx(probability, abs=2e-4)


def test_one_degree_of_freedom_is_cauchy():
    for t in (-3.0, -0.5, 0.0, 1.0, 40.0):
        assert student_t_cdf(t, 1) == pytest.approx(0.5 + np.arctan(t) / np.pi, abs=1e-9)


def test_many_degrees_of_freedom_are_normal():
    assert student_t_cdf(1.6448536269514722, 10**5) == pytest.approx(0.95, abs=1e-4)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=30))
def test_swapping_the_sides_turns_the_p_value_around(pairs):
    a, b = np.array(pairs).T
    forward, backward = p_value_lower(a, b), p_value_lower(b, a)
    assert 0 <= forward <= 1
    if np.std(a - b) > 1e-9:
        assert forward + backward == pytest.approx(1)
    if forward < 0.5:
        assert a.mean() < b.mean()


def test_constant_differences_are_decided_without_a_variance():
    ones = np.ones(4)
    assert p_value_lower(ones, ones + 1) == 0
    assert p_value_lower(ones, ones) == 1
    assert p_value_lower(ones, ones - 1) == 1


def test_a_single_cost_cannot_be_tested():
    with pytest.raises(BadInputError, match="at least 2"):
        p_value_lower(np.ones(1), np.ones(1))
