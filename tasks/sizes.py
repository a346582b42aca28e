"""How large a pipeline run is: `smoke` takes minutes, `nightly` about an hour, `full` the paper's million graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from respect_core.errors import UnknownNameError
from respect_core.policy.config import ImitationConfig, NetworkConfig

SizeName = Literal["smoke", "nightly", "full"]

STAGES: Final = (4, 5, 6)
"""Numbers of Edge TPUs that labels, schedules and benchmarks cover."""


@dataclass(frozen=True, kw_only=True)
class PipelineSize:
    """Everything that differs between a quick look and a long run."""

    name: SizeName
    family: str
    """Generator family of the training graphs."""
    num_graphs: int
    """Training graphs."""
    shard_graphs: int
    """Graphs a task: enough to outweigh starting it, few enough for a process to audit in about 1 GB."""
    evaluation_graphs: int
    """Graphs of the frozen evaluation set, never trained on."""
    train: ImitationConfig
    """How the policy is trained; its seed is replaced by the run's."""
    network: NetworkConfig
    """Sizes of the network."""
    label_time_limit_s: float
    """Deadline of one label."""
    schedule_time_limit_s: float
    """Deadline of one solver for one model and K."""
    benchmark_items: int
    """Timed inferences of a benchmark."""
    generalisation_graphs: int
    """Graphs of every point of the generalisation test."""

    def train_config(self, seed: int) -> ImitationConfig:
        """Return the training settings with this seed."""
        return replace(self.train, seed=seed)


_FINE_TUNING: Final = ImitationConfig(
    epochs=12,
    patience=4,
    batch_size=64,
    learning_rate=1e-4,
    best_of_steps=300,
    warm_start=True,
    max_seconds=60,
)
"""Trainings go on from the weights that come along, and keep them where nothing better was found."""

SIZES: Final[dict[SizeName, PipelineSize]] = {
    "smoke": PipelineSize(
        name="smoke",
        family="local",
        num_graphs=240,
        shard_graphs=120,
        evaluation_graphs=40,
        train=_FINE_TUNING,
        network=NetworkConfig(),
        label_time_limit_s=20,
        schedule_time_limit_s=15,
        benchmark_items=50,
        generalisation_graphs=10,
    ),
    "nightly": PipelineSize(
        name="nightly",
        family="local",
        num_graphs=20_000,
        shard_graphs=5_000,
        evaluation_graphs=40,
        train=replace(_FINE_TUNING, batch_size=128, best_of_steps=20_000, max_seconds=1500),
        network=NetworkConfig(),
        label_time_limit_s=60,
        schedule_time_limit_s=60,
        benchmark_items=500,
        generalisation_graphs=30,
    ),
    "full": PipelineSize(
        name="full",
        family="paper",
        num_graphs=1_000_000,
        shard_graphs=20_000,
        evaluation_graphs=40,
        train=replace(_FINE_TUNING, epochs=4, patience=2, batch_size=128, best_of_steps=200_000, max_seconds=24 * 3600),
        network=NetworkConfig(),
        label_time_limit_s=60,
        schedule_time_limit_s=300,
        benchmark_items=1000,
        generalisation_graphs=60,
    ),
}

EVALUATION_SEED: Final = 9001
"""Seed of the frozen evaluation graphs, the same at every size so that champions of different nights compare."""


def get_size(name: str) -> PipelineSize:
    """Return a size by name or raise `UnknownNameError`."""
    for size in get_args(SizeName):
        if size == name:
            return SIZES[size]
    raise UnknownNameError("size", name, list(SIZES))
