"""What happens after a kill, beside another run, and where something changed that a run depends on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from respect_core.device_constants import load_known_profile
from respect_core.errors import BadInputError, CorruptDatasetError, QualityError
from respect_core.tables.labels import LABELS
from tasks.home import Home
from tasks.plan import RunPlan
from tasks.tracking import POLICY_MODEL, Tracking

TINY_FLOWS = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server", "tiny")]


class TestTrainingAgain:
    pytestmark = TINY_FLOWS

    def test_a_version_that_was_never_judged_is_judged_by_the_next_run(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from flows import train as flow

        def killed(*args: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(flow, "judge_policy", killed)
            with pytest.raises(KeyboardInterrupt):
                flow.train("smoke", 0, str(home.path))
        assert Tracking(home.path).version_of("champion") == "1", "what comes with the program"
        again = flow.train("smoke", 0, str(home.path))
        assert again.policy.reused and again.policy.version == "2"
        assert again.decision is not None and again.decision.candidate_version == "2"

    def test_an_illegal_policy_stops_every_run_not_only_the_first(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from flows.train import train
        from tasks import policy_gate

        honest = policy_gate.score_solver
        monkeypatch.setattr(policy_gate, "score_solver", lambda *a: replace(honest(*a), illegal=2))
        for _ in range(2):
            with pytest.raises(QualityError, match="2 evaluation problems"):
                train("smoke", 0, str(home.path))
        assert Tracking(home.path).version_of("champion") == "1", "what comes with the program"

    def test_the_curve_in_mlflow_is_whole_after_an_interruption(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from flows.train import train

        real, real_end = Tracking.log_epoch, Tracking.end_run

        def ends_only_what_is_finished(self: Tracking, run_id: str, status: Any = "FINISHED") -> None:
            if status == "FINISHED":  # a killed process ends nothing
                real_end(self, run_id, status)

        def dies_after_the_first(self: Tracking, run_id: str, result: Any) -> None:
            real(self, run_id, result)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Tracking, "log_epoch", dies_after_the_first)
            patch.setattr(Tracking, "end_run", ends_only_what_is_finished)
            with pytest.raises(KeyboardInterrupt):
                train("smoke", 0, str(home.path))
        done = train("smoke", 0, str(home.path))
        tracking = Tracking(home.path)
        history = tracking.client.get_metric_history(done.policy.run_id, "validation_cost")
        assert sorted(point.step for point in history) == [1, 2]
        runs = tracking.client.search_runs([tracking.experiment_id])
        assert sorted(run.info.status for run in runs) == ["FINISHED", "FINISHED", "KILLED"]  # the first one: shipped

    def test_a_flipped_byte_in_a_reused_set_is_found(self, home: Home) -> None:
        from flows.label import label

        done = label("smoke", 0, str(home.path))
        dataset = home.dataset(LABELS)
        path = dataset.paths(dataset.partition(done[0].partition))[0]
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
        with pytest.raises(CorruptDatasetError, match=path.name):
            label("smoke", 0, str(home.path))

    def test_a_foreign_file_is_found_although_everything_is_reused(self, home: Home) -> None:
        from flows.label import label

        label("smoke", 0, str(home.path))
        foreign = home.dataset(LABELS).data / "mine.parquet"
        foreign.write_bytes(b"not parquet")
        with pytest.raises(CorruptDatasetError, match=r"mine\.parquet"):
            label("smoke", 0, str(home.path))


@pytest.mark.slow
def test_a_second_run_on_one_home_waits_for_the_first(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from tasks.home import Home\n"
        "with Home.at(sys.argv[1]).one_run(lambda text: print(text, flush=True)):\n"
        "    with Home.at(sys.argv[1]).one_run(print):\n"
        "        print('in', time.monotonic(), flush=True)\n"
        "    time.sleep(1.5)\n"
        "    print('out', time.monotonic(), flush=True)\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    spans = sorted(
        tuple(float(line.split()[1]) for line in text.splitlines() if line.split()[0] in ("in", "out"))
        for text in outputs
    )
    assert spans[0][1] <= spans[1][0]
    assert sum("another run is at work" in text for text in outputs) == 1


def test_a_killed_run_gives_its_home_free(tmp_path: Path) -> None:
    code = "import os, sys\nfrom tasks.home import Home\nwith Home.at(sys.argv[1]).one_run(print):\n    os._exit(9)\n"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 9
    said: list[str] = []
    with Home.at(tmp_path).one_run(said.append):
        assert said == []


def test_other_constants_or_other_models_are_other_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = RunPlan.of("smoke")
    before = plan.schedules(None).partition
    assert plan.schedules(None).partition == before
    usb3 = load_known_profile("usb3")
    other = replace(usb3, profile=replace(usb3.profile, overhead_ms=0.26))
    with monkeypatch.context() as patch:
        patch.setattr("tasks.schedule.load_known_profile", lambda name: other)
        assert plan.schedules(None).partition != before
    with monkeypatch.context() as patch:
        patch.setattr("tasks.schedule.graph_digest", lambda graph: "another graph")
        assert plan.schedules(None).partition != before
    assert plan.schedules("weights").partition != before


def test_nobody_trains_on_the_evaluation_graphs() -> None:
    with pytest.raises(BadInputError, match="9001"):
        RunPlan.of("smoke", 9001)
    with pytest.raises(BadInputError, match="-1"):
        RunPlan.of("smoke", -1)
    ids = {graphs.spec for graphs in RunPlan.of("smoke").graph_sets}
    assert len(ids) == 2


def test_the_registered_name_is_the_documented_one() -> None:
    assert POLICY_MODEL == "respect-policy"
