"""The command line as a script sees it: exit codes, JSON, one-sentence errors, and what is not imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli import app
from tests.free_port import free_port

RUNNER = CliRunner()

SCHEDULE_KEYS = {
    "model", "num_ops", "num_stages", "objective", "device", "solver", "status", "canonical", "stage_of", "param_bytes",
    "boundary_bytes", "time_us", "peak_param_bytes", "communication_bytes", "bottleneck_us", "latency_us",
    "lower_bound", "gap", "solve_seconds",
}  # fmt: skip

TINY = {
    "name": "tiny",
    "ops": [
        {"name": "a", "kind": "conv2d", "param_bytes": 9, "macs": 81},
        {"name": "b", "kind": "conv2d", "param_bytes": 5},
        {"name": "c", "kind": "add", "param_bytes": 0},
    ],
    "tensors": [
        {"name": "in", "bytes": 16, "producer": None, "consumers": ["a"]},
        {"name": "t", "bytes": 16, "producer": "a", "consumers": ["b", "c"]},
        {"name": "u", "bytes": 4, "producer": "b", "consumers": ["c"]},
        {"name": "out", "bytes": 16, "producer": "c", "consumers": []},
    ],
}


def run(*args: str) -> Any:
    return RUNNER.invoke(app, list(args))


def write(folder: Path, content: Any) -> str:
    path = folder / "graph.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_schedule_prints_one_json_object_with_the_stable_keys(tmp_path: Path) -> None:
    result = run("schedule", write(tmp_path, TINY), "--stages", "2", "--json")
    assert result.exit_code == 0, result.stderr
    row = json.loads(result.stdout)
    assert set(row) >= SCHEDULE_KEYS
    assert row["objective"] == "throughput" and row["device"] == "usb3" and row["solver"] == "auto"
    assert row["status"] == "optimal" and row["gap"] == 0
    assert row["lower_bound"] == row["bottleneck_us"] == max(row["time_us"])
    assert row["latency_us"] == pytest.approx(sum(row["time_us"]))
    assert row["peak_param_bytes"] == max(row["param_bytes"])
    assert row["communication_bytes"] == sum(row["boundary_bytes"])


def test_schedule_of_a_committed_model_reaches_the_known_optimum() -> None:
    result = run("schedule", "Xception", "-k", "4", "--objective", "peak-memory", "--json")
    row = json.loads(result.stdout)
    assert (row["status"], row["peak_param_bytes"]) == ("optimal", 5_965_744)


def test_schedule_for_people_shows_every_stage(tmp_path: Path) -> None:
    result = run("schedule", write(tmp_path, TINY), "-k", "3")
    assert result.exit_code == 0
    for word in ("optimal", "stage", "parameters", "peak memory", "bottleneck"):
        assert word in result.stdout


@pytest.mark.parametrize("solver", ["ilp", "order-file", "order-kahn", "order-dfs", "best-order", "random-orders"])
def test_every_solver_can_be_chosen(tmp_path: Path, solver: str) -> None:
    result = run("schedule", write(tmp_path, TINY), "-k", "2", "--solver", solver, "--json")
    assert json.loads(result.stdout)["solver"] == solver


def cyclic() -> dict[str, Any]:
    graph = json.loads(json.dumps(TINY))
    graph["tensors"].append({"name": "back", "bytes": 1, "producer": "c", "consumers": ["a"]})
    return graph


def changed(where: str, index: int, **values: Any) -> dict[str, Any]:
    graph = json.loads(json.dumps(TINY))
    graph[where][index].update(values)
    return graph


@pytest.mark.parametrize(
    ("content", "offender"),
    [
        (cyclic(), "cycle"),
        (changed("tensors", 1, consumers=["nobody"]), "'nobody'"),
        (changed("tensors", 1, producer="nobody"), "'nobody'"),
        (changed("ops", 1, param_bytes=-1), "'b'"),
        (changed("tensors", 2, bytes=-4), "'u'"),
        (changed("ops", 1, name="a"), "'a'"),
        (changed("tensors", 2, name="t"), "'t'"),
        ("{", "JSON"),
        ("[]", "expected an object"),
    ],
)
def test_a_wrong_graph_is_refused_in_one_sentence(tmp_path: Path, content: Any, offender: str) -> None:
    result = run("schedule", write(tmp_path, content), "-k", "2", "--json")
    assert result.exit_code == 2
    assert offender in result.stderr and "graph.json" in result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("schedule", "ResNet50", "-k", "0"), ("0 stages", "1..177")),
        (("schedule", "ResNet50", "-k", "178"), ("178 stages", "1..177")),
        (("schedule", "ResNet51", "-k", "4"), ("ResNet51", "ResNet50")),
        (("schedule", "ResNet50", "-k", "4", "--solver", "best"), ("best", "ilp")),
        (("schedule", "ResNet50", "-k", "4", "--objective", "speed"), ("speed", "throughput")),
        (("schedule", "ResNet50", "-k", "4", "--device", "usb4"), ("usb4", "usb3")),
        (("schedule", "ResNet50", "-k", "4", "--constraint", "no"), ("no", "outputs_last")),
        (("schedule", "ResNet50", "-k", "4", "--constraints", "/nowhere.json"), ("/nowhere.json",)),
        (("schedule", "ResNet50", "-k", "4", "--ratio", "-1"), ("-1", "0..")),
        (("schedule", "missing.json", "-k", "4"), ("missing.json",)),
        (("schedule", "ResNet50"), ("--stages",)),
        (("nightly", "--size", "huge"), ("huge", "smoke")),
        (("benchmark", "/nowhere"), ("/nowhere",)),
        (("benchmark", "--runner", "toaster"), ("toaster", "simulated")),
        (("schedule", "ResNet50", "-k", "x"), ("--stages", "integer")),
    ],
)
def test_bad_usage_exits_with_2_and_names_what_is_allowed(
    args: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    result = run(*args, "--home", str(tmp_path))
    assert result.exit_code == 2
    for word in words:
        assert word in result.stderr


def test_a_home_that_cannot_be_written_is_refused_before_work_starts(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    for command in ("nightly", "generate", "label", "train", "schedule", "benchmark"):
        result = run(command, "--home", str(occupied / "home"))
        assert result.exit_code == 2
        assert str(occupied) in result.stderr


def test_policy_without_a_champion_takes_the_weights_that_come_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    result = run("schedule", "ResNet50", "-k", "4", "--solver", "policy", "--home", str(tmp_path), "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["solver"] == "policy" and "come with the program" in found["solver_version"]
    assert not (tmp_path / "mlflow").exists()
    result = run("schedule", "ResNet50", "-k", "4", "--solver", "pointer", "--home", str(tmp_path), "--json")
    found = json.loads(result.stdout)
    assert found["solver"] == "pointer" and "come with the program" in found["solver_version"]


def test_a_checkpoint_that_is_not_there_is_named_even_where_the_proof_needs_no_policy() -> None:
    for solver in ("auto", "exact", "policy"):
        result = run("schedule", "Xception", "--stages", "4", "--solver", solver, "--checkpoint", "nowhere.safetensors")
        assert result.exit_code == 2 and "nowhere.safetensors" in result.stderr


@pytest.mark.parametrize("solver", ["auto", "policy", "pointer"])
def test_a_checkpoint_that_the_solver_cannot_use_is_refused_before_the_model_is_read(
    tmp_path: Path, solver: str
) -> None:
    from respect_core.policy.solver import pointer_path, pretrained_path

    cut_short, text, other = tmp_path / "cut.st", tmp_path / "text.st", tmp_path / "other.safetensors"
    cut_short.write_bytes(pretrained_path().read_bytes()[:-9])
    text.write_text("weights, honestly\n")
    other.write_bytes((pretrained_path() if solver == "pointer" else pointer_path()).read_bytes())
    for file, why in ((cut_short, "truncated"), (text, "no safetensors file"), (other, f"{solver!r} needs")):
        result = run("schedule", "no-model.json", "-k", "2", "--solver", solver, "--checkpoint", str(file))
        assert result.exit_code == 2
        assert str(file) in result.stderr and why in result.stderr


@pytest.mark.parametrize("options", [("--solver", "exact"), ("--solver", "local-search"), ("--robust", "max")])
def test_a_checkpoint_is_refused_by_solvers_that_would_ignore_it(options: tuple[str, str]) -> None:
    from respect_core.policy.solver import pretrained_path

    result = run("schedule", "no-model.json", "-k", "2", *options, "--checkpoint", str(pretrained_path()))
    assert result.exit_code == 2 and "--checkpoint is for the solvers auto, policy, pointer" in result.stderr


def test_lines_of_a_schedule_are_not_broken_where_a_script_reads_them(tmp_path: Path) -> None:
    graph = write(tmp_path, TINY | {"name": "a-graph-with-a-long-name" * 4})
    result = run("schedule", graph, "-k", "2")
    assert result.exit_code == 0
    first = result.stdout.splitlines()[0]
    assert first.startswith("a-graph-with-a-long-name") and first.endswith("gap 0.00%)")


def test_an_infeasible_problem_exits_with_3_and_still_prints_json(tmp_path: Path) -> None:
    graph = write(tmp_path, TINY)
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"pin": [{"op": "a", "stage": 1}]}))
    result = run("schedule", graph, "-k", "2", "--constraints", str(rules), "--json")
    assert result.exit_code == 3
    row = json.loads(result.stdout)
    assert row["status"] == "infeasible" and row["stage_of"] is None
    assert "'a'" in row["message"]


def test_constraints_change_the_schedule(tmp_path: Path) -> None:
    graph = write(tmp_path, TINY)
    rules = tmp_path / "rules.toml"
    rules.write_text('pin = [{op = "b", stage = 1}]\n')
    args = ("schedule", graph, "-k", "2", "--constraints", str(rules), "--json")
    row = json.loads(run(*args).stdout)
    assert row["stage_of"][1] == 1


def in_new_process(*args: str, forbid: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process in which importing one of ``forbid`` fails."""
    code = f"import sys\nfor name in {forbid.split()!r}: sys.modules[name] = None\nfrom flows.cli import main\nmain()\n"
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)


def test_help_imports_nothing_heavy() -> None:
    heavy = "numpy pandas pyarrow torch prefect mlflow great_expectations ortools numba networkx plotly keras"
    for args in (("--help",), ("schedule", "--help"), ("nightly", "--help")):
        result = in_new_process(*args, forbid=heavy)
        assert result.returncode == 0, result.stderr
        assert "Usage" in result.stdout


def test_schedule_needs_neither_platform_nor_torch() -> None:
    platform = "prefect mlflow great_expectations torch keras plotly"
    result = in_new_process("schedule", "ResNet50", "-k", "4", "--json", forbid=platform)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["status"] == "optimal"


def test_doctor_reports_findings_with_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    result = run("doctor", "--home", str(tmp_path / "home"), "--json")
    assert result.exit_code == 0, result.stdout
    findings = {entry["check"]: entry for entry in json.loads(result.stdout)["findings"]}
    assert findings["models"]["level"] == "ok" and "10 committed models" in findings["models"]["what"]
    assert findings["policy"]["level"] == "ok" and "come with the program" in findings["policy"]["what"]
    assert findings["telemetry"]["level"] == "ok"
    for entry in findings.values():
        assert entry["level"] == "ok" or entry["way_out"]


def test_doctor_exits_with_2_where_something_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESPECT_IMAGENET", str(tmp_path))
    result = run("doctor", "--home", str(tmp_path / "home"))
    assert result.exit_code == 2
    assert "error" in result.stdout and "->" in result.stdout


def test_a_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    graph = json.loads(json.dumps(TINY))
    graph["name"] = "x[/red]\x1b[31m\ny"
    result = run("schedule", write(tmp_path, graph), "-k", "2")
    assert result.exit_code == 0
    assert "x[/red]" in result.stdout and "\x1b" not in result.stdout


def test_a_full_disk_behind_stdout_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from flows.cli import main; main()", "schedule", write(tmp_path, TINY), "-k", "2"]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([*command, "--json"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr and "No space left" in result.stderr


def test_a_key_twice_in_a_constraints_file_is_refused(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"pin": [], "pin": []}')
    result = run("schedule", write(tmp_path, TINY), "-k", "2", "--constraints", str(rules))
    assert result.exit_code == 2 and "'pin'" in result.stderr and "rules.json" in result.stderr


def test_a_stage_that_does_not_exist_is_named_with_its_op(tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"pin": [{"op": "b", "stage": 9}]}')
    result = run("schedule", write(tmp_path, TINY), "-k", "2", "--constraints", str(rules))
    assert result.exit_code == 2 and "'b'" in result.stderr and "9" in result.stderr and "0..1" in result.stderr


def test_servers_that_do_not_answer_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", dead)
    monkeypatch.setenv("PREFECT_API_URL", f"{dead}/api")
    result = run("schedule", "ResNet50", "-k", "4", "--solver", "policy", "--home", str(tmp_path))
    assert result.exit_code == 2 and dead in result.stderr
    result = run("doctor", "--home", str(tmp_path), "--json")
    levels = {entry["check"]: entry["level"] for entry in json.loads(result.stdout)["findings"]}
    assert result.exit_code == 2 and levels["prefect"] == levels["policy"] == "error"


def test_options_of_one_model_need_the_model(tmp_path: Path) -> None:
    result = run("schedule", "--stages", "4", "--home", str(tmp_path))
    assert result.exit_code == 2 and "MODEL" in result.stderr
