"""Every attached Edge TPU tested in turn, each in a process of its own; the devices are compared with each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from hardware_runners.host.findings import Finding

TIMEOUT_S = 60.0
"""For one device, waiting for tries to open it included."""

WAY_OUT = "attach it again, end what holds it, and mend what else is found here"
"""Where an error has none of its own."""

SLOWER = 1.5
"""A device that takes so many times longer than the fastest one is pointed out."""


def check_links(num_devices: int, model: Optional[Path], timeout_s: float = TIMEOUT_S) -> Iterator[Finding]:
    """Open every device, and run a compiled model on it where one is given.

    Args:
        num_devices: Devices that are attached.
        model: A model compiled for the Edge TPU, None to open the devices only.
        timeout_s: For one device.
    """
    if model is not None and not model.is_file():
        yield Finding("link self-test", "error", f"there is no file {model}", "name a model compiled for the Edge TPU")
        return
    times: List[Tuple[str, float]] = []
    for k in range(num_devices):
        device = f":{k}"
        found = _tested(device, model, timeout_s)
        if "error" in found:
            error = found["error"]
            yield Finding(
                "link self-test", "error", f"device {device!r}: {error['why']}", error.get("way_out", WAY_OUT)
            )
            continue
        text = f"device {device!r} opened in {found['open_s']:.2f} s"
        if "ms" in found:
            times.append((device, found["ms"]))
            text += (
                f", {model.name if model else ''}: {found['ms']:.2f} ms an inference that moves {found['bytes']} bytes"
            )
        yield Finding("link self-test", "ok", text)
    fastest = min((ms for _, ms in times), default=0.0)
    for device, ms in times:
        if ms > SLOWER * fastest:
            yield Finding(
                "link self-test",
                "warning",
                f"device {device!r} takes {ms / fastest:.1f} times as long as the fastest one",
                "attach it to a USB 3 port of its own, without a hub, and look at its cooling",
            )


def _tested(device: str, model: Optional[Path], timeout_s: float) -> Dict[str, Any]:
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "hardware_runners.host.link_test", device, *([str(model)] if model else [])]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout_s,
            check=False, env=env,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _failed(f"no answer within {timeout_s:g} s", "attach it again; reboot the host if that does not help")
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return _failed(
            f"the test was brought down (exit status {done.returncode}" + (f", {said[-1][:200]})" if said else ")"),
            "libedgetpu and the interpreter must be of one TensorFlow generation, see the check of both",
        )


def _failed(why: str, way_out: str) -> Dict[str, Any]:
    return {"error": {"why": why, "way_out": way_out}}
