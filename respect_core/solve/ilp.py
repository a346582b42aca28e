"""Integer programming: proven optima for every objective and constraint with CP-SAT.

The formulation is SDC+ILP, difference constraints for precedence and linear sums for loads (`ilp_model`). The
components are minimised one after the other: the first is proven, kept as a limit, and then the second; and then, if
asked for, the lexicographically smallest stage vector among the optima. Each search only looks for something better
than what is known, within the stage windows that this leaves (`domains`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final, Literal

import ortools
from ortools.sat.python import cp_model

from respect_core.constraints import Constraints
from respect_core.errors import SolverFailedError, UnknownNameError
from respect_core.schedule import first_violation
from respect_core.solve.conflicts import conflict_message
from respect_core.solve.domains import Domains, Windows, merge_ops
from respect_core.solve.ilp_model import FORMULATIONS, Formulation, StageModel, Sum
from respect_core.solve.ilp_objective import Component, Limits, bounded_component, check_range
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of

_LARGEST_RADIX: Final = 2**20
"""Bound on the weights that turn a chunk of stages into one number to minimise."""

_EXACT_FLOAT: Final = 2**53

_FEW_BLOCKS: Final = 100
"""Below it, throughput is proven faster by conflicts alone; above, by strong linear relaxations (measured)."""

Found = Literal["optimal", "feasible", "infeasible", "unknown"]


class IlpSolver:
    """CP-SAT on one thread, started from the best simple order.

    Args:
        formulation: `prefix` (one boolean for "in a stage <= k") or `assignment` (one for "in stage k").
        hint: Start from the best simple order's optimal split.
        load_windows: Narrow the stages of every op by the loads of its ancestors and descendants before the search;
            without, the model is the plain formulation.

    Raises:
        UnknownNameError: There is no such formulation.
    """

    name = "ilp"
    version = f"1 (OR-tools {ortools.__version__})"

    def __init__(self, formulation: Formulation = "prefix", *, hint: bool = True, load_windows: bool = True) -> None:
        if formulation not in FORMULATIONS:
            raise UnknownNameError("formulation", formulation, FORMULATIONS)
        self.formulation, self.hint, self.load_windows = formulation, hint, load_windows

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Solve a problem; see `Solver`.

        Returns:
            The result; its seconds are those of finding the first schedule, of narrowing windows and of all searches,
            without building models.

        Raises:
            BadInputError: Sums of the objective do not fit the solver's 64-bit numbers.
            SolverFailedError: The solver refused the model.
        """
        check_range(problem)
        return _Search(self, problem, options).run()


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What one search found out."""

    found: Found
    stage_of: list[int] | None = None
    bound: int | None = None
    """Proven bound on the minimised component."""


class _Search:
    """One run of the solver: the best schedule so far, what is proven, and the time."""

    def __init__(self, solver: IlpSolver, problem: Problem, options: SolveOptions) -> None:
        self.solver, self.problem, self.options = solver, problem, options
        self.watch = Stopwatch(options.time_limit_s)
        self.seconds = 0.0
        self.best: list[int] | None = None
        self.value: tuple[int, ...] = ()
        self.bound: int | None = None

    def run(self) -> SolveResult:
        with self._timed():
            if self.solver.hint:
                self._start_from_an_order()
            self.blocks = merge_ops(self.problem)
            self.domains = Domains(self.problem, self.blocks)
            self.bound = self._first_bound()
        if self.bound is None or not self._prove_first():
            if self.bound is not None and self.best is None:
                return self._result("timeout", message="the time limit was reached before a schedule was found")
            if self.bound is None:
                return self._result("infeasible", message=self._conflict())
            return self._result("feasible")
        if len(self.value) > 1 and not self._prove_second():
            return self._result("feasible")
        canonical = self.options.canonical and self._prove_smallest_vector()
        return self._result("optimal", canonical=canonical)

    # -- phases ------------------------------------------------------------------------------------------------------

    def _first_bound(self) -> int | None:
        if self.solver.load_windows:
            return self.domains.lower_bound
        return None if self.domains.windows() is None else self.domains.simple_bound

    def _start_from_an_order(self) -> None:
        from respect_core.solve.orders import BestOrderSolver

        found = BestOrderSolver().solve(self.problem, replace(self.options, time_limit_s=self.watch.left))
        if found.stage_of is not None:
            self._keep(list(found.stage_of))

    def _keep(self, stage_of: list[int]) -> None:
        value = self.problem.value(self.problem.evaluate(stage_of))
        if self.best is None or value < self.value:
            self.best, self.value = stage_of, value

    def _prove_first(self) -> bool:
        """Minimise the first component; the bound becomes None where nothing is legal."""
        assert self.bound is not None
        if self.best is not None and self.value[0] <= self.bound:
            return True
        limit = self.value[0] - 1 if self.best is not None else None
        outcome = self._search("first", Limits(first=limit, lower_bound=self.bound))
        if outcome.stage_of is not None:
            self._keep(outcome.stage_of)
        if outcome.found == "infeasible":
            self.bound = self.value[0] if self.best is not None else None
            return self.best is not None
        if outcome.found == "optimal":
            self.bound = self.value[0]
            return True
        if outcome.bound is not None:
            self.bound = max(self.bound, outcome.bound)
        if self.best is not None:
            self.bound = min(self.bound, self.value[0])
        return False

    def _prove_second(self) -> bool:
        first, second = self.value
        outcome = self._search("second", Limits(first=first, second=second - 1, lower_bound=first))
        if outcome.stage_of is not None:
            self._keep(outcome.stage_of)
        return outcome.found in ("optimal", "infeasible")

    def _prove_smallest_vector(self) -> bool:
        """Minimise the stages in op order, a chunk of blocks at a time; False where the time is too short."""
        assert self.best is not None
        second = self.value[1] if len(self.value) > 1 else None
        limits = Limits(first=self.value[0], second=second, lower_bound=self.value[0])
        windows = self._windows(limits.first)
        assert windows is not None
        stages = self._model(windows)
        bounded_component(stages, limits, None)
        low = windows[0].tolist()
        block = 0
        while block < self.blocks.num_blocks:
            if self._stage(block) == low[block]:
                end = block + 1
            else:
                end = self._end_of_chunk(block, windows)
                outcome = self._smallest_stages(stages, range(block, end), windows)
                if outcome.found != "optimal":
                    return False
                self.best = outcome.stage_of
            for b in range(block, end):
                stages.fix(b, self._stage(b))
                for v in self.blocks.before[:, b].nonzero()[0].tolist():
                    low[v] = max(low[v], self._stage(b))
            block = end
        return True

    def _stage(self, block: int) -> int:
        assert self.best is not None
        return self.best[self.blocks.members[block][0]]

    def _end_of_chunk(self, start: int, windows: Windows) -> int:
        radix, end = 1, start
        while end < self.blocks.num_blocks and radix <= _LARGEST_RADIX:
            radix *= int(windows[1][end] - windows[0][end]) + 1
            end += 1
        return end

    def _smallest_stages(self, stages: StageModel, chunk: range, windows: Windows) -> _Outcome:
        assert self.best is not None
        total, weight = Sum(), 1
        for block in reversed(chunk):
            total.extend(stages.stage_number(block), weight)
            weight *= int(windows[1][block] - windows[0][block]) + 1
        stages.hint(self.best)
        stages.model.minimize(stages.expression(total))
        return self._run(stages, 1)

    # -- one search --------------------------------------------------------------------------------------------------

    def _windows(self, limit: int | None) -> Windows | None:
        with self._timed():
            return self.domains.windows(limit if self.solver.load_windows else None)

    def _model(self, windows: Windows) -> StageModel:
        return StageModel(
            cp_model.CpModel(),
            cp_model.LinearExpr.weighted_sum,
            self.problem,
            self.blocks,
            windows,
            self.solver.formulation,
        )

    def _search(self, want: Component, limits: Limits) -> _Outcome:
        windows = self._windows(limits.first)
        if windows is None:
            return _Outcome(found="infeasible")
        if bool((windows[0] == windows[1]).all()):
            return self._only_candidate(windows)
        if self.watch.left <= 0:
            return _Outcome(found="unknown")
        stages = self._model(windows)
        total, unit = bounded_component(stages, limits, want)
        stages.model.minimize(stages.expression(total))
        if self.best is not None:
            stages.hint(self.best)
        return self._run(stages, unit)

    def _only_candidate(self, windows: Windows) -> _Outcome:
        """Judge the one schedule that the windows leave."""
        problem = self.problem
        stage_of: list[int] = windows[0][self.blocks.block_of].tolist()
        if first_violation(problem.graph, stage_of, problem.num_stages, problem.constraints) is not None:
            return _Outcome(found="infeasible")
        return _Outcome(found="optimal", stage_of=stage_of)

    def _run(self, stages: StageModel, unit: int) -> _Outcome:
        if self.watch.left <= 0:
            return _Outcome(found="unknown")
        with self._timed():
            solver = self._cp_solver()
            status = solver.solve(stages.model)
        if status == cp_model.INFEASIBLE:
            return _Outcome(found="infeasible")
        if status == cp_model.MODEL_INVALID:
            raise SolverFailedError(
                f"CP-SAT refused the model of {self.problem.graph.name!r}: {stages.model.validate()}"
            )
        bound = _whole(solver.best_objective_bound)
        if status == cp_model.UNKNOWN:
            return _Outcome(found="unknown", bound=None if bound is None else bound * unit)
        return _Outcome(
            found="optimal" if status == cp_model.OPTIMAL else "feasible",
            stage_of=stages.stages(lambda literal: bool(solver.boolean_value(literal))),
            bound=None if bound is None else bound * unit,
        )

    def _cp_solver(self) -> Any:
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        parameters.num_workers = 1
        parameters.random_seed = self.options.seed % 2**31
        parameters.max_time_in_seconds = self.watch.left
        parameters.absolute_gap_limit = 0.0  # else gaps below the precision of floats count as closed
        needs_relaxation = self.problem.objective == "throughput" and self.blocks.num_blocks >= _FEW_BLOCKS
        parameters.linearization_level = 2 if needs_relaxation else 0
        return solver

    # -- results -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds += perf_counter() - start

    def _conflict(self) -> str:
        def is_impossible(constraints: Constraints) -> bool | None:
            problem = replace(self.problem, constraints=constraints, objective="peak-memory")
            blocks = merge_ops(problem)
            windows = Domains(problem, blocks).windows()
            if windows is None:
                return True
            if self.watch.left <= 0:
                return None
            stages = StageModel(
                cp_model.CpModel(), cp_model.LinearExpr.weighted_sum, problem, blocks, windows, "prefix"
            )
            status = self._cp_solver().solve(stages.model)
            return None if status == cp_model.UNKNOWN else bool(status == cp_model.INFEASIBLE)

        with self._timed():
            return conflict_message(self.problem, is_impossible)

    def _result(
        self,
        status: Literal["optimal", "feasible", "timeout", "infeasible"],
        *,
        canonical: bool = False,
        message: str = "",
    ) -> SolveResult:
        return result_of(
            self.solver,
            self.problem,
            self.best,
            status=status,
            solve_seconds=self.seconds,
            lower_bound=self.bound,
            canonical=canonical,
            message=message,
        )


def _whole(bound: float) -> int | None:
    """Turn the solver's float bound on a whole number into a proven one."""
    if not math.isfinite(bound):
        return None
    if abs(bound) < _EXACT_FLOAT:
        return math.ceil(bound - 0.5)
    return int(bound) - math.ceil(math.ulp(bound))
