"""What `respect split MODEL.tflite` does: from a model to a job folder of verified segments."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer

from flows.cli_schedule import check_request
from flows.options import EXIT_NO_SCHEDULE, EXIT_QUALITY, print_json, printable
from flows.split_schedule import SplitRequest, Step, host_ns, schedule_row, scheduled, way_out, why_none
from flows.split_text import print_split, split_facts
from hardware_runners.compiler import NOT_FOUND, Compiler, find_compiler
from respect_core.errors import InputFileError
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
        model = _opened(request.schedule.model)
        check_splittable(model, request.options.any_runner)
        problem, result, recommendation = scheduled(request, model.graph, step)
        if result.stage_of is None:
            _no_schedule(request, problem, result, as_json)
        compiler = find_compiler() if request.compile else None
        step("cutting and verifying" if request.options.verify else "cutting")
        split, why = cut(model, problem, result, request.options), ""
        if compiler is None:
            row = _written(request, split)
        else:
            split, row, why = _compiled(request, split, compiler, step)
    notes = [*_notes(request, split, row, compiler), *filter(None, [why])]
    if as_json:
        print_json(split_facts(split, row, request.out, compiler, recommendation, notes))
    else:
        print_split(split, request.out, recommendation, notes)
    if split.failed:
        raise typer.Exit(EXIT_QUALITY)


def _opened(name: str) -> TfliteModel:
    """Read the model, or say that only a TFLite file holds what segments are made of."""
    path = Path(name)
    try:
        return open_model(path)
    except InputFileError as error:
        if path.suffix.lower() == ".json":
            why = "a graph in JSON has no weights: `respect schedule` and `respect view` take it"
        elif not path.suffix and not path.exists():
            why = "known models have files once `respect models build` made them"
        else:
            raise
        raise InputFileError(path, f"segments are cut from a TFLite file ({why})") from error


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

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
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


def _written(request: SplitRequest, split: Split) -> dict[str, Any]:
    """Write the folder and return the content of its `schedule.json`."""
    row = schedule_row(request, split.problem, split.result)
    write_split(split, request.out, request.options, row)
    return row


def _compiled(request: SplitRequest, split: Split, compiler: Compiler, step: Step) -> tuple[Split, dict[str, Any], str]:
    """Compile the segments, try other cuts as often as the user allows, and write the folder."""

    def on_retry(failed: Split) -> None:
        for done in failed.failed:
            typer.echo(f"{printable(done.message)}; trying other cuts", err=True)

    with compiling_folder(request.out) as folder:
        step(f"compiling {split.problem.num_stages} segments")
        split, why = compiled_by_other_cuts(split, compiler, folder, request.options, request.retry_cuts, on_retry)
        return split, _written(request, split), why


# -- notes ------------------------------------------------------------------------------------------------------------


def _notes(request: SplitRequest, split: Split, row: dict[str, Any], compiler: Compiler | None) -> list[str]:
    """Return what the user should know besides the numbers, one sentence each."""
    model, problem = split.model, split.problem
    notes = []
    if request.compile and compiler is None:
        notes.append(NOT_FOUND)
    notes += [done.message for done in split.compiled if done.message]
    notes += _renamed(model)
    if not model.not_int8:
        notes += _unmapped(model)
    if split.pipeline_fault:
        notes.append(f"the Coral pipeline runner cannot run these segments: {split.pipeline_fault}")
    else:
        notes += _wide_outputs(model)
    notes += _slower_than_one(request, problem, split.result) or filter(None, [row.get("advice")])
    return notes


def _renamed(model: TfliteModel) -> list[str]:
    """Say that tensors are not called as in the model, and name the first: there may be hundreds."""
    names = list(model.renamed.values())
    if not names:
        return []
    rest = f" (and {len(names) - 1} more like it)" if len(names) > 1 else ""
    return [f"tensor {names[0]!r} has another name in the model, or none of its own; the segments call it so{rest}"]


def _unmapped(model: TfliteModel) -> Sequence[str]:
    from respect_core.sources.edgetpu_ops import first_unmapped

    found = first_unmapped(model.content)
    return () if found is None else (found.message,)


def _wide_outputs(model: TfliteModel) -> list[str]:
    """Warn of outputs that the Coral pipeline runner cannot hand out, and name the first."""
    wide = [g for g in model.outputs if model.tensor_types[g] not in ("INT8", "UINT8", "BOOL")]
    if not wide:
        return []
    rest = f" (and {len(wide) - 1} more output{'s' * (len(wide) > 2)})" if len(wide) > 1 else ""
    return [
        f"output {model.graph.tensor_names[wide[0]]!r} is {model.tensor_types[wide[0]].lower()}{rest}: pycoral's "
        "pipeline runner fails on outputs wider than a byte an element, use another runner"
    ]


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
