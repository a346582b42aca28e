"""Compiles the segments of a pipeline with `edgetpu_compiler`: each on its own, in parallel, and checked.

The compiler's own splitting (`-n`) crashes on many models, so it only ever sees one segment at a time. It may crash,
hang, or end with exit status 0 having written nothing: a segment counts as compiled once its output is there and whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence, Tuple, Union

from hardware_runners.compiling.log import FAILURES, parse_log
from hardware_runners.compiling.process import CompilerProcesses
from hardware_runners.compiling.result import CompiledSegment, compiled_text, outcome_text
from hardware_runners.errors import InvalidPlanError, RunnerError

__all__ = [
    "COMMAND", "CompileOptions", "CompiledSegment", "Compiler", "CompilerFailedError", "compile_segments",
    "compiled_name", "find_compiler",
]  # fmt: skip

COMMAND = "edgetpu_compiler"
"""Name of the compiler on the PATH."""

NOT_FOUND = (
    f"{COMMAND} is not on the PATH: segments are written but not compiled "
    "(it runs on x86-64 Linux and comes from Coral's package archive)"
)
"""What to tell, once, where there is no compiler."""

_VERSION_TIMEOUT_S = 20.0


class CompilerFailedError(RunnerError, OSError):
    """The compiler cannot be run at all, or its output cannot be stored."""


@dataclass(frozen=True)
class Compiler:
    """A compiler that was found and asked for its version."""

    path: Path
    version: str
    """As it prints it, e.g. `16.0.384591198`."""


@dataclass(frozen=True)
class CompileOptions:
    """How to run the compiler.

    Raises:
        InvalidPlanError: A value outside of its range.
    """

    timeout_s: int = 180
    """Seconds for one segment, at least 1: given to the compiler, which is killed a little after."""
    retries: int = 2
    """How often to try again after what users saw vanish: a crash, an internal error, no output; 0..10."""
    workers: Optional[int] = None
    """Segments compiled at once, at least 1; None for one a processor core."""
    min_runtime_version: Optional[int] = None
    """Oldest Edge TPU runtime that must run the output, 10 or more; None for the compiler's default."""

    def __post_init__(self) -> None:
        ranges: Dict[str, Tuple[Optional[int], int, int]] = {
            "timeout_s": (self.timeout_s, 1, 86400),
            "retries": (self.retries, 0, 10),
            "workers": (self.workers, 1, 1024),
            "min_runtime_version": (self.min_runtime_version, 10, 99),
        }
        for name, (value, lowest, highest) in ranges.items():
            if value is None and name in ("workers", "min_runtime_version"):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
                raise InvalidPlanError(f"{name} is {value!r}, allowed are whole numbers in {lowest}..{highest}")


def compiled_name(segment: Union[str, Path]) -> str:
    """Return the file name that the compiler gives to the output: ``a.tflite`` becomes ``a_edgetpu.tflite``."""
    return Path(segment).stem + "_edgetpu.tflite"


def find_compiler(command: str = COMMAND) -> Optional[Compiler]:
    """Return the compiler on the PATH, or None where there is none.

    Args:
        command: Its name, or a path to it.

    Raises:
        CompilerFailedError: It is there and does not tell its version.
    """
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_VERSION_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise CompilerFailedError(f"{path} --version does not end within {_VERSION_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise CompilerFailedError(f"{path} cannot be run ({error.strerror or error})") from error
    text = done.stdout.decode(errors="replace")
    version = parse_log(text).version
    if version is None:
        said = text.strip().splitlines()
        raise CompilerFailedError(
            f"{path} --version tells no version (exit status {done.returncode}"
            + (f", it says {said[0][:200]!r})" if said else ", it says nothing)")
        )
    return Compiler(path=Path(path), version=version)


def compile_segments(
    segments: Sequence[Union[str, Path]],
    out_dir: Union[str, Path],
    *,
    compiler: Compiler,
    options: CompileOptions = CompileOptions(),
    on_done: Optional[Callable[[CompiledSegment], None]] = None,
    reuse: Sequence[CompiledSegment] = (),
) -> Tuple[CompiledSegment, ...]:
    """Compile every segment on its own.

    The compiler works in a temporary folder and under plain names, so that no character of a file's name reaches it.
    What it wrote is renamed into ``out_dir`` once it is whole. A segment that fails leaves its log there and no
    output: one of an earlier call under this name, which would pass for its own, is removed.

    Args:
        segments: Files of stages 0, 1, ...
        out_dir: Folder, which exists, for `X_edgetpu.tflite` and `X_edgetpu.log`.
        compiler: From `find_compiler`.
        options: How to run it.
        reuse: Results of earlier calls, whose files still lie where they say: a segment with the same content as one of
            those that compiled takes its output and log.
        on_done: Called, one call at a time, with every segment as it is finished, in any order.

    Returns:
        What became of every segment, in their order. A segment that fails is no exception.

    Raises:
        InvalidPlanError: A segment or the folder does not exist, or two segments have one name.
        CompilerFailedError: The compiler cannot be run, or its output cannot be stored.
    """
    paths = [Path(segment) for segment in segments]
    out_dir = Path(out_dir)
    _check_paths(paths, out_dir)
    processes = CompilerProcesses(compiler.path, options.timeout_s, options.min_runtime_version)
    lock = threading.Lock()
    known = _known(reuse)

    def one(stage: int) -> CompiledSegment:
        found = known.get(_digest(paths[stage])) if known else None
        if found is None:
            done = _compile(stage, paths[stage], out_dir, work, processes, options.retries)
        else:
            done = _taken_over(found, stage, paths[stage], out_dir, work)
        if on_done is not None:
            with lock:
                on_done(done)
        return done

    workers = min(options.workers or os.cpu_count() or 1, max(1, len(paths)))
    try:
        work = Path(tempfile.mkdtemp(prefix=".compiling-", dir=str(out_dir)))
    except OSError as error:
        raise CompilerFailedError(f"{out_dir} cannot be written ({error.strerror})") from error
    try:
        with ThreadPoolExecutor(workers, thread_name_prefix="compile") as pool:
            futures = [pool.submit(one, stage) for stage in range(len(paths))]
            try:
                finished = wait(futures, return_when=FIRST_EXCEPTION).done
                for future in finished:
                    future.result()
                return tuple(future.result() for future in futures)
            except BaseException:
                for future in futures:
                    future.cancel()
                processes.stop()
                raise
    except OSError as error:
        if isinstance(error, RunnerError):
            raise
        raise CompilerFailedError(f"{compiler.path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(str(work), ignore_errors=True)


def _check_paths(paths: List[Path], out_dir: Path) -> None:
    if not out_dir.is_dir():
        raise InvalidPlanError(f"{out_dir} is no folder, compiled segments need one that exists")
    seen: Dict[str, Path] = {}
    for stage, path in enumerate(paths):
        if not path.is_file():
            raise InvalidPlanError(f"segment {path} is no file", stage)
        other = seen.setdefault(path.stem, path)
        if other is not path:
            raise InvalidPlanError(
                f"segments {other} and {path} would both be compiled to {compiled_name(path)}", stage
            )
    given = {path.resolve() for path in paths}
    for stage, path in enumerate(paths):
        if (out_dir / compiled_name(path)).resolve() in given:
            raise InvalidPlanError(f"compiling {path} would replace the segment {compiled_name(path)}", stage)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _known(results: Sequence[CompiledSegment]) -> Dict[str, CompiledSegment]:
    """Return results that compiled, and whose files are all still there, by the digest of what was compiled."""
    return {
        _digest(one.segment): one
        for one in results
        if one.output is not None and one.output.is_file() and one.log.is_file() and one.segment.is_file()
    }


def _taken_over(found: CompiledSegment, stage: int, segment: Path, out_dir: Path, work: Path) -> CompiledSegment:
    output, log = _places(segment, out_dir)
    for source, target in ((found.log, log), (found.output, output)):
        if source is not None and source != target:
            _publish(source.read_bytes(), work / f"{stage}.taken", target)
    return replace(
        found,
        stage=stage,
        segment=segment,
        message=compiled_text(stage, segment, found.facts),
        seconds=0.0,
        tries=0,
        output=output,
        log=log,
    )


def _places(segment: Path, out_dir: Path) -> Tuple[Path, Path]:
    return out_dir / compiled_name(segment), out_dir / (segment.stem + "_edgetpu.log")


def _compile(
    stage: int, segment: Path, out_dir: Path, work: Path, processes: CompilerProcesses, retries: int
) -> CompiledSegment:
    seconds = 0.0
    tries = 0
    while True:
        tries += 1
        attempt = processes.run(segment, work / f"{stage}-{tries}")
        seconds += attempt.seconds
        failure = FAILURES.get(attempt.status)
        if failure is None or not failure.is_fleeting or tries > retries or processes.stopped:
            break
    output, log = _places(segment, out_dir)
    _publish(attempt.text.encode(), work / f"{stage}.log", log)
    if attempt.output is None:
        with contextlib.suppress(FileNotFoundError):
            output.unlink()
    else:
        attempt.output.replace(output)
    return CompiledSegment(
        stage=stage,
        segment=segment,
        status=attempt.status,
        message=outcome_text(stage, segment, attempt, tries, log),
        seconds=seconds,
        tries=tries,
        facts=attempt.facts,
        output=None if attempt.output is None else output,
        log=log,
    )


def _publish(data: bytes, temporary: Path, path: Path) -> None:
    temporary.write_bytes(data)
    temporary.replace(path)
