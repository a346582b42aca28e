from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from respect_core.errors import InputFileError, RespectError, UnwritableError
from respect_core.policy.checkpoint import read_checkpoint, write_checkpoint
from respect_core.policy.config import PointerConfig
from respect_core.policy.epochs import EpochResult, RefinementPoint
from respect_core.policy.evaluate import EvaluationCase, PolicyScore
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.solver import PolicySolver, pretrained_path
from respect_core.policy.training_state import weights_of
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.graph_json import graph_to_json
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from tasks import tracking_registry
from tasks.policy_gate import ensure_champion, promote_if_better
from tasks.tracking import POLICY_MODEL, NoChampionError, Tracking, champion_checkpoint, tracking_uri
from tests.conftest import ROOT
from tests.training_examples import labelled

EXAMPLE = generate_graph(SyntheticSpec(family="local", num_ops=10), 0)


def checkpoint(folder: Path, seed: int, slacks=(1.0, 1.2)) -> Path:
    config = PointerConfig(embed_size=6, hidden_size=6, slacks=slacks)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = PointerNetwork(config)
    path = folder / f"seed{seed}.safetensors"
    write_checkpoint(path, config, weights_of(network), {"seed": seed})
    return path


def cases():
    return [
        EvaluationCase(problem=Problem.of(e.graph, e.num_stages), optimal_peak_bytes=e.optimal_peak_bytes)
        for e in labelled(10, 5, (2, 3))
    ]


@pytest.fixture(autouse=True)
def own_store(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home whose database is made once for the whole file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        path = tmp_path_factory.mktemp("home")
        Tracking(path)
    return path


@pytest.fixture
def tracking(home):
    """The module's store without a registered policy."""
    found = Tracking(home)
    for model in found.client.search_registered_models():
        found.client.delete_registered_model(model.name)
    return found


def register(tracking, path):
    with tracking.run("train", {"seed": 1}) as run_id:
        return tracking.register_policy(run_id, path, EXAMPLE, 3)


def test_a_run_keeps_params_dataset_metrics_and_files(tracking, tmp_path):
    report = tmp_path / "report.html"
    report.write_text("<html></html>")
    with tracking.run("train", {"epochs": 2, "learning_rate": 1e-3}, {"size": "smoke"}) as run_id:
        tracking.log_dataset(run_id, "labels", "a" * 64, "datasets/labels")
        for epoch in (1, 2):
            tracking.log_epoch(
                run_id,
                EpochResult(
                    epoch=epoch,
                    train_cost=0.5 / epoch,
                    baseline_cost=0.5,
                    validation_cost=0.4,
                    validation_gap=0.1,
                    gradient_norm=2.0,
                    baseline_replaced=epoch == 2,
                    epoch_seconds=1.5,
                    set_gaps={"wide-30": 0.02 * epoch},
                ),
            )
        point = RefinementPoint(step=50, sampled_gap=0.5, best_gap=0.25, validation_gap=0.1, set_gaps={"wide-30": 0.01})
        tracking.log_point(run_id, point)
        tracking.log_file(run_id, report)
    run = tracking.client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"epochs": "2", "learning_rate": "0.001"}
    assert run.data.tags["size"] == "smoke" and run.data.tags["dataset.labels.digest"] == "a" * 64
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("labels", "a" * 36)
    history = tracking.client.get_metric_history(run_id, "train_cost")
    assert [(m.step, m.value) for m in history] == [(1, 0.5), (2, 0.25)]
    assert run.data.metrics["baseline_replaced"] == 1.0
    history = tracking.client.get_metric_history(run_id, "gap/wide-30")
    assert [(m.step, m.value) for m in history] == [(1, 0.02), (2, 0.04)]
    assert run.data.metrics["best_of/best_gap"] == 0.25 and run.data.metrics["best_of/gap/wide-30"] == 0.01
    assert "set_gaps" not in run.data.metrics
    assert [f.path for f in tracking.client.list_artifacts(run_id)] == ["report.html"]


def test_a_run_whose_block_raises_has_failed(tracking):
    with pytest.raises(ZeroDivisionError), tracking.run("train", {}) as run_id:
        raise ZeroDivisionError
    assert tracking.client.get_run(run_id).info.status == "FAILED"


def test_the_store_is_below_home_and_nothing_global_changes(tracking, home, tmp_path, monkeypatch):
    import mlflow

    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    register(tracking, checkpoint(tmp_path, 1))
    assert mlflow.active_run() is None and mlflow.get_tracking_uri() == before
    assert (home / "mlflow" / "mlflow.db").is_file()
    assert [p.name for p in tmp_path.iterdir()] == ["seed1.safetensors"], "nothing is left in the working directory"


def test_an_address_in_the_environment_wins(tmp_path, monkeypatch):
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:1")
    assert tracking_uri(tmp_path) == "http://localhost:1"


def test_a_home_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "mlflow").write_text("a file in the way")
    with pytest.raises(UnwritableError, match="mlflow"):
        Tracking(tmp_path)


def test_without_a_champion_the_way_to_one_is_said(tracking, home, tmp_path):
    with pytest.raises(NoChampionError, match="respect nightly"):
        champion_checkpoint(home)
    with pytest.raises(NoChampionError, match="respect train"):
        champion_checkpoint(tmp_path)
    assert list(tmp_path.iterdir()) == [], "asking makes no store"
    with pytest.raises(RespectError, match="candidate"):
        promote_if_better(tracking, cases())


def test_the_model_holds_code_and_weights_and_no_caches(tracking, tmp_path):
    path = checkpoint(tmp_path, 1)
    version = register(tracking, path)
    found = tracking.checkpoint_of(version)
    assert found.read_bytes() == path.read_bytes()
    folder = found.parents[1]
    names = {p.name for p in folder.rglob("*")}
    assert {"MLmodel", "requirements.txt", "policy_model.py", "decode.py", "devices.toml"} <= names
    assert not {n for n in names if n == "__pycache__" or n.endswith((".pyc", ".nbi", ".nbc", ".pkl", ".pt"))}
    assert [p.name for p in (folder / "code").iterdir()] == ["respect_core"]
    tags = tracking.client.get_model_version(POLICY_MODEL, version).tags
    assert tags["checkpoint"] == read_checkpoint(path).version


def test_a_checkpoint_that_cannot_be_used_is_not_registered(tracking, tmp_path):
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"nothing")
    with pytest.raises(InputFileError):
        register(tracking, broken)
    assert tracking.version_of("candidate") is None


def use(tracking, path):
    """Register a checkpoint and make it champion, whatever it is worth."""
    version = register(tracking, path)
    tracking.promote(version, tracking.version_of("champion"))
    return version


def test_the_gate_promotes_only_what_is_no_worse(tracking, home, tmp_path):
    gap_of_seed = {}
    for seed in range(12):
        solver = PolicySolver.from_checkpoint(checkpoint(tmp_path, seed, slacks=()))
        peaks = [solver.solve(c.problem, SolveOptions()).value[0] / c.optimal_peak_bytes - 1 for c in cases()]
        gap_of_seed[seed] = sum(peaks) / len(peaks)
    best, *_, worst = sorted(gap_of_seed, key=gap_of_seed.__getitem__)
    assert gap_of_seed[best] < gap_of_seed[worst]

    first = use(tracking, tmp_path / f"seed{worst}.safetensors")
    assert tracking.version_of("champion") == first and tracking.version_of("previous") is None

    second = register(tracking, tmp_path / f"seed{best}.safetensors")
    decision = promote_if_better(tracking, cases())
    assert decision.promoted and decision.candidate.mean_gap == pytest.approx(gap_of_seed[best])
    assert (tracking.version_of("champion"), tracking.version_of("previous")) == (second, first)
    assert champion_checkpoint(home).read_bytes() == (tmp_path / f"seed{best}.safetensors").read_bytes()

    third = register(tracking, tmp_path / f"seed{worst}.safetensors")
    decision = promote_if_better(tracking, cases())
    assert not decision.promoted and decision.reason.startswith("worse") and "of the champion" in decision.reason
    assert (tracking.version_of("champion"), tracking.version_of("previous")) == (second, first)
    tags = tracking.client.get_model_version(POLICY_MODEL, third).tags
    assert tags["gate.decision"] == "rejected" and tags["gate.champion_version"] == second
    assert float(tags["gate.mean_gap"]) == pytest.approx(gap_of_seed[worst])
    assert float(tags["gate.champion_mean_gap"]) == pytest.approx(gap_of_seed[best])
    assert tags["gate.evaluation_digest"] == decision.evaluation_digest and tags["gate.cases"] == "10"

    fourth = register(tracking, tmp_path / f"seed{best}.safetensors")
    assert promote_if_better(tracking, cases()).promoted, "as good is good enough"
    assert promote_if_better(tracking, cases()).promoted, "asking twice changes nothing"
    assert (tracking.version_of("champion"), tracking.version_of("previous")) == (fourth, second)


def test_the_first_champion_is_what_comes_with_the_program(tracking, home, tmp_path):
    version = ensure_champion(tracking, EXAMPLE, 3)
    assert ensure_champion(tracking, EXAMPLE, 3) == version == tracking.version_of("champion") == "1"
    assert tracking.version_of("candidate") is None, "nobody has to judge it"
    assert champion_checkpoint(home).read_bytes() == pretrained_path().read_bytes()
    assert tracking.checkpoint_of(version).read_bytes() == pretrained_path().read_bytes()
    run = tracking.client.get_run(tracking.client.get_model_version(POLICY_MODEL, version).run_id)
    assert run.info.status == "FINISHED" and run.info.run_name == "shipped-policy"


def test_a_shipped_champion_follows_the_program_and_a_trained_one_stays(tracking, home, tmp_path, monkeypatch):
    first = ensure_champion(tracking, EXAMPLE, 3)
    newer = checkpoint(tmp_path, 3)
    monkeypatch.setattr("tasks.policy_gate.pretrained_path", lambda: newer)
    second = ensure_champion(tracking, EXAMPLE, 3)
    assert second != first and tracking.version_of("champion") == second
    assert champion_checkpoint(home).read_bytes() == newer.read_bytes()
    trained = use(tracking, checkpoint(tmp_path, 4))
    monkeypatch.undo()
    assert ensure_champion(tracking, EXAMPLE, 3) == trained == tracking.version_of("champion")


@pytest.mark.parametrize("way", ["before the training", "by the gate"])
def test_a_training_that_is_worse_than_the_shipped_weights_is_not_promoted(tracking, home, tmp_path, way):
    if way == "before the training":
        ensure_champion(tracking, EXAMPLE, 3)
    mine = register(tracking, checkpoint(tmp_path, 1, slacks=()))
    decision = promote_if_better(tracking, cases())
    assert not decision.promoted and decision.candidate_version == mine
    assert "worse" in decision.reason and "of the weights that come with the program" in decision.reason
    assert decision.candidate.mean_gap > decision.champion.mean_gap
    assert tracking.version_of("champion") == decision.champion_version != mine
    assert champion_checkpoint(home).read_bytes() == pretrained_path().read_bytes()

    same = register(tracking, pretrained_path())
    assert promote_if_better(tracking, cases()).promoted, "as good is good enough"
    assert tracking.version_of("champion") == same


def test_shipped_weights_that_a_killed_run_registered_are_not_registered_again(tracking, monkeypatch):
    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tracking, "promote", killed)
        with pytest.raises(KeyboardInterrupt):
            ensure_champion(tracking, EXAMPLE, 3)
    assert tracking.version_of("champion") is None
    assert ensure_champion(tracking, EXAMPLE, 3) == "1"


def test_a_candidate_is_judged_by_its_illegal_schedules_first(tracking, tmp_path, monkeypatch):
    scores = {}
    monkeypatch.setattr("tasks.policy_gate._score", lambda tracking, version, cases: scores[version])
    first, second = use(tracking, checkpoint(tmp_path, 1)), register(tracking, checkpoint(tmp_path, 2))

    def decide(candidate_illegal, champion_illegal):
        scores[second] = PolicyScore(mean_gap=0.5, illegal=candidate_illegal, cases=10)
        scores[first] = PolicyScore(mean_gap=0.1, illegal=champion_illegal, cases=10)
        return promote_if_better(tracking, cases())

    decision = decide(2, 3)
    assert not decision.promoted and "2 of 10 problems got no legal schedule" in decision.reason
    assert not decide(0, 0).promoted
    decision = decide(0, 3)
    assert decision.promoted and "3 of 10 problems got no legal schedule from the champion" in decision.reason
    assert tracking.version_of("champion") == second


def test_an_illegal_schedule_is_counted(tracking, tmp_path, monkeypatch):
    register(tracking, checkpoint(tmp_path, 1))
    honest = PolicySolver.solve

    def sometimes_nothing(self, problem, options):
        if problem.graph.name == cases()[0].problem.graph.name:
            from respect_core.errors import InvalidScheduleError

            raise InvalidScheduleError("stage 1 has no op")
        return honest(self, problem, options)

    monkeypatch.setattr(PolicySolver, "solve", sometimes_nothing)
    decision = promote_if_better(tracking, cases())
    assert not decision.promoted and decision.candidate.illegal == 2
    assert tracking.version_of("champion") == decision.champion_version


def test_the_shipped_weights_replace_a_champion_that_cannot_be_read_any_more(tracking, tmp_path):
    first = use(tracking, checkpoint(tmp_path, 1))
    tracking.checkpoint_of(first).write_bytes(b"spoilt")
    register(tracking, checkpoint(tmp_path, 2, slacks=()))
    decision = promote_if_better(tracking, cases())
    assert not decision.promoted and "cannot be used any more" in decision.reason
    shipped = decision.champion_version
    assert tracking.version_of("champion") == shipped != first and tracking.version_of("previous") == first

    tracking.checkpoint_of(shipped).write_bytes(b"spoilt")
    again = promote_if_better(tracking, cases())
    assert again.champion_version not in (first, shipped) and tracking.version_of("champion") == again.champion_version


def test_a_champion_that_cannot_be_written_down_does_not_replace_the_one_in_use(tracking, home, tmp_path, monkeypatch):
    first = use(tracking, checkpoint(tmp_path, 1))
    second = register(tracking, checkpoint(tmp_path, 2))

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tracking_registry.shutil, "copyfile", full)
    with pytest.raises(UnwritableError, match="No space left on device"):
        tracking.promote(second, first)
    assert (tracking.version_of("champion"), tracking.version_of("previous")) == (first, None)
    assert champion_checkpoint(home).read_bytes() == (tmp_path / "seed1.safetensors").read_bytes()


def test_the_champion_serves_graphs_of_any_size_without_the_checkout(tracking, tmp_path):
    path = checkpoint(tmp_path, 1)
    use(tracking, path)
    some = [generate_graph(SyntheticSpec(family="wide", num_ops=n, seed=2), 0) for n in (6, 40, 300)]
    texts = [graph_to_json(graph) for graph in some]
    requests = [
        {"graph": texts, "num_stages": [2, 4, 6]},
        {"graph": texts[:2], "num_stages": [2, 3], "objective": ["throughput", None]},
        {"graph": [texts[0], "{"], "num_stages": [2, 2]},
        {"graph": [texts[0], texts[0]], "num_stages": [2, 7]},
        {"graph": [texts[0], texts[0]], "num_stages": [2, 0]},
        {"graph": [None, texts[0]], "num_stages": [2, 2]},
        {"graph": texts[:1], "num_stages": [2], "objective": ["speed"]},
        {"graph": texts[:1]},
    ]
    (tmp_path / "requests.json").write_text(json.dumps(requests))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MLFLOW_TRACKING_URI")}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("served_model.py")), tracking.uri, str(ROOT), str(tmp_path)],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    served = json.loads(done.stdout.splitlines()[-1])
    facts, answers = served["facts"], served["answers"]
    assert not Path(facts["core"]).is_relative_to(ROOT) and "code" in Path(facts["core"]).parts
    assert not facts["torch"] and not facts["tasks"]
    assert set(facts["requirements"]) == {"mlflow", "numba", "numpy", "pandas", "safetensors"}
    assert '"objective", "required": false' in facts["signature"]["inputs"]

    solver = PolicySolver.from_checkpoint(path)
    for request, answer in zip(requests[:2], answers[:2], strict=True):
        objectives = request.get("objective") or [None] * len(request["graph"])
        for i, (graph, num_stages, objective) in enumerate(zip(some, request["num_stages"], objectives, strict=False)):
            found = solver.solve(Problem.of(graph, num_stages, objective or "peak-memory"), SolveOptions())
            assert answer["stage_of"][i] == list(found.stage_of)
            assert answer["peak_param_bytes"][i] == found.numbers.peak_param_bytes
            assert answer["communication_bytes"][i] == found.numbers.communication_bytes
    expected = [
        "row 1: the graph is not JSON",
        "row 1: .*7 stages",
        "row 1: .*0 stages",
        "row 0: graph is",
        "row 0: .*'speed'",
    ]
    for answer, message in zip(answers[2:7], expected, strict=True):
        assert answer["type"] == "BadInputError"
        assert re.search(message, answer["error"]), answer
    assert "num_stages" in answers[7]["error"]
