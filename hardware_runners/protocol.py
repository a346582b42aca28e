"""What every runner takes and returns: a `TimingPlan`, `Timings`, and the `PipelineRunner` protocol.

Runs on Python 3.9 with NumPy alone, like `job` and `errors`: a host with devices needs nothing else of the project.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Tuple, Type, runtime_checkable

from hardware_runners.errors import InvalidPlanError, RuntimeMissingError, UnknownRunnerError
from hardware_runners.job import Job
from hardware_runners.jobs.plan import MAX_INFERENCES, TimingPlan

__all__ = [
    "MAX_INFERENCES",
    "RUNNERS",
    "Energy",
    "Inference",
    "JobFacts",
    "PipelineRunner",
    "TimingPlan",
    "Timings",
    "energy_text",
    "host_text",
    "open_runner",
]


@dataclass(frozen=True)
class Inference:
    """When one item entered the first stage and left the last one, in nanoseconds of one clock."""

    start_ns: int
    end_ns: int

    @property
    def latency_us(self) -> float:
        """From entering the first stage to leaving the last."""
        return (self.end_ns - self.start_ns) / 1000


class JobFacts(Protocol):
    """What the rows of a benchmark say of the job; `Job` is one, and so is a result."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def num_stages(self) -> int:
        """Number of stages."""

    @property
    def objective(self) -> str:
        """What the schedule minimised."""

    @property
    def solver(self) -> str:
        """Who made the schedule."""


@dataclass(frozen=True)
class Energy:
    """Energy of one item of the full pipeline.

    Raises:
        ValueError: A number below 0, or a window of no length. This is a fault of the meter.
    """

    uj_per_inference: float
    """Mean power over the window times the mean time between items, in microjoule."""
    source: str
    """What was measured and by what, or which published figures it was modelled from."""
    is_modelled: bool
    """True where nothing was measured."""
    window_us: float
    """Time over which power was integrated."""

    def __post_init__(self) -> None:
        if not 0 <= self.uj_per_inference < float("inf") or not 0 < self.window_us < float("inf") or not self.source:
            raise ValueError(f"{self.uj_per_inference} uJ an item by {self.source!r} over {self.window_us} us")


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
    """True where the times were computed and nothing was run."""
    device: str
    """Profile, devices and their link, or `cpu` and its name where segments run on the host's processor."""
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
    whole_ns: Tuple[int, ...] = ()
    """Time of the uncut model on one device for one item at a time; empty where it was not run."""
    energy: Optional[Energy] = None
    """Energy of an item of the full pipeline, None where there was no meter."""
    notes: Tuple[str, ...] = ()
    """What the user should know besides the numbers, one sentence each."""

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
        if len(self.pipelined) < 2:
            return None
        return (self.pipelined[-1].end_ns - self.pipelined[0].end_ns) / (len(self.pipelined) - 1) / 1000

    @property
    def mean_whole_us(self) -> Optional[float]:
        """Mean time of the uncut model on one device, None where it was not run."""
        return sum(self.whole_ns) / len(self.whole_ns) / 1000 if self.whole_ns else None

    def is_complete(self, plan: TimingPlan) -> bool:
        """Tell whether everything is there that a plan asks for."""
        return len(self.latency) == plan.repeats and len(self.pipelined) == plan.items

    def rows(self, job: JobFacts) -> List[Dict[str, Any]]:
        """Return the rows of the `benchmarks` table, one an inference, as plain values."""
        rows = []
        for mode, inferences in (("latency", self.latency), ("pipelined", self.pipelined)):
            for item, inference in enumerate(inferences):
                before = inferences[item - 1].end_ns if item else None
                energy = self.energy if mode == "pipelined" else None
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
                        "energy_uj_per_inference": None if energy is None else energy.uj_per_inference,
                        "energy_window_us": None if energy is None else energy.window_us,
                        "energy_source": None if energy is None else energy_text(energy),
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
            PipelineFailedError: A stage failed; what was measured until then is the error's `partial`.
            WrongOutputError: The pipeline does not compute what the uncut model computes.
            RuntimeTooOldError: A segment needs a newer runtime.
            InvalidJobError: The job lacks what this runner needs.
            RunnerClosedError: The runner was not entered.
        """
        ...


RUNNERS: Dict[str, str] = {
    "simulated": "hardware_runners.simulated:SimulatedRunner",
    "litert": "hardware_runners.litert:LiteRtRunner",
    "coral": "hardware_runners.coral:CoralRunner",
}
"""Class of every runner by name; its module, and with it a device's driver, is imported only when it is opened."""


def open_runner(name: str, **options: Any) -> PipelineRunner:
    """Return a new runner of this name; its devices are taken on entering ``with``.

    Args:
        name: A key of `RUNNERS`.
        **options: Keyword arguments of that runner.

    Raises:
        UnknownRunnerError: There is no such runner.
        RuntimeMissingError: It needs something that this host does not have.
        InvalidPlanError: The runner has no such option, or the option has no such value.
    """
    if name not in RUNNERS:
        raise UnknownRunnerError(name, sorted(RUNNERS))
    module, _, attribute = RUNNERS[name].partition(":")
    try:
        build: Callable[..., PipelineRunner] = getattr(import_module(module), attribute)
    except ImportError as error:
        raise RuntimeMissingError(f"runner {name!r} cannot be had on this host ({error}): use another one") from error
    check_options(f"runner {name!r}", build, options)
    return build(**options)


def check_options(what: str, build: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that a class does not take.

    Args:
        what: What the class is to the user, for the message.
        build: The class.
        options: The keyword arguments that it is to be given.

    Raises:
        InvalidPlanError: It does not take one of them; that one and those that it takes are named.
    """
    allowed = sorted(signature(build).parameters)
    for name in options:
        if name not in allowed:
            raise InvalidPlanError(f"{what} has no option {name!r}: its options are {', '.join(allowed) or 'none'}")


def energy_text(energy: Energy) -> str:
    """Return the source of an energy, marked where nothing was measured."""
    return f"modelled: {energy.source}" if energy.is_modelled else energy.source


def host_text() -> str:
    """Describe this host by operating system and processor, without its name."""
    return " ".join(part for part in (platform.system(), platform.release(), platform.machine()) if part)
