"""The local search looks at the clock often enough: tested by a clock that moves only when work is done."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from respect_core.constraints import Constraints
from respect_core.solve.local_search_run import ROUND_S, LocalSearch, Starts
from respect_core.solve.protocol import Problem, Stopwatch
from respect_core.solve.split import Splitter
from respect_core.sources.synthetic import SyntheticSpec, generate_graph

SPARE_S = 1e-9


class WorkClock(Stopwatch):
    """A clock by which every start and every cut takes as long as it is told to."""

    def __init__(self, limit_s: float, *, start_s: float, cut_s: float) -> None:
        super().__init__(limit_s)
        self.now, self.start_s, self.cut_s, self.rounds = 0.0, start_s, cut_s, []

    @property
    def seconds(self) -> float:
        return self.now

    def work_on(self, patch: pytest.MonkeyPatch) -> None:
        make, split = LocalSearch._make, Splitter.split

        def slow_make(search, how, starts, count, **more):
            # The bound is out of reach, so that every start is really made.
            search.bound, before = 1, search.starts_made
            make(search, how, starts, count, **more)
            self.now += self.start_s * (search.starts_made - before)
            self.rounds.append(search.starts_made - before)

        def slow_split(splitter, order):
            self.now += self.cut_s
            return split(splitter, order)

        patch.setattr(LocalSearch, "_make", slow_make)
        patch.setattr(Splitter, "split", slow_split)


def timed_problem(num_ops=12, **more):
    graph = generate_graph(SyntheticSpec(family="local", num_ops=num_ops, seed=3), 0)
    return Problem.of(graph, 3, "throughput", **more)


@given(
    st.floats(0.0, 2.0),
    st.floats(1e-4, 0.3),
    st.floats(0.0, 0.2),
    st.builds(
        Starts,
        fit=st.integers(1, 3000),
        random=st.integers(0, 3000),
        simple=st.booleans(),
    ),
)
@settings(max_examples=40, deadline=None)
def test_the_search_ends_at_the_time_limit_but_for_a_start_and_a_cut(limit_s, start_s, cut_s, starts):
    clock = WorkClock(limit_s, start_s=start_s, cut_s=cut_s)
    with pytest.MonkeyPatch.context() as patch:
        clock.work_on(patch)
        assert LocalSearch(timed_problem(), 0).run(starts, clock) is not None
    first = 2 * start_s  # before anything is known of how long a start takes
    assert clock.now <= max(limit_s + start_s, first) + cut_s + SPARE_S
    assert max(clock.rounds) * start_s <= max(ROUND_S, first) + SPARE_S


@given(st.floats(1e-4, 0.3))
@settings(max_examples=20, deadline=None)
def test_the_schedule_does_not_depend_on_how_long_a_start_takes(start_s):
    """Where the time suffices, for `throughput`, of whose starts every other one is another kind."""
    found = []
    for seconds in (start_s, 1e-3):
        clock = WorkClock(1e9, start_s=seconds, cut_s=0.0)
        with pytest.MonkeyPatch.context() as patch:
            clock.work_on(patch)
            found.append(LocalSearch(timed_problem(), 0).run(Starts(fit=7, random=9), clock).tolist())
    assert found[0] == found[1]


@given(st.floats(0.0, 1.0), st.floats(0.01, 0.3))
@settings(max_examples=20, deadline=None)
def test_constrained_starts_look_at_the_clock_one_by_one(limit_s, cut_s):
    problem = timed_problem(constraints=Constraints(outputs_last=True))
    clock = WorkClock(limit_s, start_s=0.0, cut_s=cut_s)
    with pytest.MonkeyPatch.context() as patch:
        clock.work_on(patch)
        search = LocalSearch(problem, 0)
        found = search.run(Starts(random=200), clock)
    assert found is not None or search.starts_made >= 3
    if found is not None:
        assert clock.now <= limit_s + cut_s + SPARE_S or search.starts_made <= 3


def test_in_large_graphs_the_last_cuts_are_left_out_where_there_is_no_time_for_them():
    for limit_s, cuts in ((0.001, 0), (1e9, 4)):
        clock = WorkClock(limit_s, start_s=0.001, cut_s=1.0)
        with pytest.MonkeyPatch.context() as patch:
            clock.work_on(patch)
            assert LocalSearch(timed_problem(2100), 0).run(Starts(fit=2), clock) is not None
        assert clock.now - 0.001 * sum(clock.rounds) == pytest.approx(cuts)
