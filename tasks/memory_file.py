"""Files in another order of ops: written, run beside the model, and put in place only if they compute the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from respect_core.errors import InputFileError, ModelCannotRunError, SolverFailedError
from respect_core.memory.file_check import TOLERANCE, FileCheck, check_file
from respect_core.memory.peak import memory_profile
from respect_core.memory.rewrite_facts import NOT_BIT_EQUAL, is_quantised
from respect_core.memory.rewrite_file import write_rewritten
from respect_core.memory.rules import CONCATENATIONS
from respect_core.memory.study import OrderStudy
from respect_core.segments.interpreter import tensor_specs
from respect_core.segments.items import random_items
from respect_core.segments.model_file import TfliteModel
from respect_core.segments.slice import reorder_model
from respect_core.sources.tflite import content_of
from respect_core.tables.files import write_atomically
from tasks.child import run_in_child

VERIFY_LIMIT_S: Final = 3600.0
"""How long the two files may run before they are stopped."""


@dataclass(frozen=True, kw_only=True)
class OrderedFile:
    """A file that was written."""

    path: Path
    num_bytes: int
    check: FileCheck | None
    """None where nothing was run."""


def check_rewritable(model: TfliteModel) -> None:
    """Refuse to rewrite the file of a quantised model.

    Raises:
        InputFileError: All its concatenations join quantised tensors; the first is named.
    """
    if is_quantised(model):
        kinds, names = model.graph.op_kinds, model.graph.op_names
        name = next(name for name, kind in zip(names, kinds, strict=True) if kind in CONCATENATIONS)
        raise InputFileError(
            model.path,
            f"op {name!r} does not join FLOAT32 tensors; {NOT_BIT_EQUAL}. Leave out --out for the costs alone, or "
            "--rewrite for a reordered file",
        )


def write_ordered(
    model: TfliteModel, study: OrderStudy, out: Path, *, verify: bool = True, num_items: int = 3, seed: int = 0
) -> OrderedFile:
    """Write the file of a model in the order of a study of it, rewritten if the study has rewritten it.

    Args:
        model: The model.
        study: Of its whole graph; a rewritten one must add partial results up by ops.
        out: The file to write, which is replaced if it exists.
        verify: Run both files: a reordered one must be bit-identical, a rewritten one within `TOLERANCE`.
        num_items: Random items to run.
        seed: Of the items.

    Raises:
        VerificationError: The new file computes something else; nothing is written.
        ModelCannotRunError: The interpreter cannot run the model.
        UnwritableError: The file cannot be written.
        InputFileError: The model holds something that cannot be written.
    """
    rewritten = study.rewriting.rewritten if study.rewriting is not None else None
    if rewritten is None:
        content = reorder_model(model, study.result.order)
    else:
        content = write_rewritten(model, rewritten, study.result.order)
    peak = memory_profile(content_of(out, content).graph, None, study.result.rules).peak_bytes
    if peak != study.result.peak_bytes:
        raise SolverFailedError(f"the file of {model.path} needs {peak} bytes, {study.result.peak_bytes} were found")
    check = None
    if verify:
        specs = tensor_specs(model)
        items = random_items([specs[name] for name in model.input_names], num_items, seed)
        tolerance = TOLERANCE if rewritten is not None else 0.0
        try:
            check = run_in_child(VERIFY_LIMIT_S, check_file, model.path, content, model.output_names, items, tolerance)
        except SolverFailedError as error:
            raise ModelCannotRunError(
                f"{model.path}: the LiteRT interpreter did not survive the model ({error}); --no-verify leaves "
                "verification out"
            ) from error
    write_atomically(out, lambda temporary: temporary.write_bytes(content))
    return OrderedFile(path=out, num_bytes=len(content), check=check)
