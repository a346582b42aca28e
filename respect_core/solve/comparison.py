"""One problem solved by several solvers, as rows of the table `schedules`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from respect_core.solve.protocol import Problem, SolveOptions, Solver, SolveResult, gap_of, result_row
from respect_core.solve.registry import POINTER, POLICY, get_solver
from respect_core.solve.warm_up import warm_up


def open_solver(name: str, checkpoint: Path | None = None) -> Solver:
    """Return a solver by name; `policy` and `pointer` are read from ``checkpoint``.

    Without one, they take the weights that come with the program.

    Raises:
        UnknownNameError: No solver of this name.
        InputFileError: The checkpoint is not one, or of another architecture.
    """
    if name in (POLICY, POINTER):
        from respect_core.policy.solver import PointerSolver, PolicySolver

        learned = PolicySolver if name == POLICY else PointerSolver
        return learned.pretrained() if checkpoint is None else learned.from_checkpoint(checkpoint)
    return get_solver(name)


def compare(problem: Problem, solvers: Sequence[Solver], options: SolveOptions) -> list[dict[str, Any]]:
    """Solve one problem with every solver, each warmed up first.

    Returns:
        One row of the table `schedules` a solver. `gap` is what the solver itself proves, `gap_to_best` is measured
        against the largest bound that any of them proved.
    """
    results = []
    for solver in solvers:
        warm_up(solver, problem)
        results.append(solver.solve(problem, options))
    bounds = [result.lower_bound for result in results if result.lower_bound is not None]
    best = max(bounds, default=None)
    return [_row(problem, result, best, options.seed) for result in results]


def _row(problem: Problem, result: SolveResult, bound: int | None, seed: int) -> dict[str, Any]:
    row = result_row(problem, result)
    row["gap_to_best"] = None if result.value is None else gap_of(result.value[0], bound)
    row["seed"] = seed
    return row
