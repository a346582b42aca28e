"""The flow `sweep`: every variant with every seed, resumed after a kill, published, and printed by the command."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from respect_core.errors import SolverFailedError
from respect_core.tables.sweeps import SWEEPS
from tasks.home import Home
from tasks.tracking import Tracking

SETS = {"all", "held-out", "local-30", "local-50", "local-200", "wide-30", "imagenet"}


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server", "tiny")
def test_a_sweep_goes_on_after_a_kill_and_compares_every_seed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.sweep import sweep
    from tasks import sweep as tasks

    trained: list[tuple[int, int]] = []

    def inline(limit_s: float, function: Any, at: Home, training: Any) -> Any:
        if len(trained) == 2:
            raise SolverFailedError("the process died (exit code -9), perhaps out of memory")
        trained.append((training.config.seed, training.config.best_of_steps))
        return function(at, training)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "run_in_kept_child", inline)
        with pytest.raises(SolverFailedError, match="exit code -9"):
            sweep("smoke", 2, ["usual", "one-phase"], 0, str(home.path))
        assert home.dataset(SWEEPS).partitions() == {}
    before, again = len(trained), []
    monkeypatch.setattr(
        tasks,
        "run_in_kept_child",
        lambda limit_s, function, at, training: (
            again.append((training.config.seed, training.config.best_of_steps)) or function(at, training)
        ),
    )
    done = sweep("smoke", 2, ["usual", "one-phase"], 0, str(home.path))
    assert before == 2 and set(again) | set(trained) == {(0, 4), (0, 0), (1, 4), (1, 0)}
    assert len(again) <= 3 and not done.published.reused

    rows = home.dataset(SWEEPS).read(done.published.partition).to_pylist()
    assert pq.read_table(home.dataset(SWEEPS).data).num_rows == len(rows), "analysts read the folder as a whole"
    pairs = {(variant, seed) for variant in ("usual", "one-phase") for seed in (0, 1)}
    assert {(r["variant"], r["training_seed"]) for r in rows} == pairs
    assert {r["set_name"] for r in rows} == SETS and len(rows) == 4 * len(SETS)
    assert not any(r["is_refined"] for r in rows if r["variant"] == "one-phase")
    assert [line.variant for line in done.summary] == ["usual", "one-phase"]
    for line in done.summary:
        gaps = [r["mean_gap"] for r in rows if r["variant"] == line.variant and r["set_name"] == "wide-30"]
        assert line.sets["wide-30"].mean == pytest.approx(sum(gaps) / 2) and line.sets["wide-30"].seeds == 2
    assert done.summary[1].against_first.mean >= 0, "the second phase is kept only where it is better"

    tracking = Tracking(home.path)
    runs = tracking.client.search_runs([tracking.experiment_id])
    (parent,) = [run for run in runs if run.info.run_name == "sweep"]
    children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert len(children) == 4 and len(runs) == 5
    assert {run.info.status for run in runs} == {"FINISHED"}
    sets = {f"dataset.{name}.digest" for name in ("labels", *(f"validation-{s}" for s in SETS - {"all", "held-out"}))}
    assert all(sets <= set(run.data.tags) for run in runs), "every run says what it learned from and is judged by"
    assert [entry.path for entry in tracking.client.list_artifacts(parent.info.run_id)] == ["sweep.md"]
    assert {run.info.run_name for run in children} == {f"{v} seed {s}" for v, s in pairs}
    assert tracking.version_of("champion") is None, "a sweep registers nothing"

    arguments = ["sweep", "--seeds", "2", "--variant", "usual", "--variant", "one-phase", "--home", str(home.path)]
    printed = CliRunner().invoke(app, arguments)
    assert printed.exit_code == 0, printed.output
    assert "28 rows reused" in printed.output and "| one-phase | " in printed.output and " ± " in printed.output
    result = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert result["published"]["reused"] and set(result["summary"][0]["sets"]) == SETS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--variant", "usuall"], "usual"),
        (["--variant", "usual", "--variant", "usual"], "named twice"),
        (["--size", "huge"], "smoke"),
    ],
)
def test_nonsense_ends_with_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["sweep", *arguments])
    assert result.exit_code == 2 and message in result.stderr and result.stderr.count("\n") == 1
