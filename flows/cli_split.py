"""What `respect split MODEL.tflite` does: from a model to a job folder of verified segments."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import typer

from flows.cli_schedule import Solving, check_request
from flows.options import EXIT_NO_SCHEDULE, EXIT_QUALITY, print_json, printable
from flows.split_schedule import SplitRequest, Step, host_ns, scheduled, way_out, why_none
from flows.split_text import print_split, split_facts
from hardware_runners.compiler import NOT_FOUND, Compiler, find_compiler
from respect_core.objective import evaluate
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.solve.protocol import Problem, SolveResult, result_row
from tasks.split import (
    Split,
    check_folder,
    check_splittable,
    cut,
    write_split,
)
from tasks.split_compile import compiled_by_other_cuts, compiling_folder


def split_model(request: SplitRequest, as_json: bool) -> None:
    """Split one model and print what came of it.

    Exits with 3 where there is no schedule, and with 4 where a segment does not compile; its folder is written still.
    """
    check_request(request.schedule)
    check_folder(request.out)
    with ending_cleanly(), telling(not as_json) as step:
        step("reading the model")
        model = open_model(request.schedule.model)
        check_splittable(model, request.options.any_runner)
        solving = Solving(request.schedule)
        problem, result, recommendation = scheduled(request, model.graph, solving, step)
        if result.stage_of is None:
            _no_schedule(request, problem, result, as_json)
        compiler = find_compiler() if request.compile else None
        step("cutting and verifying" if request.options.verify else "cutting")
        split, why = cut(model, problem, result, request.options), ""
        if compiler is None:
            write_split(split, request.out, request.options)
        else:
            split, why = _compiled(request, split, compiler, step)
    notes = [*_notes(request, split, compiler), *filter(None, [why])]
    if as_json:
        print_json(split_facts(split, request.out, compiler, recommendation, notes))
    else:
        print_split(split, request.out, recommendation, notes)
    if split.failed:
        raise typer.Exit(EXIT_QUALITY)


@contextmanager
def ending_cleanly() -> Iterator[None]:
    """Let a request to end (SIGTERM) unwind like an interrupt, so that temporary folders are removed."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def telling(enabled: bool) -> Iterator[Step]:
    """Show on a terminal what is being done, on stderr."""
    from rich.console import Console

    console = Console(stderr=True, markup=False, highlight=False)
    if not enabled or not console.is_terminal:
        yield lambda what: None
        return
    with console.status("starting") as status:
        yield lambda what: status.update(printable(what))


def _no_schedule(request: SplitRequest, problem: Problem, result: SolveResult, as_json: bool) -> None:
    """Say why there is no schedule and leave with 3."""
    why = why_none(problem, result)
    text = f"{problem.graph.name!r} has no schedule for {problem.num_stages} stages: {why}{way_out(request)}"
    if as_json:
        print_json({**result_row(problem, result), "message": text})
    typer.echo(f"error: {printable(text)}", err=True)
    raise typer.Exit(EXIT_NO_SCHEDULE)


def _compiled(request: SplitRequest, split: Split, compiler: Compiler, step: Step) -> tuple[Split, str]:
    """Compile the segments, try other cuts as often as the user allows, and write the folder."""

    def on_retry(failed: Split) -> None:
        for done in failed.failed:
            typer.echo(f"{printable(done.message)}; trying other cuts", err=True)

    with compiling_folder(request.out) as folder:
        step(f"compiling {split.problem.num_stages} segments")
        split, why = compiled_by_other_cuts(split, compiler, folder, request.options, request.retry_cuts, on_retry)
        write_split(split, request.out, request.options)
    return split, why


# -- notes ------------------------------------------------------------------------------------------------------------


def _notes(request: SplitRequest, split: Split, compiler: Compiler | None) -> list[str]:
    """Return what the user should know besides the numbers, one sentence each."""
    model, problem = split.model, split.problem
    notes = []
    if request.compile and compiler is None:
        notes.append(NOT_FOUND)
    notes += [done.message for done in split.compiled if done.message]
    notes += [
        f"tensor {name!r} has another name in the model, or none of its own: the segments call it {name!r}"
        for name in model.renamed.values()
    ]
    if not model.not_int8:
        notes += _unmapped(model)
    if split.pipeline_fault:
        notes.append(f"the Coral pipeline runner cannot run these segments: {split.pipeline_fault}")
    else:
        notes += [
            f"output {name!r} is {kind.lower()}: pycoral's pipeline runner returns bytes only, use another runner"
            for name, kind in _wide_outputs(model)
        ]
    notes += _slower_than_one(request, problem, split.result)
    return notes


def _unmapped(model: TfliteModel) -> Sequence[str]:
    from respect_core.sources.edgetpu_ops import first_unmapped

    found = first_unmapped(model.content)
    return () if found is None else (found.message,)


def _wide_outputs(model: TfliteModel) -> list[tuple[str, str]]:
    one_byte = {"INT8", "UINT8", "BOOL"}
    found = ((model.graph.tensor_names[g], model.tensor_types[g]) for g in model.outputs)
    return [(name, kind) for name, kind in found if kind not in one_byte]


def _slower_than_one(request: SplitRequest, problem: Problem, result: SolveResult) -> list[str]:
    """Warn where the pipeline is predicted to be no faster than one TPU alone."""
    if problem.num_stages == 1 or result.numbers is None:
        return []
    zeros = np.zeros(problem.graph.num_ops, dtype=np.int64)
    one = evaluate(problem.graph, zeros, 1, problem.profile).bottleneck_ns
    period = max(result.numbers.bottleneck_ns, host_ns(request, problem.num_stages))
    if period < one:
        return []
    return [
        f"one TPU alone is predicted to be as fast: {one / 1e6:.2f} ms an item against {period / 1e6:.2f} ms with "
        f"{problem.num_stages} stages, of which driving the stages from the host takes "
        f"{host_ns(request, problem.num_stages) / 1e6:.2f} ms"
    ]
