"""`SimulatedRunner`: computes a job's stage times from a device profile and simulates the pipeline event by event."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from types import TracebackType
from typing import Any, Dict, Final, Optional, Sequence, Tuple, Type

import numpy as np

from hardware_runners.errors import InvalidJobError, InvalidPlanError, RunnerClosedError
from hardware_runners.events import UNBOUNDED, simulate_line
from hardware_runners.job import GRAPH_FILE, Constant, Job
from hardware_runners.power import modelled_energy
from hardware_runners.protocol import Energy, Inference, TimingPlan, Timings, host_text
from respect_core.calibration.facts import facts_of_graph
from respect_core.calibration.model import stage_ms
from respect_core.device import DeviceProfile
from respect_core.device_constants import load_known_profile
from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN
from respect_core.objective import evaluate, time_terms
from respect_core.sources.graph_json import read_graph

BETWEEN_STAGES: Final = 1
"""Items that fit between two stages, as in pycoral's pipeline."""

_VERSION: Final = "1"


def profile_constants(profile: DeviceProfile) -> Dict[str, Constant]:
    """Return a profile as the plain values that a job folder keeps."""
    return asdict(profile)


@dataclass(frozen=True)
class ModelledTimes:
    """What the device model says of a job, in nanoseconds."""

    stages: Tuple[int, ...]
    """Of every stage, host transfers included, by `respect_core.objective.evaluate`. Shape (K,)."""
    finer: Optional[Tuple[int, ...]]
    """The same with layers cached whole or not at all, by `respect_core.calibration.model`; None where no compiled
    bytes are known. Shape (K,)."""
    whole: int
    """Of the uncut model on one device."""


def modelled_times(job: Job, profile: Optional[DeviceProfile] = None) -> ModelledTimes:
    """Compute the time of every stage of a job.

    Args:
        job: A job with a graph.
        profile: Constants to use instead of the job's own.

    Raises:
        InvalidJobError: The job has no graph, its graph or profile is wrong, or its schedule is not legal.
    """
    try:
        graph = read_graph(job.path(GRAPH_FILE))
        if profile is None:
            profile = _profile_of(job)
        terms = time_terms(graph, profile)
        numbers = evaluate(graph, job.stage_of, job.num_stages, profile, terms=terms)
        whole = evaluate(graph, np.zeros(graph.num_ops, dtype=np.int64), 1, profile, terms=terms)
    except BadInputError as error:
        raise InvalidJobError(job.folder, str(error)) from error
    finer = None
    if (graph.compiled_bytes != UNKNOWN).any():
        # Without a limit of activations, layers are streamed once: the one refinement is that they are cached whole.
        constants = {**profile_constants(profile), "activation_mib": 0.0}
        facts = facts_of_graph(graph, job.stage_of, job.num_stages)
        numeric = {name: float(value) for name, value in constants.items() if name != "name"}
        finer = tuple(round(stage_ms(stage, numeric) * 1_000_000) for stage in facts)
    return ModelledTimes(tuple(numbers.time_ns.tolist()), finer, int(whole.time_ns[0]))


def finer_note(times: ModelledTimes) -> Tuple[str, ...]:
    """Say what whole-layer caching changes, nothing where it changes less than a thousandth."""
    if times.finer is None or abs(max(times.finer) - max(times.stages)) * 1000 < max(times.stages):
        return ()
    return (
        f"with layers cached whole or not at all one item leaves every {max(times.finer) / 1e6:.2f} ms and takes "
        f"{sum(times.finer) / 1e6:.2f} ms alone; the smooth model, which solvers minimise and these figures show, says "
        f"{max(times.stages) / 1e6:.2f} ms and {sum(times.stages) / 1e6:.2f} ms",
    )


def host_note(times: ModelledTimes, device: str) -> Tuple[str, ...]:
    """Say so where driving the stages would take a Python host longer than the slowest stage, which is not simulated.

    Args:
        times: The job's times.
        device: Name of the profile; of one that is not in `devices.toml` nothing is known.
    """
    try:
        thread_ms = load_known_profile(device)["host_thread_ms"].value
    except BadInputError:
        return ()
    num_stages = len(times.stages)
    if num_stages == 1 or thread_ms * 1e6 * num_stages <= max(times.stages):
        return ()
    return (
        f"a host that drives the stages by Python threads needs about {thread_ms * num_stages:.2f} ms an item for "
        f"{num_stages} stages, which is longer than the slowest stage and not simulated",
    )


def _profile_of(job: Job) -> DeviceProfile:
    wanted = {constant.name for constant in fields(DeviceProfile)}
    odd = sorted(wanted ^ set(job.profile))
    if odd:
        raise InvalidJobError(job.folder, f"profile constants missing or unknown: {', '.join(odd)}")
    constants: Dict[str, Any] = dict(job.profile)
    return DeviceProfile(**constants)


class SimulatedRunner:
    """A pipeline of modelled Edge TPUs: one server a stage, a queue of one between stages, the host at both ends.

    Every tensor between stages passes the host, so a stage's time contains receiving its inputs and sending its
    outputs, and what a later stage needs waits in the host. The host itself takes `push_ns` to hand an item over and
    `pop_ns` to fetch one. Nothing is random and nothing is measured: equal jobs give equal timings everywhere.
    """

    name = "simulated"
    is_simulated = True

    def __init__(
        self,
        *,
        profile: Optional[DeviceProfile] = None,
        input_queue: Optional[int] = UNBOUNDED,
        output_queue: Optional[int] = UNBOUNDED,
        push_ns: int = 0,
        pop_ns: int = 0,
    ) -> None:
        """Configure the pipeline.

        Args:
            profile: Constants to use instead of the job's own.
            input_queue: Items that fit before the first stage, None for any number (pycoral's default).
            output_queue: Items that fit after the last stage, likewise.
            push_ns: Host time to push an item.
            pop_ns: Host time to pop an item.

        Raises:
            InvalidPlanError: A queue of negative size or a negative time.
        """
        for option, value in (
            ("input_queue", input_queue), ("output_queue", output_queue), ("push_ns", push_ns), ("pop_ns", pop_ns),
        ):  # fmt: skip
            if value is not None and value < 0:
                raise InvalidPlanError(f"{option} is {value}, at least 0 is needed")
        self.profile = profile
        self.input_queue, self.output_queue = input_queue, output_queue
        self.push_ns, self.pop_ns = push_ns, pop_ns
        self._open = False

    def __enter__(self) -> SimulatedRunner:
        self._open = True
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._open = False

    def time(self, job: Job, plan: TimingPlan) -> Timings:
        """Simulate the job's pipeline as the plan says; see `PipelineRunner.time`.

        Returns:
            Timings whose period is the largest stage time and whose latency alone is the sum of the stage times,
            unless `push_ns` or `pop_ns` is larger than every stage.

        Raises:
            RunnerClosedError: Outside ``with``.
            InvalidJobError: As `modelled_times`.
        """
        if not self._open:
            raise RunnerClosedError(f"runner {self.name!r} is closed, use it as 'with open_runner(...) as runner'")
        modelled = modelled_times(job, self.profile)
        times = modelled.stages
        device = self.profile.name if self.profile is not None else str(job.profile["name"])
        alone = self._inferences(times, plan.warm_up, plan.repeats, max_in_flight=1)
        full = self._inferences(times, plan.warm_up, plan.items, max_in_flight=None)
        return Timings(
            runner=self.name,
            is_simulated=True,
            device=device,
            host=host_text(),
            versions={"simulator": _VERSION, "respect": _project_version(), "python": platform.python_version()},
            num_stages=job.num_stages,
            latency=alone,
            stage_ns=(times,) * plan.repeats,
            pipelined=full,
            whole_ns=(modelled.whole,) * plan.repeats,
            energy=_energy(times, full),
            notes=(*finer_note(modelled), *host_note(modelled, device)),
        )

    def _inferences(
        self, times: Sequence[int], warm_up: int, count: int, max_in_flight: Optional[int]
    ) -> Tuple[Inference, ...]:
        if count == 0:
            return ()
        queues = [self.input_queue, *[BETWEEN_STAGES] * (len(times) - 1), self.output_queue]
        line = simulate_line([self.push_ns, *times, self.pop_ns], queues, warm_up + count, max_in_flight=max_in_flight)
        first, last = 1, len(times)  # servers of the first and the last stage, between the two ends of the host
        return tuple(
            Inference(line.start_ns[item][first], line.leave_ns[item][last]) for item in range(warm_up, warm_up + count)
        )


def _energy(stage_ns: Sequence[int], full: Sequence[Inference]) -> Optional[Energy]:
    window_ns = full[-1].end_ns - full[0].end_ns if full else 0
    return modelled_energy(stage_ns, window_ns) if window_ns > 0 else None


def _project_version() -> str:
    try:
        return metadata.version("respect-edgetpu")
    except metadata.PackageNotFoundError:
        return "not installed"
