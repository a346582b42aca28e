"""The threads and queues of a pipeline, with stages made of plain functions."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_runners.errors import InvalidPlanError, PipelineFailedError
from hardware_runners.measuring.chain import (
    BETWEEN_STAGES,
    BoundedQueue,
    Left,
    ThreadedPipeline,
    needed_later,
    run_alone,
)

Held = dict[str, np.ndarray]


class FakeStage:
    """Adds up what it reads, and a number of its own."""

    device = None

    def __init__(self, number: int, reads: list[str], makes: str, then: Callable[[], None] = lambda: None) -> None:
        self.number, self.reads, self.makes, self.then = number, reads, makes, then
        self.inputs = [(name, i) for i, name in enumerate(reads)]
        self.held: list[set[str]] = []

    def run(self, held: Held) -> Held:
        self.then()
        self.held.append(set(held))
        return {self.makes: sum((held[name] for name in self.reads), np.array(self.number))}


def chain_of(rng: random.Random, num_stages: int) -> list[FakeStage]:
    """Stages of which each reads some of what there is before it, and the last one everything of the one before."""
    stages, known = [], ["in"]
    for k in range(num_stages):
        reads = rng.sample(known, rng.randint(1, len(known)))
        stages.append(FakeStage(k, reads, f"t{k}", lambda: time.sleep(rng.choice([0, 0, 0.0003]))))
        known.append(f"t{k}")
    return stages


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(0, 12), st.sampled_from([None, 1, 2]))
def test_threads_compute_what_the_chain_computes_in_order(
    seed: int, num_stages: int, items: int, size: int | None
) -> None:
    rng = random.Random(seed)
    stages = chain_of(rng, num_stages)
    wanted = [f"t{num_stages - 1}", rng.choice(["in", *(stage.makes for stage in stages)])]
    inputs = [{"in": np.array(i * 100)} for i in range(items)]
    expected = [run_alone(stages, held, wanted)[0].held for held in inputs]
    pipeline = ThreadedPipeline(stages, wanted, input_queue=size, output_queue=size)
    found: list[tuple[int, Left]] = []
    before = threading.active_count()
    pipeline.run(iter(inputs), lambda number, left: found.append((number, left)))
    assert threading.active_count() == before
    assert [number for number, _ in found] == list(range(items))
    assert [left.held for _, left in found] == expected
    assert all(left.start_ns <= left.end_ns for _, left in found)
    ends = [left.end_ns for _, left in found]
    assert ends == sorted(ends)
    for k, queue in enumerate(pipeline.queues):
        allowed = size if k in (0, num_stages) else BETWEEN_STAGES
        assert allowed is None or queue.largest <= allowed


def test_the_host_keeps_a_tensor_as_long_as_somebody_reads_it() -> None:
    stages = [FakeStage(0, ["in"], "a"), FakeStage(1, ["in"], "b"), FakeStage(2, ["a", "b"], "c")]
    assert needed_later(stages, ["c"]) == [{"a", "in", "c", "b"}, {"a", "b", "c"}, {"c"}]
    ThreadedPipeline(stages, ["c"]).run([{"in": np.array(1)}], lambda number, left: None)
    assert [stage.held[-1] for stage in stages] == [{"in"}, {"in", "a"}, {"a", "b"}]


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_stage_that_fails_stops_all_of_them_and_is_told(size: int | None, broken: int) -> None:
    calls = iter(range(100))

    def fail() -> None:
        if next(calls) == 3:
            raise PipelineFailedError("no more", broken, f":{broken}")

    stages = [FakeStage(k, ["in"], f"t{k}", fail if k == broken else lambda: None) for k in range(3)]
    left: list[int] = []
    before = threading.active_count()
    with pytest.raises(PipelineFailedError, match=rf"stage {broken} on device ':{broken}': no more"):
        ThreadedPipeline(stages, ["t2"], input_queue=size, output_queue=size).run(
            ({"in": np.array(i)} for i in range(50)), lambda number, one: left.append(number)
        )
    assert threading.active_count() == before
    assert left == list(range(len(left))) and len(left) <= 3


def test_an_error_of_the_one_who_pops_stops_the_pipeline() -> None:
    def refuse(number: int, left: Left) -> None:
        raise ZeroDivisionError

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        ThreadedPipeline([FakeStage(0, ["in"], "a")], ["a"]).run([{"in": np.array(1)}] * 9, refuse)
    assert threading.active_count() == before


def test_stages_work_at_once() -> None:
    """The first stage at its second item and the second stage at its first one wait for each other."""
    meet = threading.Barrier(2, timeout=20)

    def meeting_at(turn: int) -> Callable[[], None]:
        calls = iter(range(100))

        def then() -> None:
            if next(calls) == turn:
                meet.wait()

        return then

    stages = [FakeStage(0, ["in"], "a", meeting_at(1)), FakeStage(1, ["a"], "b", meeting_at(0))]
    left: list[Any] = []
    ThreadedPipeline(stages, ["b"]).run([{"in": np.array(i)} for i in range(3)], lambda n, one: left.append(n))
    assert left == [0, 1, 2]


def test_counters_tell_who_is_at_work() -> None:
    moves: list[int] = []
    stages = [FakeStage(k, ["in"], f"t{k}") for k in range(2)]
    run_alone(stages, {"in": np.array(0)}, ["t1"], moves.append)
    assert moves == [0, 0, 1, 1]


@pytest.mark.parametrize("size", [0, -1])
def test_a_queue_that_holds_nothing_is_refused(size: int) -> None:
    with pytest.raises(InvalidPlanError, match="at least 1"):
        BoundedQueue(size)
