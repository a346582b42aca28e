"""Graphs in JSON: what is written reads back, and every mistake is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from respect_core.errors import BadInputError, InputFileError, InvalidGraphError, RespectError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.sources.graph_json import graph_from_json, graph_to_json, read_graph
from tests.same_graph import differences
from tests.strategies import graphs


def tiny() -> dict[str, Any]:
    """The documented example."""
    return {
        "name": "tiny",
        "ops": [
            {"name": "a", "kind": "conv2d", "param_bytes": 9, "macs": 81, "time_us": None, "compiled_bytes": None,
             "always_streamed_bytes": 0},
            {"name": "b", "kind": "add", "param_bytes": 0},
        ],
        "tensors": [
            {"name": "in", "bytes": 16, "producer": None, "consumers": ["a"]},
            {"name": "t", "bytes": 16, "producer": "a", "consumers": ["b"], "is_output": False},
            {"name": "out", "bytes": 16, "producer": "b", "consumers": [], "is_output": True},
        ],
    }  # fmt: skip


# -- what is right -----------------------------------------------------------------------------------------------


def test_the_documented_example() -> None:
    graph = graph_from_json(json.dumps(tiny()))
    assert (graph.name, graph.source) == ("tiny", "json")
    assert graph.op_names == ("a", "b")
    assert graph.op_kinds == ("conv2d", "add")
    assert graph.param_bytes.tolist() == [9, 0]
    assert graph.macs.tolist() == [81, 0]
    assert graph.compiled_bytes.tolist() == [UNKNOWN, UNKNOWN]
    assert graph.always_streamed_bytes.tolist() == [0, 0]
    assert np.isnan(graph.op_time_us).all()
    assert graph.tensor_bytes.tolist() == [16, 16, 16]
    assert graph.tensor_producer.tolist() == [UNKNOWN, 0, 1]
    assert graph.tensor_consumers == ((0,), (1,), ())
    assert graph.tensor_is_output.tolist() == [False, False, True]


@given(graphs(max_ops=10))
def test_a_graph_reads_back_as_it_was(graph: DnnGraph) -> None:
    text = graph_to_json(graph)
    again = graph_from_json(text)
    assert differences(graph, again) == []
    assert graph_to_json(again) == text
    assert "\n" not in text


@given(graphs(max_ops=6))
def test_what_may_be_left_out_has_its_default(graph: DnnGraph) -> None:
    content = json.loads(graph_to_json(graph))
    defaults = {"macs": 0, "time_us": None, "compiled_bytes": None, "always_streamed_bytes": 0}
    for op in content["ops"]:
        for key, default in defaults.items():
            if op[key] == default:
                del op[key]
    for tensor in content["tensors"]:
        if tensor["is_output"] == (not tensor["consumers"]):
            del tensor["is_output"]
    del content["source"]
    assert differences(graph, graph_from_json(json.dumps(content))) == []


@given(st.text(min_size=1).filter(lambda text: text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)))
@example("\x00\n\"\\'")
@example("名前 🙂")
def test_any_text_can_be_a_name(name: str) -> None:
    content = tiny()
    content["name"] = content["ops"][0]["name"] = content["tensors"][1]["producer"] = name
    if name != "b":
        content["tensors"][0]["consumers"] = [name]
        graph = graph_from_json(json.dumps(content))
        assert (graph.name, graph.op_names[0]) == (name, name)
        assert differences(graph, graph_from_json(graph_to_json(graph))) == []


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(tiny()), encoding="utf-8-sig")
    assert read_graph(path).name == read_graph(str(path)).name == "tiny"


# -- what is wrong -----------------------------------------------------------------------------------------------


def changed(*where: Any, value: Any = ..., base: dict[str, Any] | None = None) -> str:
    """Return the example with one entry replaced, or removed if no value is given."""
    content = tiny() if base is None else base
    at: Any = content
    for step in where[:-1]:
        at = at[step]
    if value is ...:
        del at[where[-1]]
    else:
        at[where[-1]] = value
    return json.dumps(content)


OP, TENSOR = ("ops", 0), ("tensors", 1)
BAD_FORM = [
    ("", "the graph is not JSON"),
    ("{", "the graph is not JSON"),
    ("[" * 100_000, "the graph is not JSON"),
    ("null", "the graph is None, expected an object with name, ops, tensors"),
    ("[]", "the graph is [], expected an object"),
    ("3", "the graph is 3, expected an object"),
    ("{}", "the graph lacks 'name', needed are name, ops, tensors"),
    ('{"name": "x", "name": "y", "ops": [], "tensors": []}', "the key 'name' comes twice in one object"),
    (changed("name"), "the graph lacks 'name'"),
    (changed("ops"), "the graph lacks 'ops'"),
    (changed("tensors"), "the graph lacks 'tensors'"),
    (changed("nodes", value=[]), "the graph has an unknown key 'nodes', known are name, source, ops, tensors"),
    (changed("name", value=1), "the graph: name is 1, expected a text"),
    (changed("source", value=None), "the graph: source is None, expected a text"),
    (changed("ops", value={}), "the graph: ops is {}, expected a list"),
    (changed("tensors", value="t"), "the graph: tensors is 't', expected a list"),
    (changed("ops", 1, value="b"), "op number 1 is 'b', expected an object"),
    (changed(*OP, "name"), "op number 0 lacks 'name'"),
    (changed(*OP, "kind"), "op number 0 ('a') lacks 'kind'"),
    (changed(*OP, "param_bytes"), "op number 0 ('a') lacks 'param_bytes'"),
    (changed(*OP, "params", value=1), "op number 0 ('a') has an unknown key 'params'"),
    (changed(*OP, "name", value=None), "op number 0: name is None"),
    (changed(*OP, "kind", value=["conv"]), "op 'a': kind is ['conv']"),
    (changed(*OP, "param_bytes", value=-1), "op 'a': param_bytes is -1, at least 0 is needed"),
    (changed(*OP, "param_bytes", value=1.0), "op 'a': param_bytes is 1.0, expected a whole number"),
    (changed(*OP, "param_bytes", value=True), "op 'a': param_bytes is True, expected a whole number"),
    (changed(*OP, "param_bytes", value=None), "op 'a': param_bytes is None"),
    (changed(*OP, "param_bytes", value="9"), "op 'a': param_bytes is '9'"),
    (changed(*OP, "macs", value=-81), "op 'a': macs is -81"),
    (changed(*OP, "macs", value=None), "op 'a': macs is None"),
    (changed(*OP, "compiled_bytes", value=-1), "op 'a': compiled_bytes is -1"),
    (changed(*OP, "always_streamed_bytes", value=-1), "op 'a': always_streamed_bytes is -1"),
    (changed(*OP, "time_us", value="fast"), "op 'a': time_us is 'fast', expected a number or null"),
    (changed(*OP, "time_us", value=True), "op 'a': time_us is True"),
    (changed(*OP, "time_us", value=float("nan")), "op 'a': time_us is nan, a finite number"),
    (changed(*OP, "time_us", value=float("inf")), "op 'a': time_us is inf, a finite number"),
    (changed(*OP, "time_us", value=10**400), "op 'a': time_us is 1000"),
    (changed("tensors", 1, value=None), "tensor number 1 is None, expected an object"),
    (changed(*TENSOR, "producer"), "tensor number 1 ('t') lacks 'producer'"),
    (changed(*TENSOR, "consumers"), "tensor number 1 ('t') lacks 'consumers'"),
    (changed(*TENSOR, "shape", value=[1]), "tensor number 1 ('t') has an unknown key 'shape'"),
    (changed(*TENSOR, "bytes", value=-16), "tensor 't': bytes is -16, at least 0"),
    (changed(*TENSOR, "bytes", value="16"), "tensor 't': bytes is '16'"),
    (changed(*TENSOR, "consumers", value="b"), "tensor 't': consumers is 'b', expected a list"),
    (changed(*TENSOR, "is_output", value=0), "tensor 't': is_output is 0, expected true or false"),
]
BAD_GRAPH = [
    (changed("name", value=""), "its name must be a text"),
    (changed("source", value="onnx"), "its source is 'onnx', choose from"),
    (changed("ops", value=[], base={**tiny(), "tensors": []}), "it has no ops"),
    (changed("tensors", 0, "consumers", value=["c"]), "tensor 'in' dangles: its consumer 'c' is not an op"),
    (changed(*OP, "name", value="b"), "two ops are named 'b'"),
    (changed(*OP, "name", value="", base={**tiny(), "tensors": []}), "the name of op number 0 is empty"),
    (changed(*OP, "name", value="\ud800", base={**tiny(), "tensors": []}), "the name of op number 0 is '\\ud800'"),
    (changed(*OP, "kind", value=""), "op 'a' has kind ''"),
    (changed(*OP, "param_bytes", value=2**53 + 1), "param_bytes sums to 9007199254740993"),
    (changed(*OP, "param_bytes", value=10**30), "op 'a' has param_bytes 10000"),
    (changed(*OP, "time_us", value=-3), "op 'a' has time_us -3.0"),
    (changed(*TENSOR, "name", value="in"), "two tensors are named 'in'"),
    (changed(*TENSOR, "bytes", value=2**63), "tensor 't' has tensor_bytes 9223372036854775808"),
    (changed(*TENSOR, "producer", value="nobody"), "tensor 't' dangles: its producer 'nobody' is not an op"),
    (changed(*TENSOR, "producer", value=0), "tensor 't' dangles: its producer 0 is not an op"),
    (changed(*TENSOR, "producer", value=["a"]), "tensor 't' dangles: its producer ['a'] is not an op"),
    (changed(*TENSOR, "consumers", value=["b", "nobody"]), "tensor 't' dangles: its consumer 'nobody' is not an op"),
    (changed(*TENSOR, "consumers", value=[None]), "tensor 't' dangles: its consumer None is not an op"),
    (changed(*TENSOR, "consumers", value=["a"]), "cycle: op 'a' reads its own tensor 't'"),
    (changed("tensors", 2, "consumers", value=["a"]), "cycle: 'b' -> 'a' -> 'b'"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FORM, ids=[message for _, message in BAD_FORM])
def test_a_wrong_form_is_named(text: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        graph_from_json(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(("text", "message"), BAD_GRAPH, ids=[message for _, message in BAD_GRAPH])
def test_a_wrong_graph_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        graph_from_json(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", [text for text, _ in BAD_FORM + BAD_GRAPH if len(text) < 10_000])
def test_a_wrong_file_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputFileError, match=r"wrong\.json: "):
        read_graph(path)


JSON_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.sampled_from(["a", "b", ""])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "kind", "bytes", "param_bytes", "producer"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(JSON_VALUES, st.data())
def test_any_damage_is_a_respect_error_or_harmless(value: Any, data: st.DataObject) -> None:
    content: Any = tiny()
    at, way = content, []
    while isinstance(at, dict | list) and at and (not way or data.draw(st.booleans())):
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        way.append((at, data.draw(st.sampled_from(keys))))
        at = at[way[-1][1]]
    holder, key = way[-1]
    holder[key] = value
    try:
        graph = graph_from_json(json.dumps(content))
    except RespectError as error:
        assert str(error)
    else:
        assert differences(graph, graph_from_json(graph_to_json(graph))) == []


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_any_damaged_bytes_are_a_respect_error_or_harmless(tmp_path_factory: Any, at: int, patch: bytes) -> None:
    whole = json.dumps(tiny()).encode()
    at %= len(whole)
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(whole[:at] + patch + whole[at + len(patch) :])
    try:
        read_graph(path)
    except InputFileError as error:
        assert error.path == str(path)


@pytest.mark.parametrize("size", [500, 900, 980, 2000, 50_000])
def test_deep_nesting_is_refused(size: int) -> None:
    with pytest.raises(BadInputError) as caught:
        graph_from_json('{"ops": [], "tensors": [], "name": ' + "[" * size + "]" * size + "}")
    assert len(str(caught.value)) < 300


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"missing\.json: the graph cannot be read \(No such file"):
        read_graph(tmp_path / "missing.json")
    with pytest.raises(InputFileError, match="cannot be read"):
        read_graph(tmp_path)
    with pytest.raises(InputFileError, match="null byte"):
        read_graph("a\0.json")
    (tmp_path / "binary.json").write_bytes(b"\x1c\x00\x00\x00TFL3\xff")
    with pytest.raises(InputFileError, match=r"binary\.json: the graph is not text \(.* at byte 8\)"):
        read_graph(tmp_path / "binary.json")
