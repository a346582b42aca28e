"""Seconds and memory for reading a large TFLite file and cutting it, and what dominates; no verification.

    python -m tests.benchmarks.slicing [MODEL.tflite ...] [--stages 4 5 6 8] [--repeats 3]

Without a file it writes one of 57 MB with the size of InceptionResNetV2: 336 ops, 224 of them convolutions with a scale
a channel. The baseline of the same run unpacks the whole file and packs it again with the schema module alone. Memory
is measured in a process of its own for each: the most it held, less what it held before the file was read. The last
row is the whole command from its start: all seconds, and the most that it or a process of its held, Python included.
"""

from __future__ import annotations

import argparse
import cProfile
import multiprocessing
import os
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from ai_edge_litert import schema_py_generated as tflite

from respect_core.segments.model_file import open_model
from respect_core.segments.slice import slice_model
from respect_core.solve.compiler_rule import compiler_segments
from tests.tflite_models import INT32, OP, M, O, T, write_model

MIB = 2**20
WIDE, NARROW, BLOCKS = 1000, 256, 112
COMMAND = "from flows.cli import main; main()"
QUIET: Final[Any] = {"file_actions": [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]}
COPIES = ("CreateNumpyVector", "<method 'tobytes' of 'numpy.ndarray' objects>")


def large_model() -> bytes:
    """Return a file of blocks of two convolutions and an addition, with random weights."""
    rng = np.random.default_rng(0)
    tensors = [T(name="x", shape=(1, 8, 8, WIDE), scale=(0.05,))]
    ops: list[O] = []

    def add(tensor: T) -> int:
        tensors.append(tensor)
        return len(tensors) - 1

    def convolution(name: str, given: int, inputs: int, outputs: int) -> int:
        scale = tuple(rng.uniform(0.001, 0.01, size=outputs).tolist())
        weights = add(T(name=f"{name}/w", shape=(outputs, 1, 1, inputs), data=rng.bytes(outputs * inputs), scale=scale))
        bias = add(T(name=f"{name}/b", shape=(outputs,), type=INT32, data=rng.bytes(4 * outputs), scale=scale))
        made = add(T(name=name, shape=(1, 8, 8, outputs), scale=(0.05,)))
        options = tflite.Conv2DOptionsT(strideW=1, strideH=1)
        ops.append(O(builtin=OP.CONV_2D, inputs=(given, weights, bias), outputs=(made,), options=options))
        return made

    last = 0
    for i in range(BLOCKS):
        inner = convolution(f"block{i}/in", last, WIDE, NARROW)
        outer = convolution(f"block{i}/out", inner, NARROW, WIDE)
        made = add(T(name=f"block{i}/add", shape=(1, 8, 8, WIDE), scale=(0.05,)))
        ops.append(O(builtin=OP.ADD, inputs=(last, outer), outputs=(made,), options=tflite.AddOptionsT()))
        last = made
    return write_model(M(tensors=tensors, ops=ops, outputs=(last,)))


def read(path: Path, _num_stages: int) -> None:
    open_model(path)


def read_and_cut(path: Path, num_stages: int) -> None:
    model = open_model(path)
    slice_model(model, compiler_segments(model.graph, num_stages), num_stages)


def unpack_and_pack(path: Path, _num_stages: int) -> None:
    import flatbuffers

    model = tflite.ModelT.InitFromPackedBuf(path.read_bytes())
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    bytes(builder.Output())


def cost(action: Callable[[Path, int], None], path: Path, num_stages: int, repeats: int) -> tuple[float, float]:
    """Return the median seconds of an action, and the MiB that it added at most to a fresh process."""
    context = multiprocessing.get_context("spawn")
    runs = []
    for _ in range(repeats):
        with context.Pool(1) as pool:
            runs.append(pool.apply(measured, (action.__name__, path, num_stages)))
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


def measured(action: str, path: Path, num_stages: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        read_and_cut(_small_file(Path(folder)), 1)  # imports and compiled code
    before = _memory_mib("VmRSS")
    start = time.perf_counter()
    globals()[action](path, num_stages)
    seconds = time.perf_counter() - start
    return seconds, _memory_mib("VmHWM") - before


def command(path: Path, num_stages: int, repeats: int) -> tuple[float, float]:
    """Return the median seconds of the command, and the MiB of its largest process."""
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            args = ["split", str(path), "-k", str(num_stages), "-o", f"{folder}/job", "--no-verify", "--no-compile"]
            start = time.perf_counter()
            pid = os.posix_spawn(sys.executable, [sys.executable, "-c", COMMAND, *args, "--json"], os.environ, **QUIET)
            _, status, usage = os.wait4(pid, 0)  # the largest of all processes that it waited for, too
            runs.append((time.perf_counter() - start, usage.ru_maxrss / 1024))
            if status:
                raise SystemExit(f"respect split {path} failed")
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


def _small_file(folder: Path) -> Path:
    path = folder / "small.tflite"
    relu = O(builtin=OP.RELU, inputs=(0,), outputs=(1,))
    path.write_bytes(write_model(M(tensors=(T(name="x"), T(name="y")), ops=(relu,), outputs=(1,))))
    return path


def _memory_mib(what: str) -> float:
    """Return what Linux says this process holds (`VmRSS`) or held at most (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def profile(path: Path, num_stages: int) -> str:
    """Say which functions the time of cutting goes to."""
    model = open_model(path)
    stage_of = compiler_segments(model.graph, num_stages)
    profiler = cProfile.Profile()
    profiler.runcall(slice_model, model, stage_of, num_stages)
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(entry[2] for entry in stats.values())
    shares: dict[str, float] = {}
    for (file, _, function), entry in stats.items():
        if function in COPIES:
            what = "copying data"
        elif "flatbuffers" in file or "schema_py" in file:
            what = "flatbuffer tables, a Python call a field"
        else:
            what = "the rest"
        shares[what] = shares.get(what, 0.0) + entry[2]
    return ", ".join(f"{what} {share / total:.0%}" for what, share in sorted(shares.items(), key=lambda item: -item[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--stages", nargs="+", type=int, default=[4, 5, 6, 8])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = args.models
        if not models:
            models = [Path(folder) / "large.tflite"]
            models[0].write_bytes(large_model())
        for path in models:
            report(path, args.stages, args.repeats)


def tell(what: str, seconds: float, memory: float, size: float) -> None:
    print(f"  {what:48} {seconds:6.3f} s  {memory:6.1f} MiB = {memory / size:.2f} x the file", flush=True)


def report(path: Path, stages: list[int], repeats: int) -> None:
    size = path.stat().st_size / MIB
    print(f"{path.name}: {size:.1f} MiB, {open_model(path).graph.num_ops} ops", flush=True)
    rows: list[tuple[str, Callable[[Path, int], None], int]] = [
        ("baseline: schema module alone, unpack and pack", unpack_and_pack, 1),
        ("read and check", read, 1),
        *((f"read, check and cut for K = {num_stages}", read_and_cut, num_stages) for num_stages in stages),
    ]
    for what, action, num_stages in rows:
        tell(what, *cost(action, path, num_stages, repeats), size)
    tell(f"respect split -k {stages[0]} --no-verify, all of it", *command(path, stages[0], repeats), size)
    print(f"  cutting for K = {stages[-1]} goes to: {profile(path, stages[-1])}", flush=True)


if __name__ == "__main__":
    main()
