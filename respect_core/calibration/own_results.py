"""Reading a user's own benchmark results: the table `benchmarks` (Parquet) or the JSON of `respect benchmark`."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from respect_core.calibration.facts import facts_of_graph
from respect_core.calibration.observations import Link, Measured, Measurements, Observation, Skipped
from respect_core.errors import InputFileError, RespectError
from respect_core.graph import DnnGraph, IntArray

FindJob = Callable[["Timing"], tuple[DnnGraph, IntArray] | None]
"""Returns the graph and the stage of every op that a timing belongs to, None where no job folder fits."""

CPU_RUNNER: Final = "litert"
"""The runner that involves no Edge TPU."""

_KEYS = ("model", "num_stages", "objective", "solver", "device", "host", "is_simulated")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The times of one job on one host."""

    model: str
    num_stages: int
    objective: str
    solver: str
    device: str
    host: str
    is_simulated: bool
    latency_ms: float | None
    """One item alone, median."""
    period_ms: float | None
    """Between two items of a full pipeline, median."""
    stage_ms: tuple[float, ...] = ()
    """Each stage alone, where the runner says."""
    runner: str = ""
    versions: str = ""
    """Of runner and runtime, as text."""
    job_sha256: str = ""
    """Of the job's `job.json`, where it is known."""
    failure: str = ""
    """What ended the run before it was complete."""

    @property
    def host_threads(self) -> bool:
        """Whether Python threads drove the stages: of the engines for devices `litert` does, `pycoral` does not."""
        return re.search(r"engine\W+litert", self.versions) is not None

    @property
    def row(self) -> str:
        """A name for messages."""
        return f"{self.model} x{self.num_stages} {self.objective} {self.solver} on {self.device}"


def read_timings(path: Path) -> list[Timing]:
    """Read results from Parquet, from JSON with one result or a list of them, or from a folder of such files.

    Raises:
        InputFileError: It is neither, or lacks a key; the key is named.
    """
    if path.is_dir():
        files = sorted(file for ending in ("*.json", "*.parquet") for file in path.glob(ending))
        if not files:
            raise InputFileError(path, "the folder holds neither JSON nor Parquet")
        return [timing for file in files for timing in read_timings(file)]
    if path.suffix.lower() == ".parquet":
        return _from_table(path)
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputFileError(path, f"it is not JSON, perhaps it was cut short ({error})") from error
    except OSError as error:
        raise InputFileError(path, f"it cannot be read ({error.strerror})") from error
    results = content if isinstance(content, list) else [content]
    return [_from_result(path, number, result) for number, result in enumerate(results)]


def observations_of(
    timings: Iterable[Timing], find_job: FindJob, link: Link | None, *, simulated_too: bool = False
) -> Measurements:
    """Turn timings into observations: one for the latency, one for the period and one for each stage.

    Args:
        timings: What was measured.
        find_job: Finds the graph and schedule of a timing.
        link: Link of all of them; None takes it from the device's name.
        simulated_too: Use what a simulator computed as if it were measured, to try this out.
    """
    used: list[Observation] = []
    skipped: list[Skipped] = []
    for timing in timings:
        try:
            job = find_job(timing)
        except RespectError as error:
            skipped.append(Skipped(row=timing.row, why=str(error)))
            continue
        at = link or _link_of(timing.device)
        why = ""
        if timing.is_simulated and not simulated_too:
            why = "it is simulated: nothing was measured"
        elif timing.runner == CPU_RUNNER:
            why = "its segments ran on the host's processor, not on an Edge TPU"
        elif timing.failure:
            why = f"the run was not complete: {timing.failure}"
        elif job is None:
            why = "no job folder with this model, number of stages, objective and solver: name its folder by --jobs"
        elif at is None:
            why = f"device {timing.device!r} does not say its link: choose one with --link"
        if why or job is None or at is None:
            skipped.append(Skipped(row=timing.row, why=why))
            continue
        used += _of_timing(timing, *job, at, link is None)
    return Measurements(used=tuple(used), skipped=tuple(skipped))


def _of_timing(
    timing: Timing, graph: DnnGraph, stage_of: IntArray, link: Link, is_link_stated: bool
) -> list[Observation]:
    stages = facts_of_graph(graph, stage_of, timing.num_stages)
    parts: list[tuple[str, Measured, float | None, slice]] = [
        ("latency", "latency", timing.latency_ms, slice(None)),
        ("period", "period", timing.period_ms, slice(None)),
    ]
    if len(timing.stage_ms) == timing.num_stages > 1:
        parts += [(f"stage {k}", "latency", ms, slice(k, k + 1)) for k, ms in enumerate(timing.stage_ms)]
    return [
        Observation(
            row=f"{timing.row}: {name}",
            source=timing.host,
            model=timing.model,
            family=timing.model,
            link=link,
            is_link_stated=is_link_stated,
            measured=measured,
            batch=None,
            host_threads=timing.host_threads,
            time_ms=ms,
            stages=stages[part],
            facts_from="job folder",
        )
        for name, measured, ms, part in parts
        if ms is not None and math.isfinite(ms) and ms > 0
    ]


def _link_of(device: str) -> Link | None:
    text = device.lower()
    if ("usb" in text) == ("pci" in text):
        return None
    return "usb3" if "usb" in text else "pcie"


# -- reading -----------------------------------------------------------------------------------------------------------


def _from_result(path: Path, number: int, result: Any) -> Timing:
    if not isinstance(result, dict):
        raise InputFileError(path, f"result {number} is not an object with {', '.join(_KEYS)}")
    for key in _KEYS:
        if key not in result:
            raise InputFileError(path, f"result {number} lacks {key!r}, needed are {', '.join(_KEYS)}")
    stages = result.get("stage_us") or []
    numbers = [result.get("latency_us"), result.get("period_us"), *stages]
    if not all(x is None or (isinstance(x, int | float) and math.isfinite(x) and x >= 0) for x in numbers):
        raise InputFileError(path, f"result {number} has a time that is no number of microseconds: {numbers}")
    if isinstance(result["num_stages"], bool) or not isinstance(result["num_stages"], int) or result["num_stages"] < 1:
        raise InputFileError(path, f"result {number} has num_stages {result['num_stages']!r}, expected 1 or more")
    return Timing(
        **{key: str(result[key]) for key in ("model", "objective", "solver", "device", "host")},
        num_stages=result["num_stages"],
        is_simulated=bool(result["is_simulated"]),
        latency_ms=_ms(result.get("latency_us")),
        period_ms=_ms(result.get("period_us")),
        stage_ms=tuple(us / 1000 for us in stages),
        runner=str(result.get("runner") or ""),
        versions=str(result.get("versions") or ""),
        job_sha256=str(result.get("job_sha256") or ""),
        failure="" if result.get("complete", True) else str(result.get("error")),
    )


def _from_table(path: Path) -> list[Timing]:
    keys = (*_KEYS, "runner", "versions")
    columns = [*keys, "mode", "latency_us", "interval_us"]
    try:
        rows = pq.read_table(path, columns=columns).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputFileError(path, f"it is no table of benchmarks with {', '.join(columns)} ({error})") from error
    times: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for row in rows:
        found = times.setdefault(tuple(row[key] for key in keys), {"latency": [], "pipelined": []})
        us = row["latency_us"] if row["mode"] == "latency" else row["interval_us"]
        if us is not None:
            found[row["mode"]].append(us)
    return [
        Timing(
            **dict(zip(keys, key, strict=True)), latency_ms=_median(by["latency"]), period_ms=_median(by["pipelined"])
        )
        for key, by in times.items()
    ]


def _median(us: list[float]) -> float | None:
    return _ms(statistics.median(us)) if us else None


def _ms(us: float | None) -> float | None:
    return None if us is None else us / 1000
