"""Splits: a model and its schedule become verified segments, compiled where a compiler is at hand, in a job folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hardware_runners.compiler import CompiledSegment
from hardware_runners.errors import JobExistsError, UnwritableJobError
from hardware_runners.job import Content, Job, JobSegment, TensorSpec, is_vacant, write_job
from hardware_runners.jobs.format import GRAPH_FILE, REFERENCE_FILE, SCHEDULE_FILE
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.jobs.reference import pack_reference
from hardware_runners.simulated import profile_constants
from respect_core.constraints import Constraints
from respect_core.errors import InputFileError, ModelCannotRunError, SolverFailedError
from respect_core.memory.stages import StageMemory, StageOrder, stage_memory
from respect_core.segments.dataflow import check_dataflow, first_dataflow_fault
from respect_core.segments.interpreter import Array, tensor_specs
from respect_core.segments.items import joined, load_items, random_items
from respect_core.segments.model_file import TfliteModel
from respect_core.segments.slice import Segment, slice_model
from respect_core.segments.verify import (
    ChainPart,
    Verification,
    WholeModel,
    chain_parts,
    verify_segments,
    whole_model,
)
from respect_core.solve.protocol import Problem, SolveResult, result_row
from respect_core.sources.graph_json import graph_to_json
from tasks.child import LONGEST_S, run_in_child, run_in_kept_child

PIPELINE: Final = Constraints(outputs_last=True, inputs_first=True)
"""What the Coral pipeline runner needs of a schedule."""

REFERENCE_ITEMS: Final = 4
"""Most items that a job folder keeps as its reference."""

RUN_BYTES: Final = 8 * 2**30
"""Memory that the process which verifies may take: a damaged model may ask for anything."""

TENSOR_BYTES: Final = 2 * 2**30
"""Most bytes that all tensors of a model that is run may have together: each is kept, to be compared."""

ITEM_BYTES: Final = 2**28
"""Most bytes that all items may have together."""

_START_S: Final = 120.0
"""How long loading everything may take."""

_SLOWEST_MACS_A_SECOND: Final = 1e8
"""A computer that is slower than this is taken to hang."""


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """What to do besides cutting."""

    any_runner: bool = False
    """Allow segments that pycoral's pipeline cannot run, and models that do not compile."""
    verify: bool = True
    num_items: int = 3
    """Random items to verify on, at least 1."""
    input_file: Path | None = None
    """File of further items to verify on."""
    seed: int = 0
    """Of the random items."""
    order: StageOrder = "file"
    """How ops run inside each segment."""
    plan: TimingPlan = field(default_factory=TimingPlan)
    """How often runners are to run the job."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """A model cut by a schedule."""

    model: TfliteModel
    problem: Problem
    result: SolveResult
    segments: tuple[Segment, ...]
    memory: StageMemory
    """The order of the ops inside the segments, and the activation memory that each needs."""
    pipeline_fault: str | None
    """What keeps pycoral's pipeline from running the segments, None where nothing does."""
    items: tuple[Array, ...] = ()
    """What the model was verified on: one array an input, the first axis counts the items; none if it was not."""
    verification: Verification | None = None
    compiled: tuple[CompiledSegment, ...] = ()
    """What became of every segment in the compiler, none without one."""

    @property
    def failed(self) -> tuple[CompiledSegment, ...]:
        """Segments that did not compile."""
        return tuple(done for done in self.compiled if not done.ok)


def check_folder(folder: Path) -> None:
    """Refuse a folder that a job cannot be written to, before any work is done.

    Raises:
        JobExistsError: Something is there already.
        UnwritableJobError: Its parent folder does not exist, or it cannot be looked into.
    """
    try:
        vacant = is_vacant(folder)
    except OSError as error:
        raise UnwritableJobError(folder, f"it cannot be read ({error.strerror or error})") from error
    if not vacant:
        raise JobExistsError(folder, "it exists and is not empty: choose another folder or remove it")
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise UnwritableJobError(folder, f"{parent} {'is no folder' if parent.exists() else 'does not exist'}")


def check_splittable(model: TfliteModel, any_runner: bool) -> None:
    """Refuse a model that the Edge TPU's compiler would refuse, unless any runner will do.

    Raises:
        InputFileError: It is not fully int8; the first op and tensor that are not are named.
    """
    if model.not_int8 and not any_runner:
        raise InputFileError(
            model.path,
            f"{model.not_int8}: the Edge TPU needs a model that is int8 throughout (full integer quantisation); "
            "--any-runner splits it for runners on the CPU",
        )


def cut(model: TfliteModel, problem: Problem, result: SolveResult, options: SplitOptions) -> Split:
    """Cut a model by a schedule, check the dataflow and verify the segments.

    Args:
        model: The model, whose graph is the problem's.
        problem: What was solved.
        result: A result with a schedule.
        options: What to check.

    Returns:
        The split, verified unless the options say otherwise.

    Raises:
        InvalidScheduleError: The dataflow is not what pycoral's pipeline needs, and only that will do.
        VerificationError: The segments do not compute what the model computes.
        ModelCannotRunError: The interpreter cannot run the model.
        InputFileError: The file of items does not fit the model, or the model cannot be written.
    """
    if result.stage_of is None:
        raise SolverFailedError(f"there is no schedule to cut {model.name!r} by ({result.message or result.status})")
    memory = run_in_kept_child(LONGEST_S, stage_memory, model.graph, result.stage_of, problem.num_stages, options.order)
    segments = tuple(slice_model(model, result.stage_of, problem.num_stages, op_order=memory.order))
    names = segments, model.input_names, model.output_names
    if not options.any_runner:
        check_dataflow(*names)
    split = Split(
        model=model,
        problem=problem,
        result=result,
        segments=segments,
        memory=memory,
        pipeline_fault=first_dataflow_fault(*names),
    )
    return _verified(split, options) if options.verify else split


def _verified(split: Split, options: SplitOptions) -> Split:
    """Verify in a process of its own: a model may bring down the interpreter, which is compiled code."""
    whole = whole_model(split.model)
    _check_size(split.model, options.num_items)
    items = random_items(whole.inputs, options.num_items, options.seed)
    if options.input_file is not None:
        items = joined(load_items(options.input_file, whole.inputs), items)
    parts = chain_parts(split.model, split.segments)
    runs = 2 * (2 if whole.is_stateful else 1) * (len(items[0]) if items else 1)
    limit_s = _START_S + runs * float(split.model.graph.macs.sum()) / _SLOWEST_MACS_A_SECOND
    try:
        verification = run_in_child(limit_s, verify_bounded, RUN_BYTES, whole, parts, items)
    except SolverFailedError as error:
        raise ModelCannotRunError(
            f"{split.model.path}: the LiteRT interpreter did not survive the model ({error}); --no-verify leaves "
            "verification out"
        ) from error
    return replace(split, items=items, verification=verification)


def _check_size(model: TfliteModel, num_items: int) -> None:
    """Refuse to run what would take too much memory; a damaged file may claim shapes of any size."""
    graph = model.graph
    total = sum(graph.tensor_bytes.tolist())
    given = num_items * sum(int(graph.tensor_bytes[g]) for g in model.inputs)
    if total <= TENSOR_BYTES and given <= ITEM_BYTES:
        return
    largest = int(graph.tensor_bytes.argmax())
    raise ModelCannotRunError(
        f"{model.path}: its tensors have {total} bytes together and {num_items} items {given}, at most {TENSOR_BYTES} "
        f"and {ITEM_BYTES} are run; the largest tensor is {graph.tensor_names[largest]!r} with "
        f"{graph.tensor_bytes[largest]} bytes; --no-verify leaves verification out"
    )


def verify_bounded(
    run_bytes: int, whole: WholeModel, parts: Sequence[ChainPart], items: Sequence[Array]
) -> Verification:
    """Verify in this process, whose data may take no more than ``run_bytes`` from now on.

    Raises:
        RespectError: As `verify_segments`; without memory the process may end.
    """
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(
        resource.RLIMIT_DATA, (run_bytes if hard == resource.RLIM_INFINITY else min(run_bytes, hard), hard)
    )
    return verify_segments(whole, parts, items)


# -- the folder -------------------------------------------------------------------------------------------------------


def write_split(split: Split, folder: Path, options: SplitOptions, schedule: Mapping[str, Any] | None = None) -> Job:
    """Write the job folder of a split, whole or not at all.

    It holds the segments, what the compiler made of them and its logs, the uncut model, `graph.json`, `schedule.json`
    (the keys of ``respect schedule --json``), `job.json` and, after verification, the reference items.

    Args:
        split: The split.
        folder: Where to.
        options: How it was cut.
        schedule: Content of `schedule.json`; without it, `result_row`.

    Raises:
        JobExistsError: The folder exists with other content; it is left untouched.
        UnwritableJobError: It cannot be written.
        InvalidJobError: A name of the model cannot be part of a job.
    """
    model, problem = split.model, split.problem
    whole_name = f"{model.name}.tflite"
    files: dict[str, Content] = {segment.file_name: segment.content for segment in split.segments}
    files[whole_name] = model.data
    files[GRAPH_FILE] = graph_to_json(model.graph).encode()
    row = result_row(problem, split.result) if schedule is None else dict(schedule)
    files[SCHEDULE_FILE] = (json.dumps(row, allow_nan=False) + "\n").encode()
    for done in split.compiled:
        files[done.log.name] = done.log
        if done.output is not None:
            files[done.output.name] = done.output
    reference = _reference(split)
    if reference is not None:
        files[REFERENCE_FILE] = reference
    return write_job(
        folder,
        model=model.name,
        num_stages=problem.num_stages,
        objective=problem.objective,
        solver=split.result.solver,
        stage_of=split.result.stage_of or (),
        profile=profile_constants(problem.profile),
        files=files,
        suits_pipeline=split.pipeline_fault is None,
        plan=options.plan,
        whole=_job_segment(model, whole_name, None, model.input_names, model.output_names),
        segments=_job_segments(split),
        reference=None if reference is None else REFERENCE_FILE,
    )


def _job_segments(split: Split) -> list[JobSegment]:
    outputs = {done.stage: done.output.name for done in split.compiled if done.output is not None}
    return [_job_segment(split.model, s.file_name, outputs.get(s.stage), s.inputs, s.outputs) for s in split.segments]


def _job_segment(
    model: TfliteModel, file: str, compiled_file: str | None, inputs: Sequence[str], outputs: Sequence[str]
) -> JobSegment:
    specs = tensor_specs(model)
    return JobSegment(
        file=file,
        compiled=compiled_file,
        inputs=tuple(TensorSpec(**asdict(specs[name])) for name in inputs),
        outputs=tuple(TensorSpec(**asdict(specs[name])) for name in outputs),
    )


def _reference(split: Split) -> bytes | None:
    """Return the reference items, None without verification or where the outputs' size is known only after a run."""
    if split.verification is None:
        return None
    specs = tensor_specs(split.model)
    outputs = split.verification.outputs
    for name, values in zip(split.model.output_names, outputs, strict=True):
        if values.shape[1:] != specs[name].shape:
            return None
    return pack_reference([a[:REFERENCE_ITEMS] for a in split.items], [a[:REFERENCE_ITEMS] for a in outputs])
