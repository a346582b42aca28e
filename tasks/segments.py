"""Splits of built TFLite models, verified and recorded in the table `segments`: one task a model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from hardware_runners.compiler import CompileOptions, Compiler, find_compiler
from respect_core.device import load_profile
from respect_core.memory.order import MemoryOrderSolver
from respect_core.memory.stages import StageOrder
from respect_core.objective import Objective
from respect_core.segments.interpreter import runtime_version
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.rows import segment_rows
from respect_core.solve.comparison import open_solver
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult
from respect_core.solve.registry import get_solver
from respect_core.solve.warm_up import warm_up
from respect_core.sources.model_folder import BuiltModel, ModelFolder
from respect_core.sources.tflite import read_tflite
from respect_core.tables.domain_checks import segment_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.segments import COMPILED, NOT_RUN, SEGMENTS
from tasks.child import run_in_child
from tasks.home import Home
from tasks.models import build_models
from tasks.publishing import Checks, Published, publish_all, published
from tasks.split import PIPELINE, Split, SplitOptions, cut
from tasks.split_compile import compiled, compiling_folder

START_UP_S = 180.0


@dataclass(frozen=True, kw_only=True)
class SegmentSet:
    """Which models are split how, and the name under which the rows are published."""

    models: tuple[BuiltModel, ...]
    num_stages: tuple[int, ...]
    objective: Objective = "throughput"
    device: str = "usb3"
    solver: str = "auto"
    time_limit_s: float = 10.0
    """Deadline of one schedule."""
    num_items: int = 2
    """Random items that each split is verified on."""
    order: StageOrder = "memory"
    """How ops run inside each segment."""
    seed: int = 0
    """Of the items, and of solvers that draw."""
    compiler: str | None = None
    """Version of the compiler, None where there is none."""

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the rows."""
        return fingerprint(
            **asdict(self),
            solver_version=get_solver(self.solver).version,
            order_version=MemoryOrderSolver.version,
            profile=asdict(load_profile(self.device)),
            interpreter=runtime_version(),
            schema=SEGMENTS.version,
        )

    @property
    def partition(self) -> str:
        """Name of the partition in the table `segments`."""
        return f"set={self.objective}-{self.device}-m{len(self.models)}-s{self.seed}-{self.fingerprint[:8]}"


@task(task_run_name="build-models", cache_policy=NO_CACHE)
def build_model_files(home: Path, names: tuple[str, ...]) -> tuple[BuiltModel, ...]:
    """Build the TFLite models that are not in the home folder yet."""
    return tuple(result.model for result in build_models(Home(path=home).models, names))


def segments_published(home: Home, segments: SegmentSet) -> Published | None:
    """Return the published partition of `segments`, if there is one."""
    return published(home, SEGMENTS, segments.partition)


@task(task_run_name="split-{model}", cache_policy=NO_CACHE, retries=1)
def split_shard(home: Path, segments: SegmentSet, model: str) -> bool:
    """Split one model for every K, verify, compile and stage; return False where an interrupted run had done so."""
    at = Home(path=home)
    shard = [built.name for built in segments.models].index(model)
    staging = at.dataset(SEGMENTS).stage(segments.partition, segments.fingerprint)
    if staging.finished(shard):
        return False
    path = ModelFolder(at.models).file(model)
    compiler = find_compiler() if segments.compiler else None
    limit_s = START_UP_S + 2 * len(segments.num_stages) * segments.time_limit_s
    results = run_in_child(limit_s, schedules_of, path, segments)
    whole = open_model(path)
    rows = []
    for num_stages, result in zip(segments.num_stages, results, strict=True):
        rows += split_rows(whole, result, problem_of(whole, num_stages, segments), segments, compiler)
    for row in rows:
        if row["compiler_status"] not in (NOT_RUN, COMPILED):
            get_run_logger().warning("%s for K = %d: %s", model, row["num_stages"], row["message"])
    staging.write(shard, SEGMENTS.table(rows))
    return True


def schedules_of(path: Path, segments: SegmentSet) -> list[SolveResult]:
    """Return a schedule of a model for each K, such as pycoral's pipeline needs."""
    model, solver = open_model(path), open_solver(segments.solver)
    options = SolveOptions(time_limit_s=segments.time_limit_s, seed=segments.seed)
    results = []
    for num_stages in segments.num_stages:
        problem = problem_of(model, num_stages, segments)
        warm_up(solver, problem)
        results.append(solver.solve(problem, options))
    return results


def split_rows(
    model: TfliteModel, result: SolveResult, problem: Problem, segments: SegmentSet, compiler: Compiler | None
) -> list[dict[str, Any]]:
    """Cut a model by a schedule, verify and compile the segments; return rows of `segments`."""
    options = SplitOptions(num_items=segments.num_items, seed=segments.seed, order=segments.order)
    split = cut(model, problem, result, options)
    if compiler is not None:
        with compiling_folder(model.path) as folder:
            return _rows(compiled(split, compiler, folder, CompileOptions()), compiler)
    return _rows(split, None)


@task(task_run_name="publish-segments", cache_policy=NO_CACHE)
def publish_segments(home: Path, segments: SegmentSet) -> Published:
    """Check the staged rows against their models and publish them."""
    at = Home(path=home)
    folder = ModelFolder(at.models)
    graphs = {model.name: read_tflite(folder.file(model.name)) for model in segments.models}
    checks: Checks = {SEGMENTS.name: lambda tables: segment_checks(tables[SEGMENTS.name], graphs)}
    return publish_all(at, (SEGMENTS,), segments.partition, segments.fingerprint, asdict(segments), checks)[0]


def problem_of(model: TfliteModel, num_stages: int, segments: SegmentSet) -> Problem:
    """Return what is solved for a model of a set."""
    return Problem.of(model.graph, num_stages, segments.objective, device=segments.device, constraints=PIPELINE)


def _rows(split: Split, compiler: Compiler | None) -> list[dict[str, Any]]:
    return segment_rows(
        split.model,
        split.segments,
        objective=split.problem.objective,
        device=split.problem.profile.name,
        solver=split.result.solver,
        fits_pycoral=split.pipeline_fault is None,
        kernel_mode=split.verification.kernels if split.verification else None,
        compiler=[done.columns(compiler.version) for done in split.compiled] if compiler else (),
        peak_activation_bytes=split.memory.peak_bytes,
        order_method=split.memory.method,
    )
