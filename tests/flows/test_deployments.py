"""Deployments: every entrypoint loads, and one runs on a real server when the API is asked to, as the UI does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from tests.conftest import ROOT
from tests.free_port import free_port

FILE = ROOT / "deployments" / "prefect.yaml"
DEPLOYMENTS = yaml.safe_load(FILE.read_text(encoding="utf-8"))["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda d: d["name"])
def test_every_entrypoint_loads_and_takes_its_parameters(deployment: dict[str, Any]) -> None:
    from prefect.flows import load_flow_from_entrypoint

    flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    assert flow.name == deployment["name"]
    assert flow.validate_parameters(deployment["parameters"])
    for name, schema in flow.parameters.properties.items():
        assert schema.get("description"), f"the form of {flow.name} does not explain {name}"


def test_every_flow_is_deployed_one_run_at_a_time() -> None:
    flows = {path.stem for path in (ROOT / "flows").glob("*.py")}
    names = {d["name"] for d in DEPLOYMENTS}
    assert names == {"generate", "label", "train", "sweep", "schedule", "split", "order", "benchmark", "nightly"}
    assert names <= flows
    for deployment in DEPLOYMENTS:
        assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
        assert deployment["work_pool"]["name"] == "respect"
    nightly = next(d for d in DEPLOYMENTS if d["name"] == "nightly")
    assert ZoneInfo(nightly["schedules"][0]["timezone"]) and nightly["schedules"][0]["cron"]


@pytest.mark.slow
def test_a_deployment_triggered_through_the_api_completes(tmp_path: Path) -> None:
    port = free_port()
    env = {
        **os.environ,
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "RESPECT_HOME": str(tmp_path / "home"),
    }
    (tmp_path / "prefect").mkdir()
    prefect = [sys.executable, "-m", "prefect"]

    def command(*args: str) -> None:
        done = subprocess.run([*prefect, *args], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    with running(
        [*prefect, "server", "start", "--host", "127.0.0.1", "--port", str(port)], tmp_path / "server.log", env
    ):
        api = Api(f"http://127.0.0.1:{port}/api")
        api.wait_until_up(180)
        command("work-pool", "create", "respect", "--type", "process")
        command("--no-prompt", "deploy", "--prefect-file", "deployments/prefect.yaml", "--all")
        command("automation", "create", "--from-file", "deployments/heartbeat.yaml")
        assert api.post("/automations/filter", {})[0]["name"] == "respect-crash-silent-runs"
        deployment = api.get("/deployments/name/generate/generate")
        assert deployment["entrypoint"] == "flows.generate.generate"
        assert api.get("/deployments/name/nightly/nightly")["schedules"][0]["schedule"]["timezone"] == "Europe/Berlin"
        with running([*prefect, "worker", "start", "--pool", "respect"], tmp_path / "worker.log", env, cwd=tmp_path):
            run = api.post(
                f"/deployments/{deployment['id']}/create_flow_run",
                {"state": {"type": "SCHEDULED"}, "parameters": {"size": "smoke", "seed": 7}},
            )
            state = api.wait_for_end(run["id"], 180)
        worker_log = (tmp_path / "worker.log").read_text(encoding="utf-8")
        assert state["type"] == "COMPLETED", f"{state}\n{worker_log}"
        artifacts = api.post("/artifacts/filter", {})
        assert "checks-graphs" in {artifact["key"] for artifact in artifacts}
    published = json.loads((tmp_path / "home" / "datasets" / "graphs" / "manifest.json").read_text(encoding="utf-8"))
    assert any(p["facts"]["seed"] == 7 for p in published["partitions"])


class Api:
    """The server's REST interface."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def wait_until_up(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.get("/health")
                return
            except OSError:
                assert time.monotonic() < deadline, "the server did not come up"
                time.sleep(0.5)

    def wait_for_end(self, run: str, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            state: dict[str, Any] = self.get(f"/flow_runs/{run}")["state"]
            if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") or time.monotonic() > deadline:
                return state
            time.sleep(1)


@contextmanager
def running(args: list[str], log: Path, env: dict[str, str], cwd: Path = ROOT) -> Iterator[None]:
    """Run a server for the block, its output in ``log``; it is asked to stop, and made to if it does not."""
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(args, cwd=cwd, env=env, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
