"""What every runner takes and returns: `TimingPlan`, `Timings` and the `PipelineRunner` protocol.

Runs on Python 3.9 with NumPy alone, like `job` and `errors`: a host with devices needs nothing else of the project.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple, Type, runtime_checkable

from hardware_runners.errors import InvalidPlanError, UnknownRunnerError
from hardware_runners.job import Job

MAX_INFERENCES = 1_000_000
"""Most inferences that each part of a plan may ask for."""


@dataclass(frozen=True)
class TimingPlan:
    """How often to run a pipeline.

    Latency is measured one item at a time, because in a full pipeline an item's latency is mostly waiting; throughput
    is measured with full queues.

    Raises:
        InvalidPlanError: A number that is not whole or out of its range, or nothing to time at all.
    """

    warm_up: int = 10
    """Inferences before each of the two measurements that are not counted, 0 or more."""
    repeats: int = 50
    """Inferences one at a time (`latency`), 0 to leave this out."""
    items: int = 200
    """Inferences with full queues (`pipelined`), 0 to leave this out, else at least 2."""

    def __post_init__(self) -> None:
        for name, value in (("warm_up", self.warm_up), ("repeats", self.repeats), ("items", self.items)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INFERENCES:
                raise InvalidPlanError(f"{name} is {value!r}, allowed are whole numbers in 0..{MAX_INFERENCES}")
        if self.items == 1:
            raise InvalidPlanError("items is 1, the time between items needs at least 2 (0 leaves it out)")
        if self.repeats == 0 and self.items == 0:
            raise InvalidPlanError("repeats and items are both 0, one of them must be larger")


@dataclass(frozen=True)
class Inference:
    """When one item entered the first stage and left the last one, in nanoseconds of one clock."""

    start_ns: int
    end_ns: int

    @property
    def latency_us(self) -> float:
        """From entering the first stage to leaving the last."""
        return (self.end_ns - self.start_ns) / 1000


@dataclass(frozen=True)
class Timings:
    """What a runner measured, or computed; items of the warm-up are not in it.

    Raises:
        ValueError: The parts do not fit together: an item that ends before it starts, items that leave out of order,
            or stage times of another number of stages. This is a fault of the runner.
    """

    runner: str
    """Name of the runner."""
    is_simulated: bool
    """True where no device was involved."""
    device: str
    """Profile, or devices and their link."""
    host: str
    """Operating system and processor of the host."""
    versions: Dict[str, str]
    """Versions of the runner and of what it ran on."""
    num_stages: int
    latency: Tuple[Inference, ...]
    """One item at a time, `TimingPlan.repeats` of them."""
    stage_ns: Tuple[Tuple[int, ...], ...]
    """Time in every stage for every item of `latency`; `num_stages` numbers each."""
    pipelined: Tuple[Inference, ...]
    """With full queues, `TimingPlan.items` of them."""

    def __post_init__(self) -> None:
        for mode in (self.latency, self.pipelined):
            for item, inference in enumerate(mode):
                if inference.end_ns < inference.start_ns:
                    raise ValueError(f"runner {self.runner!r}: item {item} ends before it starts")
                if item and inference.end_ns < mode[item - 1].end_ns:
                    raise ValueError(f"runner {self.runner!r}: item {item} overtakes the one before it")
        if len(self.stage_ns) != len(self.latency):
            raise ValueError(f"runner {self.runner!r}: {len(self.stage_ns)} stage times for {len(self.latency)} items")
        for item, times in enumerate(self.stage_ns):
            if len(times) != self.num_stages or min(times) < 0:
                raise ValueError(f"runner {self.runner!r}: item {item} has stage times {times}")

    @property
    def latencies_us(self) -> Tuple[float, ...]:
        """Latency of every item that ran alone."""
        return tuple(inference.latency_us for inference in self.latency)

    @property
    def intervals_us(self) -> Tuple[float, ...]:
        """Time between an item's and the next item's leaving the full pipeline; one fewer than items."""
        ends = [inference.end_ns for inference in self.pipelined]
        return tuple((ends[item] - ends[item - 1]) / 1000 for item in range(1, len(ends)))

    @property
    def mean_stage_us(self) -> Tuple[float, ...]:
        """Mean time in every stage; empty where nothing ran alone."""
        count = len(self.stage_ns)
        if count == 0:
            return ()
        return tuple(sum(times[stage] for times in self.stage_ns) / count / 1000 for stage in range(self.num_stages))

    @property
    def mean_latency_us(self) -> Optional[float]:
        """Mean latency of the items that ran alone, None where none did."""
        return sum(self.latencies_us) / len(self.latency) if self.latency else None

    @property
    def period_us(self) -> Optional[float]:
        """Mean time between items of the full pipeline, the inverse of its throughput; None where not measured."""
        if not self.pipelined:
            return None
        return (self.pipelined[-1].end_ns - self.pipelined[0].end_ns) / (len(self.pipelined) - 1) / 1000

    def rows(self, job: Job) -> List[Dict[str, Any]]:
        """Return the rows of the `benchmarks` table, one an inference, as plain values."""
        rows = []
        for mode, inferences in (("latency", self.latency), ("pipelined", self.pipelined)):
            for item, inference in enumerate(inferences):
                before = inferences[item - 1].end_ns if item else None
                rows.append(
                    {
                        "model": job.model,
                        "num_stages": job.num_stages,
                        "objective": job.objective,
                        "solver": job.solver,
                        "runner": self.runner,
                        "is_simulated": self.is_simulated,
                        "device": self.device,
                        "mode": mode,
                        "item": item,
                        "latency_us": inference.latency_us,
                        "interval_us": None if before is None else (inference.end_ns - before) / 1000,
                        "host": self.host,
                        "versions": "; ".join(f"{name} {version}" for name, version in self.versions.items()),
                    }
                )
        return rows


@runtime_checkable
class PipelineRunner(Protocol):
    """Owns the devices of one pipeline; use it as a context manager.

    Entering takes the devices, leaving gives them back, also after an error. One runner may time several jobs.
    """

    name: str
    is_simulated: bool

    def __enter__(self) -> PipelineRunner: ...

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...

    def time(self, job: Job, plan: TimingPlan) -> Timings:
        """Run the job's pipeline as the plan says.

        Args:
            job: What to run, from `read_job`.
            plan: How often.

        Returns:
            ``plan.repeats`` items run alone, with their stage times, and ``plan.items`` run with full queues.

        Raises:
            DeviceUnavailableError: Fewer devices than stages, or one vanished; stage and device are named.
            PipelineFailedError: A stage failed.
            InvalidJobError: The job lacks what this runner needs.
            RunnerClosedError: The runner was not entered.
        """
        ...


RUNNERS: Dict[str, str] = {"simulated": "hardware_runners.simulated:SimulatedRunner"}
"""Class of every runner by name; its module, and with it a device's driver, is imported only when it is opened."""


def open_runner(name: str, **options: Any) -> PipelineRunner:
    """Return a new runner of this name; its devices are taken on entering ``with``.

    Args:
        name: A key of `RUNNERS`.
        **options: Keyword arguments of that runner.

    Raises:
        UnknownRunnerError: There is no such runner.
        InvalidPlanError: The runner has no such option, or the option has no such value.
    """
    if name not in RUNNERS:
        raise UnknownRunnerError(name, sorted(RUNNERS))
    module, _, attribute = RUNNERS[name].partition(":")
    build: Callable[..., PipelineRunner] = getattr(import_module(module), attribute)
    try:
        return build(**options)
    except TypeError as error:
        raise InvalidPlanError(f"runner {name!r} does not take these options ({error})") from error


def host_text() -> str:
    """Describe this host by operating system and processor, without its name."""
    return " ".join(part for part in (platform.system(), platform.release(), platform.machine()) if part)
