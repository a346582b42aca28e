"""Solving times are the solver's alone: whatever has to be compiled or loaded is so before the clock starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from respect_core.constraints import Constraints
from respect_core.objective import Objective
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of
from respect_core.solve.warm_up import NO_LIMIT_S, warm_up
from tests.graph_examples import small_network_graph

CODE = """
import sys
from respect_core.constraints import Constraints
from respect_core.solve.exact import ExactSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.solve.warm_up import warm_up
from tests.graph_examples import small_network_graph

def loaded():
    return {
        (value.py_func.__module__, value.py_func.__name__, str(signature))
        for name, module in list(sys.modules.items())
        if name.startswith("respect_core")
        for value in vars(module).values()
        if type(value).__name__ == "CPUDispatcher"
        for signature in value.signatures
    }

objective, is_pipeline = sys.argv[1], sys.argv[2] == "pipeline"
constraints = Constraints(outputs_last=is_pipeline, inputs_first=is_pipeline)
graph = small_network_graph()
solver = ExactSolver()
problems = [Problem.of(graph, k, objective, constraints=constraints) for k in (2, 3, 5)]
warm_up(solver, problems[0])
before = loaded()
for problem in problems:
    for seconds in (60.0, 0.0):
        assert solver.solve(problem, SolveOptions(time_limit_s=seconds)).stage_of is not None
print(len(before), sorted(loaded() - before))
"""


@pytest.mark.parametrize(
    ("objective", "constraints"),
    [("throughput", "pipeline"), ("throughput", "none"), ("peak-memory", "pipeline"), ("weighted", "none")],
)
def test_nothing_is_loaded_while_the_clock_runs(objective: str, constraints: str) -> None:
    args = [sys.executable, "-c", CODE, objective, constraints]
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, _, missing = done.stdout.strip().partition(" ")
    assert int(count) > 0 and missing == "[]"


class Noting:
    """A solver that notes how long it may take."""

    name = "exact"
    version = "1"

    def __init__(self) -> None:
        self.limits: list[float] = []
        self.num_ops: list[int] = []

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        self.limits.append(options.time_limit_s)
        self.num_ops.append(problem.graph.num_ops)
        stage_of = [min(v, problem.num_stages - 1) for v in range(problem.graph.num_ops)]
        return result_of(self, problem, stage_of, status="feasible", solve_seconds=Stopwatch(1.0).seconds)


@pytest.mark.parametrize("objective", ["throughput", "peak-memory", "weighted"])
def test_no_deadline_stops_what_compiles(objective: Objective) -> None:
    solver = Noting()
    constraints = Constraints(outputs_last=True)
    warm_up(solver, Problem.of(small_network_graph(), 3, objective, constraints=constraints))
    assert solver.limits == [NO_LIMIT_S] and solver.num_ops == [4]
