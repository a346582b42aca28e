"""`respect calibrate`: from results or a table to a profile that the other commands take, and nothing on errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from hardware_runners.job import read_job
from hardware_runners.protocol import TimingPlan
from hardware_runners.simulated import SimulatedRunner
from respect_core.device import DeviceProfile, load_profile
from respect_core.device_constants import load_known_profile
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.catalog import load_model
from tests.conftest import SHARED
from tests.hardware_runners.jobs import write_graph_job

RUNNER = CliRunner()

TRUE = replace(
    load_profile("pcie"), name="hidden", compute_ms_per_gmac=0.8, streaming_ms_per_mib=2.95, input_ms_per_mib=5.0,
    output_ms_per_mib=6.0, overhead_ms=0.3, mul_concat_ms_per_mib=0.5,
)  # fmt: skip


def results(folder: Path, profile: DeviceProfile = TRUE) -> Path:
    """Write jobs of two models and what a simulator with the hidden profile makes of them."""
    rows: list[dict[str, Any]] = []
    for model in ("ResNet50-int8", "DenseNet121-int8", "MobileNetV2-int8"):
        graph = load_model(model)
        for k in (1, 2, 3, 4, 5):
            found = BestOrderSolver().solve(Problem.of(graph, k, "throughput", device="pcie"), SolveOptions())
            assert found.stage_of is not None
            job = folder / "jobs" / f"{model}-{k}"
            job.parent.mkdir(exist_ok=True)
            write_graph_job(job, graph, found.stage_of, k, profile, solver="best-order")
            with SimulatedRunner() as runner:
                timings = runner.time(read_job(job), TimingPlan(repeats=3, items=5, warm_up=0))
            rows.append(
                {
                    "model": model, "num_stages": k, "objective": "throughput", "solver": "best-order",
                    "runner": timings.runner, "is_simulated": True, "device": "hidden", "host": f"host {k % 2}",
                    "latency_us": timings.mean_latency_us, "period_us": timings.period_us,
                    "stage_us": list(timings.mean_stage_us),
                }
            )  # fmt: skip
    path = folder / "results.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return results(tmp_path_factory.mktemp("results"))


def test_own_results_become_a_profile_that_schedule_takes(simulated: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    jobs = str(simulated.parent / "jobs")
    command = [
        "calibrate",
        str(simulated),
        "--jobs",
        jobs,
        "--link",
        "pcie",
        "--out",
        str(out),
        "--simulated",
        "--json",
    ]
    found = RUNNER.invoke(app, command)
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    known = load_known_profile(str(out))
    for name in ("compute_ms_per_gmac", "streaming_ms_per_mib", "overhead_ms", "mul_concat_ms_per_mib"):
        assert report["constants"][name]["is_fitted"], name
        assert known[name].value == pytest.approx(getattr(TRUE, name), rel=0.12), name
    both = known["input_ms_per_mib"].value + known["output_ms_per_mib"].value
    assert both == pytest.approx(11.0, rel=0.1)
    assert report["errors"]["all rows"]["fitted"]["median"] < 0.05
    assert report["errors"]["all rows"]["without its model"]["median"] < 0.1
    assert json.loads((tmp_path / "mine.errors.json").read_text())["rows"]
    scheduled = RUNNER.invoke(app, ["schedule", "ResNet50-int8", "-k", "3", "--device", str(out), "--json"])
    assert scheduled.exit_code == 0, scheduled.output
    assert json.loads(scheduled.stdout)["device"] == "mine"


def test_simulated_results_are_no_measurements(simulated: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    jobs = str(simulated.parent / "jobs")
    found = RUNNER.invoke(app, ["calibrate", str(simulated), "--jobs", jobs, "--link", "pcie", "--out", str(out)])
    assert found.exit_code == 2 and "nothing was measured" in found.output
    assert not list(tmp_path.iterdir())


@pytest.mark.shared
def test_the_published_table_is_judged(tmp_path: Path) -> None:
    table = str(SHARED / "data" / "measurements.csv")
    found = RUNNER.invoke(app, ["calibrate", table, "--check", "--json"])
    assert found.exit_code == 0, found.output
    errors = json.loads(found.stdout)["errors"]
    assert errors["real nets, usb3, one TPU"]["profile"]["median"] < 0.09
    assert errors["real nets, pcie, one TPU"]["profile"]["median"] < 0.05
    assert errors["all rows"]["rows"] == 250
    both = RUNNER.invoke(app, ["calibrate", table, "--out", str(tmp_path / "x.toml")])
    assert both.exit_code == 2 and "choose one" in both.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--out", "OUT"], "no usable row"),
        (["--out", "OUT", "--link", "usb2"], "usb2"),
        ([], "--out"),
        (["--out", "OUT", "--jobs", "nowhere", "--link", "usb3"], "nowhere"),
        (["--out", "OUT", "--device", "usb9", "--link", "usb3"], "no usable row"),
    ],
)
def test_bad_input_ends_with_2_and_leaves_nothing(tmp_path: Path, arguments: list[str], why: str) -> None:
    measured = {
        "model": "m", "num_stages": 2, "objective": "throughput", "solver": "s", "device": "some TPU", "host": "h",
        "is_simulated": False, "latency_us": 1.0, "period_us": 1.0,
    }  # fmt: skip
    path = tmp_path / "r.json"
    path.write_text(json.dumps(measured))
    out = tmp_path / "out.toml"
    found = RUNNER.invoke(app, ["calibrate", str(path), *(str(out) if a == "OUT" else a for a in arguments)])
    assert found.exit_code == 2 and why in found.output
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("r.json", b'[{"model": "m"', "cut short"),
        ("r.json", b"[1]", "not an object"),
        ("r.json", b'{"model": "m"}', "lacks 'num_stages'"),
        ("r.parquet", b"PAR1", "no table of benchmarks"),
        ("missing.json", None, "cannot be read"),
        ("missing.csv", None, "cannot be read"),
        ("missing.parquet", None, "no table of benchmarks"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, content: bytes | None, why: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    found = RUNNER.invoke(app, ["calibrate", str(tmp_path / name), "--out", str(tmp_path / "o.toml"), "--link", "usb3"])
    assert found.exit_code == 2 and why in found.output and name in found.output
