"""Rewritten and reordered TFLite files: they cost what was found, and they compute what the model computes."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tflite
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError, VerificationError
from respect_core.memory.file_check import TOLERANCE, check_file
from respect_core.memory.order import order_memory
from respect_core.memory.peak import memory_profile, peak_bytes
from respect_core.memory.rewrite import Rewritten, rewrite
from respect_core.memory.rewrite_facts import concat_layout, is_quantised, refusals
from respect_core.memory.rewrite_file import write_rewritten
from respect_core.segments.interpreter import tensor_specs
from respect_core.segments.items import random_items
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.slice import reorder_model
from respect_core.sources.tflite import content_of
from tests.float_models import RELU, RELU6, FloatModel, random_cell
from tests.random_schedules import random_order
from tests.tflite_models import OP, M, random_runnable, write_model


def opened(model: M) -> TfliteModel:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(write_model(model))
        return open_model(path)


def rewritten(model: TfliteModel) -> Rewritten:
    refused = refusals(model, for_file=True)
    return rewrite(model.graph, accumulation="add", refused=refused, layout=concat_layout(model))


def unpacked(content: bytes) -> Any:
    return tflite.ModelT.InitFromPackedBuf(content).subgraphs[0]


def check(model: TfliteModel, content: bytes, tolerance: float) -> float:
    specs = tensor_specs(model)
    items = random_items([specs[name] for name in model.input_names], 2, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(model.data)
        return check_file(path, content, model.output_names, items, tolerance).largest_error


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_a_rewritten_file_costs_and_computes_what_was_found(seed: int, any_order: bool) -> None:
    model = opened(random_cell(np.random.default_rng(seed), num_joints=3))
    found = rewritten(model)
    order = random_order(found.graph, random.Random(seed)) if any_order else range(found.graph.num_ops)
    content = write_rewritten(model, found, list(order))
    back = content_of(Path("net.tflite"), content).graph
    assert back.op_kinds == tuple(found.graph.op_kinds[v] for v in order)
    assert Counter(back.tensor_bytes.tolist()) == Counter(found.graph.tensor_bytes.tolist())
    assert memory_profile(back).step_bytes.tolist() == memory_profile(found.graph, list(order)).step_bytes.tolist()
    assert back.macs.sum() == found.graph.macs.sum() == model.graph.macs.sum()
    assert check(model, content, TOLERANCE) <= TOLERANCE


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_a_reordered_file_is_bit_identical(seed: int) -> None:
    rng = random.Random(seed)
    model = opened(random_runnable(rng, rng.randint(2, 9)))
    found = order_memory(model.graph)
    content = reorder_model(model, found.order)
    assert peak_bytes(content_of(Path("net.tflite"), content).graph) == found.peak_bytes
    assert check(model, content, 0) == 0


def joined_conv(*, activation: int = 0, **conv: Any) -> tuple[FloatModel, int]:
    """A network whose convolution reads two joined tensors."""
    net = FloatModel(np.random.default_rng(3), side=7)
    image = net.given(3, "image")
    joined = net.concat(net.conv(image, 4), net.conv(image, 3), name="joined")
    return net, net.conv(joined, 5, activation=activation, name="out", **conv)


@pytest.mark.parametrize(("activation", "name"), [(0, "NONE"), (RELU, "RELU"), (RELU6, "RELU6"), (2, "RELU_N1_TO_1")])
def test_the_activation_comes_after_the_last_addition_and_the_bias_once(activation: int, name: str) -> None:
    net, out = joined_conv(activation=activation, kernel=3, stride=2, same=False)
    model = opened(net.model(out))
    content = write_rewritten(model, rewritten(model), range(rewritten(model).graph.num_ops))
    graph, codes = unpacked(content), tflite.ModelT.InitFromPackedBuf(content).operatorCodes
    ops = [(codes[op.opcodeIndex].builtinCode, op) for op in graph.operators]
    convs = [op for code, op in ops if code == OP.CONV_2D][2:]
    adds = [op for code, op in ops if code == OP.ADD]
    assert [op.builtinOptions.fusedActivationFunction for op in convs] == [0, 0]
    assert [op.builtinOptions.fusedActivationFunction for op in adds] == [activation], name
    assert all((op.builtinOptions.padding, op.builtinOptions.strideH) == (1, 2) for op in convs)
    assert OP.CONCATENATION not in [code for code, _ in ops]
    buffers = tflite.ModelT.InitFromPackedBuf(content).buffers
    biases = [np.asarray(buffers[graph.tensors[op.inputs[2]].buffer].data) for op in convs]
    assert [bool(bias.any()) for bias in biases] == [True, False]
    assert [graph.tensors[op.inputs[1]].shape.tolist() for op in convs] == [[5, 3, 3, 4], [5, 3, 3, 3]]
    assert graph.tensors[adds[0].outputs[0]].name == b"out"
    check(model, content, TOLERANCE)


def test_cut_weights_that_two_convolutions_share_are_written_once() -> None:
    net = FloatModel(np.random.default_rng(3))
    image = net.given(3)
    joined = net.concat(net.conv(image, 4), net.conv(image, 4))
    weights = net.constant(5, 3, 3, 8)
    outs = [net.conv(joined, 5, kernel=3, weights=weights) for _ in range(2)]
    model = opened(net.model(*outs))
    found = rewritten(model)
    content = write_rewritten(model, found, range(found.graph.num_ops))
    cut = [t for t in unpacked(content).tensors if t.shape.tolist() == [5, 3, 3, 4]]
    assert len(cut) == 2
    assert len(content) < len(model.data) + 3000, "the whole weights are left out"
    check(model, content, TOLERANCE)


def test_weights_that_another_op_reads_too_stay_whole() -> None:
    net = FloatModel(np.random.default_rng(3))
    image = net.given(8)
    weights = net.constant(5, 1, 1, 8)
    other = net.conv(image, 5, weights=weights)
    joined = net.concat(net.conv(image, 4), net.conv(image, 4))
    model = opened(net.model(other, net.conv(joined, 5, weights=weights)))
    found = rewritten(model)
    assert len(found.sites) == 1
    check(model, write_rewritten(model, found, range(found.graph.num_ops)), TOLERANCE)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda net, a, b: net.conv(net.concat(a, b), 4, groups=2, name="odd"), "it has groups"),
        (lambda net, a, b: net.conv(net.concat(a, b), 4, activation=4, name="odd"), "fused activation"),
        (lambda net, a, b: net.conv(net.concat(a, b, axis=1, name="odd"), 4), "does not join channels"),
        (lambda net, a, b: net.conv(net.concat(a, b, activation=RELU, name="odd"), 4), "an activation is fused"),
    ],
    ids=["groups", "tanh", "axis", "activation of the joint"],
)
def test_what_a_file_cannot_be_rewritten_at_is_said(make: Any, why: str) -> None:
    net = FloatModel(np.random.default_rng(3))
    image = net.given(4)
    model = opened(net.model(make(net, net.conv(image, 4), net.conv(image, 4))))
    refused = refusals(model, for_file=True)
    assert why in refused["odd"]
    assert rewritten(model).sites == ()


def test_quantised_models_are_told_apart_and_refused_for_a_file() -> None:
    rng = random.Random(5)
    model = next(m for m in (opened(random_runnable(rng, 9)) for _ in range(30)) if "concat" in m.graph.op_kinds)
    assert is_quantised(model)
    name = model.graph.op_names[model.graph.op_kinds.index("concat")]
    assert "files are rewritten in FLOAT32 only" in refusals(model, for_file=True)[name]
    assert name not in refusals(model, for_file=False)
    net, out = joined_conv()
    assert not is_quantised(opened(net.model(out)))


def test_a_network_of_other_costs_or_an_illegal_order_is_not_written() -> None:
    net, out = joined_conv()
    model = opened(net.model(out))
    fused = rewrite(model.graph, layout=concat_layout(model))
    with pytest.raises(BadInputError, match="'out' adds to a sum in place, TFLite has no such op"):
        write_rewritten(model, fused, range(fused.graph.num_ops))
    found = rewritten(model)
    with pytest.raises(BadInputError, match="whose output it reads"):
        write_rewritten(model, found, range(found.graph.num_ops)[::-1])


def test_names_signatures_inputs_and_outputs_stay() -> None:
    net, out = joined_conv()
    signature = {"serving_default": ({"x": 0}, {"y": out})}
    model = opened(net.model(out, signatures=signature, metadata={"model_control_dependencies": b"1"}))
    found = rewritten(model)
    content = write_rewritten(model, found, range(found.graph.num_ops))
    whole = tflite.ModelT.InitFromPackedBuf(content)
    graph = whole.subgraphs[0]
    assert [graph.tensors[t].name for t in graph.inputs] == [b"image"]
    assert [graph.tensors[t].name for t in graph.outputs] == [b"out"]
    assert graph.tensors[whole.signatureDefs[0].outputs[0].tensorIndex].name == b"out"
    assert not whole.metadata, "what speaks of ops by number does not hold any more"


def test_a_file_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    net, out = joined_conv()
    other, _ = joined_conv(activation=RELU)
    path = tmp_path / "net.tflite"
    path.write_bytes(write_model(net.model(out)))
    model = open_model(path)
    specs = tensor_specs(model)
    items = random_items([specs[name] for name in model.input_names], 1, 0)
    with pytest.raises(VerificationError, match=r"its output 'out' differs by .* at most 0.0001 is allowed"):
        check_file(path, write_model(other.model(out)), ["out"], items, TOLERANCE)
    with pytest.raises(VerificationError, match="bit-identical is demanded"):
        check_file(path, write_model(other.model(out)), ["out"], items, 0)
    assert check_file(path, model.data, ["out"], items, 0).is_bit_identical
