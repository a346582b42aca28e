"""The runner `litert`: real interpreters in a process of their own, whose outputs are checked bit by bit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from hardware_runners.errors import (
    InvalidJobError,
    InvalidPlanError,
    PipelineFailedError,
    RuntimeMissingError,
    WrongOutputError,
)
from hardware_runners.job import Job
from hardware_runners.protocol import PipelineRunner, TimingPlan, open_runner
from respect_core.segments.model_file import open_model
from respect_core.segments.slice import slice_model
from tests.conftest import SHARED
from tests.hardware_runners.contract import PLAN, RealRunnerContract
from tests.hardware_runners.jobs import SKIPPING_STAGES, skipping_model, write_segment_job
from tests.random_schedules import cut, random_order
from tests.tflite_models import random_runnable, write_model


class TestContract(RealRunnerContract):
    @pytest.fixture
    def runner(self) -> PipelineRunner:
        return open_runner("litert")

    @pytest.fixture
    def job(self, tmp_path: Path) -> Job:
        return write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3, with_compiled=False)


def timed(job: Job, plan: TimingPlan = PLAN, **options: Any) -> Any:
    with open_runner("litert", **options) as runner:
        return runner.time(job, plan)


def damaged(tmp_path: Path, stage: int) -> bytes:
    """Return a segment of the skipping model with one weight changed."""
    path = tmp_path / "damaged.tflite"
    path.write_bytes(write_model(skipping_model()))
    content = bytearray(slice_model(open_model(path), SKIPPING_STAGES, 3)[stage].content)
    weights = next(t.data for t in skipping_model().tensors if t.data is not None)
    at = bytes(content).index(weights)
    content[at] ^= 0x40
    return bytes(content)


def test_rows_say_that_no_edge_tpu_was_involved(tmp_path: Path) -> None:
    timings = timed(write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3))
    assert timings.device.startswith("cpu ")
    assert "usb" not in timings.device.lower() and "pci" not in timings.device.lower()
    assert not timings.is_simulated
    assert "no delegate" in timings.versions["kernels"]
    assert timings.notes == ()
    assert len(timings.whole_ns) == PLAN.repeats and (timings.mean_whole_us or 0) > 0


@pytest.mark.parametrize(("seed", "num_ops"), [(1, 9), (2, 6), (3, 12)])
def test_random_models_in_random_segments_give_the_models_outputs(tmp_path: Path, seed: int, num_ops: int) -> None:
    rng = random.Random(seed)
    model = random_runnable(rng, num_ops)
    path = tmp_path / "random.tflite"
    path.write_bytes(write_model(model))
    stage_of = cut(random_order(open_model(path).graph, rng), 3, rng)
    job = write_segment_job(tmp_path / "job", model, stage_of, 3)
    timings = timed(job, input_queue=1, output_queue=1)
    assert len(timings.pipelined) == PLAN.items and timings.notes == ()


@pytest.mark.parametrize("with_whole", [True, False])
def test_one_wrong_weight_is_found(tmp_path: Path, with_whole: bool) -> None:
    job = write_segment_job(
        tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3, with_whole=with_whole, damage={1: damaged(tmp_path, 1)}
    )
    with pytest.raises(
        WrongOutputError, match=r"chain of segments .* output 'd' differs in \d+ of 16 elements of item 0"
    ):
        timed(job)


@pytest.mark.shared
def test_a_real_model_in_three_stages_gives_identical_bits_beside_the_uncut_model(tmp_path: Path) -> None:
    """Cut as the compiler cuts it; the runner compares every output of chain and pipeline with the uncut model's."""
    content = (SHARED / "data/models/mobilenet_v2_1.0_224_inat_bird_quant.tflite").read_bytes()
    job = write_segment_job(
        tmp_path / "job", content, [0] * 54 + [1] * 7 + [2] * 4, 3, num_items=2, with_compiled=False
    )
    timings = timed(job, TimingPlan(warm_up=1, repeats=3, items=6))
    assert timings.notes == ()
    assert len(timings.pipelined) == 6 and len(timings.whole_ns) == 3
    assert (timings.period_us or 0) > 0 and (timings.mean_whole_us or 0) > 0


def test_without_model_and_reference_the_outputs_are_said_to_be_unchecked(tmp_path: Path) -> None:
    job = write_segment_job(
        tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3, with_whole=False, with_reference=False
    )
    timings = timed(job)
    assert timings.whole_ns == ()
    assert any("not checked" in note for note in timings.notes)


def test_a_file_that_is_no_model_names_its_stage(tmp_path: Path) -> None:
    job = write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3, damage={2: b"no model"})
    with pytest.raises(PipelineFailedError, match="stage 2: the interpreter cannot load it") as caught:
        timed(job)
    assert caught.value.stage == 2


def test_segments_in_the_wrong_order_name_stage_and_tensor(tmp_path: Path) -> None:
    path = tmp_path / "other.tflite"
    path.write_bytes(write_model(skipping_model()))
    segments = slice_model(open_model(path), SKIPPING_STAGES, 3)
    job = write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3, damage={1: segments[2].content})
    with pytest.raises(InvalidJobError, match=r"stage 1: .*inputs") as caught:
        timed(job)
    assert caught.value.stage == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"input_queue": 0}, "input_queue is 0"),
        ({"output_queue": True}, "output_queue is True"),
        ({"stall_s": 0}, "stall_s is 0"),
        ({"runtime": "abacus"}, "'abacus': choose from ai-edge-litert"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidPlanError, match=named):
        open_runner("litert", **options)


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    job = write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3)
    with pytest.raises(RuntimeMissingError, match="tflite-runtime: No module named"):
        timed(job, runtime="tflite-runtime")


def test_a_meter_gives_energy_source_and_window_to_the_pipelined_rows(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/powercap/intel-rapl:0"
    folder.mkdir(parents=True)
    for name, value in (("name", "package-0"), ("energy_uj", "5"), ("max_energy_range_uj", "262143328850")):
        (folder / name).write_text(value)
    job = write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3)
    timings = timed(job, TimingPlan(items=300), meter="rapl", meter_options={"root": str(tmp_path)})
    assert timings.energy is not None, timings.notes
    assert timings.energy.uj_per_inference == 0 and not timings.energy.is_modelled and timings.energy.window_us > 0
    sources = {(row["mode"], row["energy_source"]) for row in timings.rows(job)}
    assert sources == {("latency", None), ("pipelined", "rapl of the host (package-0), without the devices")}


def test_a_meter_that_is_not_there_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    from hardware_runners.errors import MeterUnavailableError

    job = write_segment_job(tmp_path / "job", skipping_model(), SKIPPING_STAGES, 3)
    with pytest.raises(MeterUnavailableError, match="RAPL") as caught:
        timed(job, meter="rapl", meter_options={"root": str(tmp_path)})
    assert caught.value.partial is None
