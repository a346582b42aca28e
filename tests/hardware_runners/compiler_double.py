"""A stand-in for `edgetpu_compiler` that prints what the real one is documented to print, and fails as it does.

As a program it obeys the variable `COMPILER_DOUBLE`: rules ``BEHAVIOUR[:CONDITION]``, one a line, of which the first
whose condition holds counts, `compiled` where none does. Conditions are ``has=TEXT`` (the model's bytes contain it;
``has=A && B`` both), ``over=BYTES`` (the file is larger) and ``first=N`` (the first N times this file is seen). In the
folder `COMPILER_DOUBLE_STATE` it notes its calls, one JSON line each.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

VERSION = "16.0.384591198"
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
MIB = 2**20
BANNER = f"Edge TPU Compiler version {VERSION}\n"
TIMER = "Started a compilation timeout timer of 180 seconds.\n"
ADVICE = (
    "Model successfully compiled but not all operations are supported by the Edge TPU. A percentage of the model will "
    "instead run on the CPU, which is slower. If possible, consider updating your model to use only operations "
    "supported by the Edge TPU. For details, visit g.co/coral/model-reqs.\n"
)
COMPLETED = "Compilation child process completed within timeout period.\n"
RESTORED = "ERROR: Restored original execution plan after delegate application failure.\n"


def size_text(num_bytes: int, unit: str | None = None) -> str:
    """Write a size with two decimals, in the largest unit that it reaches unless told otherwise."""
    unit = unit or next(name for name in ("GiB", "MiB", "KiB", "B") if num_bytes >= UNITS[name] or name == "B")
    return f"{num_bytes / UNITS[unit]:.2f}{unit}"


def log_text(
    *,
    name: str = "model",
    version: str = VERSION,
    compile_ms: int = 1857,
    input_size: str = "5.20MiB",
    output_size: str = "6.51MiB",
    on_chip: str = "6.02MiB",
    remaining: str | None = "1.02MiB",
    available: str | None = None,
    off_chip: str = "0.00B",
    subgraphs: int = 1,
    num_ops: int = 84,
    edge_tpu_ops: int | None = None,
    cpu_ops: int | None = None,
    operators: Sequence[tuple[str, int, str]] = (),
) -> str:
    """Write what the compiler prints about a model that it compiled."""
    lines = [f"Edge TPU Compiler version {version}\n"]
    if remaining is not None:
        lines.append(TIMER)
    lines.append(f"\nModel compiled successfully in {compile_ms} ms.\n\n")
    lines += [f"Input model: {name}.tflite\n", f"Input size: {input_size}\n"]
    lines += [f"Output model: {name}_edgetpu.tflite\n", f"Output size: {output_size}\n"]
    if available is not None:
        lines.append(f"On-chip memory available for caching model parameters: {available}\n")
    lines.append(f"On-chip memory used for caching model parameters: {on_chip}\n")
    if remaining is not None:
        lines.append(f"On-chip memory remaining for caching model parameters: {remaining}\n")
    lines.append(f"Off-chip memory used for streaming uncached model parameters: {off_chip}\n")
    lines += [f"Number of Edge TPU subgraphs: {subgraphs}\n", f"Total number of operations: {num_ops}\n"]
    lines.append(f"Operation log: {name}_edgetpu.log\n")
    if cpu_ops is not None:
        lines.append(f"\n{ADVICE}")
        lines.append(f"Number of operations that will run on Edge TPU: {edge_tpu_ops}\n")
        lines.append(f"Number of operations that will run on CPU: {cpu_ops}\n")
    lines.append("\n" + operator_table(operators) if operators else "See the operation log file for details.\n")
    if remaining is not None:
        lines += [COMPLETED, "Compilation succeeded! \n"]
    return "".join(lines)


def operator_table(operators: Sequence[tuple[str, int, str]]) -> str:
    """Write the compiler's table of ops."""
    head = "Operator                       Count      Status\n\n"
    return head + "".join(f"{kind:<30} {count:<10} {status}\n" for kind, count, status in operators) + "\n"


FAILURE_TEXTS = {
    "large_activations": TIMER
    + RESTORED
    + "Compilation failed: Compilation failed due to large activation tensors in model.\n"
    + COMPLETED
    + "Compilation failed! \n",
    "internal_error": "\nInternal compiler error. Aborting! \n",
    "delegate_failed": TIMER + RESTORED,
    "unusable_model": TIMER
    + "ERROR: Encountered unresolved custom op: Atan.\nERROR: Node number 1 (Atan) failed to prepare.\n\n"
    + "Compilation failed: Model failed in Tflite interpreter. Please ensure model can be loaded/run in Tflite "
    + "interpreter.\n"
    + COMPLETED
    + "Compilation failed! \n",
    "compilation_failed": TIMER + COMPLETED + "Compilation failed! \n",
    "timed_out": TIMER + "Compilation child process timed out.\n",
    "crashed": TIMER + "Segmentation fault (core dumped)\n",
}
"""What is printed after the version for each way to fail, by the name of its status."""


def compiled_model(model: bytes) -> bytes:
    """Return bytes that look like a compiled model."""
    return b"\x1c\0\0\0TFL3" + b"edgetpu-custom-op".ljust(32, b"\0") + hashlib.sha256(model).digest() + model


def main(arguments: list[str]) -> int:
    """Behave like the compiler."""
    _note(arguments)
    if "--version" in arguments or "-v" in arguments:
        print(BANNER, end="")
        return 0
    model, out_dir = Path(arguments[-1]), Path(arguments[arguments.index("-o") + 1])
    return _behave(_behaviour(model.read_bytes()), model, out_dir)


def _behave(behaviour: str, model: Path, out_dir: Path) -> int:
    sys.stdout.write(BANNER)
    sys.stdout.flush()
    if behaviour == "version_only":
        return 0
    if behaviour in ("killed", "slow"):
        if behaviour == "slow":
            child = subprocess.Popen(["sleep", "600"])
            _note({"child": child.pid})
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGSEGV)
    if behaviour in FAILURE_TEXTS:
        sys.stdout.write(FAILURE_TEXTS[behaviour])
        return 139 if behaviour == "crashed" else 1
    return _compile(behaviour, model, out_dir)


def _compile(behaviour: str, model: Path, out_dir: Path) -> int:
    content = model.read_bytes()
    output = compiled_model(content)
    num_ops, param_bytes = _facts(content)
    on_chip = min(param_bytes, int(7.7 * MIB))
    cpu_ops = num_ops if behaviour == "all_on_cpu" else min(2, num_ops) if behaviour == "partly_on_cpu" else 0
    old = behaviour == "old_version"
    rows = [("CONV_2D", num_ops - cpu_ops, "Mapped to Edge TPU")] if num_ops > cpu_ops else []
    rows += [
        ("QUANTIZE", cpu_ops, "Operation is otherwise supported, but not mapped due to some unspecified limitation")
    ][: bool(cpu_ops)]
    text = log_text(
        name=model.stem,
        version="2.0.291256449" if old else VERSION,
        input_size=size_text(len(content)),
        output_size=size_text(len(output)),
        on_chip=size_text(on_chip),
        remaining=None if old else size_text(8 * MIB - on_chip),
        available=size_text(8 * MIB) if old else None,
        off_chip=size_text(param_bytes - on_chip),
        subgraphs={"subgraphs": 2, "all_on_cpu": 0}.get(behaviour, 1),
        num_ops=num_ops,
        edge_tpu_ops=num_ops - cpu_ops if cpu_ops else None,
        cpu_ops=cpu_ops or None,
    )
    sys.stdout.write(text[text.index("\n") + 1 :])
    log = f"{BANNER}Input: {model.name}\nOutput: {model.stem}_edgetpu.tflite\n\n{operator_table(rows)}"
    (out_dir / f"{model.stem}_edgetpu.log").write_text(log, encoding="utf-8")
    written = {"cut_short": output[: len(output) // 2], "damaged": b"\0" * len(output), "empty": b""}
    (out_dir / f"{model.stem}_edgetpu.tflite").write_bytes(written.get(behaviour, output))
    return 0


def _facts(content: bytes) -> tuple[int, int]:
    """Return the ops and the bytes of constant data of a model; what is no model has one op and its size.

    It reads the flatbuffer by hand, since importing a schema would take longer than all the rest.
    """
    try:
        model = _number(content, 0)
        subgraphs, buffers = _elements(content, model, 2), _elements(content, model, 4)
        return len(_elements(content, subgraphs[0], 3)), sum(_length(content, table, 0) for table in buffers)
    except (struct.error, IndexError):
        return 1, len(content)


def _number(content: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", content, at)[0])


def _vector(content: bytes, table: int, field: int) -> int | None:
    """Return where the vector in a table's field begins, None where it is left out."""
    vtable = table - struct.unpack_from("<i", content, table)[0]
    slot = 4 + 2 * field
    offset = struct.unpack_from("<H", content, vtable + slot)[0] if slot < _short(content, vtable) else 0
    return table + offset + _number(content, table + offset) if offset else None


def _short(content: bytes, at: int) -> int:
    return int(struct.unpack_from("<H", content, at)[0])


def _length(content: bytes, table: int, field: int) -> int:
    start = _vector(content, table, field)
    return 0 if start is None else _number(content, start)


def _elements(content: bytes, table: int, field: int) -> list[int]:
    """Return where the tables of a vector begin."""
    start = _vector(content, table, field)
    places = [] if start is None else [start + 4 + 4 * i for i in range(_number(content, start))]
    return [place + _number(content, place) for place in places]


def _behaviour(content: bytes) -> str:
    for rule in filter(None, os.environ.get("COMPILER_DOUBLE", "").splitlines()):
        behaviour, _, condition = rule.partition(":")
        what, _, value = condition.partition("=")
        holds = {
            "": lambda _: True,
            "has": lambda text: all(part.encode() in content for part in text.split(" && ")),
            "over": lambda size: len(content) > int(size),
            "first": lambda count: _times_seen(content) < int(count),
        }
        if holds[what](value):
            return behaviour
    return "compiled"


def _times_seen(content: bytes) -> int:
    """Count, and note, how often this content came before."""
    path = Path(os.environ["COMPILER_DOUBLE_STATE"]) / hashlib.sha256(content).hexdigest()
    seen = int(path.read_text()) if path.exists() else 0
    path.write_text(str(seen + 1))
    return seen


def _note(what: object) -> None:
    folder = os.environ.get("COMPILER_DOUBLE_STATE")
    if folder:
        with (Path(folder) / "calls").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(what) + "\n")


def install(folder: Path) -> Path:
    """Write an executable `edgetpu_compiler` into ``folder``, to be put on the PATH; return it."""
    program = folder / "edgetpu_compiler"
    program.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -I -S "{Path(__file__).resolve()}" "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    return program


def put_on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[str], Path]:
    """Put the stand-in on the PATH of a test; call what is returned with rules to change how it behaves.

    ``folder`` exists and takes the program and a folder `state` with its notes.
    """
    program, state = install(folder), folder / "state"
    state.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COMPILER_DOUBLE_STATE", str(state))

    def behave(rules: str = "") -> Path:
        monkeypatch.setenv("COMPILER_DOUBLE", rules)
        return program

    behave()
    return behave


def calls_noted(folder: Path) -> list[Any]:
    """Return what the stand-in in ``folder`` noted: the arguments of every call, and what it started."""
    path = folder / "state" / "calls"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
