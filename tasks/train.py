"""Training: labels in, a registered policy out, and the gate that decides whether it is used."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.evaluate import EvaluationCase
from respect_core.solve.protocol import Problem
from respect_core.tables.domain_checks import training_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.graph_rows import GraphTables, tables_to_graphs
from respect_core.tables.labels import LABELS
from respect_core.tables.training import TRAINING
from tasks.generate import GRAPH_SCHEMAS
from tasks.home import Home
from tasks.label import LabelSet, read_shard
from tasks.policy_gate import DECISION_TAG, ILLEGAL_TAG, GateDecision, promote_if_better
from tasks.publishing import Checks, Published, publish_all, published
from tasks.tracking import Tracking

if TYPE_CHECKING:
    from respect_core.graph import DnnGraph
    from respect_core.policy.chunks import LabelChunk
    from respect_core.policy.train import EpochResult

TRAINING_VERSION = "2"
"""Raise it when the same settings and labels would train another policy."""

FINGERPRINT_TAG = "training_fingerprint"
VALIDATION_FRACTION = 0.1
MOST_VALIDATION_GRAPHS = 200
"""Graphs set aside for validation come out of the first shard, at most so many."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training: its labels and its settings."""

    labels: LabelSet
    config: ImitationConfig
    network: NetworkConfig

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the trained policy."""
        return fingerprint(
            labels=self.labels.fingerprint,
            config=asdict(self.config),
            network=asdict(self.network),
            version=TRAINING_VERSION,
        )


@dataclass(frozen=True, kw_only=True)
class TrainedPolicy:
    """A policy in the registry."""

    version: str
    """Version of the registered model."""
    run_id: str
    training: Published
    """Its curve in the table `training`."""
    reused: bool
    """True where an earlier run had trained exactly this."""
    judged: str | None = None
    """What the gate decided about it before, None where it has not been judged."""
    illegal: int = 0
    """Illegal schedules the gate counted then."""


def labelled_graphs(home: Home, labels: LabelSet) -> list[tuple[DnnGraph, dict[str, Any]]]:
    """Return every graph with each of its proven labels, a row of the table `labels`."""
    tables = {schema.name: home.dataset(schema).read(labels.graphs.partition) for schema in GRAPH_SCHEMAS}
    graphs = {graph.name: graph for graph in tables_to_graphs(GraphTables(**tables))}
    rows = home.dataset(LABELS).read(labels.partition).filter(pc.field("status") == "optimal").to_pylist()
    return [(graphs[row["graph_id"]], row) for row in rows]


def evaluation_cases(home: Home, labels: LabelSet) -> list[EvaluationCase]:
    """Return the proven labels of a set as cases to judge a policy by."""
    return [
        EvaluationCase(
            problem=Problem.of(graph, row["num_stages"], row["objective"]), optimal_peak_bytes=row["peak_param_bytes"]
        )
        for graph, row in labelled_graphs(home, labels)
    ]


def trained_before(home: Home, training: Training) -> TrainedPolicy | None:
    """Return the registered policy of exactly this training, if there is one and its curve is published."""
    found = Tracking(home.path).find_version(FINGERPRINT_TAG, training.fingerprint)
    if found is None:
        return None
    curve = published(home, TRAINING, _partition(found.run_id))
    if curve is None:
        return None
    return TrainedPolicy(
        version=found.version,
        run_id=found.run_id,
        training=curve,
        reused=True,
        judged=found.tags.get(DECISION_TAG),
        illegal=int(found.tags.get(ILLEGAL_TAG, "0")),
    )


@task(task_run_name="train-policy", cache_policy=NO_CACHE)
def train_policy(home: Path, training: Training) -> TrainedPolicy:
    """Train on the published labels, log to MLflow, register the best network as `candidate`, publish the curve."""
    from respect_core.policy.imitation import train_imitation

    at, log = Home(path=home), get_run_logger()
    tracking = Tracking(home)
    source = ShardedLabels(at, training.labels, training.config.seed)
    folder = at.checkpoints / training.fingerprint
    folder.mkdir(parents=True, exist_ok=True)
    params = {**training.config.as_params(), **asdict(training.network), "labels": source.num_labels}
    tracking.end_abandoned_runs(FINGERPRINT_TAG, training.fingerprint)
    with tracking.run("train-policy", params, {FINGERPRINT_TAG: training.fingerprint}) as run_id:
        dataset = at.dataset(LABELS)
        partition = dataset.partition(training.labels.partition)
        tracking.log_dataset(run_id, "labels", partition.digest, partition.name)

        def on_epoch(result: EpochResult) -> None:
            tracking.log_epoch(run_id, result)
            log.info(
                "epoch %d of at most %d: cost %.4f, validation gap %.2f %%, %.1f s",
                result.epoch,
                training.config.epochs,
                result.validation_cost,
                100 * result.validation_gap,
                result.epoch_seconds,
            )

        outcome = train_imitation(
            source,
            source.validation,
            folder=folder,
            config=training.config,
            network=training.network,
            on_epoch=on_epoch,
        )
        for earlier in outcome.epochs[: outcome.resumed_after]:
            tracking.log_epoch(run_id, earlier)
        tracking.log_metrics(run_id, {"resumed_after": outcome.resumed_after})
        log.info(
            "best epoch %d: validation gap %.2f %% (untrained %.2f %%)",
            outcome.best_epoch,
            100 * outcome.best_gap,
            100 * outcome.untrained_gap,
        )
        tracking.log_metrics(run_id, {"best_gap": outcome.best_gap, "untrained_gap": outcome.untrained_gap})
        curve = _publish_curve(at, training, run_id, outcome.epochs)
        version = tracking.register_policy(run_id, outcome.checkpoint, *_an_example(at, training.labels))
        tracking.tag_version(version, {FINGERPRINT_TAG: training.fingerprint})
    return TrainedPolicy(version=version, run_id=run_id, training=curve, reused=False)


@task(task_run_name="gate", cache_policy=NO_CACHE)
def judge_policy(home: Path, evaluation: LabelSet, version: str) -> GateDecision:
    """Compare a version and the champion on the frozen evaluation set and promote the version if it is no worse."""
    at = Home(path=home)
    decision = promote_if_better(Tracking(home), evaluation_cases(at, evaluation), version)
    verdict = "promoted to champion" if decision.promoted else "not promoted"
    create_markdown_artifact(
        f"Candidate {decision.candidate_version} **{verdict}**: {decision.reason}",
        key="policy-gate",
        description=f"Evaluation set {decision.evaluation_digest[:16]}, {decision.candidate.cases} problems",
    )
    return decision


class ShardedLabels:
    """The published labels of a set, a shard of graphs at a time; some graphs of the first one are set aside.

    Raises:
        BadInputError: The first shard has fewer than two labelled graphs, or a label cannot teach.
    """

    def __init__(self, home: Home, labels: LabelSet, seed: int) -> None:
        from respect_core.policy.chunks import hold_out

        self._home, self._labels = home, labels
        self.num_chunks = labels.graphs.num_shards
        partition = home.dataset(LABELS).partition(labels.partition)
        self._paths = [str(path) for path in home.dataset(LABELS).paths(partition)]
        self.digest = f"{partition.digest} {seed}"
        self.num_labels = partition.rows
        self._first, self.validation = hold_out(self._read(0), VALIDATION_FRACTION, MOST_VALIDATION_GRAPHS, seed)

    def chunk(self, index: int) -> LabelChunk:
        """Return the labels of one shard that are trained on."""
        return self._first if index == 0 else self._read(index)

    def _read(self, shard: int) -> LabelChunk:
        from respect_core.policy.chunks import chunk_of

        graphs = read_shard(self._home, self._labels.graphs, shard)
        ids = self._labels.graphs.ids(shard)
        between = [("graph_id", ">=", ids[0].as_py()), ("graph_id", "<=", ids[-1].as_py())]
        rows: pa.Table = pq.read_table(self._paths, filters=between, partitioning=None)
        rows = rows.filter(pc.is_in(rows["graph_id"], value_set=ids))
        return chunk_of(graphs, rows.filter(pc.equal(rows["status"], "optimal")))


def _an_example(home: Home, labels: LabelSet) -> tuple[DnnGraph, int]:
    """Return a graph of the set and a number of stages, for the model's input example."""
    graph = next(tables_to_graphs(read_shard(home, labels.graphs, 0)))
    return graph, labels.config.num_stages[0]


def _partition(run_id: str) -> str:
    return f"run=r{run_id}"


def _publish_curve(home: Home, training: Training, run_id: str, epochs: tuple[EpochResult, ...]) -> Published:
    staging = home.dataset(TRAINING).stage(_partition(run_id), training.fingerprint)
    staging.write(0, TRAINING.table([{"run_id": run_id, **asdict(epoch)} for epoch in epochs]))
    checks: Checks = {TRAINING.name: lambda tables: training_checks(tables[TRAINING.name])}
    facts = {"labels": training.labels.partition, "config": training.config.as_params()}
    return publish_all(home, (TRAINING,), _partition(run_id), training.fingerprint, facts, checks)[0]
