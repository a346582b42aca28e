"""One segment in an interpreter: takes tensors by name, gives tensors by name, and names stage and device in errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from hardware_runners.errors import InvalidJobError, PipelineFailedError, RunnerError, RuntimeTooOldError
from hardware_runners.jobs.format import Job, JobSegment, TensorSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tensors = Mapping[str, "NDArray[Any]"]

_RUNTIME = re.compile(r"requires runtime version \(?(\d+)\)?.*newer than this runtime version \(?(\d+)\)?")
_OLD_OP = re.compile(r"Didn't find op for builtin opcode '(\w+)' version '(\d+)'")


class Stage:
    """The interpreter of one segment, its tensors allocated."""

    def __init__(
        self, interpreter: Any, segment: JobSegment, job: Job, number: Optional[int], device: Optional[str]
    ) -> None:
        """Check an interpreter against what the job says of its segment.

        Args:
            interpreter: An interpreter whose tensors are allocated.
            segment: What it runs.
            job: The job, for messages.
            number: The stage, None for the uncut model, whose tensors may have other names in the file.
            device: The device it runs on.

        Raises:
            InvalidJobError: Its inputs or outputs are not the segment's; stage and tensor are named.
        """
        self.interpreter, self.number, self.device = interpreter, number, device
        self._job = job
        inputs = _matched(interpreter.get_input_details(), segment.inputs)
        outputs = _matched(interpreter.get_output_details(), segment.outputs)
        for found, specs, what in ((inputs, segment.inputs, "inputs"), (outputs, segment.outputs, "outputs")):
            self._check(found, specs, what)
        self.inputs = [(spec.name, int(details["index"])) for spec, details in zip(segment.inputs, inputs)]
        self.outputs = [(spec.name, int(details["index"])) for spec, details in zip(segment.outputs, outputs)]

    def _check(self, found: List[Any], specs: Sequence[TensorSpec], what: str) -> None:
        if len(found) != len(specs):
            raise self._unlike(f"it has {len(found)} {what}, the job speaks of {len(specs)}")
        for details, spec in zip(found, specs):
            if self.number is not None and details["name"] != spec.name:
                names = [one["name"] for one in found]
                raise self._unlike(f"its {what} are {names}, the job has {spec.name!r} at this place")
            dtype, shape = np.dtype(details["dtype"]).name, tuple(int(size) for size in details["shape"])
            if (dtype, shape) != (spec.dtype, spec.shape):
                raise self._unlike(
                    f"its tensor {spec.name!r} is {dtype} {list(shape)}, the job says {spec.dtype} {list(spec.shape)}"
                )

    def _unlike(self, why: str) -> InvalidJobError:
        return InvalidJobError(self._job.folder, f"the file is not what the job describes: {why}", self.number)

    def run(self, held: "Tensors") -> "Dict[str, NDArray[Any]]":
        """Run one item.

        Args:
            held: At least the inputs, by name.

        Returns:
            Copies of the outputs, by name.

        Raises:
            RunnerError: It fails; stage and device are named.
        """
        try:
            for name, index in self.inputs:
                self.interpreter.set_tensor(index, held[name])
            self.interpreter.invoke()
            return {name: self.interpreter.get_tensor(index) for name, index in self.outputs}
        except (RuntimeError, ValueError, MemoryError) as error:
            raise failure(error, "run", self.number, self.device) from error

    def reset(self) -> None:
        """Set a state that the model keeps from item to item back to its beginning."""
        try:
            self.interpreter.reset_all_variables()
        except RuntimeError as error:
            raise failure(error, "reset", self.number, self.device) from error


def _matched(found: Sequence[Any], specs: Sequence[TensorSpec]) -> List[Any]:
    """Return an interpreter's tensors, each of them once: a file may list one twice."""
    if len(found) == len(specs):
        return list(found)
    return list({details["index"]: details for details in found}.values())


def allocated(interpreter: Any, stage: Optional[int], device: Optional[str]) -> Any:
    """Allocate an interpreter's tensors.

    Raises:
        RunnerError: It cannot; stage and device are named.
    """
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError, MemoryError) as error:
        raise failure(error, "prepare", stage, device) from error
    return interpreter


def failure(error: BaseException, doing: str, stage: Optional[int], device: Optional[str]) -> RunnerError:
    """Turn what an interpreter raises into a typed error with the way out."""
    text = " ".join(str(error).split()) or type(error).__name__
    old = _RUNTIME.search(text)
    if old:
        return RuntimeTooOldError(
            f"the segment is compiled for Edge TPU runtime {old.group(1)} and this one is {old.group(2)}: update "
            f"libedgetpu, or compile again with edgetpu_compiler --min_runtime_version {old.group(2)}",
            stage,
            device,
        )
    op = _OLD_OP.search(text)
    if op:
        return RuntimeTooOldError(
            f"its op {op.group(1)} is of version {op.group(2)}, which this TFLite interpreter does not know: update it",
            stage,
            device,
        )
    if "edgetpu-custom-op" in text:
        why = "the segment is compiled for an Edge TPU and its delegate is not there: libedgetpu did not load"
    else:
        why = f"the interpreter cannot {doing} it ({text[:300]})"
    return PipelineFailedError(why, stage, device)
