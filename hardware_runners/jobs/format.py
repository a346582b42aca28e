"""The format of a job folder: what `job.json` says, as types.

A job folder holds `job.json` and the files it lists, side by side; copying the folder is all that another host needs.
`job.json` is one object (`hardware_runners.jobs.check` refuses anything else and names the mistake):

- ``format`` and ``version``: `FORMAT` and `VERSION`;
- ``model``, ``num_stages``, ``objective``, ``solver``: what is timed, and who cut it;
- ``stage_of``: stage of every op, in op order;
- ``suits_pipeline``: whether pycoral's pipeline can take the segments, which `hardware_runners.jobs.flow` then checks;
  where it is false only runners that relay every tensor themselves can;
- ``profile``: constants of the device's profile, ``name`` among them;
- ``plan``: ``warm_up``, ``repeats`` and ``items`` of the `TimingPlan`;
- ``files``: for every other file its ``sha256`` and size in ``bytes``;
- ``whole``: the uncut model, or null where only the graph is known;
- ``segments``: one object a stage, in order, or none where only the graph is known;
- ``reference``: the file of items to run and what the model makes of them (`hardware_runners.jobs.reference`), or null.

``whole`` and every segment are objects with ``file`` (of ``whole`` it may be null: the uncut model is left out),
``compiled`` (the same for the Edge TPU, or null), ``inputs`` and ``outputs``. These list the tensors in the order in
which an interpreter has them, each with ``name``, ``dtype`` (NumPy's name) and ``shape``. Every input of a segment is
an input of the model or an output of an earlier segment of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional, Tuple, Union

from hardware_runners.errors import InvalidJobError
from hardware_runners.jobs.plan import TimingPlan

FORMAT = "respect-job"
VERSION = 2
JOB_FILE = "job.json"
GRAPH_FILE = "graph.json"
SCHEDULE_FILE = "schedule.json"
REFERENCE_FILE = "reference.npz"

DTYPES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of an element by NumPy's name of its type."""

Constant = Union[str, int, float]


@dataclass(frozen=True)
class JobFile:
    """One file of a job folder."""

    name: str
    sha256: str
    num_bytes: int


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a segment takes or gives."""

    name: str
    dtype: str
    """A key of `DTYPES`."""
    shape: Tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Size of the tensor."""
        count = DTYPES[self.dtype]
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True)
class JobSegment:
    """The model of one stage, or the uncut one."""

    file: Optional[str]
    """None only for an uncut model that is left out."""
    compiled: Optional[str]
    """The same model compiled for the Edge TPU, None where it is not compiled."""
    inputs: Tuple[TensorSpec, ...]
    """In the interpreter's order."""
    outputs: Tuple[TensorSpec, ...]
    """In the interpreter's order."""


@dataclass(frozen=True)
class Job:
    """A job folder whose files were all found as `job.json` describes them."""

    folder: Path
    model: str
    num_stages: int
    objective: str
    solver: str
    stage_of: Tuple[int, ...]
    """Stage of every op, in [0, num_stages). Shape (n,)."""
    suits_pipeline: bool
    """True where pycoral's pipeline can take the segments: the dataflow is what it needs."""
    profile: Dict[str, Constant]
    """Constants of the device's profile; `name` is a text, the rest are numbers."""
    plan: TimingPlan
    """How often to run it, unless the user says otherwise."""
    files: Tuple[JobFile, ...]
    whole: Optional[JobSegment]
    """The uncut model, None where only the graph is known."""
    segments: Tuple[JobSegment, ...]
    """One a stage, or none where only the graph is known."""
    reference: Optional[str]
    """File of items to run and of the outputs that the uncut model gives for them."""

    def path(self, name: str) -> Path:
        """Return the path of a listed file.

        Raises:
            InvalidJobError: The job lists no such file.
        """
        names = [file.name for file in self.files]
        if name not in names:
            raise InvalidJobError(self.folder, f"it lists no file {name!r}, listed are {', '.join(names) or 'none'}")
        return self.folder / name
