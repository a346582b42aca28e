from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from hardware_runners.errors import InvalidJobError, InvalidPlanError, UnknownRunnerError
from hardware_runners.events import LineTrace, simulate_line
from hardware_runners.job import GRAPH_FILE, Job
from hardware_runners.protocol import Inference, PipelineRunner, TimingPlan, Timings, open_runner
from hardware_runners.simulated import SimulatedRunner, finer_note, modelled_times
from respect_core.device import load_profile
from respect_core.objective import evaluate
from respect_core.schedule import first_violation
from tests.hardware_runners.contract import PLAN, RunnerContract
from tests.hardware_runners.jobs import chain_graph, write_graph_job
from tests.strategies import graphs, profiles, stage_vectors

TIMES = st.one_of(st.integers(0, 5), st.integers(0, 10**9))
SIZES = st.one_of(st.integers(0, 3), st.none())


@st.composite
def lines(draw: Any) -> tuple[list[int], list[int | None], int]:
    times = draw(st.lists(TIMES, min_size=1, max_size=6))
    sizes = draw(st.lists(SIZES, min_size=len(times) - 1, max_size=len(times) - 1))
    return times, sizes, draw(st.integers(0, 12))


class TestContract(RunnerContract):
    @pytest.fixture
    def runner(self) -> PipelineRunner:
        return open_runner("simulated")

    @pytest.fixture
    def job(self, tmp_path: Path) -> Job:
        return write_graph_job(tmp_path / "job", chain_graph(), [0, 0, 0, 1, 1, 2], 3)


# -- the line of servers ----------------------------------------------------------------------------------------------


def recursion(times: list[int], sizes: list[int | None], num_items: int) -> tuple[list[list[int]], list[list[int]]]:
    """Start and leave times by the max-plus recursion of a line that blocks after service: an oracle without events.

    Item i begins where it arrived and the server is free; it leaves once it is finished and there is room, i.e. once
    item i - size has begun (or, without any queue, item i - 1 has left) at the next server.
    """
    start = [[0] * len(times) for _ in range(num_items)]
    leave = [[0] * len(times) for _ in range(num_items)]
    for i in range(num_items):
        for k, time in enumerate(times):
            arrived = leave[i][k - 1] if k else 0
            start[i][k] = max(arrived, leave[i - 1][k] if i else 0)
            leave[i][k] = start[i][k] + time
            size = sizes[k] if k < len(sizes) else None
            if size is not None and i >= max(size, 1):
                room = leave[i - 1][k + 1] if size == 0 else start[i - size][k + 1]
                leave[i][k] = max(leave[i][k], room)
    return start, leave


def waiting_at(trace: LineTrace, queue: int, moment: int) -> int:
    """Count the items in a queue right after everything that happens at one moment."""
    return sum(
        left[queue] <= moment < begun[queue + 1] for left, begun in zip(trace.leave_ns, trace.start_ns, strict=True)
    )


@settings(max_examples=2000)
@given(lines())
def test_period_is_the_largest_time_and_latency_the_sum(line: tuple[list[int], list[int | None], int]) -> None:
    times, sizes, num_items = line
    trace = simulate_line(times, sizes, num_items)
    assert [leave[-1] for leave in trace.leave_ns] == [sum(times) + i * max(times) for i in range(num_items)]
    alone = simulate_line(times, sizes, num_items, max_in_flight=1)
    assert [leave[-1] - start[0] for start, leave in zip(alone.start_ns, alone.leave_ns, strict=True)] == (
        [sum(times)] * num_items
    )
    assert alone.most_in_flight == min(1, num_items)


@settings(max_examples=1000)
@given(lines())
def test_every_event_is_where_the_recursion_puts_it(line: tuple[list[int], list[int | None], int]) -> None:
    trace = simulate_line(*line)
    start, leave = recursion(*line)
    assert [list(row) for row in trace.start_ns] == start
    assert [list(row) for row in trace.leave_ns] == leave


@settings(max_examples=500)
@given(lines(), st.one_of(st.none(), st.integers(1, 4)))
def test_items_are_conserved_and_queues_keep_their_size(
    line: tuple[list[int], list[int | None], int], max_in_flight: int | None
) -> None:
    times, sizes, num_items = line
    trace = simulate_line(times, sizes, num_items, max_in_flight=max_in_flight)
    assert len(trace.start_ns) == len(trace.leave_ns) == num_items
    for start, leave in zip(trace.start_ns, trace.leave_ns, strict=True):
        for k, time in enumerate(times):
            assert leave[k] >= start[k] + time
            assert k == 0 or start[k] >= leave[k - 1]
    for k in range(len(times)):
        assert all(after[k] >= before[k] for before, after in zip(trace.leave_ns, trace.start_ns[1:], strict=False))
    moments = {moment for row in (*trace.start_ns, *trace.leave_ns) for moment in row}
    for queue, (size, largest) in enumerate(zip(sizes, trace.largest_queue, strict=True)):
        seen = max((waiting_at(trace, queue, moment) for moment in moments), default=0)
        assert seen <= largest <= (num_items if size is None else size)
    if max_in_flight is not None:
        assert trace.most_in_flight <= max_in_flight


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6))
def test_with_both_ends_at_one_the_pipeline_holds_two_items_a_stage_and_one(times: list[int]) -> None:
    """As libcoral documents it; a host that never pops shows how many requests fit."""
    never = sum(times) * 100
    line = simulate_line([0, *times, never], [1] * (len(times) + 1), 3 * len(times) + 9)
    inside = sum(start[0] < never for start in line.start_ns)
    with_the_host = 2  # one that the host holds because nothing fits any more, one that it is still taking out
    assert inside - with_the_host == 2 * len(times) + 1


@pytest.mark.parametrize(
    ("times", "sizes", "items", "in_flight"),
    [([], [], 1, None), ([-1], [], 1, None), ([1, 1], [], 1, None), ([1, 1], [-1], 1, None), ([1], [], 1, 0)],
)
def test_a_line_that_cannot_be(times: list[int], sizes: list[int | None], items: int, in_flight: int | None) -> None:
    with pytest.raises(InvalidPlanError):
        simulate_line(times, sizes, items, max_in_flight=in_flight)


# -- the runner -------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_a_job_gives_the_numbers_of_the_objective(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    graph = data.draw(graphs())
    num_stages = data.draw(st.integers(1, min(4, graph.num_ops)))
    stage_of = data.draw(stage_vectors(graph, num_stages))
    assume(first_violation(graph, stage_of, num_stages) is None)
    profile = data.draw(profiles(graph))
    job = write_graph_job(tmp_path_factory.mktemp("jobs") / "job", graph, stage_of, num_stages, profile)
    numbers = evaluate(graph, stage_of, num_stages, profile)
    with SimulatedRunner() as runner:
        timings = runner.time(job, TimingPlan(warm_up=1, repeats=2, items=4))
        again = runner.time(job, TimingPlan(warm_up=1, repeats=2, items=4))
    assert timings == again
    assert timings.latencies_us == (numbers.latency_ns / 1000,) * 2
    assert timings.intervals_us == (numbers.bottleneck_ns / 1000,) * 3
    assert timings.period_us == pytest.approx(numbers.bottleneck_ns / 1000)
    assert timings.stage_ns == (tuple(numbers.time_ns.tolist()),) * 2
    assert timings.mean_stage_us == pytest.approx(numbers.time_ns / 1000)
    assert timings.device == profile.name
    one = evaluate(graph, np.zeros(graph.num_ops, dtype=np.int64), 1, profile)
    assert timings.whole_ns == (one.bottleneck_ns,) * 2


def test_another_profile_replaces_the_jobs_own(tmp_path: Path) -> None:
    graph = chain_graph()
    job = write_graph_job(tmp_path / "job", graph, [0, 0, 0, 0, 1, 1], 2, load_profile("usb3"))
    with open_runner("simulated", profile=load_profile("pcie")) as runner:
        timings = runner.time(job, PLAN)
    assert timings.device == "pcie"
    expected = evaluate(graph, job.stage_of, 2, load_profile("pcie"))
    assert timings.stage_ns[0] == tuple(expected.time_ns.tolist())
    assert timings.stage_ns[0] != tuple(evaluate(graph, job.stage_of, 2, load_profile("usb3")).time_ns.tolist())


def test_energy_is_modelled_from_published_power_and_says_so(tmp_path: Path) -> None:
    job = write_graph_job(tmp_path / "job", chain_graph(), [0, 0, 0, 1, 1, 2], 3)
    with SimulatedRunner() as runner:
        timings = runner.time(job, PLAN)
        assert runner.time(job, TimingPlan(items=0)).energy is None
    assert timings.energy is not None and timings.energy.is_modelled
    assert timings.energy.uj_per_inference == pytest.approx(2.0 * sum(timings.mean_stage_us))
    sources = {row["energy_source"] for row in timings.rows(job) if row["mode"] == "pipelined"}
    assert len(sources) == 1 and sources.pop().startswith("modelled: ")


def test_whole_layer_caching_gives_a_second_figure_where_it_differs(tmp_path: Path) -> None:
    """Two layers of 5 MiB and a chip with room for one: the smooth model spills 2.3 MiB, whole layers spill 5 MiB."""
    graph = replace(chain_graph(4), compiled_bytes=np.array([5, 5, 1, 1]) * 2**20, tensor_bytes=np.full(4, 1))
    profile = load_profile("pcie")
    job = write_graph_job(tmp_path / "job", graph, [0, 0, 1, 1], 2, profile)
    with SimulatedRunner() as runner:
        notes = runner.time(job, PLAN).notes
    assert "cached whole" in notes[0]
    fits = write_graph_job(tmp_path / "fits", graph, [0, 1, 1, 1], 2, profile)
    times = modelled_times(fits)
    assert times.finer == pytest.approx(times.stages, abs=5)
    assert finer_note(times) == ()


def test_a_slow_host_sets_the_period_and_not_the_latency(tmp_path: Path) -> None:
    job = write_graph_job(tmp_path / "job", chain_graph(), [0, 0, 0, 1, 1, 2], 3)
    with SimulatedRunner(push_ns=10**9, input_queue=1, output_queue=1) as runner:
        timings = runner.time(job, PLAN)
    assert timings.period_us == pytest.approx(10**6)
    assert timings.mean_latency_us == pytest.approx(sum(timings.mean_stage_us))


@pytest.mark.parametrize("option", ["input_queue", "output_queue", "push_ns", "pop_ns"])
def test_options_that_cannot_be(option: str) -> None:
    with pytest.raises(InvalidPlanError, match=option):
        open_runner("simulated", **{option: -1})
    with pytest.raises(InvalidPlanError, match="colour"):
        open_runner("simulated", colour="red")


def test_an_unknown_runner_is_named() -> None:
    with pytest.raises(UnknownRunnerError, match="'abacus': choose from coral, litert, simulated"):
        open_runner("abacus")


@pytest.mark.parametrize(
    ("stage_of", "num_stages", "named"),
    [([0, 0, 1, 0, 1, 1], 2, "op 'op2' in stage 1 feeds op 'op3'"), ([0, 0, 0], 2, "6 ops"), ([0] * 6, 2, "stage 1")],
)
def test_an_illegal_schedule_is_refused(tmp_path: Path, stage_of: list[int], num_stages: int, named: str) -> None:
    job = write_graph_job(tmp_path / "job", chain_graph(), stage_of, num_stages)
    with SimulatedRunner() as runner, pytest.raises(InvalidJobError, match=named):
        runner.time(job, PLAN)


def test_a_wrong_graph_or_profile_is_refused_by_name(tmp_path: Path) -> None:
    job = write_graph_job(tmp_path / "job", chain_graph(), [0, 0, 0, 1, 1, 1], 2)
    lacking = {name: value for name, value in job.profile.items() if name != "overlap"}
    with SimulatedRunner() as runner:
        for profile, named in ((lacking, "overlap"), ({**job.profile, "overlap": 7}, "overlap is 7")):
            with pytest.raises(InvalidJobError, match=named):
                runner.time(Job(**{**vars(job), "profile": profile}), PLAN)
        job.path(GRAPH_FILE).write_text("{}")
        with pytest.raises(InvalidJobError, match="lacks 'name'"):
            runner.time(job, PLAN)


# -- plans and timings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers", [{"warm_up": -1}, {"repeats": 1.5}, {"items": True}, {"items": 1}, {"repeats": 0, "items": 0}]
)
def test_a_plan_checks_itself(numbers: dict[str, Any]) -> None:
    with pytest.raises(InvalidPlanError, match=next(iter(numbers))):
        TimingPlan(**numbers)


def _timings(**parts: Any) -> Timings:
    whole = {
        "runner": "r", "is_simulated": True, "device": "d", "host": "h", "versions": {}, "num_stages": 2,
        "latency": (Inference(0, 3),), "stage_ns": ((1, 2),), "pipelined": (Inference(0, 3), Inference(1, 5)),
    }  # fmt: skip
    return Timings(**{**whole, **parts})


@pytest.mark.parametrize(
    "parts",
    [
        {"latency": (Inference(3, 2),)},
        {"pipelined": (Inference(0, 5), Inference(1, 4))},
        {"stage_ns": ()},
        {"stage_ns": ((1, 1, 1),)},
        {"stage_ns": ((-1, 4),)},
    ],
)
def test_timings_that_contradict_themselves_are_a_fault(parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="runner 'r'"):
        _timings(**parts)


def test_summaries_of_what_was_left_out_are_none() -> None:
    assert _timings(latency=(), stage_ns=()).mean_latency_us is None
    assert _timings(latency=(), stage_ns=()).mean_stage_us == ()
    assert _timings(pipelined=()).period_us is None
    assert np.isclose(_timings().period_us or 0, 0.002)


@pytest.mark.parametrize(("name", "num_stages", "is_told"), [("pcie", 3, True), ("pcie", 1, False), ("mine", 3, False)])
def test_a_host_slower_than_the_stages_is_told(tmp_path: Path, name: str, num_stages: int, is_told: bool) -> None:
    """Tiny stages, so that 0.244 ms a stage are longer; of a profile that is not published nothing is known."""
    graph = replace(chain_graph(3), param_bytes=np.ones(3), macs=np.ones(3), tensor_bytes=np.ones(3))
    profile = replace(load_profile("pcie"), name=name)
    job = write_graph_job(tmp_path / "job", graph, [0, 1, 2] if num_stages == 3 else [0, 0, 0], num_stages, profile)
    with SimulatedRunner() as runner:
        notes = runner.time(job, PLAN).notes
    assert any("about 0.73 ms an item for 3 stages" in note for note in notes) == is_told
