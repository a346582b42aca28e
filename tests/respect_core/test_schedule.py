from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.constraints import Constraints, Implication, Pair, Pin
from respect_core.errors import BadInputError, InvalidScheduleError
from respect_core.graph import DnnGraph
from respect_core.schedule import check_schedule, first_violation
from respect_core.solve.protocol import Problem
from tests.oracles import Oracle
from tests.strategies import problems, stage_vectors


@given(problems(max_ops=7), st.data())
def test_legal_is_what_the_definition_says(problem: Problem, data: st.DataObject) -> None:
    graph, K = problem.graph, problem.num_stages
    anything = st.lists(st.integers(-1, K), min_size=graph.num_ops, max_size=graph.num_ops)
    stage_of = data.draw(st.one_of(stage_vectors(graph, K), anything))
    legal = Oracle(graph, problem.profile).is_legal(stage_of, K, problem.constraints)
    why = first_violation(graph, stage_of, K, problem.constraints)
    assert (why is None) == legal
    if legal:
        check_schedule(graph, np.array(stage_of), K, problem.constraints)
    else:
        with pytest.raises(InvalidScheduleError):
            check_schedule(graph, stage_of, K, problem.constraints)


def diamond() -> DnnGraph:
    """in -> a; a -> b, c; b, c -> d; d makes the output."""
    return DnnGraph(
        name="diamond", source="json", op_names=tuple("abcd"), op_kinds=("conv2d",) * 4, param_bytes=np.ones(4),
        macs=np.zeros(4), compiled_bytes=np.full(4, -1), always_streamed_bytes=np.zeros(4),
        op_time_us=np.full(4, np.nan), tensor_names=("in", "ta", "tb", "tc", "td"), tensor_bytes=np.ones(5),
        tensor_producer=np.array([-1, 0, 1, 2, 3]), tensor_consumers=((0,), (1, 2), (3,), (3,), ()),
        tensor_is_output=np.array([False] * 4 + [True]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stage_of", "num_stages", "rules", "message"),
    [
        ([0, 0, 1], 2, {}, "3 stages for 4 ops"),
        ([0.0, 0.0, 1.0, 1.0], 2, {}, "whole numbers are needed"),
        ([0, 0, 1, 2], 2, {}, "op 'd' is in stage 2, allowed are 0..1"),
        ([0, 1, 1, 0], 2, {}, "op 'b' in stage 1 feeds op 'd' in the earlier stage 0"),
        ([0, 0, 0, 2], 3, {}, "stage 1 has no op"),
        ([0, 0, 0, 1], 2, {"pins": (Pin(1, 1),)}, "op 'b' is pinned to stage 1 but is in 0"),
        ([0, 0, 1, 1], 2, {"same_stage": (Pair(1, 2),)}, "'b' and 'c' must share a stage but are in 0 and 1"),
        ([0, 0, 0, 1], 2, {"different_stages": (Pair(1, 2),)}, "'b' and 'c' must be in different stages"),
        ([0, 0, 1, 1], 2, {"colocate_children": True}, "'b' and 'c' must share a stage"),
        (
            [0, 0, 0, 1],
            2,
            {"implications": (Implication(1, 0, 2, 1),)},
            "op 'b' is in stage 0, so op 'c' must be in stage 1 but is in 0",
        ),
    ],
)
def test_the_first_violation_is_named(
    stage_of: list[Any], num_stages: int, rules: dict[str, Any], message: str
) -> None:
    why = first_violation(diamond(), stage_of, num_stages, Constraints(**rules))
    assert why is not None
    assert message in why


def test_inputs_and_outputs_are_named() -> None:
    graph = DnnGraph(
        name="two", source="json", op_names=("a", "b"), op_kinds=("conv2d", "conv2d"), param_bytes=np.ones(2),
        macs=np.zeros(2), compiled_bytes=np.full(2, -1), always_streamed_bytes=np.zeros(2),
        op_time_us=np.full(2, np.nan), tensor_names=("in", "ta", "tb"), tensor_bytes=np.ones(3),
        tensor_producer=np.array([-1, 0, 1]), tensor_consumers=((1,), (), ()),
        tensor_is_output=np.array([False, True, True]),
    )  # fmt: skip
    assert first_violation(graph, [0, 1], 2) is None
    late = first_violation(graph, [0, 1], 2, Constraints(inputs_first=True))
    assert late == "inputs_first: the graph input of op 'b' is not read in stage 0"
    early = first_violation(graph, [0, 1], 2, Constraints(outputs_last=True))
    assert early == "outputs_last: op 'a' makes a graph output in stage 0, not in 1"


@pytest.mark.parametrize("num_stages", [0, -1, 5, True])
def test_the_number_of_stages_is_checked(num_stages: int) -> None:
    if num_stages is True:
        with pytest.raises(BadInputError):
            first_violation(diamond(), [0, 0, 0, 0], num_stages)
        return
    with pytest.raises(BadInputError, match=rf"cannot be cut into {num_stages} stages, allowed are 1..4"):
        first_violation(diamond(), [0, 0, 0, 0], num_stages)
