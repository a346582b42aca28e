"""Loading compiled code before the clock starts: solving times are the solver's alone."""

from __future__ import annotations

from typing import Final

import numpy as np

from respect_core.constraints import NO_CONSTRAINTS
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.solve.protocol import Problem, SolveOptions, Solver

NO_LIMIT_S: Final = 3600.0
"""Stops nobody: a first use compiles for minutes on a slow machine, and a stop in between would leave the rest of the
functions to be compiled while the clock of the real problem runs."""

FALLS_BACK: Final = ("exact", "auto")
"""Solvers that turn to others where a proof takes too long."""


def warm_up(solver: Solver, problem: Problem) -> None:
    """Let ``solver`` solve a problem of four ops with the objective and constraint kinds of ``problem``.

    What the exact search falls back on is loaded too, but for plain problems of peak memory: these it solves by a code
    of their own, and loads the rest off the clock where it is needed.
    """
    constraints = problem.constraints
    toy = Problem(
        graph=_diamond(),
        num_stages=2,
        objective=problem.objective,
        profile=problem.profile,
        constraints=type(constraints)(
            outputs_last=constraints.outputs_last,
            inputs_first=constraints.inputs_first,
            colocate_children=constraints.colocate_children,
        ),
        ratio=problem.ratio,
    )
    solver.solve(toy, SolveOptions(time_limit_s=NO_LIMIT_S))
    if solver.name in FALLS_BACK and (toy.objective != "peak-memory" or toy.constraints != NO_CONSTRAINTS):
        _load_fall_back(toy)


def _load_fall_back(toy: Problem) -> None:
    from respect_core.solve.exact import ExactSolver
    from respect_core.solve.orders import RandomOrdersSolver

    ExactSolver().solve(toy, SolveOptions(time_limit_s=0.0))
    RandomOrdersSolver(1).solve(toy, SolveOptions(time_limit_s=NO_LIMIT_S))


def _diamond() -> DnnGraph:
    """Return a -> (b, c) -> d."""
    return DnnGraph(
        name="diamond",
        source="synthetic",
        op_names=("a", "b", "c", "d"),
        op_kinds=("conv2d",) * 4,
        param_bytes=np.array([4, 3, 2, 5]),
        macs=np.array([10, 10, 10, 10]),
        compiled_bytes=np.full(4, UNKNOWN),
        always_streamed_bytes=np.zeros(4, dtype=np.int64),
        op_time_us=np.full(4, np.nan),
        tensor_names=("ta", "tb", "tc", "td"),
        tensor_bytes=np.array([1, 2, 3, 4]),
        tensor_producer=np.arange(4),
        tensor_consumers=((1, 2), (3,), (3,), ()),
        tensor_is_output=np.array([False, False, False, True]),
    )
