"""What every runner must do, whatever is behind it: subclass `RunnerContract` and give it a runner and jobs.

Runners that run segments subclass `RealRunnerContract`, whose job has segments.
"""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from hardware_runners.errors import InvalidJobError, RunnerClosedError, RunnerError
from hardware_runners.job import Job, write_job
from hardware_runners.protocol import RUNNERS, PipelineRunner, TimingPlan, Timings
from hardware_runners.result_check import read_result
from hardware_runners.results import result_of, write_result
from respect_core.tables.benchmarks import BENCHMARKS

PLAN = TimingPlan(warm_up=2, repeats=3, items=5)

_TIMINGS: dict[type, Timings] = {}


class RunnerContract:
    """Subclasses define `runner` (a new one, not yet entered) and `job` (with at least two stages)."""

    @pytest.fixture
    def runner(self) -> PipelineRunner:
        pytest.skip("the contract itself has no runner")

    @pytest.fixture
    def job(self, tmp_path: Path) -> Job:
        pytest.skip("the contract itself has no job")

    @pytest.fixture
    def timings(self, runner: PipelineRunner, job: Job) -> Timings:
        """What the runner says of `PLAN`: run once for all tests that only look at it."""
        if type(self) not in _TIMINGS:
            with runner:
                _TIMINGS[type(self)] = runner.time(job, PLAN)
        return _TIMINGS[type(self)]

    def test_it_is_a_registered_runner(self, runner: PipelineRunner) -> None:
        assert isinstance(runner, PipelineRunner)
        assert runner.name in RUNNERS

    @pytest.mark.parametrize(
        "plan", [PLAN, TimingPlan(warm_up=0, repeats=0, items=2), TimingPlan(warm_up=0, repeats=1, items=0)]
    )
    def test_it_times_what_the_plan_asks_for(self, runner: PipelineRunner, job: Job, plan: TimingPlan) -> None:
        with runner:
            timings = runner.time(job, plan)
        assert len(timings.latency) == len(timings.stage_ns) == plan.repeats
        assert len(timings.pipelined) == plan.items
        assert len(timings.intervals_us) == max(0, plan.items - 1)
        assert timings.num_stages == job.num_stages
        assert (timings.runner, timings.is_simulated) == (runner.name, runner.is_simulated)

    def test_an_item_alone_takes_at_least_its_stage_times(self, timings: Timings) -> None:
        for inference, stages in zip(timings.latency, timings.stage_ns, strict=True):
            assert inference.end_ns - inference.start_ns >= sum(stages)
        for before, after in zip(timings.latency, timings.latency[1:], strict=False):
            assert after.start_ns >= before.end_ns, "two items were in the pipeline at once"

    def test_a_full_pipeline_keeps_the_order_and_loses_nothing(self, timings: Timings) -> None:
        starts = [inference.start_ns for inference in timings.pipelined]
        ends = [inference.end_ns for inference in timings.pipelined]
        assert starts == sorted(starts)
        assert ends == sorted(ends)
        assert timings.period_us == pytest.approx(sum(timings.intervals_us) / len(timings.intervals_us))

    def test_its_rows_are_rows_of_the_table(self, timings: Timings, job: Job) -> None:
        table = BENCHMARKS.table(timings.rows(job))
        assert table.num_rows == PLAN.repeats + PLAN.items
        assert len({tuple(row[k] for k in BENCHMARKS.key) for row in table.to_pylist()}) == table.num_rows
        assert sum(row["interval_us"] is None for row in table.to_pylist()) == 2

    def test_it_tells_where_it_ran_without_naming_the_host(self, timings: Timings) -> None:
        assert timings.host
        assert timings.device
        assert timings.versions
        told = f"{timings.host} {timings.device} {timings.versions}"
        assert platform.node() not in told.split()
        assert str(Path.home()) not in told

    def test_it_times_several_jobs_in_one_go(self, runner: PipelineRunner, job: Job) -> None:
        with runner:
            assert len(runner.time(job, PLAN).pipelined) == len(runner.time(job, PLAN).pipelined)

    def test_it_works_only_inside_with(self, runner: PipelineRunner, job: Job) -> None:
        with pytest.raises(RunnerClosedError):
            runner.time(job, PLAN)
        with runner:
            runner.time(job, PLAN)
        with pytest.raises(RunnerClosedError):
            runner.time(job, PLAN)

    def test_it_gives_its_devices_back_after_an_error(self, runner: PipelineRunner, job: Job) -> None:
        with pytest.raises(ZeroDivisionError), runner:
            raise ZeroDivisionError
        with pytest.raises(RunnerClosedError):
            runner.time(job, PLAN)
        with runner:
            runner.time(job, PLAN)

    def test_its_result_comes_back_from_a_file(self, timings: Timings, job: Job, tmp_path: Path) -> None:
        written = result_of(job, PLAN, timings, "2024-02-29T12:00:00+00:00")
        write_result(tmp_path / "result.json", written)
        assert read_result(tmp_path / "result.json", job) == written
        assert written.is_complete

    def test_a_job_without_its_files_is_refused_by_name(self, runner: PipelineRunner, job: Job, tmp_path: Path) -> None:
        bare = write_job(
            tmp_path / "bare",
            model=job.model,
            num_stages=job.num_stages,
            objective=job.objective,
            solver=job.solver,
            stage_of=job.stage_of,
            profile=job.profile,
            files={},
        )
        with runner, pytest.raises(InvalidJobError, match="bare") as caught:
            runner.time(bare, PLAN)
        assert isinstance(caught.value, RunnerError)


class RealRunnerContract(RunnerContract):
    """For runners that run segments in a process of their own."""

    def test_it_says_what_it_ran_on(self, timings: Timings) -> None:
        assert not timings.is_simulated
        assert all(timings.versions.values())
        assert "python" in timings.versions

    def test_it_times_the_uncut_model_too(self, timings: Timings) -> None:
        assert len(timings.whole_ns) == PLAN.repeats and min(timings.whole_ns) > 0

    def test_a_file_that_changed_since_the_job_was_read_is_found(self, runner: PipelineRunner, job: Job) -> None:
        segment = job.segments[1]
        path = job.path(segment.compiled or str(segment.file))
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        with runner, pytest.raises(InvalidJobError, match=f"{path.name}.*sha256") as caught:
            runner.time(job, PLAN)
        assert caught.value.stage == 1

    def test_it_leaves_no_temporary_folder(
        self, runner: PipelineRunner, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "temporary").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        with runner:
            runner.time(job, PLAN)
        assert list((tmp_path / "temporary").iterdir()) == []
