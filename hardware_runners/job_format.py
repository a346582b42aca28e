"""The format of a job folder: its types, and the check of `job.json` that names every mistake.

A job folder holds `job.json` and the files it lists, side by side. `job.json` is one object:

- ``format`` and ``version``: `FORMAT` and `VERSION`;
- ``model``, ``num_stages``, ``objective``, ``solver``: what is timed, and who cut it;
- ``stage_of``: stage of every op, in op order;
- ``profile``: constants of the device's profile, ``name`` among them;
- ``files``: for every other file its ``sha256`` and size in ``bytes``;
- ``segments``: names of the files of the stages in order, or none where only the graph is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from hardware_runners.errors import InvalidJobError

FORMAT = "respect-job"
VERSION = 1
JOB_FILE = "job.json"
GRAPH_FILE = "graph.json"

_KEYS = (
    "format", "version", "model", "num_stages", "objective", "solver", "stage_of", "profile", "files", "segments",
)  # fmt: skip

Constant = Union[str, int, float]


@dataclass(frozen=True)
class JobFile:
    """One file of a job folder."""

    name: str
    sha256: str
    num_bytes: int


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
    profile: Dict[str, Constant]
    """Constants of the device's profile; `name` is a text, the rest are numbers."""
    files: Tuple[JobFile, ...]
    segments: Tuple[str, ...]
    """Files of the stages in order, or none."""

    def path(self, name: str) -> Path:
        """Return the path of a listed file.

        Raises:
            InvalidJobError: The job lists no such file.
        """
        names = [file.name for file in self.files]
        if name not in names:
            raise InvalidJobError(self.folder, f"it lists no file {name!r}, listed are {', '.join(names) or 'none'}")
        return self.folder / name


def checked_job(folder: Path, content: Any) -> Job:
    """Turn the content of `job.json` into a job, or say what is wrong with it."""
    check = _Check(folder)
    check.keys(content, "", _KEYS)
    if content["format"] != FORMAT:
        raise InvalidJobError(folder, f"format is {content['format']!r}, expected {FORMAT!r}")
    if content["version"] != VERSION or isinstance(content["version"], bool):
        raise InvalidJobError(folder, f"version is {content['version']!r}, this program reads version {VERSION}")
    stage_list = check.a_list(content["stage_of"], "stage_of")
    num_stages = check.whole(content["num_stages"], "num_stages", 1, len(stage_list))
    stages = tuple(check.whole(s, f"stage_of[{v}]", 0, num_stages - 1) for v, s in enumerate(stage_list))
    files = check.files(content["files"])
    segments = check.a_list(content["segments"], "segments")
    for segment in segments:
        if segment not in [file.name for file in files]:
            raise InvalidJobError(folder, f"segment {segment!r} is not among its files")
    if len(segments) not in (0, num_stages) or len(set(segments)) != len(segments):
        raise InvalidJobError(folder, f"segments are {segments}, expected none or one for each of {num_stages} stages")
    return Job(
        folder=folder,
        model=check.text(content["model"], "model"),
        num_stages=num_stages,
        objective=check.text(content["objective"], "objective"),
        solver=check.text(content["solver"], "solver"),
        stage_of=stages,
        profile=check.profile(content["profile"]),
        files=files,
        segments=tuple(segments),
    )


class _Check:
    """Checks the types of `job.json`, naming the key that is wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fail(self, key: str, value: object, expected: str) -> InvalidJobError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return InvalidJobError(self.folder, f"{key or JOB_FILE} is {shown}, expected {expected}")

    def keys(self, value: Any, key: str, wanted: Sequence[str]) -> None:
        if not isinstance(value, dict):
            raise self.fail(key, value, "an object with " + ", ".join(wanted))
        where = key or JOB_FILE
        for name in wanted:
            if name not in value:
                raise InvalidJobError(self.folder, f"{where} lacks {name!r}, needed are {', '.join(wanted)}")
        for name in value:
            if name not in wanted:
                raise InvalidJobError(self.folder, f"{where} has an unknown key {name!r}, known: {', '.join(wanted)}")

    def text(self, value: Any, key: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.fail(key, value, "a text")
        return value

    def a_list(self, value: Any, key: str) -> List[Any]:
        if not isinstance(value, list):
            raise self.fail(key, value, "a list")
        return value

    def whole(self, value: Any, key: str, lowest: int, highest: Optional[int]) -> int:
        allowed = f"{lowest} or more" if highest is None else f"{lowest}..{highest}"
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(key, value, f"a whole number in {allowed}")
        if value < lowest or (highest is not None and value > highest):
            raise self.fail(key, value, allowed)
        return value

    def profile(self, value: Any) -> Dict[str, Constant]:
        if not isinstance(value, dict) or "name" not in value:
            raise self.fail("profile", value, "an object with 'name' and the profile's constants")
        self.text(value["name"], "profile name")
        for name, constant in value.items():
            if name == "name":
                continue
            number = isinstance(constant, (int, float)) and not isinstance(constant, bool)
            if not number or not math.isfinite(constant):
                raise self.fail(f"profile constant {name!r}", constant, "a finite number")
        return dict(value)

    def files(self, value: Any) -> Tuple[JobFile, ...]:
        if not isinstance(value, dict):
            raise self.fail("files", value, "an object with one entry a file")
        found = []
        for name, entry in value.items():
            if not name or name in (".", "..", JOB_FILE) or set(name) & set("/\\\0"):
                raise self.fail("a file's name", name, f"a plain name other than {JOB_FILE}")
            self.keys(entry, f"file {name!r}", ("sha256", "bytes"))
            digest = entry["sha256"]
            if not isinstance(digest, str) or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
                raise self.fail(f"sha256 of file {name!r}", digest, "64 hexadecimal digits in lower case")
            found.append(JobFile(name, digest, self.whole(entry["bytes"], f"bytes of file {name!r}", 0, None)))
        return tuple(found)
