"""Reading result files: their content becomes a `Result`, or an error that names the key and what is expected there."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from hardware_runners.errors import InvalidPlanError, InvalidResultError
from hardware_runners.jobs.format import JOB_FILE, Job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.protocol import Energy, Inference, Timings
from hardware_runners.results import FORMAT, JOB_KEYS, KEYS, VERSION, Failure, Result, job_sha256, means_of

_MAX_BYTES = 512 * 2**20
_TOLERANCE = 1e-9


def read_result(path: Union[str, Path], job: Optional[Job] = None) -> Result:
    """Read a result file and check all it says.

    Args:
        path: The file.
        job: The job that it must be of, where that is at hand.

    Returns:
        The result, which may be partial.

    Raises:
        InvalidResultError: It is missing, cut short, not of this format and version, contradicts itself, or belongs to
            another job; the key is named.
    """
    path = Path(path)
    check = _Check(path, _parse(path))
    result = check.result()
    if job is not None:
        for key in JOB_KEYS:
            if getattr(result, key) != getattr(job, key):
                raise InvalidResultError(
                    path, f"{key} is {getattr(result, key)!r}, job folder {job.folder} has {getattr(job, key)!r}"
                )
        if result.job_sha256 != job_sha256(job):
            raise InvalidResultError(path, f"it is of another job than {job.folder}: the sha256 of {JOB_FILE} differs")
    return result


def _parse(path: Path) -> Dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise InvalidResultError(path, f"it has {size} bytes, at most {_MAX_BYTES} are read")
        content = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_no_constant)
    except OSError as error:
        raise InvalidResultError(path, f"it cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise InvalidResultError(path, f"it is not JSON, perhaps it was cut short ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidResultError(path, f"format is not {FORMAT!r}: no runner of this project wrote it")
    if content.get("version") != VERSION or isinstance(content.get("version"), bool):
        raise InvalidResultError(path, f"version is {content.get('version')!r}, this program reads version {VERSION}")
    return content


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


class _Check:
    """Checks the types of a result, naming the key that is wrong."""

    def __init__(self, path: Path, content: Dict[str, Any]) -> None:
        self.path, self.content = path, content
        odd = sorted(set(content) ^ set(KEYS))
        if odd:
            what = "lacks" if odd[0] in KEYS else "has an unknown key"
            raise InvalidResultError(path, f"it {what} {odd[0]!r}")

    def fail(self, key: str, value: object, expected: str) -> InvalidResultError:
        shown = repr(value)
        return InvalidResultError(
            self.path, f"{key} is {shown if len(shown) <= 60 else shown[:57] + '...'}, expected {expected}"
        )

    def result(self) -> Result:
        plan = self.plan()
        timings = self.timings()
        self.started()
        result = Result(
            **{key: self.text(key) for key in ("model", "objective", "solver", "started")},
            num_stages=timings.num_stages,
            job_sha256=self.digest(),
            plan=plan,
            timings=timings,
            failure=self.failure(),
        )
        self.means(timings)
        if timings.is_complete(plan) != result.is_complete or self.content["complete"] is not result.is_complete:
            raise InvalidResultError(
                self.path,
                f"complete is {self.content['complete']!r} with {result.missing}"
                + (" and no error" if result.is_complete else " and an error"),
            )
        return result

    def started(self) -> None:
        """Refuse a time of the start that is none: the table's partitions are named after it."""
        value = self.text("started")
        try:
            offset = datetime.fromisoformat(value).utcoffset()
        except ValueError:
            offset = None
        if offset is None:
            raise self.fail("started", value, "a date and time with its offset, 2026-01-31T12:00:00+00:00")

    def plan(self) -> TimingPlan:
        plan = self.content["plan"]
        if not isinstance(plan, dict) or set(plan) != {"warm_up", "repeats", "items"}:
            raise self.fail("plan", plan, "an object with warm_up, repeats and items")
        try:
            return TimingPlan(**plan)
        except InvalidPlanError as error:
            raise InvalidResultError(self.path, f"plan: {error}") from error

    def timings(self) -> Timings:
        content = self.content
        versions, notes = content["versions"], content["notes"]
        if not isinstance(versions, dict) or not all(isinstance(one, str) for one in versions.values()):
            raise self.fail("versions", versions, "an object of texts")
        if not isinstance(notes, list) or not all(isinstance(one, str) for one in notes):
            raise self.fail("notes", notes, "a list of texts")
        if not isinstance(content["is_simulated"], bool):
            raise self.fail("is_simulated", content["is_simulated"], "true or false")
        num_stages = self.whole("num_stages", content["num_stages"], 1)
        try:
            return Timings(
                runner=self.text("runner"),
                is_simulated=content["is_simulated"],
                device=self.text("device"),
                host=self.text("host"),
                versions=dict(versions),
                num_stages=num_stages,
                latency=self.inferences("latency"),
                stage_ns=tuple(self.times(f"stage_ns[{i}]", t) for i, t in enumerate(self.a_list("stage_ns"))),
                pipelined=self.inferences("pipelined"),
                whole_ns=self.times("whole_ns", content["whole_ns"]),
                energy=self.energy(),
                notes=tuple(notes),
            )
        except InvalidResultError:
            raise
        except ValueError as error:
            raise InvalidResultError(self.path, f"its times contradict each other ({error})") from error

    def text(self, key: str) -> str:
        value = self.content[key]
        if not isinstance(value, str) or not value:
            raise self.fail(key, value, "a text")
        return value

    def whole(self, key: str, value: Any, lowest: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 2**63:
            raise self.fail(key, value, f"a whole number of at least {lowest}")
        return value

    def a_list(self, key: str) -> List[Any]:
        value = self.content[key]
        if not isinstance(value, list):
            raise self.fail(key, value, "a list")
        return value

    def times(self, key: str, value: Any) -> Tuple[int, ...]:
        if not isinstance(value, list):
            raise self.fail(key, value, "a list of nanoseconds")
        return tuple(self.whole(key, time, 0) for time in value)

    def inferences(self, key: str) -> Tuple[Inference, ...]:
        found = []
        for i, value in enumerate(self.a_list(key)):
            times = self.times(f"{key}[{i}]", value)
            if len(times) != 2:
                raise self.fail(f"{key}[{i}]", value, "start and end")
            found.append(Inference(*times))
        return tuple(found)

    def digest(self) -> str:
        value = self.content["job_sha256"]
        if not isinstance(value, str) or len(value) != 64 or set(value) - set("0123456789abcdef"):
            raise self.fail("job_sha256", value, "64 hexadecimal digits in lower case")
        return value

    def energy(self) -> Optional[Energy]:
        value = self.content["energy"]
        if value is None:
            return None
        keys = {"uj_per_inference", "source", "is_modelled", "window_us"}
        if not isinstance(value, dict) or set(value) != keys:
            raise self.fail("energy", value, "null or an object with " + ", ".join(sorted(keys)))
        numbers = [value["uj_per_inference"], value["window_us"]]
        right = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in numbers)
        if not right or not isinstance(value["source"], str) or not isinstance(value["is_modelled"], bool):
            raise self.fail("energy", value, "numbers, a text and true or false")
        return Energy(**value)

    def failure(self) -> Optional[Failure]:
        value = self.content["error"]
        if value is None:
            return None
        if not isinstance(value, dict) or set(value) != {"kind", "message", "stage", "device"}:
            raise self.fail("error", value, "null or an object with kind, message, stage and device")
        for key in ("kind", "message"):
            if not isinstance(value[key], str) or not value[key]:
                raise self.fail(f"error {key}", value[key], "a text")
        if value["stage"] is not None:
            self.whole("error stage", value["stage"], 0)
        if not (value["device"] is None or isinstance(value["device"], str)):
            raise self.fail("error device", value["device"], "null or a text")
        return Failure(**value)

    def means(self, timings: Timings) -> None:
        """Refuse means that are not those of the raw numbers."""
        for key, wanted in means_of(timings).items():
            found = self.content[key]
            pairs = (
                list(zip(wanted, found)) if isinstance(wanted, list) and isinstance(found, list) else [(wanted, found)]
            )
            same = not isinstance(wanted, list) or (isinstance(found, list) and len(found) == len(wanted))
            if not same or not all(_equal(one, other) for one, other in pairs):
                raise self.fail(key, found, f"{wanted}, the mean of the raw times")


def _equal(wanted: Optional[float], found: Any) -> bool:
    if wanted is None or isinstance(found, bool) or not isinstance(found, (int, float)):
        return wanted is None and found is None
    return math.isclose(wanted, found, rel_tol=_TOLERANCE)
