"""The check of `job.json`: its content becomes a `Job`, or an error that names the key and what is expected there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

from hardware_runners.errors import InvalidJobError, InvalidPlanError
from hardware_runners.jobs.flow import check_flow
from hardware_runners.jobs.format import (
    DTYPES,
    FORMAT,
    JOB_FILE,
    VERSION,
    Constant,
    Job,
    JobFile,
    JobSegment,
    TensorSpec,
)
from hardware_runners.jobs.plan import TimingPlan

_KEYS = (
    "format", "version", "model", "num_stages", "objective", "solver", "stage_of", "suits_pipeline", "profile", "plan",
    "files", "whole", "segments", "reference",
)  # fmt: skip

_MAX_RANK = 32
_MAX_TENSOR_BYTES = 2**40


def checked_job(folder: Path, content: Any) -> Job:
    """Turn the content of `job.json` into a job.

    Raises:
        InvalidJobError: A key is missing, unknown or of the wrong type or range, a file that is named is not listed,
            or the segments do not chain; the key, file, stage or tensor is named.
    """
    check = _Check(folder)
    if isinstance(content, dict):
        check.version(content)
    check.keys(content, "", _KEYS)
    stage_list = check.a_list(content["stage_of"], "stage_of")
    num_stages = check.whole(content["num_stages"], "num_stages", 1, len(stage_list))
    files = check.files(content["files"])
    names = frozenset(file.name for file in files)
    job = Job(
        folder=folder,
        model=check.text(content["model"], "model"),
        num_stages=num_stages,
        objective=check.text(content["objective"], "objective"),
        solver=check.text(content["solver"], "solver"),
        stage_of=tuple(check.whole(s, f"stage_of[{v}]", 0, num_stages - 1) for v, s in enumerate(stage_list)),
        suits_pipeline=check.truth(content["suits_pipeline"], "suits_pipeline"),
        profile=check.profile(content["profile"]),
        plan=check.plan(content["plan"]),
        files=files,
        whole=check.whole_model(content["whole"], names),
        segments=check.segments(content["segments"], names, num_stages),
        reference=check.reference(content["reference"], names),
    )
    _check_together(job)
    return job


def _check_together(job: Job) -> None:
    """Check what more than one key says."""
    if (job.whole is None) != (not job.segments):
        raise InvalidJobError(job.folder, "of whole and segments one is given without the other")
    if job.whole is None:
        for key, given in (("reference", job.reference is not None), ("suits_pipeline", job.suits_pipeline)):
            if given:
                raise InvalidJobError(job.folder, f"{key} is given without the segments that it is about")
        return
    used = [name for part in (job.whole, *job.segments) for name in (part.file, part.compiled) if name is not None]
    twice = sorted(name for name in set(used) if used.count(name) > 1)
    if twice:
        raise InvalidJobError(job.folder, f"file {twice[0]!r} is named for two models")
    check_flow(job)


class _Check:
    """Checks the types of `job.json`, naming the key that is wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fail(self, key: str, value: object, expected: str) -> InvalidJobError:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return InvalidJobError(self.folder, f"{key or JOB_FILE} is {shown}, expected {expected}")

    def version(self, content: Dict[str, Any]) -> None:
        """Refuse another format or version first: the keys of another version say little."""
        if "format" in content and content["format"] != FORMAT:
            raise InvalidJobError(self.folder, f"format is {content['format']!r}, expected {FORMAT!r}")
        version = content.get("version", VERSION)
        if isinstance(version, bool) or version != VERSION:
            raise InvalidJobError(
                self.folder, f"version is {version!r}, this program reads version {VERSION}: write the job again"
            )

    # -- plain values --------------------------------------------------------------------------------------------

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

    def truth(self, value: Any, key: str) -> bool:
        if not isinstance(value, bool):
            raise self.fail(key, value, "true or false")
        return value

    # -- parts ---------------------------------------------------------------------------------------------------

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

    def plan(self, value: Any) -> TimingPlan:
        self.keys(value, "plan", ("warm_up", "repeats", "items"))
        try:
            return TimingPlan(**value)
        except InvalidPlanError as error:
            raise InvalidJobError(self.folder, f"plan: {error}") from error

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

    def listed(self, value: Any, key: str, names: FrozenSet[str]) -> str:
        if self.text(value, key) not in names:
            raise InvalidJobError(self.folder, f"{key} {value!r} is not among its files")
        return str(value)

    def reference(self, value: Any, names: FrozenSet[str]) -> Optional[str]:
        return None if value is None else self.listed(value, "reference", names)

    def whole_model(self, value: Any, names: FrozenSet[str]) -> Optional[JobSegment]:
        return None if value is None else self._segment(value, "whole", names, needs_file=False)

    def segments(self, value: Any, names: FrozenSet[str], num_stages: int) -> Tuple[JobSegment, ...]:
        entries = self.a_list(value, "segments")
        if len(entries) not in (0, num_stages):
            raise self.fail("segments", f"{len(entries)} objects", f"none or one for each of {num_stages} stages")
        return tuple(self._segment(s, f"segments[{k}]", names, needs_file=True) for k, s in enumerate(entries))

    def _segment(self, value: Any, key: str, names: FrozenSet[str], *, needs_file: bool) -> JobSegment:
        self.keys(value, key, ("file", "compiled", "inputs", "outputs"))
        file, compiled = value["file"], value["compiled"]
        return JobSegment(
            file=None if file is None and not needs_file else self.listed(file, f"{key} file", names),
            compiled=None if compiled is None else self.listed(compiled, f"{key} compiled", names),
            inputs=self._tensors(value["inputs"], f"{key} inputs"),
            outputs=self._tensors(value["outputs"], f"{key} outputs"),
        )

    def _tensors(self, value: Any, key: str) -> Tuple[TensorSpec, ...]:
        specs = tuple(self._tensor(entry, f"{key}[{i}]") for i, entry in enumerate(self.a_list(value, key)))
        names = [spec.name for spec in specs]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InvalidJobError(self.folder, f"{key} name tensor {twice[0]!r} twice")
        return specs

    def _tensor(self, value: Any, key: str) -> TensorSpec:
        self.keys(value, key, ("name", "dtype", "shape"))
        name, dtype = self.text(value["name"], f"{key} name"), value["dtype"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise self.fail(f"{key} dtype", dtype, f"one of {', '.join(DTYPES)}")
        sizes = self.a_list(value["shape"], f"{key} shape")
        if len(sizes) > _MAX_RANK:
            raise self.fail(f"{key} shape", sizes, f"at most {_MAX_RANK} dimensions")
        spec = TensorSpec(name, dtype, tuple(self.whole(size, f"{key} shape", 1, _MAX_TENSOR_BYTES) for size in sizes))
        if spec.num_bytes > _MAX_TENSOR_BYTES:
            raise self.fail(f"{key} shape", sizes, "at most 2**40 bytes")
        return spec
