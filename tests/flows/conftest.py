"""One embedded Prefect server for all flow tests, and a pipeline small enough for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from respect_core.policy.config import ImitationConfig, NetworkConfig
from tasks.home import TELEMETRY_OFF, Home
from tasks.sizes import SIZES


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run Prefect's own test server; the first start migrates its database."""
    os.environ.update(TELEMETRY_OFF)
    os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
    os.environ["PREFECT_SERVER_LOGGING_LEVEL"] = "CRITICAL"
    os.environ["PREFECT_HOME"] = str(tmp_path_factory.mktemp("prefect"))
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrink the size `smoke` to seconds, and the ten models to one."""
    small = replace(
        SIZES["smoke"],
        num_graphs=8,
        shard_graphs=4,
        evaluation_graphs=3,
        train=ImitationConfig(epochs=2, batch_size=8, best_of_steps=4),
        network=NetworkConfig(width=8, rounds=1),
        benchmark_items=4,
        schedule_time_limit_s=10,
        generalisation_graphs=1,
    )
    monkeypatch.setitem(SIZES, "smoke", small)
    monkeypatch.setattr("tasks.plan.IMAGENET_MODELS", ("Xception",))
    monkeypatch.setattr("tasks.plan.SWEEPS", ("stages K (60 ops)",))
    monkeypatch.setattr("tasks.plan.NETWORKS", ("SwiftNet-HPD-C", "small-int8"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A fresh home folder."""
    at = Home.at(tmp_path / "home")
    monkeypatch.setenv("RESPECT_HOME", str(at.path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    at.check_writable()
    return at
