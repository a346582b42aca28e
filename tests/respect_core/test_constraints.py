from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.constraints import Constraints, Implication, Pair, Pin, load_constraints
from respect_core.errors import BadInputError, InputFileError, UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.solve.protocol import Problem
from tests.strategies import constraints_for, graphs, problems


def four_ops() -> DnnGraph:
    return DnnGraph(
        name="four", source="json", op_names=tuple("abcd"), op_kinds=("conv2d",) * 4, param_bytes=np.ones(4),
        macs=np.zeros(4), compiled_bytes=np.full(4, -1), always_streamed_bytes=np.zeros(4),
        op_time_us=np.full(4, np.nan), tensor_names=("t",), tensor_bytes=np.ones(1), tensor_producer=np.zeros(1),
        tensor_consumers=((1, 2, 3),), tensor_is_output=np.array([False]),
    )  # fmt: skip


CONTENT = {
    "pin": [{"op": "a", "stage": 0}],
    "same_stage": [["a", "b", "c"]],
    "different_stages": [["a", "c", "d"]],
    "implies": [{"if": {"op": "a", "stage": 0}, "then": {"op": "d", "stage": 2}}],
}
TOML = """
pin = [{op = "a", stage = 0}]
same_stage = [["a", "b", "c"]]
different_stages = [["a", "c", "d"]]
implies = [{if = {op = "a", stage = 0}, then = {op = "d", stage = 2}}]
"""


@pytest.mark.parametrize(("name", "text"), [("c.json", json.dumps(CONTENT)), ("c.toml", TOML)])
def test_a_file_of_constraints_is_read(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = load_constraints(path, four_ops(), Constraints(outputs_last=True, pins=(Pin(3, 1),)))
    assert found == Constraints(
        outputs_last=True,
        pins=(Pin(3, 1), Pin(0, 0)),
        same_stage=(Pair(0, 1), Pair(1, 2)),
        different_stages=(Pair(0, 2), Pair(0, 3), Pair(2, 3)),
        implications=(Implication(0, 0, 3, 2),),
    )


@given(st.data())
def test_names_and_indices_say_the_same(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    graph = data.draw(graphs(1, 6))
    rules = data.draw(constraints_for(graph, 4))
    names = graph.op_names
    content = {
        "pin": [{"op": names[op], "stage": stage} for op, stage in rules.pins],
        "same_stage": [[names[a], names[b]] for a, b in rules.same_stage],
        "different_stages": [[names[a], names[b]] for a, b in rules.different_stages],
        "implies": [
            {"if": {"op": names[a], "stage": i}, "then": {"op": names[b], "stage": j}}
            for a, i, b, j in rules.implications
        ],
    }
    path = tmp_path_factory.mktemp("constraints") / "c.json"
    path.write_text(json.dumps(content))
    read = load_constraints(path, graph)
    assert (read.pins, read.same_stage, read.different_stages, read.implications) == (
        rules.pins, rules.same_stage, rules.different_stages, rules.implications
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "are not JSON"),
        ("[]", "unexpected 'list'"),
        ('{"pins": []}', "unexpected 'pins', expected keys pin"),
        ('{"pin": {}}', "'pin' is not a list"),
        ('{"pin": [{"op": "z", "stage": 0}]}', "graph 'four' has no op 'z'"),
        ('{"pin": [{"op": "a"}]}', "is not an op and a stage"),
        ('{"pin": [{"op": "a", "stage": true}]}', "stage True is not a whole number"),
        ('{"pin": [{"op": "a", "stage": 1.5}]}', "stage 1.5 is not a whole number"),
        ('{"same_stage": [["a"]]}', "is not a list of two or more ops"),
        ('{"same_stage": [["a", 3]]}', "has no op 3"),
        ('{"implies": [{"if": {"op": "a", "stage": 0}}]}', "'implies' holds"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(InputFileError) as caught:
        load_constraints(path, four_ops())
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="cannot be read"):
        load_constraints(tmp_path / "missing.json", four_ops())
    (tmp_path / "c.toml").write_text("pin = [")
    with pytest.raises(InputFileError, match="are not TOML"):
        load_constraints(tmp_path / "c.toml", four_ops())
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputFileError, match="are not text"):
        load_constraints(tmp_path / "binary.json", four_ops())
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(InputFileError, match="are not JSON"):
        load_constraints(tmp_path / "deep.json", four_ops())


def test_names_switch_constraints_on() -> None:
    assert Constraints.named(["outputs-last", "colocate_children"]) == Constraints(
        outputs_last=True, colocate_children=True
    )
    with pytest.raises(UnknownNameError, match="unknown constraint 'outputs': choose from outputs_last"):
        Constraints.named(["outputs"])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (Constraints(pins=(Pin(4, 0),)), r"names op 4, graph 'four' has ops 0..3"),
        (Constraints(same_stage=(Pair(0, -1),)), r"names op -1"),
        (Constraints(different_stages=(Pair(9, 0),)), r"names op 9"),
        (Constraints(pins=(Pin(0, 2),)), r"op .a. in stage 2, the stages are 0..1"),
        (Constraints(implications=(Implication(0, 0, 1, -1),)), r"op .b. in stage -1"),
        (Constraints(implications=(Implication(0, 0, 7, 1),)), r"names op 7"),
    ],
)
def test_ops_and_stages_must_exist(rules: Constraints, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        Problem.of(four_ops(), 2, constraints=rules)


@given(problems(constrained=True))
def test_what_the_rules_expand_to(problem: Problem) -> None:
    """The derived pairs and groups name exactly the ops of the definition."""
    graph, rules = problem.graph, problem.constraints
    together = {frozenset(pair) for pair in rules.same_stage_pairs(graph)}
    for pair in rules.same_stage:
        assert frozenset(pair) in together
    last = set(rules.last_stage_ops(graph))
    assert last == (set(graph.output_ops) if rules.outputs_last else set())
    for group in rules.first_stage_groups(graph):
        assert rules.inputs_first
        assert group
