from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from respect_core.errors import RespectError
from respect_core.sources.edgetpu_facts import OpFacts, TensorFacts
from respect_core.sources.edgetpu_ops import (
    OpSupport,
    documentation,
    first_unmapped,
    first_unmapped_of,
    op_facts,
    op_support,
)
from respect_core.sources.edgetpu_rules import NOTES, RULE_OF, RULES, why_not_mapped
from respect_core.sources.tflite import TfliteContent, read_content
from tests.tflite_models import OP, SMALL_CNN, M, O, T, write_model

ROOT = Path(__file__).resolve().parents[3]
MODELS = ROOT.parent / "shared" / "data" / "models"


def content_of(folder: Path, model: M | bytes, name: str = "m") -> TfliteContent:
    path = folder / f"{name}.tflite"
    path.write_bytes(model if isinstance(model, bytes) else write_model(model))
    return read_content(path)


def tensor(shape: tuple[int, ...] = (1, 8), kind: str = "INT8", **facts: Any) -> TensorFacts:
    return TensorFacts(name="t", shape=shape, type_name=kind, **facts)


def constant(*values: int, kind: str = "INT32", shape: tuple[int, ...] | None = None, **facts: Any) -> TensorFacts:
    return TensorFacts(
        name="c", shape=shape or (len(values),), type_name=kind, is_constant=True, values=values, **facts
    )  # fmt: skip


def an_op(builtin: str, *inputs: TensorFacts | None, out: tuple[int, ...] = (1, 8), **options: int) -> OpFacts:
    return OpFacts(builtin=builtin, inputs=inputs or (tensor(),), outputs=(tensor(out),), options=options)


IMAGE = tensor((1, 4, 4, 8))
WEIGHTS = constant(1, kind="INT8", shape=(8, 8))


# -- the rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("builtin", sorted(RULE_OF))
def test_every_listed_op_has_a_form_that_is_supported(builtin: str) -> None:
    inputs: list[TensorFacts | None] = [tensor()]
    if builtin == "SPLIT":
        inputs = [constant(1), tensor()]
    elif builtin in {"FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D"}:
        inputs = [tensor(), WEIGHTS, None]
    elif builtin == "TRANSPOSE_CONV":
        inputs = [constant(1, 2, 2, 8), WEIGHTS, tensor()]
    op = an_op(builtin, *inputs, Axis=1)
    why = why_not_mapped(op)
    assert why is None or RULE_OF[builtin].usually_on_cpu
    since = RULE_OF[builtin].since
    if since is not None:
        assert f"runtime {since} or later" in (why_not_mapped(op, since - 1) or "")


def test_builtins_of_the_rules_exist_and_are_listed_once() -> None:
    assert len(RULE_OF) == sum(len(rule.builtins) for rule in RULES)
    for builtin in (*RULE_OF, *NOTES):
        assert hasattr(schema.BuiltinOperator, builtin)
    assert not set(RULE_OF) & set(NOTES)


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (an_op("AVERAGE_POOL_2D", IMAGE, FusedActivationFunction=1), "fused activation function RELU"),
        (an_op("MAX_POOL_2D", IMAGE, FusedActivationFunction=3), "fused activation function RELU6"),
        (an_op("CONCATENATION", tensor(), tensor(), FusedActivationFunction=1), "fused activation"),
        (an_op("CONCATENATION", tensor(), constant(0, kind="INT8", is_zero=True)), None),
        (an_op("CONCATENATION", tensor(), constant(1, kind="INT8")), "joins the constant 'c'"),
        (an_op("CONCATENATION", tensor(), tensor(), constant(0, kind="INT8", is_zero=True)), "joins the constant"),
        (an_op("CONV_2D", IMAGE, WEIGHTS, DilationWFactor=2, DilationHFactor=2), None),
        (an_op("CONV_2D", IMAGE, WEIGHTS, DilationWFactor=2, DilationHFactor=1), "dilation is 2 in x and 1 in y"),
        (an_op("DEPTHWISE_CONV_2D", IMAGE, WEIGHTS, DilationHFactor=3), "dilation is 1 in x and 3 in y"),
        (an_op("CONV_2D", IMAGE, tensor()), "its parameter 't' is no constant"),
        (an_op("FULLY_CONNECTED", tensor(), WEIGHTS, None), None),
        (an_op("FULLY_CONNECTED", tensor(), WEIGHTS, WeightsFormat=1), "not in the default format"),
        (an_op("FULLY_CONNECTED", tensor((4, 8)), WEIGHTS, out=(4, 8)), "has shape (4, "),
        (an_op("MEAN", IMAGE, constant(1, 2)), None),
        (an_op("MEAN", IMAGE, constant(1, 2, 3)), None),
        (an_op("MEAN", IMAGE, constant(0)), "reduces the batch dimension"),
        (an_op("MEAN", IMAGE, constant(-4)), "reduces the batch dimension"),
        (an_op("MEAN", tensor((1, 4, 4, 6)), constant(-1)), "reduces z, which has 6 elements"),
        (an_op("MEAN", IMAGE, tensor((2,))), None),
        (an_op("SUM", IMAGE, constant(0, 1)), "reduces the batch dimension"),
        (an_op("REDUCE_MAX", IMAGE, constant(-4)), "reduces the batch dimension"),
        (an_op("REDUCE_MIN", IMAGE, constant(1)), None),
        (an_op("PACK", tensor(), tensor(), out=(1, 2, 8), Axis=1), None),
        (an_op("PACK", tensor(), tensor(), out=(2, 1, 8), Axis=0), "packs along the batch"),
        (an_op("PACK", tensor(), tensor(), out=(2, 1, 8), Axis=-3), "packs along the batch"),
        (an_op("PAD", IMAGE, constant(0, 0, 1, 1, 1, 1, 0, 0, shape=(4, 2))), None),
        (an_op("PAD", IMAGE, constant(1, 0, 1, 1, 1, 1, 0, 0, shape=(4, 2))), "pads the batch"),
        (an_op("PRELU", IMAGE, constant(1, kind="INT8", shape=(1, 1, 8))), None),
        (an_op("PRELU", IMAGE, constant(1, kind="INT8", shape=(4, 4, 8))), "its alpha 'c' has shape (4, 4, 8)"),
        (an_op("SOFTMAX", tensor((1, 16_000))), None),
        (an_op("SOFTMAX", tensor((1, 16_001))), "at most 16000"),
        (an_op("SOFTMAX", tensor((4, 10))), "has shape (4, "),
        (an_op("SPLIT", constant(3, shape=()), IMAGE), None),
        (an_op("SPLIT", constant(0, shape=()), IMAGE), "splits the batch"),
        (an_op("STRIDED_SLICE", IMAGE, constant(0), constant(1), constant(1, 1)), None),
        (an_op("STRIDED_SLICE", IMAGE, constant(0), constant(1), constant(1, 2)), "strides are (1, 2)"),
        (an_op("STRIDED_SLICE", IMAGE, EllipsisMask=1), "an ellipsis mask"),
        (an_op("STRIDED_SLICE", IMAGE, NewAxisMask=2), "a new axis mask"),
        (an_op("ADD", tensor(kind="FLOAT32"), tensor()), "tensor 't' is FLOAT32"),
        (an_op("ADD", tensor((2, 1, 4, 4)), tensor()), "only the innermost three dimensions"),
        (an_op("ADD", tensor((1, 1, 4, 4, 4)), tensor()), None),
        (an_op("ADD", tensor((1, -1)), tensor()), "shape is (1, -1) (rule: sizes of tensors are fixed)"),
        (an_op("DEQUANTIZE", tensor()), "floating-point"),
        (an_op("BIDIRECTIONAL_SEQUENCE_LSTM", tensor()), "one direction"),
        (an_op("TRANSPOSE", tensor()), "usually leaves it on the CPU"),
        (an_op("ARG_MAX", tensor()), "no such operation"),
        (replace(an_op("CUSTOM"), custom_code="X"), "custom ops"),
        (an_op("LSTM", tensor(), tensor(kind="INT16", is_variable=True)), None),
    ],
)  # fmt: skip
def test_restrictions(op: OpFacts, why: str | None) -> None:
    found = why_not_mapped(op)
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (an_op("DEPTHWISE_CONV_2D", IMAGE, WEIGHTS, DilationWFactor=2, DilationHFactor=2), "dilation is 2"),
        (an_op("MEAN", IMAGE, constant(3)), "more than x and y"),
        (an_op("MEAN", IMAGE, constant(1, 2)), None),
        (an_op("PAD", IMAGE, constant(0, 0, 0, 0, 0, 0, 0, 1, shape=(4, 2))), "more than x and y"),
        (an_op("PAD", IMAGE, constant(0, 0, 0, 1, 1, 0, 0, 0, shape=(4, 2))), None),
        (an_op("SQUEEZE", tensor((1, 1, 10)), out=(10,)), None),
        (an_op("SQUEEZE", tensor((5, 1, 10)), out=(5, 10)), "other than leading dimensions of shape (5, 1, 10)"),
    ],
)
def test_older_runtimes_are_stricter(op: OpFacts, why: str | None) -> None:
    assert why_not_mapped(op, 13) is None
    found = why_not_mapped(op, 12)
    assert found is None if why is None else why in (found or "")


@given(
    st.sampled_from([*RULE_OF, "CUSTOM", "ARG_MAX"]),
    st.lists(
        st.none()
        | st.builds(
            TensorFacts,
            name=st.just("t"),
            shape=st.lists(st.integers(-1, 5), max_size=5).map(tuple),
            type_name=st.sampled_from(["INT8", "INT32", "FLOAT32"]),
            is_constant=st.booleans(),
            values=st.none() | st.lists(st.integers(-9, 9), max_size=9).map(tuple),
        ),
        max_size=4,
    ),
    st.dictionaries(
        st.sampled_from(["Axis", "DilationWFactor", "FusedActivationFunction", "EllipsisMask"]), st.integers(-9, 9)
    ),
    st.integers(10, 14),
)
def test_no_op_breaks_a_rule_s_check(builtin: str, tensors: list[Any], options: dict[str, int], runtime: int) -> None:
    outputs = tuple(t for t in tensors[:1] if t is not None)
    op = OpFacts(builtin=builtin, inputs=tuple(tensors), outputs=outputs, options=options)
    why = why_not_mapped(op, runtime)
    assert why is None or (why and not why.endswith("."))


# -- files -------------------------------------------------------------------------------------------------------------


def test_options_and_constants_are_read_from_the_file(tmp_path: Path) -> None:
    axes = (1).to_bytes(4, "little") + (2).to_bytes(4, "little")
    model = M(
        tensors=(
            T(name="image", shape=(1, 4, 4, 8)),
            T(name="k", shape=(8, 1, 1, 8), data=bytes(64)),
            T(name="a", shape=(1, 4, 4, 8)),
            T(name="zeros", shape=(1, 4, 4, 8), data=b"\x05" * 128, scale=(1.0,), zero_point=5),
            T(name="b", shape=(1, 4, 4, 16)),
            T(name="axes", shape=(2,), type=schema.TensorType.INT32, data=axes),
            T(name="c", shape=(1, 16)),
        ),
        ops=(
            O(
                builtin=OP.CONV_2D, inputs=(0, 1, -1), outputs=(2,),
                options=schema.Conv2DOptionsT(dilationWFactor=2, dilationHFactor=4),
            ),
            O(
                builtin=OP.CONCATENATION, inputs=(2, 3), outputs=(4,),
                options=schema.ConcatenationOptionsT(axis=3, fusedActivationFunction=0),
            ),
            O(builtin=OP.MEAN, inputs=(4, 5), outputs=(6,), options=schema.ReducerOptionsT(keepDims=False)),
        ),
        outputs=(6,),
    )  # fmt: skip
    content = content_of(tmp_path, model)
    conv, concat, mean = op_facts(content)
    assert conv.options == {"DilationWFactor": 2, "DilationHFactor": 4}
    assert conv.inputs[2] is None
    assert concat.inputs[1] is not None and concat.inputs[1].is_zero
    assert mean.inputs[1] is not None and mean.inputs[1].values == (1, 2)
    assert [one.supported for one in op_support(content)] == [False, True, True]
    found = first_unmapped(content)
    assert found is not None
    assert found.message.startswith(
        "op 'a' (CONV_2D) does not run on the Edge TPU: its dilation is 2 in x and 4 in y "
        "(rule: the dilation is the same in x and y); it runs on the CPU before"
    )


def test_a_small_network_is_wholly_supported(tmp_path: Path) -> None:
    content = content_of(tmp_path, SMALL_CNN)
    assert [(one.kind, one.supported, one.reason) for one in op_support(content)] == [
        ("CONV_2D", True, ""), ("DEPTHWISE_CONV_2D", True, ""), ("MUL", True, ""), ("RESHAPE", True, ""),
        ("FULLY_CONNECTED", True, ""),
    ]  # fmt: skip
    assert first_unmapped(content) is None


def test_an_op_in_the_middle_costs_those_behind_it(tmp_path: Path) -> None:
    ops = list(SMALL_CNN.ops)
    ops[2] = replace(ops[2], builtin=OP.POW)
    content = content_of(tmp_path, replace(SMALL_CNN, ops=tuple(ops)))
    found = first_unmapped(content)
    assert found is not None
    assert (found.support.op, found.support.name, found.cut_after) == (2, "c3", "c2")
    assert (found.supported_before, found.supported_after) == (2, 2)
    assert "the 2 supported ops after it would stay on the CPU too" in found.message
    assert "a stage that ends in op 'c2'" in found.message


@given(st.lists(st.booleans(), max_size=8))
def test_the_first_unmapped_op_is_the_first_one(supported: list[bool]) -> None:
    support = tuple(
        OpSupport(op=v, name=f"op{v}", kind="ADD", supported=good, reason="" if good else "why")
        for v, good in enumerate(supported)
    )
    found = first_unmapped_of(support)
    if all(supported):
        assert found is None
        return
    assert found is not None
    assert found.support.op == supported.index(False)
    assert found.supported_before == found.support.op
    assert found.supported_before + found.supported_after == sum(supported)
    if found.then is not None:
        assert found.support.op == 0
        assert not supported[found.then.support.op] and found.then.supported_before > 0
    assert found.message.count("does not run") == (1 if found.then is None else 2)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("mobilenet_v1_0.25_128_quant.tflite", []),
        ("mobilenet_v2_1.0_224_inat_bird_quant.tflite", []),
        ("keras_lstm_mnist_ptq.tflite", []),  # as the compiler did: its output is a single op
        ("deeplabv3_mnv2_dm05_pascal_quant.tflite", ["ARG_MAX"]),
        ("posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite", ["custom op 'PosenetDecoderOp'"]),
        ("swiftnet_hpd_uint8.lite", ["SPLIT"]),
        ("split_concat.tflite", []),
    ],
)
def test_real_models(name: str, kinds: list[str]) -> None:
    support = op_support(read_content(MODELS / name))
    assert [one.kind for one in support if not one.supported] == kinds


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files_are_refused_or_judged(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(write_model(SMALL_CNN))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        support = op_support(content_of(tmp_path, bytes(content)))
    except RespectError as error:
        assert str(error)
    else:
        assert all(one.supported != bool(one.reason) for one in support)


# -- documentation -----------------------------------------------------------------------------------------------------


def test_the_committed_documentation_is_current() -> None:
    committed = (ROOT / "docs" / "edgetpu_ops.md").read_text(encoding="utf-8")
    assert committed == documentation(), "run python -m respect_core.sources.edgetpu_ops --out docs/edgetpu_ops.md"


def test_the_documentation_has_every_rule() -> None:
    rows = [line.split("|")[1].strip() for line in documentation().splitlines() if line.startswith("| ")]
    assert Counter(rows[1:]) == Counter(rule.name for rule in RULES)
