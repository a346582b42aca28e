"""Reference items of a job: what goes into a model and what comes out, as a `.npz` file without pickled objects.

For a model with I inputs and O outputs the file holds ``input_0`` .. and ``output_0`` .., in the order of the job's
``whole``. The first axis of every array counts the items, the others are the tensor's own. They are to be run in order
from a fresh start, because a model may keep a state from one item to the next.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Sequence, Tuple

import numpy as np

from hardware_runners.errors import InvalidJobError
from hardware_runners.jobs.format import Job, TensorSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

_YEAR_ONE = (1980, 1, 1, 0, 0, 0)
"""Time of every entry, so that equal items make equal files."""


@dataclass(frozen=True)
class Reference:
    """Items to run, and what the uncut model makes of them."""

    inputs: "Tuple[NDArray[Any], ...]"
    """One array an input of the model; the first axis counts the items."""
    outputs: "Tuple[NDArray[Any], ...]"
    """One array an output of the model, likewise."""

    @property
    def num_items(self) -> int:
        """Number of items, at least 1."""
        return len(self.outputs[0])


def pack_reference(inputs: "Sequence[NDArray[Any]]", outputs: "Sequence[NDArray[Any]]") -> bytes:
    """Return the content of the file; equal arrays give equal bytes.

    Args:
        inputs: One array an input of the model; the first axis counts the items.
        outputs: One array an output of the model, likewise.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for prefix, arrays in (("input", inputs), ("output", outputs)):
            for i, array in enumerate(arrays):
                entry = io.BytesIO()
                np.lib.format.write_array(entry, np.ascontiguousarray(array), allow_pickle=False)
                info = zipfile.ZipInfo(f"{prefix}_{i}.npy", _YEAR_ONE)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, entry.getvalue())
    return buffer.getvalue()


def read_reference(job: Job) -> Reference:
    """Read the reference items of a job and check them against its tensors.

    Raises:
        InvalidJobError: The job has none, or they do not fit its model; the tensor is named.
    """
    if job.reference is None or job.whole is None:
        raise InvalidJobError(job.folder, "it holds no reference items: it was written without verification")
    path = job.path(job.reference)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays: Dict[str, NDArray[Any]] = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidJobError(job.folder, f"file {job.reference!r} is no archive of arrays ({error})") from error
    inputs = _taken(job, arrays, "input", job.whole.inputs)
    outputs = _taken(job, arrays, "output", job.whole.outputs)
    counts = {len(array) for array in (*inputs, *outputs)}
    if len(counts) != 1 or 0 in counts:
        raise InvalidJobError(job.folder, f"the arrays of {job.reference!r} hold {sorted(counts)} items")
    if len(arrays) != len(inputs) + len(outputs):
        raise InvalidJobError(job.folder, f"{job.reference!r} holds arrays of other names: {', '.join(sorted(arrays))}")
    return Reference(inputs, outputs)


def _taken(
    job: Job, arrays: "Dict[str, NDArray[Any]]", prefix: str, specs: Sequence[TensorSpec]
) -> "Tuple[NDArray[Any], ...]":
    found: List[NDArray[Any]] = []
    for i, spec in enumerate(specs):
        key = f"{prefix}_{i}"
        if key not in arrays:
            raise InvalidJobError(job.folder, f"{job.reference!r} lacks {key!r}, the {prefix} {spec.name!r}")
        array = arrays[key]
        if array.dtype.name != spec.dtype or array.shape[1:] != spec.shape:
            raise InvalidJobError(
                job.folder,
                f"{key!r} of {job.reference!r} is {array.dtype.name} {list(array.shape)}, "
                f"{prefix} {spec.name!r} needs {spec.dtype} (items, {', '.join(map(str, spec.shape))})",
            )
        found.append(array)
    return tuple(found)
