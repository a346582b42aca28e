from __future__ import annotations

import math
import statistics
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from respect_core.errors import BadInputError
from respect_core.report.data import Case, settings_of, solver_order, throughputs_of
from respect_core.report.html_parts import bytes_text, percent_text, seconds_text
from respect_core.report.palette import styles_for
from respect_core.report.statistics import bootstrap_mean
from respect_core.report.summary import summary_markdown
from tests.respect_core.report.report_input import benchmark_rows, schedule_rows, without_result

VALUES = st.lists(st.floats(0.001, 100), min_size=1, max_size=5)


@given(st.dictionaries(st.text(max_size=3), VALUES, min_size=1, max_size=6))
def test_an_estimate_is_the_mean_inside_its_interval(groups: dict[str, list[float]]) -> None:
    everything = [value for values in groups.values() for value in values]
    for geometric, mean in ((False, statistics.fmean), (True, statistics.geometric_mean)):
        estimate = bootstrap_mean(groups, geometric=geometric)
        assert estimate is not None
        assert estimate.mean == pytest.approx(mean(everything))
        assert (estimate.num_values, estimate.num_groups) == (len(everything), len(groups))
        assert (estimate.low is None) == (len(groups) == 1)
        if estimate.low is not None and estimate.high is not None:
            slack = 1 + 1e-9
            assert min(everything) <= estimate.low * slack
            assert estimate.low <= estimate.high * slack
            assert estimate.high <= max(everything) * slack
        assert bootstrap_mean(groups, geometric=geometric) == estimate


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        groups = {str(g): (rng.normal(5, 1) + rng.normal(0, 0.1, 3)).tolist() for g in range(30)}
        estimate = bootstrap_mean(groups, seed=trial)
        assert estimate is not None
        hits += (estimate.low or 0) <= 5 <= (estimate.high or 0)
    assert 175 <= hits <= 200


def test_no_values_no_estimate() -> None:
    assert bootstrap_mean({}) is None
    assert bootstrap_mean({"a": []}) is None


def test_speedups_are_periods_of_the_rule_over_those_of_the_others() -> None:
    rows = schedule_rows(2)
    (found,) = throughputs_of(benchmark_rows(rows))
    periods = {(row["model"], row["num_stages"], row["solver"]): row["bottleneck_us"] for row in rows}
    assert found.is_simulated
    assert "compiler-rule" not in found.contenders
    for (case, solver), value in found.speedup.items():
        rule = periods[case.model, case.num_stages, "compiler-rule"]
        assert value == pytest.approx(rule / periods[case.model, case.num_stages, solver])
    assert len(found.speedup) == 2 * 2 * 5


def test_a_rule_timed_under_another_objective_still_serves() -> None:
    rows = schedule_rows(1, (2,))
    rows = [{**row, "objective": "throughput"} if row["solver"] != "compiler-rule" else row for row in rows]
    (found,) = throughputs_of(benchmark_rows(rows))
    assert {contender.partition(",")[0] for contender in found.contenders} == {row["solver"] for row in rows} - {
        "compiler-rule"
    }


def test_settings_sort_models_by_size_and_solvers_for_reading() -> None:
    rows = schedule_rows(2)
    rows = [{**row, "num_ops": 99} if row["model"] == rows[0]["model"] else row for row in rows]
    (setting,) = settings_of(rows)
    assert setting.models[-1] == rows[0]["model"]
    assert setting.solvers == ("ilp", "policy", "order-dfs", "order-file", "order-kahn", "compiler-rule")
    assert setting.prover == "ilp"
    assert [str(case) for case in setting.cases][-1] == f"{rows[0]['model']}, K = 3"
    assert setting.value(Case(model="none", num_stages=2), "ilp", "gap_to_best") is None
    assert solver_order({"compiler-rule", "zeta", "exact"}) == ("exact", "zeta", "compiler-rule")


@given(st.lists(st.text(min_size=1, max_size=8), max_size=30, unique=True))
def test_no_two_solvers_look_alike(names: list[str]) -> None:
    styles = styles_for(["ilp", "policy", *[name for name in names if name not in ("ilp", "policy")]])
    assert len(set(styles.values())) == len(styles)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (0.0, "< 0.001"), (0.1234, "0.123"), (9.876, "9.88"), (61.23, "61.2")]
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("fraction", "text"), [(None, "–"), (0.0, "0 %"), (1e-6, "< 0.01 %"), (0.12345, "12.35 %"), (2, "200.00 %")]
)
def test_percentages(fraction: float | None, text: str) -> None:
    assert percent_text(fraction) == text


# -- the summary in Markdown ------------------------------------------------------------------------------------------


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.replace(r"\|", "/").strip().strip("|").split("|")]


def test_the_summary_has_a_row_a_model_with_the_numbers_of_the_table() -> None:
    rows = schedule_rows(3)
    lines = summary_markdown(rows, unit="byte").splitlines()
    head, body = cells(lines[0]), [cells(line) for line in lines[2:5]]
    assert head[:4] == [
        "model", "ops", "K = 2: ilp / policy / compiler-rule", "K = 3: ilp / policy / compiler-rule",
    ]  # fmt: skip
    assert all(len(row) == len(head) for row in body)
    assert {row[0] for row in body} == {row["model"] for row in rows}
    for row in body:
        expected = [_peak(rows, row[0], 2, solver) for solver in ("ilp", "policy", "compiler-rule")]
        assert row[2] == " / ".join(expected)
        gaps = [r["gap_to_best"] for r in rows if r["model"] == row[0] and r["solver"] == "policy"]
        assert row[head.index("mean gap, policy")] == percent_text(statistics.fmean(gaps))


def _peak(rows: list[dict[str, Any]], model: str, num_stages: int, solver: str) -> str:
    key = (model, num_stages, solver)
    (row,) = [r for r in rows if (r["model"], r["num_stages"], r["solver"]) == key]
    return bytes_text(row["peak_param_bytes"]) + (r"\*" if row["status"] == "optimal" else "")


def test_the_summary_marks_proofs_and_failures() -> None:
    rows = [{**row, "status": "optimal"} if row["solver"] == "ilp" else row for row in schedule_rows(1, (2, 3))]
    rows = [row for row in rows if row["solver"] != "policy"]
    rows.append(without_result(rows[0], "policy", "timeout"))
    text = summary_markdown(rows)
    assert r"\*" in text
    assert "ilp: 2 of 2 cases" in text
    assert "/ timeout /" in text
    assert "/ – /" in text


def test_a_summary_of_nothing_and_of_what_is_not_there() -> None:
    assert summary_markdown(()) == "No schedules to show.\n"
    assert summary_markdown(schedule_rows(1, (2,)), objective="throughput") == "No schedules to show.\n"
    with pytest.raises(BadInputError, match="'kg'"):
        summary_markdown((), unit="kg")  # type: ignore[arg-type]


def test_a_name_cannot_break_out_of_its_cell() -> None:
    rows = [{**row, "model": "a|b\n<script>"} for row in schedule_rows(1, (2,))]
    lines = summary_markdown(rows).splitlines()
    assert len(cells(lines[2])) == len(cells(lines[0]))
    assert "<script>" not in "".join(lines)


def test_gaps_of_a_setting_keep_missing_ones_out() -> None:
    rows = schedule_rows(2, (2,))
    rows = [{**row, "gap_to_best": None} if row["model"] == rows[0]["model"] else row for row in rows]
    (setting,) = settings_of(rows)
    assert len(setting.by_model("ilp", "gap_to_best")) == 1
    assert not math.isnan(next(iter(setting.by_model("ilp", "gap_to_best").values()))[0])
