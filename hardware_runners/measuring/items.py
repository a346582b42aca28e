"""What a pipeline is run on, and whether what comes out is right, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple

import numpy as np

from hardware_runners.errors import InvalidJobError, WrongOutputError
from hardware_runners.jobs.format import Job, TensorSpec
from hardware_runners.jobs.reference import read_reference

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Held = Dict[str, "NDArray[Any]"]

NUM_RANDOM = 4
"""Items that are drawn where a job has no reference items."""


@dataclass(frozen=True)
class Items:
    """Items to run, in order and over again."""

    inputs: "Tuple[Held, ...]"
    """The model's inputs by name, of every item."""
    outputs: "Optional[Tuple[Held, ...]]"
    """What the uncut model made of them when the job was written, None where the job does not say."""

    def __len__(self) -> int:
        return len(self.inputs)


def items_of(job: Job, seed: int = 0) -> Items:
    """Return the reference items of a job, else random ones.

    Args:
        job: A job with segments.
        seed: Of random items.

    Raises:
        InvalidJobError: The job has no segments, or its reference items do not fit.
    """
    if job.whole is None:
        raise InvalidJobError(job.folder, "it has no segments to run: write it with `respect split MODEL.tflite`")
    specs = job.whole.inputs
    if job.reference is None:
        rng = np.random.default_rng(seed)
        drawn = tuple({spec.name: _random(spec, rng) for spec in specs} for _ in range(NUM_RANDOM))
        return Items(drawn, None)
    reference = read_reference(job)
    inputs = _by_item(specs, reference.inputs, reference.num_items)
    return Items(inputs, _by_item(job.whole.outputs, reference.outputs, reference.num_items))


def _by_item(specs: Sequence[TensorSpec], arrays: "Sequence[NDArray[Any]]", count: int) -> "Tuple[Held, ...]":
    names = [spec.name for spec in specs]
    return tuple(
        {name: np.ascontiguousarray(array[i]).reshape(array.shape[1:]) for name, array in zip(names, arrays)}
        for i in range(count)
    )


def _random(spec: TensorSpec, rng: np.random.Generator) -> "NDArray[Any]":
    dtype = np.dtype(spec.dtype)
    if dtype.kind in "iu" and dtype.itemsize <= 2:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, size=spec.shape, dtype=dtype, endpoint=True)
    if dtype.kind in "iub":  # wide integers mostly are positions in a table, of which the first two exist
        return rng.integers(0, 2, size=spec.shape).astype(dtype)
    return rng.normal(size=spec.shape).astype(dtype)


def difference(expected: "Held", found: "Held") -> str:
    """Say how outputs differ from what is expected, empty if type, shape and bytes are equal."""
    for name, array in expected.items():
        other = found[name]
        if (array.dtype, array.shape) != (other.dtype, other.shape):
            return (
                f"output {name!r} is {other.dtype.name} {list(other.shape)}, "
                f"expected {array.dtype.name} {list(array.shape)}"
            )
        if array.tobytes() != other.tobytes():
            differing = int(np.count_nonzero(array != other))
            return f"output {name!r} differs in {differing or 'some'} of {array.size} elements"
    return ""


def largest_difference(expected: "Sequence[Held]", found: "Sequence[Held]") -> float:
    """Return by how much outputs differ at most, over all items."""
    largest = 0.0
    for one, other in zip(expected, found):
        for name, array in one.items():
            gaps = np.abs(array.astype(np.float64) - other[name].astype(np.float64))
            largest = max(largest, float(gaps.max()) if gaps.size else 0.0)
    return largest


def check_equal(expected: "Held", found: "Held", number: int, what: str) -> None:
    """Raise `WrongOutputError` if outputs differ from what is expected.

    Args:
        expected: Outputs by name.
        found: Outputs by name.
        number: Number of the item.
        what: What made ``found``, for the message.
    """
    why = difference(expected, found)
    if why:
        raise WrongOutputError(f"{what} does not compute what the uncut model computes: {why} of item {number}")
