from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings

from respect_core.errors import BadInputError, InvalidScheduleError
from respect_core.policy.checkpoint import write_checkpoint
from respect_core.policy.config import PointerConfig
from respect_core.policy.evaluate import EvaluationCase, evaluation_digest, score_solver
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.solver import PolicySolver
from respect_core.policy.training_state import weights_of
from respect_core.schedule import first_violation
from respect_core.solve.protocol import Problem, SolveOptions, Solver
from tests.oracles import brute_force
from tests.strategies import problems
from tests.training_examples import labelled


@pytest.fixture(scope="module", params=[(), (1.0, 1.2)], ids=["paper", "budgeted"])
def policy(request, tmp_path_factory):
    config = PointerConfig(embed_size=6, hidden_size=6, slacks=request.param)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = PointerNetwork(config)
    path = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    write_checkpoint(path, config, weights_of(network), {})
    return path


@given(problem=problems(max_ops=6))
@settings(max_examples=60)
def test_every_schedule_is_legal_under_all_objectives_and_constraints(policy, problem):
    solver = PolicySolver.from_checkpoint(policy)
    found = solver.solve(problem, SolveOptions())
    assert found.solver == "policy" and found.version == solver.version
    if found.stage_of is None:
        assert found.status == "timeout" and "contiguous split" in found.message
        return
    assert found.status == "feasible" and not found.canonical
    assert first_violation(problem.graph, found.stage_of, problem.num_stages, problem.constraints) is None
    best = brute_force(problem)
    assert best is not None and found.value >= best.value


def test_it_is_a_solver(policy):
    assert isinstance(PolicySolver.from_checkpoint(policy), Solver)


def test_one_op_is_scheduled(policy):
    graph = labelled(8, 1)[0].graph
    single = replace(
        graph,
        op_names=graph.op_names[:1],
        op_kinds=graph.op_kinds[:1],
        param_bytes=graph.param_bytes[:1],
        macs=graph.macs[:1],
        compiled_bytes=graph.compiled_bytes[:1],
        always_streamed_bytes=graph.always_streamed_bytes[:1],
        op_time_us=graph.op_time_us[:1],
        tensor_names=(),
        tensor_bytes=graph.tensor_bytes[:0],
        tensor_producer=graph.tensor_producer[:0],
        tensor_consumers=(),
        tensor_is_output=graph.tensor_is_output[:0],
    )
    found = PolicySolver.from_checkpoint(policy).solve(Problem.of(single, 1), SolveOptions())
    assert found.stage_of == (0,)


def test_scheduling_needs_no_torch_and_no_platform(policy):
    code = (
        "import sys; from respect_core.policy.solver import PolicySolver; "
        f"PolicySolver.from_checkpoint({str(policy)!r}); "
        "print([m for m in ('torch', 'mlflow', 'prefect', 'ortools', 'networkx', 'pandas') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def cases(count=3):
    return [
        EvaluationCase(problem=Problem.of(e.graph, e.num_stages), optimal_peak_bytes=e.optimal_peak_bytes)
        for e in labelled(10, count)
    ]


def test_a_score_is_the_mean_gap_over_the_cases(policy):
    solver = PolicySolver.from_checkpoint(policy)
    score = score_solver(solver, cases())
    gaps = [
        solver.solve(c.problem, SolveOptions()).numbers.peak_param_bytes / c.optimal_peak_bytes - 1 for c in cases()
    ]
    assert score.mean_gap == pytest.approx(math.fsum(gaps) / 3)
    assert (score.illegal, score.cases) == (0, 3)


def test_what_is_illegal_is_counted(policy):
    honest = PolicySolver.from_checkpoint(policy)

    class Sloppy:
        name, version = "sloppy", "1"

        def solve(self, problem, options):
            if problem.graph.name == cases()[1].problem.graph.name:
                raise InvalidScheduleError("op 'a' is nowhere")
            return honest.solve(problem, options)

    score = score_solver(Sloppy(), cases())
    assert score.illegal == 1 and math.isfinite(score.mean_gap)


def test_an_optimum_that_is_none_is_named(policy):
    wrong = [EvaluationCase(problem=c.problem, optimal_peak_bytes=c.optimal_peak_bytes * 10) for c in cases()]
    with pytest.raises(BadInputError, match="is not its optimal peak"):
        score_solver(PolicySolver.from_checkpoint(policy), wrong)
    with pytest.raises(BadInputError, match="at least 0"):
        EvaluationCase(problem=cases()[0].problem, optimal_peak_bytes=-1)
    with pytest.raises(BadInputError, match="empty"):
        score_solver(PolicySolver.from_checkpoint(policy), [])


def test_the_digest_is_of_the_set(policy):
    assert evaluation_digest(cases()) == evaluation_digest(cases())
    assert evaluation_digest(cases()) != evaluation_digest(cases()[:2])
