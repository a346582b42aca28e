"""`respect schedule` states uncertainty, robust schedules and when fewer TPUs would do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app

RUNNER = CliRunner()


def scheduled(*arguments: str) -> dict[str, Any]:
    found = RUNNER.invoke(app, ["schedule", *arguments, "--json"])
    assert found.exit_code == 0, found.output
    row = json.loads(found.stdout)
    assert isinstance(row, dict)
    return row


def test_every_schedule_has_ranges_around_its_times() -> None:
    row = scheduled("ResNet50-int8", "-k", "3", "--device", "pcie", "--scenarios", "50")
    assert row["scenarios"] == 50 and len(row["time_us_range"]) == 3
    assert all(low < high for low, high in row["time_us_range"])
    low, high = row["bottleneck_us_range"]
    assert low < row["bottleneck_us"] < 1.2 * high
    assert [other["num_stages"] for other in row["smaller"]] == [1, 2] and "robust" not in row


@pytest.mark.parametrize("measure", ["max", "p90"])
def test_a_robust_schedule_is_judged_beside_the_nominal_one_and_the_rule(measure: str) -> None:
    row = scheduled("ResNet50-int8", "-k", "4", "--robust", measure, "--scenarios", "60", "--device", "pcie")
    assert row["solver"] == f"robust-{measure}" and row["robust"]["measure"] == measure
    assert set(row["robust"]) == {"measure", "robust", "nominal", "compiler-rule"}
    assert row["robust"]["robust"]["largest"] < row["robust"]["compiler-rule"]["largest"]
    again = scheduled("ResNet50-int8", "-k", "4", "--robust", measure, "--scenarios", "60", "--device", "pcie")
    assert again["stage_of"] == row["stage_of"] and again["robust"] == row["robust"]


def test_the_text_says_what_to_expect_and_when_fewer_tpus_do() -> None:
    found = RUNNER.invoke(app, ["schedule", "MobileNetV2-int8", "-k", "4", "--robust", "max", "--scenarios", "20"])
    assert found.exit_code == 0, found.output
    assert "in 90 % of 20 devices" in found.stdout and "plausible" in found.stdout
    assert "regret of compiler-rule on other scenarios" in found.stdout and "(simulated)" in found.stdout
    assert "advice: the pipeline of 4 TPUs will not beat" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--robust", "p50"], "p50"),
        (["--scenarios", "0"], "0 scenarios"),
        (["--robust", "max", "--solver", "exact"], "leave --solver exact out"),
    ],
)
def test_wrong_options_end_with_2(arguments: list[str], why: str) -> None:
    found = RUNNER.invoke(app, ["schedule", "ResNet50-int8", "-k", "2", *arguments])
    assert found.exit_code == 2 and why in found.output
