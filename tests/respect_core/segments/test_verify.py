"""Verification on models written for it: what is equal passes, and every way to differ is named."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import ModelCannotRunError, RespectError, VerificationError
from respect_core.segments.interpreter import ModelRunner, tensor_specs
from respect_core.segments.items import random_items
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.slice import Segment, slice_model
from respect_core.segments.verify import (
    ChainPart,
    chain_parts,
    run_chain,
    run_model,
    verify_segments,
    whole_model,
)
from tests.random_schedules import cut, random_order
from tests.tflite_models import OP, M, O, RunnableModel, T, random_runnable, write_model

FLOAT32 = 0


def opened(model: M, folder: Path, name: str = "net") -> TfliteModel:
    path = folder / f"{name}.tflite"
    path.write_bytes(write_model(model))
    return open_model(path)


@pytest.fixture
def model(tmp_path: Path) -> TfliteModel:
    """A chain a -> b -> c, with a skip from a to c."""
    net = RunnableModel(random.Random(0))
    given_ = net.given("in:0", 4)
    a = net.dense("a", given_, 4)
    b = net.dense("b", a, 4)
    return opened(net.model([net.add("c", a, b)]), tmp_path)


def verified(model: TfliteModel, segments: list[Segment], count: int = 3) -> object:
    whole = whole_model(model)
    return verify_segments(whole, chain_parts(model, segments), random_items(whole.inputs, count, 0))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), num_ops=st.integers(1, 10), data=st.data())
def test_random_models_and_schedules_are_identical(
    tmp_path_factory: pytest.TempPathFactory, seed: int, num_ops: int, data: st.DataObject
) -> None:
    rng = random.Random(seed)
    names = data.draw(st.sampled_from([(), ("twice", "t1:0")]))
    model = opened(random_runnable(rng, num_ops, names=names), tmp_path_factory.getbasetemp())
    num_stages = data.draw(st.integers(1, num_ops))
    stage_of = cut(random_order(model.graph, rng), num_stages, rng)
    segments = slice_model(model, stage_of, num_stages)
    whole, parts = whole_model(model), chain_parts(model, segments)
    items = random_items(whole.inputs, 2, seed)
    found = verify_segments(whole, parts, items)
    assert (found.num_items, found.num_runs, found.is_stateful) == (2, 1, False)
    expected = run_model(model.path, items)
    chained = run_chain(parts, model.input_names, items, model.output_names)
    for one, two, three in zip(found.outputs, expected, chained, strict=True):
        assert one.tobytes() == two.tobytes() == three.tobytes()


def test_a_changed_weight_is_found_in_its_stage(model: TfliteModel) -> None:
    stages = [0, 1, 2]
    segments = slice_model(model, stages, 3)
    for stage, output in ((0, "'a'"), (1, "'b'")):
        content = segments[stage].content
        weights = next(t.data for t in _constants(model, stage) if t)
        at = content.index(weights)
        changed = content[:at] + bytes(b ^ 0x55 for b in content[at : at + 8]) + content[at + 8 :]
        broken = [replace(s, content=changed) if s.stage == stage else s for s in segments]
        with pytest.raises(VerificationError, match=f"stage {stage} does not compute .* output {output} differs in"):
            verified(model, broken)


def _constants(model: TfliteModel, op: int) -> list[T]:
    """Return the int8 constants of an op as they lie in the file."""
    file = model.content.file
    found = []
    for t in file.ops[op].inputs:
        if t >= 0 and model.content.tensors[t].type_name == "INT8" and model.content.tensors[t].data_bytes:
            data = file.model.Buffers(model.content.tensors[t].buffer).DataAsNumpy().tobytes()
            found.append(T(name="", data=data))
    return found


def test_a_swapped_boundary_is_found(model: TfliteModel) -> None:
    segments = slice_model(model, [0, 0, 1], 2)
    assert set(segments[0].outputs) == {"a", "b"}
    swapped = replace(segments[0], outputs=segments[0].outputs[::-1])
    with pytest.raises(VerificationError, match="stage 0 does not compute"):
        verified(model, [swapped, segments[1]])


def test_a_chain_with_a_hole_is_named(model: TfliteModel) -> None:
    segments = slice_model(model, [0, 1, 2], 3)
    with pytest.raises(VerificationError, match="stage 2 takes tensor 'b', which no earlier stage gives"):
        verified(model, [segments[0], segments[2]])
    with pytest.raises(VerificationError, match="no stage gives the model's output 'c'"):
        verified(model, segments[:2])


def test_shapes_count_too(model: TfliteModel, tmp_path: Path) -> None:
    net = RunnableModel(random.Random(0))
    other = opened(net.model([net.dense("c", net.given("in:0", 4), 2)]), tmp_path, "other")
    narrow = slice_model(other, [0], 1)
    with pytest.raises(VerificationError, match=r"output 'c' is int8 \[.*2\], the model's is int8 \[.*4\]"):
        verified(model, narrow)
    segments = slice_model(model, [0, 1, 2], 3)
    with pytest.raises(ModelCannotRunError, match="the segment of stage 1"):
        verified(model, [replace(narrow[0], outputs=("a",)), *segments[1:]])


def test_a_nan_equals_itself(tmp_path: Path) -> None:
    shape = (1, 4)
    tensors = [T(name=name, shape=shape, type=FLOAT32) for name in ("x", "y", "z")]
    ops = [O(builtin=OP.SQRT, inputs=(0,), outputs=(1,)), O(builtin=OP.NEG, inputs=(1,), outputs=(2,))]
    model = opened(M(tensors=tensors, ops=ops, outputs=(2,)), tmp_path)
    whole = whole_model(model)
    items = (np.array([[[-1.0, 4.0, np.nan, 0.0]]], dtype=np.float32),)
    found = verify_segments(whole, chain_parts(model, slice_model(model, [0, 1], 2)), items)
    assert np.isnan(found.outputs[0][0, 0, [0, 2]]).all() and found.outputs[0][0, 0, 1] == -2


def test_a_custom_op_is_named_with_the_way_out(tmp_path: Path) -> None:
    tensors = [T(name=name) for name in ("x", "y", "z")]
    ops = [
        O(builtin=OP.RELU, inputs=(0,), outputs=(1,)),
        O(builtin=OP.CUSTOM, inputs=(1,), outputs=(2,), custom="MyDecoder"),
    ]
    model = opened(M(tensors=tensors, ops=ops, outputs=(2,)), tmp_path)
    with pytest.raises(
        ModelCannotRunError, match=r"op 'z' \(MyDecoder\) of .*net.tflite.*'MyDecoder'.*--no-verify"
    ) as e:
        verified(model, slice_model(model, [0, 1], 2))
    again = pickle.loads(pickle.dumps(e.value))
    assert str(again) == str(e.value) and isinstance(again, RespectError)
    part = chain_parts(model, slice_model(model, [0, 1], 2))[1]
    with pytest.raises(ModelCannotRunError, match=r"op 'z' \(MyDecoder\) of the segment of stage 1"):
        run_chain([part], ["y"], (np.zeros((1, 1, 4), np.int8),), ["z"])


def test_what_is_no_model_or_does_not_fit_is_said(model: TfliteModel) -> None:
    part = ChainPart(stage=4, content=b"no model", inputs=(), outputs=())
    with pytest.raises(ModelCannotRunError, match="the segment of stage 4"):
        run_chain([part], [], (), [])
    with pytest.raises(ModelCannotRunError, match="takes 1 inputs, 2 were given"):
        ModelRunner(model.path, "it").run([np.zeros(4, np.int8)] * 2)
    with pytest.raises(ModelCannotRunError, match="cannot run"):
        ModelRunner(model.path, "it").run([np.zeros((1, 2), np.int8)])
    with pytest.raises(ModelCannotRunError, match="cannot prepare"):
        ModelRunner(model.path.with_name("gone.tflite"), "it")


def test_specs_are_those_of_the_interpreter(model: TfliteModel) -> None:
    specs = tensor_specs(model)
    assert set(specs) == {"in:0", "a", "b", "c"}
    assert {spec.dtype for spec in specs.values()} == {"int8"}
    outputs = run_model(model.path, random_items([specs["in:0"]], 1, 0))
    assert outputs[0].shape[1:] == specs["c"].shape
