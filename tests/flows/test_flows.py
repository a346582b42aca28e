"""The flows on a real embedded server: the whole chain, what is reused, what is refused, what survives a kill."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from respect_core.constraints import Constraints
from respect_core.errors import CorruptDatasetError, QualityError, SolverFailedError
from respect_core.policy.solver import PolicySolver, pretrained_path
from respect_core.schedule import first_violation
from respect_core.sources.catalog import load_model
from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.generalisation import GENERALISATION
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.labels import LABELS
from respect_core.tables.memory import MEMORY
from respect_core.tables.ops import OPS
from respect_core.tables.robustness import ROBUSTNESS
from respect_core.tables.schedules import SCHEDULES
from respect_core.tables.segments import SEGMENTS
from respect_core.tables.tensors import TENSORS
from respect_core.tables.training import TRAINING
from respect_core.tables.validation import VALIDATION
from tasks.home import Home
from tasks.plan import RunPlan
from tasks.tracking import Tracking, champion_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server", "tiny")]


def test_nightly_runs_end_to_end_and_reuses_what_is_unchanged(home: Home) -> None:
    from flows.nightly import nightly

    first = nightly("smoke", 0, str(home.path))
    scheduled = (first.schedules, first.pipeline_schedules, first.robustness)
    timed = (first.benchmarks, first.pipeline_benchmarks, first.measured)
    published = (*first.graphs, *first.labels, *scheduled, first.segments, first.memory, first.generalisation, *timed)
    assert not any(p.reused for p in published)
    decision = first.train.decision
    assert (
        decision is not None and not decision.promoted and "the weights that come with the program" in decision.reason
    )

    schedules = home.dataset(SCHEDULES).read(first.schedules.partition).to_pylist()
    solvers = {row["solver"] for row in schedules}
    assert solvers == {
        "policy", "order-file", "order-kahn", "order-dfs", "random-orders", "compiler-rule", "exact", "ilp",
    }  # fmt: skip
    assert {row["num_stages"] for row in schedules} == {4, 5, 6}
    optimal = {row["num_stages"]: row["peak_param_bytes"] for row in schedules if row["solver"] == "ilp"}
    assert optimal == {4: 5_965_744, 5: 5_216_744, 6: 4_706_112}
    check_pipelines(home, first)
    segments = home.dataset(SEGMENTS).read(first.segments.partition).to_pylist()
    assert {(row["model"], row["num_stages"], row["stage"]) for row in segments} == {
        ("small-int8", num_stages, stage) for num_stages in (4, 5, 6) for stage in range(num_stages)
    }
    assert all(row["is_verified"] and row["fits_pycoral"] and row["model_ops"] == 31 for row in segments)
    memory = home.dataset(MEMORY).read(first.memory.partition).to_pylist()
    assert [(r["concat"], r["may_rewrite"], r["status"]) for r in memory if r["model"] == "SwiftNet-HPD-C"] == [
        (concat, may_rewrite, "optimal") for concat in ("in-place", "separate") for may_rewrite in (False, True)
    ]
    generalised = home.dataset(GENERALISATION).read(first.generalisation.partition).to_pylist()
    assert {row["value"] for row in generalised} == {"2", "4", "8", "16"}
    assert {row["policy"] for row in generalised} == {PolicySolver.from_checkpoint(pretrained_path()).version}
    benchmarks = home.dataset(BENCHMARKS).read(first.benchmarks.partition).to_pylist()
    assert benchmarks and all(row["is_simulated"] for row in benchmarks)
    measured = home.dataset(BENCHMARKS).read(first.measured.partition).to_pylist()
    assert {(row["runner"], row["model"], row["num_stages"]) for row in measured} == {
        ("litert", "small-int8", num_stages) for num_stages in (4, 5, 6)
    }
    assert not any(row["is_simulated"] for row in measured)
    measured = home.dataset(BENCHMARKS).read(first.measured.partition).to_pylist()
    assert {row["runner"] for row in measured} == {"litert"} and not any(row["is_simulated"] for row in measured)
    assert {row["num_stages"] for row in measured} == {4, 5, 6}
    assert home.dataset(TRAINING).read(first.train.policy.training.partition).num_rows == 2
    validated = home.dataset(VALIDATION).read(first.train.policy.validation.partition).to_pylist()
    assert [(row["phase"], row["step"]) for row in validated if row["set_name"] == "imagenet"] == [
        ("best-of", 4), ("imitation", 1), ("imitation", 2),
    ]  # fmt: skip

    report = Path(first.report)
    page = report.read_text(encoding="utf-8")
    assert "Xception" in page and "SwiftNet-HPD-C" in page
    for heading in (
        "Throughput on a pipeline, usb3 (simulated)",
        "Measured on this host’s processor",
        "Segments",
        "Generalisation",
    ):
        assert f"<h2>{heading}" in page
    tracking = Tracking(home.path)
    logged = tracking.client.list_artifacts(first.train.policy.run_id, "report")
    assert [Path(entry.path).name for entry in logged] == [report.name]
    assert tracking.version_of("champion") == first.train.champion == decision.champion_version == "1"
    assert champion_checkpoint(home.path).read_bytes() == pretrained_path().read_bytes()

    second = nightly("smoke", 0, str(home.path))
    assert all(
        p.reused for p in (*second.graphs, *second.labels, second.segments, second.memory, second.generalisation)
    )
    assert all(p.reused for p in (second.schedules, second.pipeline_schedules, second.robustness))
    assert second.train.policy.reused and second.train.policy.version == first.train.policy.version
    assert not any(p.reused for p in (second.benchmarks, second.pipeline_benchmarks, second.measured))
    for schema in (
        GRAPHS,
        OPS,
        TENSORS,
        LABELS,
        SCHEDULES,
        ROBUSTNESS,
        SEGMENTS,
        MEMORY,
        BENCHMARKS,
        TRAINING,
        VALIDATION,
        GENERALISATION,
    ):
        home.dataset(schema).verify()


def check_pipelines(home: Home, result: Any) -> None:
    """Check the schedules for throughput: whose, of what, legal for pycoral's pipeline, judged and simulated."""
    assert result.pipeline_schedules.partition == result.robustness.partition
    rows = home.dataset(SCHEDULES).read(result.pipeline_schedules.partition).to_pylist()
    found = {(row["solver"], row["objective"], row["num_stages"]) for row in rows}
    solvers = {"policy", "local-search", "robust-max", "robust-p90", "profiling", "balanced", "compiler-rule", "exact"}
    asked = {("exact", "peak-memory"), *((solver, "throughput") for solver in solvers)}
    assert found == {(*who, num_stages) for who in asked for num_stages in (4, 5, 6)}
    graph = load_model("Xception-int8")
    pipeline = Constraints(outputs_last=True, inputs_first=True)
    best = {}
    for row in rows:
        assert (row["model"], row["num_ops"]) == ("Xception-int8", graph.num_ops)
        assert first_violation(graph, row["stage_of"], row["num_stages"], pipeline) is None
        if row["solver"] == "exact" and row["objective"] == "throughput":
            assert row["status"] == "optimal"
            best[row["num_stages"]] = row["bottleneck_us"]
    assert all(row["bottleneck_us"] >= best[row["num_stages"]] for row in rows)
    judged = home.dataset(ROBUSTNESS).read(result.robustness.partition).to_pylist()
    assert len(judged) == len(rows) and {(r["num_scenarios"], r["scenario_seed"]) for r in judged} == {(200, 1)}
    timed = home.dataset(BENCHMARKS).read(result.pipeline_benchmarks.partition).to_pylist()
    periods = {
        (row["solver"], row["objective"], row["num_stages"]): row["interval_us"]
        for row in timed
        if row["mode"] == "pipelined" and row["interval_us"] is not None
    }
    assert all(row["is_simulated"] for row in timed)
    assert periods == {(r["solver"], r["objective"], r["num_stages"]): pytest.approx(r["bottleneck_us"]) for r in rows}


def test_labels_have_the_same_bytes_on_every_run(home: Home, tmp_path: Path) -> None:
    from flows.label import label

    first = label("smoke", 0, str(home.path))
    second = label("smoke", 0, str(tmp_path / "other"))
    assert [p.digest for p in first] == [p.digest for p in second]
    assert [p.partition for p in first] == [p.partition for p in second]


def test_a_failed_check_names_rule_and_rows_and_publishes_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.label import label
    from tasks import label as label_tasks

    honest = label_tasks.label_tables

    def dishonest(*args: Any) -> Any:
        labels, timings = honest(*args)
        rows = labels.to_pylist()
        rows[0] = {**rows[0], "peak_param_bytes": rows[0]["peak_param_bytes"] + 1}
        return LABELS.table(rows), timings

    monkeypatch.setattr("tasks.label.run_in_kept_child", lambda _, function, *args: function(*args))
    monkeypatch.setattr("tasks.label.label_tables", dishonest)
    with pytest.raises(QualityError) as caught:
        label("smoke", 0, str(home.path))
    message = str(caught.value)
    assert "labels" in message and re.search(r"local-30-s0-000000[04]", message) and "rejected" in message
    assert home.dataset(LABELS).partitions() == {}
    assert list((home.path / "rejected" / "labels").iterdir())
    monkeypatch.undo()
    assert label("smoke", 0, str(home.path))[0].rows > 0


def test_finished_shards_survive_a_dead_solver_process(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.label import label
    from tasks import label as label_tasks

    real = label_tasks.run_in_kept_child

    def dies_in_the_second_shard(limit_s: float, function: Any, *args: Any) -> Any:
        if args[-1] == 1:
            raise SolverFailedError("the process died (exit code -9), perhaps out of memory")
        return real(limit_s, function, *args)

    monkeypatch.setattr(label_tasks, "run_in_kept_child", dies_in_the_second_shard)
    with pytest.raises(SolverFailedError, match="exit code -9"):
        label("smoke", 0, str(home.path))
    assert home.dataset(LABELS).partitions() == {}

    again: list[Any] = []

    def counted(limit_s: float, function: Any, *args: Any) -> Any:
        again.append((args[1].graphs, args[2]))
        return real(limit_s, function, *args)

    monkeypatch.setattr(label_tasks, "run_in_kept_child", counted)
    label("smoke", 0, str(home.path))
    training = RunPlan.of("smoke").training_graphs
    assert [shard for graphs, shard in again if graphs == training] == [1]


@pytest.mark.parametrize("damage", ["truncate", "foreign", "delete"])
def test_a_damaged_dataset_is_named_and_nothing_is_overwritten(home: Home, damage: str) -> None:
    from flows.generate import generate

    done = generate("smoke", 0, str(home.path))
    dataset = home.dataset(OPS)
    path = dataset.paths(dataset.partition(done[0].partition))[0]
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:-100])
    elif damage == "foreign":
        path = path.with_name("foreign.parquet")
        path.write_bytes(b"not parquet")
    else:
        path.unlink()
    before = {p: p.read_bytes() for p in home.path.joinpath("datasets").rglob("*.parquet")}
    with pytest.raises(CorruptDatasetError, match=path.name):
        generate("smoke", 1, str(home.path))
        generate("smoke", 0, str(home.path))
    after = {p: p.read_bytes() for p in home.path.joinpath("datasets").rglob("*.parquet")}
    assert before.items() <= after.items()


def test_schedule_runs_alone_without_a_policy(home: Home) -> None:
    from flows.benchmark import benchmark
    from flows.schedule import schedule

    (done,) = schedule("smoke", 0, str(home.path))
    rows = home.dataset(SCHEDULES).read(done.partition)
    assert "policy" not in rows["solver"].to_pylist()
    assert isinstance(rows, pa.Table)
    timed = benchmark("smoke", "simulated", None, str(home.path))
    facts = home.dataset(BENCHMARKS).partition(timed.partition).facts
    assert facts["schedules"] == done.partition
    assert json.dumps(facts)


def test_only_a_better_policy_replaces_the_champion(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.train import train
    from tasks import policy_gate

    honest = policy_gate.score_solver
    scores = iter([0.1, 0.2, 0.5, 0.1])  # candidate, champion; candidate, champion
    monkeypatch.setattr(policy_gate, "score_solver", lambda *a: replace(honest(*a), mean_gap=next(scores)))
    first = train("smoke", 0, str(home.path))
    assert first.decision is not None and first.decision.promoted and first.decision.champion_version == "1"
    second = train("smoke", 1, str(home.path))
    assert second.decision is not None and not second.decision.promoted
    tracking = Tracking(home.path)
    assert tracking.version_of("champion") == first.policy.version == first.champion == second.champion == "2"
    assert tracking.version_of("previous") == "1"
    tags = tracking.client.get_model_version("respect-policy", second.policy.version).tags
    assert tags["gate.decision"] == "rejected"
    run = tracking.client.get_run(first.policy.run_id)
    inputs = {entry.dataset.name: entry.dataset.digest for entry in run.inputs.dataset_inputs}
    sets = {f"validation-{name}" for name in ("local-30", "local-50", "local-200", "wide-30", "imagenet")}
    assert set(inputs) == {"labels", *sets} and len(set(inputs.values())) == 6
    for name in ("held-out", "local-200", "imagenet"):
        assert [m.step for m in tracking.client.get_metric_history(run.info.run_id, f"gap/{name}")] == [1, 2]
        assert f"best/gap/{name}" in run.data.metrics and f"best_of/gap/{name}" in run.data.metrics
