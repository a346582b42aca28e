"""What a run of a given size and seed consists of: the sets of graphs, labels and schedules."""

from __future__ import annotations

from dataclasses import dataclass

from respect_core.errors import BadInputError
from respect_core.policy.frozen import FROZEN_SEEDS
from respect_core.solve.labelling import LabelConfig
from respect_core.solve.robust import NUM_SCENARIOS
from respect_core.sources.catalog import IMAGENET_MODELS, INT8
from respect_core.sources.synthetic import SyntheticSpec
from tasks.generalisation import SWEEPS, GeneralisationSet
from tasks.generate import GraphSet
from tasks.label import LabelSet
from tasks.memory import NETWORKS, MemorySet
from tasks.schedule import THROUGHPUT_SOLVERS, ScheduleSet
from tasks.sizes import EVALUATION_SEED, STAGES, PipelineSize, get_size
from tasks.train import Training

NUM_OPS = 30
"""Ops of a synthetic graph, as in the paper."""

RESERVED_SEEDS = FROZEN_SEEDS | {EVALUATION_SEED}
"""Seeds of graphs that judge policies: nobody may train on them."""


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The sets that one pipeline run works on."""

    size: PipelineSize
    seed: int = 0

    @classmethod
    def of(cls, size: str, seed: int = 0) -> RunPlan:
        """Look a size up by name.

        Raises:
            UnknownNameError: There is no such size.
            BadInputError: The seed is out of range, or of graphs that judge policies, which nobody may train on.
        """
        if not 0 <= seed < 2**32 or seed in RESERVED_SEEDS:
            raise BadInputError(
                f"seed is {seed}, allowed are whole numbers in 0..2**32-1 except "
                f"{', '.join(map(str, sorted(RESERVED_SEEDS)))}, which make the graphs that policies are judged by"
            )
        return cls(size=get_size(size), seed=seed)

    @property
    def training_graphs(self) -> GraphSet:
        """Graphs the policy is trained on."""
        spec = SyntheticSpec(family=self.size.family, num_ops=NUM_OPS, seed=self.seed)
        return GraphSet(spec=spec, num_graphs=self.size.num_graphs, shard_graphs=self.size.shard_graphs)

    @property
    def evaluation_graphs(self) -> GraphSet:
        """The frozen graphs that decide about promotion, the same for every size and seed."""
        spec = SyntheticSpec(family="local", num_ops=NUM_OPS, seed=EVALUATION_SEED)
        count = self.size.evaluation_graphs
        return GraphSet(spec=spec, num_graphs=count, shard_graphs=count)

    @property
    def graph_sets(self) -> tuple[GraphSet, GraphSet]:
        """All graph sets of the run."""
        return self.training_graphs, self.evaluation_graphs

    def labels_of(self, graphs: GraphSet) -> LabelSet:
        """Return the labels of a graph set."""
        config = LabelConfig(num_stages=STAGES, time_limit_s=self.size.label_time_limit_s)
        return LabelSet(graphs=graphs, config=config)

    @property
    def training(self) -> Training:
        """The training of the policy."""
        return Training(
            labels=self.labels_of(self.training_graphs),
            config=self.size.train_config(self.seed),
            network=self.size.network,
        )

    @property
    def memory(self) -> MemorySet:
        """The networks ordered for least activation memory."""
        return MemorySet(networks=NETWORKS, time_limit_s=self.size.schedule_time_limit_s, seed=self.seed)

    def generalisation(self, policy: str) -> GeneralisationSet:
        """Return the generalisation test of the policy whose weights have this digest; its graphs know no seed."""
        return GeneralisationSet(policy=policy, sweeps=SWEEPS, num_graphs=self.size.generalisation_graphs)

    def schedules(self, policy: str | None) -> ScheduleSet:
        """Return the schedules of the ten layer graphs; ``policy`` is the digest of the champion's weights."""
        return ScheduleSet(
            models=IMAGENET_MODELS,
            num_stages=STAGES,
            time_limit_s=self.size.schedule_time_limit_s,
            seed=self.seed,
            policy=policy,
        )

    def throughput_schedules(self, policy: str | None) -> ScheduleSet:
        """Return the schedules of the ten int8 op graphs for a pipeline such as pycoral's; ``policy`` likewise."""
        return ScheduleSet(
            models=tuple(model + INT8 for model in IMAGENET_MODELS),
            num_stages=STAGES,
            solvers=THROUGHPUT_SOLVERS,
            objective="throughput",
            constraints=("outputs_last", "inputs_first"),
            peak_memory_by=("exact",),
            num_scenarios=NUM_SCENARIOS,
            time_limit_s=self.size.schedule_time_limit_s,
            seed=self.seed,
            policy=policy,
        )
