"""A stand-in for pycoral 2.0, tflite-runtime and libedgetpu that behaves as they are documented to, aborts included.

`install` writes a folder of modules of those names for the PYTHONPATH of a process. What they do beyond the documented
follows the JSON object in the variable `CORAL_DOUBLE`; counters that outlive a process lie in `CORAL_DOUBLE_STATE`:

- ``links``: link of every attached device, PCIe first;
- ``flaky``: by device, how many loads of its delegate fail before one succeeds;
- ``fail``: ``device``, ``after`` (invocations), ``how`` (raise, vanish, abort, unplugged, segv, hang) and ``when``
  (run or load);
- ``unplug``: files that go when a device vanishes, e.g. of a made-up kernel;
- ``runtime``: version of the Edge TPU runtime; compiled models need 14;
- ``off_by_one``: results differ from the CPU's in the last place, as on a device they may.

The arithmetic is the real LiteRT interpreter's.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter as RealInterpreter
from ai_edge_litert.interpreter import OpResolverType as RealResolver

NEEDED_RUNTIME = 14
FAILED = "Failed to load delegate from libedgetpu.so.1"
MODULES = {
    "pycoral/utils/edgetpu.py": "make_interpreter, list_edge_tpus, get_runtime_version",
    "pycoral/pipeline/pipelined_model_runner.py": "PipelinedModelRunner",
    "tflite_runtime/interpreter.py": "Interpreter, load_delegate, OpResolverType",
}
OpResolverType = RealResolver


def install(folder: Path, *, pycoral: str = "2.0.0", tflite_runtime: str = "2.14.0") -> str:
    """Write the modules into ``folder``; returns what must be on the PYTHONPATH."""
    for name, what in MODULES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"from coral_double import {what}\n", encoding="utf-8")
    for name, version in (("pycoral", pycoral), ("tflite-runtime", tflite_runtime)):
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    return os.pathsep.join([str(folder), str(Path(__file__).resolve().parent)])


# -- the made-up host -------------------------------------------------------------------------------------------------


def _settings() -> dict[str, Any]:
    return {
        "links": ["usb"],
        "flaky": {},
        "fail": {},
        "runtime": NEEDED_RUNTIME,
        **json.loads(os.environ["CORAL_DOUBLE"]),
    }


def _counted(name: str) -> int:
    """Count, and note, how often something came before."""
    path = Path(os.environ["CORAL_DOUBLE_STATE"]) / name.replace(":", "_")
    seen = int(path.read_text()) if path.exists() else 0
    path.write_text(str(seen + 1))
    return seen


def _vanished() -> bool:
    return (Path(os.environ["CORAL_DOUBLE_STATE"]) / "vanished").exists()


def _attached() -> list[str]:
    links = list(_settings()["links"])
    return links[:-1] if _vanished() else links


def _index(device: str) -> int | None:
    """Return which attached device a text means, None where it means none."""
    links = _attached()
    kind, _, number = device.partition(":")
    of_kind = [k for k, link in enumerate(links) if kind in ("", link)]
    at = int(number) if number else 0
    return of_kind[at] if at < len(of_kind) else None


def _break_down(how: str) -> None:
    if how == "unplugged":
        for path in _settings().get("unplug", []):
            Path(path).unlink()
    if how in ("abort", "unplugged"):
        os.write(2, b"F0101 pipelined_model_runner.cc:1] Check failed: device lost\n")
        os.abort()
    if how == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "hang":
        time.sleep(600)
    if how == "vanish":
        (Path(os.environ["CORAL_DOUBLE_STATE"]) / "vanished").write_text("1")
        for path in _settings().get("unplug", []):
            Path(path).unlink()
    raise RuntimeError("Failed to execute request. Could not map pages")


# -- tflite_runtime ---------------------------------------------------------------------------------------------------


class _Delegate:
    def __init__(self, device: str) -> None:
        self.device, self.invoked = device, 0


def load_delegate(library: str, options: Mapping[str, str] | None = None) -> _Delegate:
    if "missing" in library:
        raise OSError(f"{library}: cannot open shared object file: No such file or directory")
    device = (options or {}).get("device", "")
    settings = _settings()
    fail = settings["fail"]
    if fail.get("when") == "load" and fail["device"] == device:
        _break_down(fail["how"])
    if _counted(f"load{device}") < settings["flaky"].get(device, 0) or _index(device) is None:
        raise ValueError(FAILED)
    return _Delegate(device)


class Interpreter:
    def __init__(
        self, model_path: str, experimental_delegates: Sequence[_Delegate] | None = None, **options: Any
    ) -> None:
        self.is_compiled = model_path.endswith("_edgetpu.tflite")
        self.delegate = experimental_delegates[0] if experimental_delegates else None
        options = {**options, "experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}
        self._real = RealInterpreter(model_path=model_path, **{**options, "num_threads": 1})
        self._is_allocated = False

    def allocate_tensors(self) -> None:
        if self.is_compiled and self.delegate is None:
            raise RuntimeError("Encountered unresolved custom op: edgetpu-custom-op.\nSee instructions: ...")
        if self.is_compiled and _settings()["runtime"] < NEEDED_RUNTIME:
            raise RuntimeError(
                f"Failed to prepare for TPU. Failed precondition: Package requires runtime version ({NEEDED_RUNTIME}), "
                f"which is newer than this runtime version ({_settings()['runtime']}).Node number 0 "
                "(edgetpu-custom-op) failed to prepare."
            )
        self._real.allocate_tensors()
        self._is_allocated = True

    def get_input_details(self) -> list[dict[str, Any]]:
        return list(self._real.get_input_details())

    def get_output_details(self) -> list[dict[str, Any]]:
        return list(self._real.get_output_details())

    def set_tensor(self, index: int, value: np.ndarray) -> None:
        self._real.set_tensor(index, value)

    def invoke(self) -> None:
        fail = _settings()["fail"]
        if self.delegate is not None:
            is_its_turn = fail.get("when", "run") == "run" and fail.get("device") == self.delegate.device
            if is_its_turn and self.delegate.invoked >= fail["after"]:
                _break_down(fail["how"])
            self.delegate.invoked += 1
        self._real.invoke()

    def get_tensor(self, index: int) -> np.ndarray:
        value = self._real.get_tensor(index)
        return value ^ 1 if _settings().get("off_by_one") and value.dtype.kind in "iu" else value

    def reset_all_variables(self) -> None:
        self._real.reset_all_variables()


# -- pycoral ----------------------------------------------------------------------------------------------------------


def make_interpreter(model_path: str, device: str | None = None) -> Interpreter:
    return Interpreter(model_path, [load_delegate("libedgetpu.so.1", {"device": device} if device else {})])


def list_edge_tpus() -> list[dict[str, str]]:
    return [{"type": "usb" if link == "usb" else "pci", "path": f"/made/up/{k}"} for k, link in enumerate(_attached())]


def get_runtime_version() -> str:
    return f"BuildLabel(COMPILER=6.3.0,DATE=redacted), RuntimeVersion({_settings()['runtime']})"


class _Queue:
    def __init__(self, size: int | None) -> None:
        self.size, self.items, self.changed = size, deque[Any](), threading.Condition()

    def put(self, item: Any) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.size is None or len(self.items) < self.size)
            self.items.append(item)
            self.changed.notify_all()

    def open(self) -> None:
        with self.changed:
            self.size = None
            self.changed.notify_all()

    def get(self) -> Any:
        with self.changed:
            self.changed.wait_for(lambda: self.items)
            item = self.items.popleft()
            self.changed.notify_all()
            return item


class PipelinedModelRunner:
    def __init__(self, interpreters: Sequence[Interpreter]) -> None:
        if not interpreters:
            raise ValueError("At least one interpreter expected")
        held = {d["name"] for d in interpreters[0].get_input_details()}
        for index, interpreter in enumerate(interpreters):
            if not {d["name"] for d in interpreter.get_input_details()} <= held:
                raise ValueError(f"Interpreter {index} can not get its input tensors")
            held |= {d["name"] for d in interpreter.get_output_details()}
        for index, interpreter in enumerate(interpreters):
            later = {d["name"] for other in interpreters[index + 1 :] for d in other.get_input_details()}
            made = {d["name"] for d in interpreter.get_output_details()}
            if interpreter.delegate is None or (index + 1 < len(interpreters) and made - later):
                os.write(2, b"F0101 pipelined_model_runner.cc:2] Check failed: num_consumers > 0\n")
                os.abort()
        self._interpreters = list(interpreters)
        self._queues = [_Queue(None), *[_Queue(1) for _ in interpreters[1:]], _Queue(None)]
        self._error: str | None = None
        self._is_closed = False
        for k in range(len(interpreters)):
            threading.Thread(target=self._serve, args=(k,), daemon=True).start()

    def set_input_queue_size(self, size: int) -> None:
        self._queues[0].size = size

    def set_output_queue_size(self, size: int) -> None:
        self._queues[-1].size = size

    def interpreters(self) -> list[Interpreter]:
        return self._interpreters

    def push(self, input_tensors: dict[str, np.ndarray]) -> None:
        details = self._interpreters[0].get_input_details()
        if input_tensors and len(input_tensors) != len(details):
            raise ValueError(f"Expected input of length {len(details)}, but got {len(input_tensors)}")
        types = {d["name"]: d["dtype"] for d in details}
        for name, array in input_tensors.items():
            if not isinstance(array, np.ndarray) or array.dtype != types[name]:
                raise ValueError(f"Input should be a list of numpy array of type {types[name]}")
        if self._is_closed:
            raise RuntimeError("Pipeline was turned off before.")
        if self._error is not None:
            raise RuntimeError(self._error)
        if not input_tensors:
            self._is_closed = True
            self._queues[0].put(None)
            return
        if list(input_tensors) != [d["name"] for d in details]:
            os.write(2, b"F0101 pipelined_model_runner.cc:3] Check failed: tensor size\n")
            os.abort()
        copied = {}
        for name, array in input_tensors.items():  # it copies from where the first element lies, without strides
            raw = ctypes.string_at(array.ctypes.data, array.size * array.itemsize)
            copied[name] = np.frombuffer(raw, array.dtype).reshape(array.shape)
        self._queues[0].put(copied)

    def pop(self) -> dict[str, np.ndarray] | None:
        held = self._queues[-1].get()
        if held is None:
            self._queues[-1].put(None)
            if self._error is not None:
                error, self._error = self._error, "Pipeline was turned off before."
                raise RuntimeError(error)
            return None
        found = {}
        for details in self._interpreters[-1].get_output_details():
            raw = np.frombuffer(held[details["name"]].tobytes(), np.uint8)  # one byte an element is assumed
            found[details["name"]] = raw.view(np.int8 if details["dtype"] == np.int8 else np.uint8).reshape(
                details["shape"]
            )
        return found

    def _serve(self, k: int) -> None:
        interpreter, source, sink = self._interpreters[k], self._queues[k], self._queues[k + 1]
        while True:
            held = source.get()
            if held is None or self._error is not None:
                sink.put(None)
                return
            try:
                for details in interpreter.get_input_details():
                    interpreter.set_tensor(details["index"], held[details["name"]])
                interpreter.invoke()
            except RuntimeError as error:
                self._error = f"Segment {k} runner error: {error}"
                for queue in self._queues:
                    queue.open()
                sink.put(None)
                return
            made = {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}
            sink.put({**held, **made})
