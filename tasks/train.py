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
from respect_core.policy.frozen import load_frozen_sets, optima_path
from respect_core.policy.solver import pretrained_path
from respect_core.solve.protocol import Problem
from respect_core.tables.files import sha256_of
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.graph_rows import GraphTables, tables_to_graphs
from respect_core.tables.labels import LABELS
from tasks.generate import GRAPH_SCHEMAS
from tasks.home import Home
from tasks.label import LabelSet, read_shard
from tasks.policy_gate import DECISION_TAG, ILLEGAL_TAG, GateDecision, ensure_champion, promote_if_better
from tasks.publishing import Published
from tasks.tracking import Tracking
from tasks.train_curves import curves_published, log_frozen_sets, log_labels, log_outcome, publish_curves
from tasks.train_progress import training_progress

if TYPE_CHECKING:
    from respect_core.graph import DnnGraph
    from respect_core.policy.chunks import LabelChunk
    from respect_core.policy.epochs import EpochResult, RefinementPoint

TRAINING_VERSION = "3"
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
            start=sha256_of(pretrained_path()) if self.config.warm_start else None,
            validation=sha256_of(optima_path()),
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
    validation: Published
    """Its gaps on every validation set, in the table `validation`."""
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
    curves = curves_published(home, found.run_id)
    if curves is None:
        return None
    return TrainedPolicy(
        version=found.version,
        run_id=found.run_id,
        training=curves.training,
        validation=curves.validation,
        reused=True,
        judged=found.tags.get(DECISION_TAG),
        illegal=int(found.tags.get(ILLEGAL_TAG, "0")),
    )


@task(task_run_name="train-policy", cache_policy=NO_CACHE)
def train_policy(home: Path, training: Training) -> TrainedPolicy:
    """Train on the published labels, log to MLflow, register the best network as `candidate`, publish the curves.

    Where no policy is registered, the weights that come with the program become version 1 and champion before.
    """
    from respect_core.policy.imitation import train_imitation

    at, log = Home(path=home), get_run_logger()
    tracking, example = Tracking(home), _an_example(at, training.labels)
    ensure_champion(tracking, *example)
    source, frozen = ShardedLabels(at, training.labels, training.config.seed), load_frozen_sets()
    folder = at.checkpoints / training.fingerprint
    folder.mkdir(parents=True, exist_ok=True)
    params = {**training.config.as_params(), **asdict(training.network), "labels": source.num_labels}
    tracking.end_abandoned_runs(FINGERPRINT_TAG, training.fingerprint)
    with tracking.run("train-policy", params, {FINGERPRINT_TAG: training.fingerprint}) as run_id:
        log_labels(tracking, run_id, at, training.labels)
        log_frozen_sets(tracking, run_id, frozen)
        with training_progress(training.config, source.num_labels, log) as progress:
            told: set[int] = set()

            def on_epoch(result: EpochResult) -> None:
                tracking.log_epoch(run_id, result)
                progress.epoch(result)

            def on_point(point: RefinementPoint) -> None:
                tracking.log_point(run_id, point)
                told.add(point.step)
                progress.point(point)

            outcome = train_imitation(
                source,
                source.validation,
                folder=folder,
                config=training.config,
                network=training.network,
                frozen=frozen,
                on_epoch=on_epoch,
                on_step=progress.step,
                on_point=on_point,
            )
        log_outcome(tracking, run_id, outcome, told)
        log.info(
            "best network: %s, validation gap %.2f %% (at the start %.2f %%)",
            "that of the second phase" if outcome.refined else f"that of epoch {outcome.best_epoch}",
            100 * outcome.best_gap,
            100 * outcome.untrained_gap,
        )
        facts = {"labels": training.labels.partition, "config": training.config.as_params()}
        sizes = {"held-out": len(source.validation), **{one.name: len(one) for one in frozen.sets}}
        curves = publish_curves(at, training.fingerprint, facts, run_id, outcome, sizes)
        version = tracking.register_policy(run_id, outcome.checkpoint, *example)
        tracking.tag_version(version, {FINGERPRINT_TAG: training.fingerprint})
    return TrainedPolicy(
        version=version, run_id=run_id, training=curves.training, validation=curves.validation, reused=False
    )


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
