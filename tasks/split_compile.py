"""Compiling the segments of a split, with other cuts where one does not compile."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hardware_runners.compiler import CompiledSegment, CompileOptions, Compiler, compile_segments
from hardware_runners.errors import UnwritableJobError
from respect_core.solve.protocol import SolveResult, gap_of
from tasks.split import Split, SplitOptions, cut


@contextmanager
def compiling_folder(beside: Path) -> Iterator[Path]:
    """Give a folder for the compiler's files on the disk of a job folder; it is removed at the end.

    Raises:
        UnwritableJobError: It cannot be made.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{beside.name}.compiling-", dir=beside.absolute().parent))
    except OSError as error:
        raise UnwritableJobError(beside, f"it cannot be written ({error.strerror or error})") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compiled(
    split: Split, compiler: Compiler, folder: Path, options: CompileOptions, reuse: Sequence[CompiledSegment] = ()
) -> Split:
    """Compile every segment into a folder; one that fails is no exception.

    Args:
        split: The split.
        compiler: From `find_compiler`.
        folder: Takes the segments and the compiler's files.
        options: How to run the compiler.
        reuse: What became of other segments; one with the same content is taken over where it compiled.

    Raises:
        CompilerFailedError: The compiler cannot be run, or its output cannot be stored.
        UnwritableJobError: A segment cannot be written.
    """
    paths = [folder / segment.file_name for segment in split.segments]
    try:
        for path, segment in zip(paths, split.segments, strict=True):
            path.write_bytes(segment.content)
    except OSError as error:
        raise UnwritableJobError(folder, f"it cannot be written ({error.strerror or error})") from error
    done = compile_segments(paths, folder, compiler=compiler, options=options, reuse=reuse)
    return replace(split, compiled=done)


def compiled_by_other_cuts(
    split: Split,
    compiler: Compiler,
    folder: Path,
    options: SplitOptions,
    retries: int,
    on_retry: Callable[[Split], None] | None = None,
) -> tuple[Split, str]:
    """Compile every segment, and try other cuts where one fails and that may help.

    Args:
        split: The split.
        compiler: From `find_compiler`.
        folder: Takes the compiler's files, those of every try in a folder of its own.
        options: How the split was cut; other cuts are checked and verified likewise.
        retries: Most other cuts to try.
        on_retry: Called with a split before other cuts are tried instead of it.

    Returns:
        The first split of which the fewest segments fail, none where that was found, and why no more were tried, empty
        where none is needed.

    Raises:
        CompilerFailedError: As `compiled`.
        UnwritableJobError: As `compiled`.
        RespectError: As `cut`.
    """
    from respect_core.segments.retry import retry_cuts

    known: list[CompiledSegment] = []
    count = itertools.count()

    def compile_one(one: Split) -> Split:
        place = folder / f"try-{next(count)}"
        place.mkdir()
        done = compiled(one, compiler, place, CompileOptions(), known)
        known.extend(done.compiled)
        return done

    best = last = compile_one(split)
    if not best.failed or not retries or not all(done.other_cuts_help for done in best.failed):
        return best, ""

    def compile_schedule(stage_of: Sequence[int]) -> list[int]:
        nonlocal best, last
        if on_retry is not None:
            on_retry(last)
        last = compile_one(cut(split.model, split.problem, _other_result(split, stage_of), options))
        best = min(best, last, key=lambda one: len(one.failed))
        return _helped(last)

    outcome = retry_cuts(split.problem, split.result.stage_of or (), _helped(best), compile_schedule, retries)
    kept = f"; kept are the cuts of which the fewest segments fail, {len(best.failed)}" if best.failed else ""
    return best, outcome.message + kept


def _helped(split: Split) -> list[int]:
    """Return the stages that failed in a way that other cuts may help."""
    return [done.stage for done in split.failed if done.other_cuts_help]


def _other_result(split: Split, stage_of: Sequence[int]) -> SolveResult:
    """Return the result of other cuts: the bound of the problem holds for them too."""
    problem, found = split.problem, split.result
    numbers = problem.evaluate(stage_of)
    value = problem.value(numbers)
    return replace(
        found,
        solver="retry-cuts",
        version="1",
        status="feasible",
        stage_of=tuple(stage_of),
        numbers=numbers,
        value=value,
        gap=gap_of(value[0], found.lower_bound),
        canonical=False,
        message=f"the segments of solver {found.solver} do not compile",
    )
