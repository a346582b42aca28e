"""Every real model at each feasible number of stages: bit-identical, or refused with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from respect_core.constraints import Constraints
from respect_core.errors import ModelCannotRunError
from respect_core.segments.dataflow import first_dataflow_fault
from respect_core.segments.items import random_items
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.slice import slice_model
from respect_core.segments.verify import chain_parts, run_chain, run_model, verify_segments, whole_model
from respect_core.solve.compiler_rule import compiler_segments
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from tests.real_models import BIRDS, MODELS, RUNNABLE

pytestmark = pytest.mark.shared

PIPELINE = Constraints(outputs_last=True, inputs_first=True)


def schedule(model: TfliteModel, num_stages: int, constraints: Constraints) -> tuple[int, ...] | None:
    problem = Problem.of(model.graph, num_stages, "throughput", constraints=constraints)
    return BestOrderSolver().solve(problem, SolveOptions()).stage_of


def check(model: TfliteModel, stage_of: tuple[int, ...], num_stages: int, num_items: int = 1) -> None:
    whole = whole_model(model)
    parts = chain_parts(model, slice_model(model, stage_of, num_stages))
    verify_segments(whole, parts, random_items(whole.inputs, num_items, 0))


@pytest.mark.parametrize(("name", "most"), RUNNABLE.items())
def test_each_feasible_number_of_stages_is_identical(name: str, most: int) -> None:
    model = open_model(MODELS / name)
    assert most == min(8, model.graph.num_ops) or name == "split_concat.tflite"
    for num_stages in range(2, most + 1):
        stage_of = schedule(model, num_stages, PIPELINE)
        assert stage_of is not None
        segments = slice_model(model, stage_of, num_stages)
        assert first_dataflow_fault(segments, model.input_names, model.output_names) is None
        check(model, stage_of, num_stages)


def test_split_concat_in_three_is_for_other_runners_only() -> None:
    model = open_model(MODELS / "split_concat.tflite")
    assert schedule(model, 3, PIPELINE) is None
    stage_of = schedule(model, 3, Constraints())
    assert stage_of is not None
    check(model, stage_of, 3)
    fault = first_dataflow_fault(slice_model(model, stage_of, 3), model.input_names, model.output_names)
    assert fault is not None and "'concat/split0'" in fault


def test_a_state_is_carried_from_item_to_item_and_reset() -> None:
    model = open_model(MODELS / "keras_lstm_mnist_ptq.tflite")
    whole = whole_model(model)
    assert whole.is_stateful
    parts = chain_parts(model, slice_model(model, compiler_segments(model.graph, 3), 3))
    items = random_items(whole.inputs, 4, 1)
    found = verify_segments(whole, parts, items)
    assert (found.num_runs, found.is_stateful, found.num_items) == (2, True, 4)


def test_a_custom_op_without_a_kernel_is_refused_by_name() -> None:
    model = open_model(MODELS / "posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite")
    with pytest.raises(ModelCannotRunError, match=r"op 'poses' \(PosenetDecoderOp\).*--no-verify"):
        check(model, tuple(compiler_segments(model.graph, 2).tolist()), 2)


def test_the_real_compilers_own_segments_compute_what_ours_do() -> None:
    """The commercial compiler's cut of one model, run in the same interpreter: an oracle that is not ours."""
    model = open_model(MODELS / f"{BIRDS}.tflite")
    theirs = [open_model(MODELS / f"{BIRDS}_segment_{k}_of_3.tflite") for k in range(3)]
    items = random_items(whole_model(model).inputs, 2, 0)
    values: tuple[np.ndarray, ...] = items
    for segment in theirs:
        values = run_model(Path(segment.path), values)
    ours = chain_parts(model, slice_model(model, compiler_segments(model.graph, 3), 3))
    found = run_chain(ours, model.input_names, items, model.output_names)
    assert found[0].tobytes() == values[0].tobytes()
    assert [part.outputs for part in ours] == [segment.output_names for segment in theirs]
