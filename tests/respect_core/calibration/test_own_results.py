"""A user's own results: read from the table `benchmarks` and from JSON, matched with their jobs or skipped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from respect_core.calibration.own_results import Timing, observations_of, read_timings
from respect_core.errors import BadInputError, InputFileError
from respect_core.sources.catalog import load_model
from respect_core.tables.benchmarks import BENCHMARKS

GRAPH = load_model("MobileNetV2-int8")
STAGES = np.repeat([0, 1], [30, GRAPH.num_ops - 30])


def timing(**facts: object) -> Timing:
    values: dict = {
        "model": "MobileNetV2-int8", "num_stages": 2, "objective": "throughput", "solver": "s", "device": "usb:0",
        "host": "h", "is_simulated": False, "latency_ms": 5.0, "period_ms": 3.0, "stage_ms": (2.0, 3.0),
    }  # fmt: skip
    return Timing(**(values | facts))


def test_the_table_gives_medians_by_job(tmp_path: Path) -> None:
    rows = [
        {
            "model": "m", "num_stages": 2, "objective": "throughput", "solver": "s", "runner": "coral",
            "is_simulated": False, "device": "pci:0", "mode": mode, "item": item, "latency_us": us,
            "interval_us": None if mode == "latency" or not item else us / 2, "host": "h", "versions": "v",
        }
        for mode in ("latency", "pipelined")
        for item, us in enumerate((1000.0, 3000.0, 2000.0))
    ]  # fmt: skip
    path = tmp_path / "b.parquet"
    nothing = dict.fromkeys(BENCHMARKS.column_names)
    pq.write_table(BENCHMARKS.table([nothing | row for row in rows]), path)
    (found,) = read_timings(path)
    assert (found.latency_ms, found.period_ms, found.device) == (2.0, 1.25, "pci:0")


def test_a_timing_becomes_latency_period_and_stages() -> None:
    found = observations_of([timing()], lambda _: (GRAPH, STAGES), None)
    assert [(row.measured, row.time_ms, row.num_stages) for row in found.used] == [
        ("latency", 5.0, 2), ("period", 3.0, 2), ("latency", 2.0, 1), ("latency", 3.0, 1),
    ]  # fmt: skip
    assert {row.link for row in found.used} == {"usb3"} and found.used[0].is_link_stated
    whole = sum(stage.gmac for stage in found.used[0].stages)
    assert whole == pytest.approx(GRAPH.macs.sum() / 1e9)
    assert found.used[2].stages + found.used[3].stages == found.used[0].stages


@pytest.mark.parametrize(
    ("facts", "job", "why"),
    [
        ({"is_simulated": True}, True, "nothing was measured"),
        ({}, False, "no job folder"),
        ({"runner": "litert"}, True, "the host's processor"),
        ({"failure": "a device vanished"}, True, "not complete: a device vanished"),
        ({"device": "mine"}, True, "does not say its link"),
    ],
)
def test_what_cannot_be_used_is_skipped(facts: dict[str, object], job: bool, why: str) -> None:
    found = observations_of([timing(**facts)], lambda _: (GRAPH, STAGES) if job else None, None)
    assert not found.used and why in found.skipped[0].why


def test_a_damaged_job_is_skipped_with_its_reason() -> None:
    def find(_: Timing) -> None:
        raise BadInputError("graph.json is damaged")

    found = observations_of([timing()], find, "pcie")
    assert found.skipped[0].why == "graph.json is damaged"


def test_a_result_file_is_read_and_its_engine_known(tmp_path: Path) -> None:
    """With the keys of `hardware_runners.results`; a folder of such files is read whole."""
    result = {
        "model": "m", "num_stages": 2, "objective": "throughput", "solver": "s", "runner": "coral", "device": "usb:0",
        "host": "h", "is_simulated": False, "versions": {"engine": "litert"}, "latency_us": 5000.0, "period_us": None,
        "stage_us": [], "job_sha256": "ab", "complete": False, "error": {"kind": "X", "message": "unplugged"},
    }  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps(result))
    (tmp_path / "b.json").write_text(json.dumps([result | {"versions": {"engine": "pycoral"}, "complete": True}]))
    first, second = read_timings(tmp_path)
    assert first.host_threads and "unplugged" in first.failure and first.job_sha256 == "ab"
    assert not second.host_threads and second.failure == "" and second.latency_ms == 5.0
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputFileError, match="neither JSON nor Parquet"):
        read_timings(tmp_path / "empty")
