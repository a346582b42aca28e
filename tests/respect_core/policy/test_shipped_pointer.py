from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from respect_core.errors import BadInputError, InputFileError
from respect_core.policy.checkpoint import read_checkpoint, read_tensors, write_checkpoint, write_tensors
from respect_core.policy.config import PointerConfig
from respect_core.policy.decode import Factor, weight_shapes
from respect_core.policy.pretrain_pointer import SHIPPED, rounded
from respect_core.policy.solver import PointerSolver, pointer_path, pretrained_path
from respect_core.schedule import check_schedule
from respect_core.solve.comparison import open_solver
from respect_core.solve.exact import ExactSolver
from respect_core.solve.orders import OrderSolver, kahn_order
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.catalog import load_model
from respect_core.sources.synthetic import SyntheticSpec, generate_graph

CONFIG = PointerConfig(embed_size=3, hidden_size=4, slacks=(1.05,))


def weights():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in weight_shapes(CONFIG).items()}


def test_the_shipped_network_is_the_papers_in_half_the_bytes():
    checkpoint = read_checkpoint(pointer_path())
    assert checkpoint.config == SHIPPED
    assert (checkpoint.config.embed_size, checkpoint.config.hidden_size) == (256, 256)
    assert pointer_path().stat().st_size <= 2_700_000
    for name in ("encoder.weight_hh_l0", "decoder.weight_hh", "glimpse.query.weight", "pointer.query.weight"):
        assert Factor.of(checkpoint.weights[name]).matrix.dtype == np.int16, name


def test_it_is_what_the_solver_takes_without_a_file():
    solver = open_solver("pointer")
    assert solver.name == "pointer" and "come with the program" in solver.version
    assert read_checkpoint(pointer_path()).version in solver.version
    with pytest.raises(InputFileError, match="the solver needs 'pointer'"):
        PointerSolver.from_checkpoint(pretrained_path())


@pytest.mark.parametrize("name", ["Xception-notop", "ResNet50-notop", "DenseNet121"])
def test_its_schedules_of_known_models_are_legal_and_near_the_optimum(name):
    problem = Problem.of(load_model(name), 5, "peak-memory")
    found = PointerSolver.pretrained().solve(problem, SolveOptions())
    check_schedule(problem.graph, np.array(found.stage_of), 5)
    assert found.value[0] <= 1.1 * ExactSolver().solve(problem, SolveOptions()).value[0]


def test_it_learned_something_about_graphs_that_it_has_not_seen():
    mine, kahn = [], []
    for index in range(30):
        problem = Problem.of(
            generate_graph(SyntheticSpec(family="local", num_ops=30, seed=4711), index), 5, "peak-memory"
        )
        best = ExactSolver().solve(problem, SolveOptions()).value[0]
        for gaps, solver in ((mine, PointerSolver.pretrained()), (kahn, OrderSolver("order-kahn", kahn_order))):
            gaps.append(solver.solve(problem, SolveOptions()).value[0] / best - 1)
    assert np.mean(mine) < 0.6 * np.mean(kahn)


def test_a_schedule_by_it_needs_no_torch():
    code = (
        "import sys; from respect_core.policy.solver import PointerSolver; from respect_core.solve.protocol import *; "
        "from respect_core.sources.synthetic import *; "
        "graph = generate_graph(SyntheticSpec(family='local', num_ops=20), 0); "
        "found = PointerSolver.pretrained().solve(Problem.of(graph, 4), SolveOptions()); "
        "print(found.status, 'torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.split() == ["feasible", "False"]


def test_half_the_bytes_hold_what_float16_holds_and_nothing_else(tmp_path):
    file = tmp_path / "half.safetensors"
    with pytest.raises(BadInputError, match="holds numbers that are no float16"):
        write_checkpoint(file, CONFIG, weights(), {}, half=True)
    huge = weights() | {"start": np.full(3, 1e30, dtype=np.float32)}
    with pytest.raises(BadInputError, match="'start' holds numbers that are no float16"):
        write_checkpoint(file, CONFIG, rounded(weights()) | {"start": huge["start"]}, {}, half=True)
    assert not file.exists()
    some = rounded(weights())
    write_checkpoint(file, CONFIG, some, {}, half=True)
    assert all(array.dtype == np.float16 for array in read_tensors(file)[0].values())
    found = read_checkpoint(file)
    for name, weight in some.items():
        assert found.weights[name].dtype == np.float32 and np.array_equal(found.weights[name], weight)
        assert np.allclose(weight, weights()[name], rtol=1e-3, atol=1e-3 * np.abs(weight).max())


def test_half_a_nan_is_refused_too(tmp_path):
    file = tmp_path / "nan.safetensors"
    write_checkpoint(file, CONFIG, rounded(weights()), {}, half=True)
    tensors, header, _ = read_tensors(file)
    bad = {name: array.copy() for name, array in tensors.items()}
    bad["pointer.v"][1] = np.nan
    write_tensors(file, bad, header)
    with pytest.raises(InputFileError, match=r"pointer\.v.*not finite"):
        read_checkpoint(file)
