"""Variants check themselves, and a sweep's summary is Student's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError, UnknownNameError
from respect_core.policy.baseline import student_t_cdf
from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.variants import VARIANTS, Variant, chosen_variants
from respect_core.tables.sweeps import SWEEPS
from tasks.sizes import SIZES
from tasks.sweep_summary import EVERYTHING, Estimate, summary_markdown, summary_of
from tests.respect_core.tables.table_data import sweep_rows


@pytest.mark.parametrize("size", SIZES.values(), ids=lambda size: size.name)
def test_every_variant_fits_every_size_and_differs_from_the_others(size):
    made = [variant.applied(size.train, size.network) for variant in VARIANTS]
    assert made[0] == (size.train, size.network) and len(set(made)) == len(made)
    for config, network in made:
        assert network == NetworkConfig() or not config.warm_start


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Two words"}, "'Two words'"),
        ({"train": {"epoch": 3}}, "changes 'epoch'"),
        ({"train": {"seed": 3}}, "changes 'seed'"),
        ({"train": {"epochs": 0}}, "epochs is 0"),
        ({"network": {"depth": 3}}, "changes 'depth', allowed are: .*width, rounds"),
        ({"network": {"width": 32}}, "set warm_start to False"),
    ],
)
def test_variants_that_cannot_be_trained_are_refused(change, message):
    with pytest.raises(BadInputError, match=message):
        Variant(**{"name": "ok", "question": "?", **change})


def test_variants_are_chosen_by_name():
    assert chosen_variants([]) == VARIANTS
    assert [variant.name for variant in chosen_variants(["scratch", "usual"])] == ["scratch", "usual"]
    with pytest.raises(UnknownNameError, match="scratch"):
        chosen_variants(["scrach"])
    with pytest.raises(BadInputError, match="twice"):
        chosen_variants(["usual", "usual"])
    config, network = chosen_variants(["scratch-width-32"])[0].applied(ImitationConfig(seed=4), NetworkConfig())
    assert network.width == 32 and config.seed == 4 and not config.warm_start


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9))
@settings(max_examples=50)
def test_an_interval_holds_the_mean_with_95_per_cent(values):
    found = Estimate.of(np.array(values))
    assert found.mean == pytest.approx(np.mean(values)) and found.seeds == len(values)
    spread = np.std(values, ddof=1)
    if spread > 1e-9:
        t = found.half_width / (spread / np.sqrt(len(values)))
        assert student_t_cdf(t, len(values) - 1) == pytest.approx(0.975, abs=1e-6)
    else:
        assert found.half_width == pytest.approx(0, abs=1e-8)


def test_a_single_seed_has_no_interval():
    found = Estimate.of(np.array([0.0123]))
    assert found.half_width is None and str(found) == "1.23%"
    assert str(Estimate(mean=0.01, half_width=0.002, seeds=3)) == "1.00% ± 0.20"


def test_a_summary_compares_seed_by_seed_in_the_order_asked_for():
    rows = sweep_rows()
    for row in rows:
        row["mean_gap"] = 0.01 * (1 + row["training_seed"]) + 0.005 * (row["variant"] == "small")
    summary = summary_of(SWEEPS.table(rows), ["usual", "small"])
    assert [line.variant for line in summary] == ["usual", "small"]
    assert list(summary[0].sets) == [EVERYTHING, "wide-30"]
    assert summary[0].sets[EVERYTHING].mean == pytest.approx(0.015)
    assert summary[0].against_first.mean == 0
    assert summary[1].against_first.mean == pytest.approx(0.005)
    assert summary[1].against_first.half_width == pytest.approx(0, abs=1e-12), "both seeds differ alike"
    text = summary_markdown(summary)
    assert text.splitlines()[0] == "| variant | all | wide-30 | against usual |"
    assert "| small | 2.00% ± " in text and "2 training seeds, with 95 % intervals" in text
