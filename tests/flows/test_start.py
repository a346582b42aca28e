"""What a short command loads: each name below costs it from a tenth of a second to several."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

CHECKPOINT = ROOT / "respect_core" / "policy" / "pretrained.safetensors"

UNUSED = (
    "torch",
    "scipy",
    "pandas",
    "mlflow",
    "prefect",
    "great_expectations",
    "networkx",
    "ortools",
    "urllib.request",
)
UNUSED_BY_FILES = (*UNUSED, "pyarrow", "ai_edge_litert")

GRAPH = {
    "name": "two",
    "ops": [{"name": name, "kind": "conv2d", "param_bytes": 3} for name in "ab"],
    "tensors": [
        {"name": "t", "bytes": 2, "producer": "a", "consumers": ["b"]},
        {"name": "u", "bytes": 2, "producer": "b", "consumers": []},
    ],
}

REPORTING = """
import gc, json, os, sys, threading
from flows.cli import main
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
print(json.dumps([sorted(sys.modules), gc.get_threshold()[0], os.environ.get("OPENBLAS_NUM_THREADS")]), file=sys.stderr)
"""


def run(*args: str, **environment: str) -> tuple[set[str], int, str | None]:
    """Run a command; return the modules it loaded, its garbage collector's threshold, and its threads' variable."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_NUM_THREADS", "MLFLOW_TRACKING_URI")}
    command = [sys.executable, "-c", REPORTING, *args]
    done = subprocess.run(command, env=inherited | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules, threshold, threads = json.loads(done.stderr.splitlines()[-1])
    return set(modules), threshold, threads


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    return str(path)


@pytest.fixture
def home(tmp_path: Path) -> str:
    """A home folder with a registered champion, as `Tracking.promote` leaves it."""
    store = tmp_path / "home" / "mlflow"
    store.mkdir(parents=True)
    (store / "mlflow.db").touch()
    (tmp_path / "home" / "champion.safetensors").write_bytes(CHECKPOINT.read_bytes())
    return str(tmp_path / "home")


@pytest.mark.parametrize("args", ["policy", "exact --json", "auto", "local-search --json", "best-order"])
def test_a_schedule_loads_nothing_that_it_does_not_use(args: str, home: str) -> None:
    modules, _, _ = run("schedule", "ResNet50", "--stages", "4", "--home", home, "--solver", *args.split())
    assert "numba" in modules
    assert sorted(modules & set(UNUSED)) == []


@pytest.mark.parametrize("solver", ["policy", "exact"])
def test_graphs_in_files_are_scheduled_without_tables(solver: str, graph: str, home: str) -> None:
    modules, _, _ = run("schedule", graph, "--stages", "2", "--solver", solver, "--home", home)
    assert "numba" in modules
    assert sorted(modules & set(UNUSED_BY_FILES)) == []


def test_an_order_loads_nothing_that_it_does_not_use(graph: str) -> None:
    assert sorted(run("order", graph)[0] & set(UNUSED)) == []


def test_a_command_rarely_looks_for_garbage_and_multiplies_with_one_thread(graph: str, home: str) -> None:
    args = ("schedule", graph, "--stages", "2", "--solver", "policy", "--home", home)
    _, threshold, threads = run(*args)
    assert threshold > 10_000 and threads == "1"
    assert run(*args, OPENBLAS_NUM_THREADS="2")[2] == "2"
