"""Cuts by hand: a stage begins at each named op, and every wrong name is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.constraints import Constraints, Pin
from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.schedule import first_violation
from respect_core.segments.cuts import CutsSolver, cut_names, stages_of_cuts
from respect_core.solve.protocol import Problem, SolveOptions, Solver


def chain(names: tuple[str, ...]) -> DnnGraph:
    n = len(names)
    return DnnGraph(
        name="net",
        source="tflite",
        op_names=names,
        op_kinds=("conv2d",) * n,
        param_bytes=np.ones(n),
        macs=np.ones(n),
        compiled_bytes=np.full(n, UNKNOWN),
        always_streamed_bytes=np.zeros(n),
        op_time_us=np.full(n, np.nan),
        tensor_names=names,
        tensor_bytes=np.ones(n),
        tensor_producer=np.arange(n),
        tensor_consumers=tuple((v + 1,) if v + 1 < n else () for v in range(n)),
        tensor_is_output=np.arange(n) == n - 1,
    )


NET = chain(("conv:0", "relu", "a,b", "add;x", "out"))


@given(st.integers(2, 12), st.data())
def test_each_cut_starts_a_stage(n: int, data: st.DataObject) -> None:
    graph = chain(tuple(f"op{v}" for v in range(n)))
    starts = sorted(data.draw(st.sets(st.integers(1, n - 1))))
    stages = stages_of_cuts(graph, [graph.op_names[v] for v in starts])
    assert [stages.index(k) for k in range(1, len(starts) + 1)] == starts
    assert first_violation(graph, stages, len(starts) + 1) is None


def test_names_with_commas_and_colons_are_found() -> None:
    assert cut_names(["relu,add;x"], NET) == ("relu", "add;x")
    assert cut_names(["relu", "a,b", "out"], NET) == ("relu", "a,b", "out")
    assert cut_names(["conv:0"], NET) == ("conv:0",)
    assert cut_names(["relu, add;x ", " out"], NET) == ("relu", "add;x", "out")


@pytest.mark.parametrize("value", ["", ",", "relu,", ",relu", " , ", "relu,,out"])
def test_a_missing_name_is_said(value: str) -> None:
    with pytest.raises(BadInputError, match="lack the name of an op"):
        cut_names([value], NET)


@pytest.mark.parametrize(
    ("cuts", "named"),
    [
        (["rely"], "no op 'rely' to cut at, did you mean 'relu'"),
        ([""], "no op ''"),
        (["conv:0"], "a cut at op 'conv:0', the first of 'net', leaves stage 0 without ops"),
        (["relu", "relu"], "op 'relu' is named twice"),
        (["out", "relu"], "op 'relu' comes before op 'out' in the file"),
    ],
)
def test_wrong_cuts_are_named(cuts: list[str], named: str) -> None:
    with pytest.raises(BadInputError, match=named):
        stages_of_cuts(NET, cuts)


def test_the_cuts_are_a_solver_that_ignores_constraints() -> None:
    solver = CutsSolver(["relu", "out"])
    assert isinstance(solver, Solver)
    found = solver.solve(Problem.of(NET, 3), SolveOptions())
    assert (found.status, found.stage_of) == ("feasible", (0, 1, 1, 1, 2))
    pinned = Problem.of(NET, 3, constraints=Constraints(pins=(Pin(1, 0),)))
    refused = solver.solve(pinned, SolveOptions())
    assert refused.stage_of is None and "'relu'" in refused.message
    with pytest.raises(BadInputError, match="2 cuts make 3 stages, not 2"):
        solver.solve(Problem.of(NET, 2), SolveOptions())
