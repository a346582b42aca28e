"""Job folders of random models and schedules: they chain, and say truly whether pycoral's pipeline can run them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_runners.job import read_job
from hardware_runners.jobs.reference import read_reference
from respect_core.errors import ModelCannotRunError
from respect_core.segments.items import random_items
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.verify import chain_parts, verify_segments, whole_model
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of
from tasks.split import Split, SplitOptions, cut, write_split
from tests.random_schedules import cut as cut_order
from tests.random_schedules import random_order
from tests.tflite_models import INT32, OP, M, O, T, random_runnable, write_model

UNVERIFIED = SplitOptions(any_runner=True, verify=False)


class Drawn:
    """A solver whose schedule was drawn."""

    name = "drawn"
    version = "1"

    def __init__(self, stage_of: list[int]) -> None:
        self.stage_of = stage_of

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        watch = Stopwatch(options.time_limit_s)
        return result_of(self, problem, self.stage_of, status="feasible", solve_seconds=watch.seconds)


def split_of(model: TfliteModel, stage_of: list[int], options: SplitOptions) -> Split:
    problem = Problem.of(model.graph, max(stage_of) + 1, "throughput")
    return cut(model, problem, Drawn(stage_of).solve(problem, SolveOptions()), options)


def opened(content: bytes, folder: Path) -> TfliteModel:
    (folder / "net.tflite").write_bytes(content)
    return open_model(folder / "net.tflite")


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), num_ops=st.integers(1, 8), data=st.data())
def test_every_split_is_a_job_that_chains(
    tmp_path_factory: pytest.TempPathFactory, seed: int, num_ops: int, data: st.DataObject
) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.mktemp("splits")
    names = data.draw(st.sampled_from([(), ("twice", "t1:0")]))
    model = opened(write_model(random_runnable(rng, num_ops, names=names)), folder)
    num_stages = data.draw(st.integers(1, num_ops))
    split = split_of(model, cut_order(random_order(model.graph, rng), num_stages, rng), UNVERIFIED)
    job = write_split(split, folder / "job", UNVERIFIED)
    assert read_job(folder / "job") == job
    assert job.suits_pipeline == (split.pipeline_fault is None)
    for segment, cut_one in zip(job.segments, split.segments, strict=True):
        assert segment.file is not None and job.path(segment.file).read_bytes() == cut_one.content
        assert tuple(spec.name for spec in segment.inputs) == cut_one.inputs
        assert tuple(spec.name for spec in segment.outputs) == cut_one.outputs


def test_a_model_without_inputs_is_run_once(tmp_path: Path) -> None:
    tensors = [
        T(name="c", type=INT32, data=bytes([1, 0, 0, 0] * 4)),
        T(name="y", type=INT32),
        T(name="z", type=INT32),
    ]
    ops = [O(builtin=OP.NEG, inputs=(0,), outputs=(1,)), O(builtin=OP.NEG, inputs=(1,), outputs=(2,))]
    model = opened(write_model(M(tensors=tensors, ops=ops, inputs=(), outputs=(2,))), tmp_path)
    options = SplitOptions(any_runner=True)
    split = split_of(model, [0, 1], options)
    assert split.verification is not None and split.verification.num_items == 1
    job = write_split(split, tmp_path / "job", options)
    assert read_reference(job).outputs[0].tolist() == [[[1, 1, 1, 1]]]


def test_the_child_verifies_as_this_process_does(tmp_path: Path) -> None:
    model = opened(write_model(random_runnable(random.Random(5), 6)), tmp_path)
    split = split_of(model, [0, 0, 1, 1, 2, 2], SplitOptions(any_runner=True, num_items=2))
    whole = whole_model(model)
    here = verify_segments(whole, chain_parts(model, split.segments), random_items(whole.inputs, 2, 0))
    assert split.verification is not None
    assert [a.tobytes() for a in split.verification.outputs] == [a.tobytes() for a in here.outputs]
    assert split.verification.num_bytes == here.num_bytes


def test_a_model_of_giant_tensors_is_not_run(tmp_path: Path) -> None:
    tensors = [T(name="x", shape=(2**20, 2**9)), T(name="giant", shape=(2**20, 2**11))]
    model = opened(
        write_model(
            M(tensors=tensors, ops=[O(builtin=OP.CONCATENATION, inputs=(0, 0, 0, 0), outputs=(1,))], outputs=(1,))
        ),
        tmp_path,
    )
    with pytest.raises(ModelCannotRunError, match=f"'giant' with {2**31} bytes.*--no-verify"):
        split_of(model, [0], SplitOptions())


def test_names_that_are_not_utf8_are_run(tmp_path: Path) -> None:
    tensors = [T(name=b"\xff\xfex"), T(name=b"y\xff"), T(name=b"\x80")]
    ops = [O(builtin=OP.RELU, inputs=(0,), outputs=(1,)), O(builtin=OP.RELU, inputs=(1,), outputs=(2,))]
    model = opened(write_model(M(tensors=tensors, ops=ops, outputs=(2,))), tmp_path)
    split = split_of(model, [0, 1], SplitOptions())
    assert split.verification is not None
    assert read_job(write_split(split, tmp_path / "job", SplitOptions()).folder).num_stages == 2
