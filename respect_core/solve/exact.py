"""Exact schedules by search over down-sets, for every objective and constraint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Timer
from typing import ClassVar

import numpy as np

from respect_core.constraints import NO_CONSTRAINTS, Constraints
from respect_core.graph import IntArray
from respect_core.solve.conflicts import conflict_message
from respect_core.solve.exact_chains import NONE, States
from respect_core.solve.exact_cuts import least_sum_by_cuts
from respect_core.solve.exact_incumbent import Incumbent
from respect_core.solve.exact_levels import LimitError, build_levels
from respect_core.solve.exact_loads import PeakSearch, loaded_part
from respect_core.solve.exact_model import InfeasibleError, Model, build_model, first_bound, largest_budget, least_value
from respect_core.solve.exact_phases import Chain, Phases
from respect_core.solve.exact_plain import solve_plain
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of
from respect_core.solve.warm_up import warm_up

__all__ = ["ExactSolver", "first_bound"]

QUICK_SETS = 8192
"""Most down-sets of a first attempt that most problems do not need more than."""

APPROACH_PART = 0.3
"""Part of the time limit after which the last budget is tried even if a smaller one would give a bound."""

SHORT_S = 2.0
"""With a time limit below this, even the first attempts are watched by a timer, which takes as long as small graphs."""

LARGE_OPS = 500
"""So they are for graphs of more ops than this, of which a first attempt may take seconds."""

GRACE_S = 0.05
"""Time beyond the limit that evening out a schedule may take."""

PLAIN_SETS = 30_000
"""With more down-sets than this, those that little crosses are looked at first."""


class ExactSolver:
    """Search over the down-sets that the stages of a schedule accumulate.

    Args:
        max_sets: Most down-sets to keep at a time (about 100 bytes each); beyond it the best schedule known is
            returned with the bound proven so far.
    """

    name = "exact"
    version = "1"
    has_loaded: ClassVar[bool] = False
    """Whether this process has loaded the general search's code for problems without times."""

    def __init__(self, max_sets: int = 4_000_000) -> None:
        self.max_sets = max_sets

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Prove every component of the objective and return the lexicographically smallest optimum.

        Returns:
            The result; `feasible` with a bound where the time or ``max_sets`` did not suffice, `infeasible` with a
            conflicting subset of the constraints.
        """
        return _Search(self, problem, options).run()


class _Search:
    """One run of the solver: what is proven, the best schedule so far, and the time."""

    def __init__(self, solver: ExactSolver, problem: Problem, options: SolveOptions) -> None:
        self.solver, self.problem, self.options = solver, problem, options
        self.watch = Stopwatch(options.time_limit_s)
        self.stop = np.zeros(1, dtype=np.int64)
        self.known = Incumbent(problem, options, self.watch, self.stop)
        self.bound = 0
        self.search: PeakSearch | None = None
        self.loads: tuple[Model, IntArray] | None = None

    def run(self) -> SolveResult:
        problem = self.problem
        plain_bound = 0
        is_watched = self.options.time_limit_s < SHORT_S or problem.graph.num_ops > LARGE_OPS
        if problem.objective == "peak-memory" and problem.constraints == NO_CONSTRAINTS:
            with self._deadline(self.watch.left if is_watched else None):
                stage_of, plain_bound = solve_plain(problem, self.stop)
            if stage_of is not None:
                seconds = self.watch.seconds
                return result_of(
                    self.solver, problem, stage_of, status="optimal", solve_seconds=seconds, canonical=True
                )
            self._load_general_search()
        try:
            model = build_model(problem)
            # Not from the bound just proven: the search takes growing steps, and from close below its goal small ones.
            self.bound = first_bound(model)
            with self._deadline(self.watch.left if model.timed or is_watched else None):
                chain = self._solve(model, min(QUICK_SETS, self.solver.max_sets))
            if chain is None and self.solver.max_sets > QUICK_SETS:
                if model.plain and not model.timed:
                    self._even_out_orders()
                with self._deadline(self.watch.left):
                    chain = self._solve(model, self.solver.max_sets)
        except InfeasibleError as why:
            return self._infeasible(str(why))
        if chain is not None:
            return result_of(
                self.solver,
                problem,
                model.stage_of(chain.stage_of_node),
                status="optimal",
                solve_seconds=self.watch.seconds,
                canonical=chain.canonical,
            )
        self._fall_back(model)
        self.bound = max(self.bound, plain_bound)
        known = self.known
        is_proven = known.stage_of is not None and known.value == least_value(model, problem, self.bound)
        return result_of(
            self.solver,
            problem,
            known.stage_of,
            status="timeout" if known.stage_of is None else "optimal" if is_proven else "feasible",
            solve_seconds=self.watch.seconds,
            lower_bound=self._proven_bound(),
            message="" if known.stage_of is not None else "no schedule was found within the time and the limit of sets",
        )

    def _load_general_search(self) -> None:
        """Load the compiled code that `warm_up` did not need for a problem as small as its own, off the clock."""
        if not ExactSolver.has_loaded:
            started = self.watch.seconds
            warm_up(ExactSolver(), replace(self.problem, objective="weighted"))
            ExactSolver.has_loaded = True
            self.watch.exclude(self.watch.seconds - started)

    def _proven_bound(self) -> int:
        return self.bound * self.problem.ratio if self.problem.objective == "weighted" else self.bound

    @contextmanager
    def _deadline(self, seconds: float | None) -> Iterator[None]:
        """Raise the stop flag after some seconds, never if None."""
        if seconds is None or seconds == 0:
            self.stop[0] = seconds is not None
            yield
            return
        timer = Timer(seconds, self.stop.fill, [1])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    # -- phases ------------------------------------------------------------------------------------------------------

    def _solve(self, model: Model, max_sets: int) -> Chain | None:
        """Prove everything, or return None where the limits do not allow it."""
        try:
            if model.plain and not model.timed:
                if self.bound > 0 and (self.search is None or not self.search.is_done):
                    self._smallest_loads(model, max_sets)
                found = self._least_sum(model, self.bound, int(NONE), max_sets)
                if found is not None:
                    return self._finish(model, *found, max_sets)
                self.bound += 1
                self.search = None
            phases = self._first_component(model, max_sets)
            states = phases.least_sum(self.bound, self._known_sum(model, phases))
            if states is None:
                raise RuntimeError("a proven first component is not attained")
            return self._finish(model, phases, states, max_sets)
        except LimitError:
            return None

    def _smallest_loads(self, model: Model, max_sets: int) -> None:
        """Raise the bound to the smallest peak of the nodes with parameters.

        Raises:
            LimitError: Too many sets, or out of time.
        """
        if self.known.stage_of is not None and self.known.worst_first == self.bound:
            return
        if self.search is None:
            self.search = PeakSearch(loaded_part(model), self.bound, self.stop)
        try:
            phases = self.search.run(self._highest(model), max_sets)
            stages = None if phases is None else phases.any_chain(self.search.bound)
            self.loads = None if stages is None else (model, stages)
        finally:
            self.bound = max(self.bound, self.search.bound)

    def _first_component(self, model: Model, max_sets: int) -> Phases:
        """Raise the bound to the optimal first component.

        Raises:
            InfeasibleError: There is no schedule.
            LimitError: Too many sets, or out of time.
        """
        if self.search is None:
            self.search = PeakSearch(model, self.bound, self.stop)
            if model.timed or not model.plain:
                self.known.try_orders()
                if model.timed or self.known.stage_of is None:
                    self.search.try_at(self._highest(model))
        try:
            if model.timed and max_sets > QUICK_SETS:
                self._approach(model, self.search, max_sets)
            phases = self.search.run(self._highest(model), max_sets)
        finally:
            self.bound = max(self.bound, self.search.bound)
        if phases is None:
            raise InfeasibleError("no schedule obeys the constraints")
        return phases

    def _approach(self, model: Model, search: PeakSearch, max_sets: int) -> None:
        """Prove budgets ever closer to the best schedule's too small, for a bound in case the last step takes too long.

        Raises:
            LimitError: Too many sets, or out of time.
        """
        highest = self._highest(model)
        for part in (2, 4, 8, 16, 32):
            if self.watch.seconds > APPROACH_PART * self.options.time_limit_s:
                break
            budget = highest - (highest - self.bound) // part
            if search.is_impossible(budget, max_sets):
                self.bound = search.bound
        search.try_at(highest)

    def _highest(self, model: Model) -> int:
        return largest_budget(model) if self.known.stage_of is None else self.known.worst_first

    def _known_sum(self, model: Model, phases: Phases) -> int:
        """Return the second component of some schedule whose first component is the proven one."""
        if not model.timed:
            return int(NONE)
        if self.known.stage_of is None or self.known.value[0] > self.bound:
            stages = phases.any_chain(self.bound)
            if stages is None:
                raise RuntimeError("a proven first component is not attained")
            self.known.keep(model.stage_of(stages))
        return self.known.value[1]

    def _least_sum(self, model: Model, budget: int, most: int, max_sets: int) -> tuple[Phases, list[States]] | None:
        """Find the least sum of what crosses within a budget of an untimed model; None if there is none up to ``most``.

        Raises:
            LimitError: Too many sets, or out of time.
        """
        try:
            levels = build_levels(model, budget, min(max_sets, PLAIN_SETS), self.stop)
        except LimitError as limit:
            if limit.out_of_time or max_sets <= PLAIN_SETS:
                raise
            return least_sum_by_cuts(model, budget, most, max_sets, self.stop)
        if levels is None:
            return None
        phases = Phases(model, levels, self.stop)
        states = phases.least_sum(budget, most)
        return None if states is None else (phases, states)

    def _finish(self, model: Model, phases: Phases, states: list[States], max_sets: int) -> Chain:
        if self.problem.objective == "weighted":
            return self._weighted(model, phases, states, max_sets)
        return phases.canonical_chain(states, self.bound)

    def _weighted(self, model: Model, phases: Phases, states: list[States], max_sets: int) -> Chain:
        """Trade peak memory against crossings: a schedule that crosses less may have a larger peak."""
        ratio, peak = self.problem.ratio, self.bound
        fewest = int(states[-1][2].min())
        best = ratio * peak + fewest
        found = [phases.canonical_chain(states, peak)]
        self.known.keep(model.stage_of(found[0].stage_of_node))  # in case the limits do not allow to trade
        highest = largest_budget(model)
        budget = min(highest, peak + fewest // ratio) if ratio else highest
        while budget > peak:
            step = self._least_sum(model, budget, best - ratio * peak, max_sets)
            if step is None:
                break
            crossings = int(step[1][-1][2].min())
            least = step[0].least_peak_of_sum(step[1], budget) if ratio else budget
            value = ratio * least + crossings
            if value < best:
                found, best = [], value
            if value <= best:
                # Among the states of the budget are some that only larger stages than these reach.
                within = step[1] if least == budget else step[0].least_sum(least, crossings)
                if within is None:
                    raise RuntimeError("a proven sum is not attained")
                found.append(step[0].canonical_chain(within, least))
                self.known.keep(model.stage_of(found[-1].stage_of_node))
            budget = least - 1 if ratio else peak
        chosen = min(found, key=lambda chain: tuple(model.stage_of(chain.stage_of_node)))
        return replace(chosen, canonical=all(chain.canonical for chain in found))

    # -- without a proof ---------------------------------------------------------------------------------------------

    def _fall_back(self, model: Model) -> None:
        """Find a good schedule without a proof."""
        if self.known.stage_of is None:
            if model.plain and not model.timed:
                self._even_out_orders()
            else:
                self.known.try_orders()
        if self.loads is not None:
            self.known.lift(*self.loads)
        self.known.try_random_orders()

    def _even_out_orders(self) -> None:
        self.stop[0] = 0
        with self._deadline(max(GRACE_S, self.watch.left)):
            self.known.even_out_orders()

    def _infeasible(self, why: str) -> SolveResult:
        def is_impossible(constraints: Constraints) -> bool | None:
            left = self.watch.left
            if left == 0:
                return None
            rest = replace(self.problem, constraints=constraints, objective="peak-memory")
            return _is_impossible(rest, left)

        seconds = self.watch.seconds
        message = conflict_message(self.problem, is_impossible)
        return result_of(
            self.solver, self.problem, None, status="infeasible", solve_seconds=seconds, message=f"{message} ({why})"
        )


def _is_impossible(problem: Problem, time_limit_s: float) -> bool | None:
    """Tell whether a problem has no schedule; None where the limits do not allow to say."""
    search = _Search(ExactSolver(), problem, SolveOptions(time_limit_s=time_limit_s))
    try:
        model = build_model(problem)
        search.bound = first_bound(model)
        with search._deadline(search.watch.left):
            search._first_component(model, 500_000)
    except InfeasibleError:
        return True
    except LimitError:
        return False if search.known.stage_of is not None else None
    return False
