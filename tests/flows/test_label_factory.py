"""The label factory where processes are killed, and on a real Dask cluster of several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from respect_core.errors import MissingExtraError
from respect_core.solve.labelling import label_tables
from respect_core.sources.synthetic_batch import generate_tables
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.labels import LABEL_TIMINGS, LABELS
from respect_core.tables.ops import OPS
from respect_core.tables.tensors import TENSORS
from tasks.home import Home
from tasks.plan import RunPlan
from tasks.progress import SCHEDULER_VARIABLE, chosen_scheduler, task_runner
from tasks.sizes import SIZES

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def killed_run(home: Path, seed: int, kills: int) -> dict[str, Any]:
    script = str(ROOT / "tests" / "flows" / "killed_factory.py")
    command = [sys.executable, script, str(home), str(seed), str(kills)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_killed_at_any_moment_the_factory_goes_on_and_publishes_the_same_bytes(tmp_path: Path) -> None:
    whole = killed_run(tmp_path / "whole", 0, 0)
    killed = killed_run(tmp_path / "killed", int.from_bytes(os.urandom(4)), 6)
    assert killed["digests"] == whole["digests"]
    assert killed["killed"] >= 1
    assert killed["done_again"] == []
    assert whole["left"] == killed["left"] == []


def test_the_scheduler_is_the_one_given_else_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SCHEDULER_VARIABLE, raising=False)
    assert chosen_scheduler() is None
    monkeypatch.setenv(SCHEDULER_VARIABLE, "tcp://one:1")
    assert chosen_scheduler() == "tcp://one:1"
    assert chosen_scheduler("tcp://two:2") == "tcp://two:2"


def test_a_scheduler_without_prefect_dask_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prefect_dask.task_runners", None)
    with pytest.raises(MissingExtraError, match=r"respect-edgetpu\[dask\]"):
        task_runner("tcp://one:1")


@pytest.fixture
def cluster(tmp_path: Path, prefect_server: None) -> Iterator[str]:
    """A scheduler and two workers, each with a process of its own, as ``dask scheduler`` and ``dask worker`` start."""
    pytest.importorskip("prefect_dask")
    from prefect.settings import get_current_settings

    address_file = tmp_path / "scheduler.json"
    environment = {
        **os.environ,
        "PREFECT_API_URL": str(get_current_settings().api.url),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    common = ["--scheduler-file", str(address_file), "--no-dashboard"]
    worker = ["worker", "--nworkers", "2", "--nthreads", "1", "--local-directory", str(tmp_path / "dask")]
    with (tmp_path / "cluster.log").open("wb") as log:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "dask", *command, *common],
                env=environment, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True,
            )
            for command in (["scheduler", "--port", "0", "--host", "127.0.0.1"], worker)
        ]  # fmt: skip
        try:
            until = time.monotonic() + 60
            while not address_file.exists() or not address_file.read_text():
                assert time.monotonic() < until, (tmp_path / "cluster.log").read_text()
                time.sleep(0.1)
            yield str(json.loads(address_file.read_text())["address"])
        finally:
            for process in processes:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def kill_a_busy_worker(address: str, killed: list[int]) -> None:
    """Wait until a worker has a task, then kill its process in the middle of it."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        pids = client.run(os.getpid)
        for _ in range(600):
            busy = [worker for worker, tasks in client.processing().items() if tasks and worker in pids]
            if busy:
                time.sleep(0.2)
                os.kill(pids[busy[0]], signal.SIGKILL)
                killed.append(pids[busy[0]])
                return
            time.sleep(0.05)


def test_a_cluster_makes_the_same_labels_though_a_worker_is_killed(
    cluster: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.label import label

    small = replace(SIZES["smoke"], num_graphs=600, shard_graphs=100, evaluation_graphs=3)
    monkeypatch.setitem(SIZES, "smoke", small)
    killed: list[int] = []
    killer = threading.Thread(target=kill_a_busy_worker, args=(cluster, killed))
    killer.start()
    published = label("smoke", 0, str(home.path), scheduler=cluster)
    killer.join()
    assert len(killed) == 1
    assert published[0].rows == 1800
    plan = RunPlan.of("smoke")
    labels = plan.labels_of(plan.training_graphs)
    expected, _ = label_tables(generate_tables(labels.graphs.spec, range(600)), labels.config)
    assert home.dataset(LABELS).read(labels.partition).equals(expected)
    for schema in (GRAPHS, OPS, TENSORS, LABELS, LABEL_TIMINGS):
        home.dataset(schema).verify()
