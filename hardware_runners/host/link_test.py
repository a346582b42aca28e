"""Self-test of an Edge TPU and its link, in a process: ``python -m hardware_runners.host.link_test DEVICE [MODEL]``.

It opens the device, which loads its firmware, and where a compiled model is given runs it with inputs of zeros. What
it found is printed as one JSON object; `hardware_runners.host.link_check` starts it and reads that.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Dict, Optional, Sequence

import numpy as np

from hardware_runners.devices.delegates import library_name, open_device, runtime_version
from hardware_runners.devices.runtime import RUNTIMES, find_runtime
from hardware_runners.errors import RunnerError
from hardware_runners.measuring.process_errors import facts_of
from hardware_runners.measuring.stages import allocated, failure

WARM_UP = 5
RUNS = 30

RUNTIME_VARIABLE = "RESPECT_RUNTIME"
"""Environment variable with the package of the interpreter to use, instead of the first that is there."""


def main(arguments: Sequence[str]) -> int:
    """Test one device and print what was found; returns the exit status."""
    device, model = arguments[0], arguments[1] if len(arguments) > 1 else None
    found: Dict[str, Any] = {}
    try:
        found = tested_link(device, model)
    except RunnerError as error:
        found = {"error": facts_of(error)}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def tested_link(device: str, model: Optional[str]) -> Dict[str, Any]:
    """Open a device and run a compiled model on it.

    Args:
        device: Device text with a number.
        model: Path of a compiled model, None to open the device only.

    Returns:
        The seconds that opening took, libedgetpu's version, and with a model the median milliseconds of an inference
        and the bytes that it moves to and fro.

    Raises:
        RunnerError: It cannot be opened or run.
    """
    chosen = os.environ.get(RUNTIME_VARIABLE)
    runtime = find_runtime((chosen,) if chosen in RUNTIMES else ("ai-edge-litert", "tflite-runtime"))
    start = time.perf_counter()
    delegate = open_device(runtime.load_delegate, library_name(), 0, device)
    opened = time.perf_counter() - start
    found: Dict[str, Any] = {"open_s": opened, "libedgetpu": runtime_version(library_name())}
    if model is None:
        return found
    try:
        interpreter = allocated(runtime.on_device(model, delegate), 0, device)
    except (RuntimeError, ValueError) as error:
        raise failure(error, "load", 0, device) from error
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    zeros = [np.zeros([int(size) for size in one["shape"]], one["dtype"]) for one in inputs]
    times = []
    try:
        for _ in range(WARM_UP + RUNS):
            start = time.perf_counter()
            for one, zero in zip(inputs, zeros):
                interpreter.set_tensor(one["index"], zero)
            interpreter.invoke()
            made = [interpreter.get_tensor(one["index"]) for one in outputs]
            times.append(time.perf_counter() - start)
    except RuntimeError as error:
        raise failure(error, "run", 0, device) from error
    moved = sum(zero.nbytes for zero in zeros) + sum(array.nbytes for array in made)
    return {**found, "ms": float(np.median(times[WARM_UP:])) * 1000, "bytes": moved}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
