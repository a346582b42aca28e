"""Speed-ups, regrets, segments and measurements in the report, against computations of their own."""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from respect_core.device_constants import load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.graph import DnnGraph
from respect_core.objective import evaluate
from respect_core.report.data import Case, ReportInput
from respect_core.report.loads import pipeline_loads
from respect_core.report.measured import measured_section
from respect_core.report.page import build_report
from respect_core.report.pipeline_tables import regret_cases, speedup_cases, speedup_text
from respect_core.report.pipelines import PEAK, Pipelines, SpeedUp, pipelines_of
from respect_core.report.segments import segments_section
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tests.respect_core.report.pipeline_input import (
    NUM_SCENARIOS,
    SEED,
    STAGES,
    measured_rows,
    pipeline_input,
    pipeline_rows,
)
from tests.respect_core.report.report_input import benchmark_rows
from tests.respect_core.report.test_report_page import HOSTILE, Reader
from tests.respect_core.tables.table_data import segment_rows, small_graphs


@cache
def found() -> Pipelines:
    schedules, judged = pipeline_rows()
    (pipelines,) = pipelines_of(schedules, benchmark_rows(schedules), judged)
    return pipelines


@cache
def graph_of(model: str) -> DnnGraph:
    graphs = (generate_graph(SyntheticSpec(family="local", num_ops=12, seed=7), index) for index in range(2))
    graph = next(graph for graph in graphs if graph.name == model)
    return replace(graph, param_bytes=graph.param_bytes * 1500, macs=graph.param_bytes * 20_000)


def name_of(row: dict[str, Any]) -> str:
    return PEAK if row["objective"] == "peak-memory" else str(row["solver"])


@cache
def bottlenecks() -> dict[tuple[str, int, str], list[float]]:
    """Bottlenecks of every schedule on every device, by the objective function of one device at a time."""
    profiles = draw_scenarios(load_known_profile("usb3"), NUM_SCENARIOS, SEED)
    return {
        (row["model"], row["num_stages"], name_of(row)): [
            evaluate(graph_of(row["model"]), row["stage_of"], row["num_stages"], profile).bottleneck_ns / 1000
            for profile in profiles
        ]
        for row in pipeline_rows()[0]
    }


def test_all_cases_and_solvers_are_there_and_the_rule_is_last() -> None:
    assert found().num_scenarios == NUM_SCENARIOS and found().seeds == (SEED,)
    assert len(found().cases) == 2 * len(STAGES)
    assert found().names[-1] == "compiler-rule" and PEAK in found().contenders
    assert set(found().contenders) == {"exact", "local-search", "robust-p90", "balanced", "profiling", PEAK}


def test_a_speedup_is_nominal_with_the_percentiles_of_the_ratios_on_the_same_device() -> None:
    nominal = {(r["model"], r["num_stages"], name_of(r)): r["bottleneck_us"] for r in pipeline_rows()[0]}
    varies = 0
    for case in found().cases:
        for name in found().contenders:
            speedup = found().speedup(case, name)
            assert speedup is not None and speedup.low is not None and speedup.high is not None
            here = case.model, case.num_stages
            assert speedup.nominal == pytest.approx(nominal[(*here, "compiler-rule")] / nominal[(*here, name)])
            pairs = zip(bottlenecks()[(*here, "compiler-rule")], bottlenecks()[(*here, name)], strict=True)
            ratios = sorted(rule / mine for rule, mine in pairs)
            assert speedup.low == pytest.approx(np.percentile(ratios, 5), rel=1e-4)
            assert speedup.high == pytest.approx(np.percentile(ratios, 95), rel=1e-4)
            varies += speedup.high > speedup.low * 1.01
    assert varies > 0, "the input does not show any uncertainty"


def test_geometric_means_and_their_ranges() -> None:
    for name in found().contenders:
        mean = found().mean_speedup(name)
        assert mean is not None and mean.nominal is not None
        each = [found().speedup(case, name) for case in found().cases]
        assert mean.nominal == pytest.approx(statistics.geometric_mean([s.nominal for s in each if s and s.nominal]))
        means = [
            statistics.geometric_mean(
                [
                    bottlenecks()[case.model, case.num_stages, "compiler-rule"][device]
                    / bottlenecks()[case.model, case.num_stages, name][device]
                    for case in found().cases
                ]
            )
            for device in range(NUM_SCENARIOS)
        ]
        assert [mean.low, mean.high] == pytest.approx(np.percentile(means, (5, 95)).tolist(), rel=1e-4)


def test_the_optimum_beats_every_other_schedule_by_the_nominal_profile() -> None:
    for case in found().cases:
        for name in found().names:
            speedup = found().speedup(case, "exact", over=name)
            assert speedup is not None and speedup.nominal is not None and speedup.nominal >= 1 - 1e-9


def test_regrets_are_against_the_best_that_is_known() -> None:
    for case in found().cases:
        here = case.model, case.num_stages
        times = np.array([bottlenecks()[(*here, name)] for name in found().names])
        best_seen = times.min(axis=0)
        for name, mine in zip(found().names, times, strict=True):
            regret = found().regrets[case, name]
            # The reference may know better cuts than those shown, never worse ones.
            assert regret.largest >= (mine / best_seen).max() - 1 - 1e-4
            assert 0 <= regret.median <= regret.percentile90 <= regret.largest


def test_the_share_of_slower_cases() -> None:
    for name in found().contenders:
        slower = [
            rule > 0 and mine > rule * (1 + 1e-7)
            for case in found().cases
            for rule, mine in zip(
                bottlenecks()[case.model, case.num_stages, "compiler-rule"],
                bottlenecks()[case.model, case.num_stages, name],
                strict=True,
            )
        ]
        assert found().slower_share(name) == pytest.approx(statistics.fmean(slower), abs=0.02)


def test_every_case_is_in_the_tables_with_its_numbers() -> None:
    page = Reader(f"<main>{speedup_cases(found())}{regret_cases(found())}</main>")
    for case in found().cases:
        for name in found().contenders:
            assert speedup_text(found().speedup(case, name)) in page.text
            regret = found().regrets[case, name]
            assert f"{100 * regret.percentile90:.1f} / {100 * regret.largest:.1f}" in page.text
        assert speedup_text(found().speedup(case, "exact", over=PEAK)) in page.text
    captions = re.findall(r"<caption>.*?</caption>", speedup_cases(found()) + regret_cases(found()))
    assert len(captions) == 2 and all("Simulated" in caption for caption in captions)


def test_every_table_of_the_section_says_simulated() -> None:
    text = build_report(pipeline_input())
    start = text.index("<h2>Throughput on a pipeline, usb3 (simulated)</h2>")
    captions = re.findall(r"<caption>.*?</caption>", text[start : text.index("</section>", start)])
    assert len(captions) == 8
    assert all("imulated" in caption for caption in captions)


def test_what_was_measured_stands_apart_and_says_where() -> None:
    text = build_report(pipeline_input())
    page = Reader(text)
    assert "Measured on this host’s processor (litert)" in page.text
    start = text.index("<h2>Measured on this host")
    section = Reader(text[start : text.index("</section>", start)])
    assert "2.000" in section.text and "500" in section.text and "5.000" in section.text
    assert "small-int8" in section.text and "no Edge TPU" in section.text
    assert "small-int8" not in text[text.index("<h2>Throughput") : start], "measured rows are among simulated ones"
    assert "on devices (coral)" in measured_section([{**row, "runner": "coral"} for row in measured_rows()])
    assert measured_section(benchmark_rows(pipeline_rows()[0])) == "", "simulated rows were not measured"


def test_what_is_not_judged_has_no_range_and_what_is_not_timed_no_nominal_value() -> None:
    schedules, judged = pipeline_rows()
    (timed,) = pipelines_of(schedules, benchmark_rows(schedules), ())
    case = timed.cases[0]
    speedup = timed.speedup(case, "exact")
    assert speedup is not None and speedup.low is None and "[" not in speedup_text(speedup)
    assert timed.slower_share("exact") is None
    (only_judged,) = pipelines_of(schedules, (), judged)
    speedup = only_judged.speedup(case, "exact")
    assert speedup is not None and speedup.nominal is None and speedup.low is not None
    assert only_judged.speedup(case, "nobody") is None and only_judged.mean_speedup("nobody") is None
    assert speedup_text(None) == "–"
    assert speedup_text(SpeedUp(nominal=1.5, low=1.25, high=1.75)) == "1.50× [1.25, 1.75]"
    assert pipelines_of((), (), ()) == []
    for parts in (
        {"pipeline_schedules": schedules},
        {"robustness": judged},
        {"pipeline_benchmarks": benchmark_rows(schedules)},
    ):
        build_report(ReportInput(schedules=(), **parts))  # type: ignore[arg-type]


def test_the_peak_memory_optimum_can_be_chosen_among_the_stage_loads() -> None:
    from respect_core.report.data import settings_of

    (setting,) = pipeline_loads(settings_of(pipeline_rows()[0]))
    assert setting.objective == "throughput" and setting.solvers[-1] == PEAK
    case = Case(model=setting.models[0], num_stages=STAGES[0])
    assert setting.rows[case, PEAK]["objective"] == "peak-memory"


def test_segments_are_counted_by_split() -> None:
    graph = next(iter(small_graphs().values()))
    rows = segment_rows(graph, 3)
    page = Reader(segments_section(rows))
    verified = sum(row["is_verified"] for row in rows)
    assert graph.name in page.text and f"{verified} of 3" in page.text
    compiled = [
        {**row, "compiler_status": "compiled", "compiler_version": "16.0", "is_verified": False, "unsupported_ops": 2}
        for row in rows
    ]
    compiled[0]["compiler_status"] = "large_activations"
    page = Reader(segments_section(compiled))
    assert "1 large activations" in page.text and "2 compiled" in page.text and "0 of 3" in page.text
    assert " 6 " in page.text, "unsupported ops of all segments"
    assert "No model was split" in segments_section(())


def test_names_are_text_and_never_markup() -> None:
    def hostile(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        texts = ("model", "solver", "device", "host", "versions", "file_name", "message")
        return [{**row, **{name: str(row[name]) + HOSTILE for name in texts if name in row}} for row in rows]

    schedules, judged = pipeline_rows()
    graph = next(iter(small_graphs().values()))
    report = ReportInput(
        schedules=(),
        pipeline_schedules=hostile(schedules),
        pipeline_benchmarks=hostile(benchmark_rows(schedules)),
        robustness=hostile(judged),
        measured=[{**row, "runner": HOSTILE} for row in hostile(measured_rows())],
        segments=hostile(segment_rows(graph, 3)),
    )
    text = build_report(report)
    page = Reader(text)
    assert len(page.scripts) == 3
    assert HOSTILE in page.text
    assert "<script>alert" not in text.replace(next(script for _, script in page.scripts if len(script) > 10**6), "")
