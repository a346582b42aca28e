"""The curves of a training: in MLflow, and as published tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from respect_core.tables.domain_checks import training_checks, validation_checks
from respect_core.tables.labels import LABELS
from respect_core.tables.training import TRAINING
from respect_core.tables.validation import VALIDATION
from tasks.home import Home
from tasks.label import LabelSet
from tasks.publishing import Checks, Published, publish_all, published
from tasks.tracking import Tracking

if TYPE_CHECKING:
    from respect_core.policy.epochs import TrainOutcome
    from respect_core.policy.frozen import FrozenSets

CURVE_SCHEMAS = (VALIDATION, TRAINING)


@dataclass(frozen=True, kw_only=True)
class Curves:
    """The published curves of one run."""

    training: Published
    validation: Published


def log_labels(tracking: Tracking, run_id: str, home: Home, labels: LabelSet) -> None:
    """Say in a run which published labels it learns from, with their digest."""
    partition = home.dataset(LABELS).partition(labels.partition)
    tracking.log_dataset(run_id, "labels", partition.digest, partition.name)


def log_frozen_sets(tracking: Tracking, run_id: str, frozen: FrozenSets) -> None:
    """Say in a run which frozen sets judge it, each with its digest."""
    for one in frozen.sets:
        tracking.log_dataset(run_id, f"validation-{one.name}", one.digest, "datasets/validation", "validation")


def log_outcome(tracking: Tracking, run_id: str, outcome: TrainOutcome, told: set[int]) -> None:
    """Log what an earlier, interrupted run had done, and how good the best network is.

    Args:
        tracking: The store.
        run_id: The run.
        outcome: What the training left behind.
        told: Steps of the second phase that the run has already.
    """
    for earlier in outcome.epochs[: outcome.resumed_after]:
        tracking.log_epoch(run_id, earlier)
    for point in outcome.refinement:
        if point.step not in told:
            tracking.log_point(run_id, point)
    tracking.log_metrics(
        run_id,
        {
            "resumed_after": outcome.resumed_after,
            "best_epoch": outcome.best_epoch,
            "refined": float(outcome.refined),
            "best_gap": outcome.best_gap,
            "untrained_gap": outcome.untrained_gap,
            **{f"best/gap/{name}": gap for name, gap in outcome.best_set_gaps.items()},
        },
    )


def curves_published(home: Home, run_id: str) -> Curves | None:
    """Return the curves of a run if both tables have them."""
    validation, training = (published(home, schema, _partition(run_id)) for schema in CURVE_SCHEMAS)
    return None if training is None or validation is None else Curves(training=training, validation=validation)


def publish_curves(
    home: Home, digest: str, facts: dict[str, Any], run_id: str, outcome: TrainOutcome, sizes: Mapping[str, int]
) -> Curves:
    """Check and publish the curve of the epochs and the gaps of every validation set.

    Args:
        home: The home folder.
        digest: Fingerprint of the training.
        facts: Settings for the manifests.
        run_id: The run in MLflow.
        outcome: What the training left behind.
        sizes: Problems of each validation set by name.

    Raises:
        QualityError: A rule is broken; nothing is published.
    """
    rows = {
        TRAINING: [{"run_id": run_id, **epoch.numbers} for epoch in outcome.epochs],
        VALIDATION: [
            {
                "run_id": run_id,
                "phase": phase,
                "step": step,
                "set_name": name,
                "problems": sizes[name],
                "mean_gap": gap,
            }
            for phase, step, gaps in _points(outcome)
            for name, gap in gaps.items()
        ],
    }
    for schema, content in rows.items():
        staging = home.dataset(schema).stage(_partition(run_id), digest)
        staging.write(0, schema.sorted(schema.table(content)))
    checks: Checks = {
        TRAINING.name: lambda tables: training_checks(tables[TRAINING.name]),
        VALIDATION.name: lambda tables: validation_checks(tables[VALIDATION.name]),
    }
    validation, training = publish_all(home, CURVE_SCHEMAS, _partition(run_id), digest, facts, checks)
    return Curves(training=training, validation=validation)


def _points(outcome: TrainOutcome) -> list[tuple[str, int, dict[str, float]]]:
    epochs = [("imitation", epoch.epoch, epoch.set_gaps) for epoch in outcome.epochs]
    return epochs + [("best-of", point.step, point.set_gaps) for point in outcome.refinement]


def _partition(run_id: str) -> str:
    return f"run=r{run_id}"
