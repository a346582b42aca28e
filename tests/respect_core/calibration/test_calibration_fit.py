"""The fit finds the constants that made the times, keeps what they do not show, and says how wrong it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from respect_core.calibration.design import FITTED, Design
from respect_core.calibration.facts import Layer, StageFacts
from respect_core.calibration.fit import fit_constants, fitted_constant, prior_constants, row_weights
from respect_core.calibration.judging import judge, partition_pairs, predict_by_profiles
from respect_core.calibration.observations import Link, Measurements, Observation
from respect_core.calibration.profile_file import fitted_profile, profile_toml, report_of, write_profile
from respect_core.calibration.validation import FOLDS, cross_validate, fit_parameter_bytes, summarise
from respect_core.device import load_profile
from respect_core.device_constants import KnownProfile, load_known_profile
from respect_core.errors import BadInputError

PRIORS: dict[Link, KnownProfile] = {"pcie": load_known_profile("pcie"), "usb3": load_known_profile("usb3")}

TRUE = {
    "overhead_ms": 0.3, "input_ms_per_mib": 4.0, "output_ms_per_mib": 6.0, "compute_ms_per_gmac": 0.8,
    "mul_concat_ms_per_mib": 0.4, "depthwise_ms_per_mib": 0.4, "add_pad_pool_ms_per_mib": 0.2, "overlap": 0.2,
    "host_thread_ms": 0.244, "streaming_ms_per_mib@pcie": 2.9, "streaming_ms_per_mib@usb3": 2.37,
}  # fmt: skip


def drawn_rows(count: int, seed: int = 0, noise: float = 0.0, *, elementwise: bool = True) -> list[Observation]:
    """Draw pipelines of one to three stages and let the model with the constants `TRUE` time them."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        line = []
        for _ in range(int(rng.integers(1, 4))):
            scale = float(10 ** rng.uniform(-2.5, 0))  # small stages show the overhead, large ones the rest
            sizes = rng.uniform(0, 4, int(rng.integers(0, 5)))
            extra = rng.uniform(0, 8 * scale, 3) * (elementwise * rng.integers(0, 2, 3))
            received, sent = rng.uniform(0, scale, 2)
            line.append(
                StageFacts(
                    input_mib=float(received),
                    output_mib=float(sent),
                    gmac=float(rng.uniform(0, 8 * scale)),
                    mul_concat_mib=float(extra[0]),
                    depthwise_mib=float(extra[1]),
                    add_pad_pool_mib=float(extra[2]),
                    layers=tuple(Layer(compiled_mib=float(size), activation_mib=0.5) for size in sizes),
                )
            )
        rows.append(
            Observation(
                row=f"r{number}", source=f"s{number % 3}", model=f"m{number % 9}", family=f"f{number % 5}", link="pcie",
                is_link_stated=True, measured=("latency", "period")[number % 2], batch=None, host_threads=False,
                time_ms=1.0, stages=tuple(line), facts_from="drawn",
            )
        )  # fmt: skip
    placing = {name: PRIORS["pcie"][name].value for name in ("capacity_mib", "shared_capacity_mib", "activation_mib")}
    times = Design(rows, placing).predict(np.array([TRUE[name] for name in FITTED]))
    times *= np.exp(rng.normal(0, noise, count)) if noise else 1.0
    return [replace(row, time_ms=float(ms)) for row, ms in zip(rows, times, strict=True)]


def test_known_constants_are_recovered_from_exact_times() -> None:
    fit = fit_constants(drawn_rows(300), PRIORS)
    for name in FITTED:
        if name in ("host_thread_ms", "streaming_ms_per_mib@usb3"):  # no row depends on them
            assert not fit.constants[name].is_fitted
            assert fit.constants[name].why == "no row depends on it"
            continue
        found = fit.constants[name]
        assert found.is_fitted, name
        assert found.value == pytest.approx(TRUE[name], rel=0.06, abs=0.02), name
        assert found.low <= TRUE[name] <= found.high


def test_known_constants_lie_in_the_ranges_found_from_noisy_times() -> None:
    inside = total = 0
    for seed in range(5):
        fit = fit_constants(drawn_rows(150, seed, noise=0.1), PRIORS)
        for name, found in fit.constants.items():
            if found.is_fitted:
                total += 1
                inside += found.low - 1e-9 <= TRUE[name] <= found.high + 1e-9
    assert total > 20 and inside >= 0.85 * total


def test_what_the_rows_do_not_show_keeps_its_prior_and_says_so() -> None:
    fit = fit_constants(drawn_rows(100, elementwise=False), PRIORS)
    for name in ("mul_concat_ms_per_mib", "depthwise_ms_per_mib", "add_pad_pool_ms_per_mib"):
        found, prior = fit.constants[name], PRIORS["pcie"][name]
        assert not found.is_fitted and found.num_rows == 0 and found.why == "no row depends on it"
        assert (found.value, found.low, found.high) == (prior.value, prior.low, prior.high)
    few = fit_constants(drawn_rows(3), PRIORS)
    assert any(not c.is_fitted and "would be left" in c.why for c in few.constants.values())


def test_constants_never_leave_their_plausible_range() -> None:
    rows = [replace(row, time_ms=row.time_ms * 50) for row in drawn_rows(60)]
    for found, known in zip(fit_constants(rows, PRIORS).constants.values(), prior_constants(PRIORS), strict=True):
        assert known.low <= found.low <= found.value <= found.high <= known.high


def test_an_outlier_moves_the_fit_little() -> None:
    rows = drawn_rows(100)
    rows[0] = replace(rows[0], time_ms=rows[0].time_ms * 20)
    clean, robust = fit_constants(rows[1:], PRIORS), fit_constants(rows, PRIORS)
    assert robust.constants["compute_ms_per_gmac"].value == pytest.approx(
        clean.constants["compute_ms_per_gmac"].value, rel=0.05
    )


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(BadInputError, match="2 usable timing rows"):
        fit_constants(drawn_rows(2), PRIORS)


def test_many_rows_of_one_kind_weigh_like_four() -> None:
    rows = [replace(row, family="one", measured="latency", stages=row.stages[:1]) for row in drawn_rows(40)]
    assert row_weights(rows).sum() == pytest.approx(4.0)


def test_every_row_is_predicted_by_fits_that_never_saw_it() -> None:
    rows = drawn_rows(27, noise=0.05)
    fit = fit_constants(rows, PRIORS)
    said: list[str] = []
    validation = cross_validate(rows, PRIORS, fit, said.append)
    assert len(said) == 9 + 5 + 3
    for name, fold in FOLDS.items():
        for prediction in validation.predictions:
            key = fold(prediction.observation)
            alone = validation.fold_fits[name][key].predict([prediction.observation])
            assert prediction.held_out_ms[name] == pytest.approx(float(alone[0]))
    without = [row for row in rows if row.model != "m0"]
    again = fit_constants(without, PRIORS)
    assert validation.fold_fits["model"]["m0"].theta == pytest.approx(again.theta)


def test_the_baseline_knows_parameter_bytes_and_nothing_else() -> None:
    rows = drawn_rows(30)
    predict = fit_parameter_bytes(rows)
    changed = [
        replace(row, stages=tuple(replace(stage, gmac=99.0, input_mib=5.0) for stage in row.stages)) for row in rows
    ]
    assert predict(rows) == pytest.approx(predict(changed))


def test_a_written_profile_is_read_again(tmp_path) -> None:
    rows = drawn_rows(60, noise=0.02)
    fit = fit_constants(rows, PRIORS)
    validation = cross_validate(rows, PRIORS, fit)
    constants = fitted_profile(fit, validation, "pcie", PRIORS["pcie"])
    measurements = Measurements(used=tuple(rows), skipped=())
    report = report_of('odd "name" \n ü', constants, validation, measurements, "rows\x7f.csv")
    path = tmp_path / "mine.toml"
    errors = write_profile(path, 'odd "name" \n ü', constants, report)
    known = load_known_profile(str(path))
    assert known.profile.name == 'odd "name" \n ü' and load_profile(str(path)) == known.profile
    for name, constant in constants.items():
        assert known[name].value == constant.value and known[name].unit == constant.unit
        assert known[name].low == constant.low <= constant.value <= constant.high == known[name].high
    assert errors.name == "mine.errors.json" and errors.is_file()
    assert known["compute_ms_per_gmac"].value == round(fitted_constant(fit, "compute_ms_per_gmac", "pcie").value, 4)
    assert profile_toml("mine", constants, report, "x").count('["mine".') == len(constants)


def test_a_profile_is_judged_without_a_fit_and_picks_the_faster_partition() -> None:
    rows = [replace(row, model="one", family="one", source="s", measured="period") for row in drawn_rows(40)]
    rows = [row for row in rows if row.num_stages == 2]
    predicted = predict_by_profiles(rows, PRIORS)
    assert predicted == pytest.approx(
        Design(rows, fit_constants(rows, PRIORS).placing.values).predict(
            np.array([c.value for c in prior_constants(PRIORS)])
        )
    )
    perfect = partition_pairs(rows, np.array([row.time_ms for row in rows]))
    assert perfect is not None and perfect["picked"] == 1.0 and perfect["median"] == pytest.approx(0.0)
    assert perfect["count"] == len(rows) * (len(rows) - 1) // 2
    wrong = partition_pairs(rows, np.array([1 / row.time_ms for row in rows]))
    assert wrong is not None and wrong["picked"] == 0.0
    assert partition_pairs([rows[0], rows[0]], np.array([1.0, 1.0])) is None
    report = judge(Measurements(used=tuple(rows), skipped=()), PRIORS)
    assert report["rows_used"] == len(rows) and set(report["errors"]) == {"all rows", "real nets, pcie, period, 2 TPUs"}


def test_a_summary_is_of_the_finite_predictions() -> None:
    found = summarise([1.0, 2.0, 4.0], [1.1, 1.0, float("nan")])
    assert found is not None
    assert (found.count, found.largest) == (2, 0.5) and found.median == pytest.approx(0.3)
    assert summarise([1.0], [float("nan")]) is None
