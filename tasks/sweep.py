"""Sweeps: variants of a training with several seeds each, every one judged on the frozen sets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from respect_core.policy.config import ImitationConfig, NetworkConfig
from respect_core.policy.frozen import load_frozen_sets
from respect_core.policy.variants import Variant
from respect_core.tables.domain_checks import sweep_checks
from respect_core.tables.fingerprint import fingerprint
from respect_core.tables.sweeps import SWEEPS
from tasks.child import run_in_kept_child
from tasks.home import Home
from tasks.label import LabelSet
from tasks.publishing import Checks, Published, publish_all, published
from tasks.sweep_summary import EVERYTHING, summary_markdown, summary_of
from tasks.tracking import Tracking
from tasks.train import ShardedLabels, Training
from tasks.train_curves import log_frozen_sets, log_labels, log_outcome

if TYPE_CHECKING:
    from respect_core.policy.epochs import TrainOutcome

SWEEP_TAG: Final = "sweep_fingerprint"
MEMBER_TAG: Final = "sweep_training"

LONGEST_S: Final = 48 * 3600.0
"""A training that takes longer is stopped."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Variants and training seeds on one set of labels."""

    labels: LabelSet
    variants: tuple[Variant, ...]
    training_seeds: tuple[int, ...]
    config: ImitationConfig
    """Of the size; the clock does not end a training of a sweep, or its results would not repeat."""
    network: NetworkConfig

    @property
    def members(self) -> list[tuple[str, Training]]:
        """Every training with the name of its variant, seed by seed."""
        base, found = replace(self.config, max_seconds=0.0), []
        for seed in self.training_seeds:
            for variant in self.variants:
                config, network = variant.applied(replace(base, seed=seed), self.network)
                found.append((variant.name, Training(labels=self.labels, config=config, network=network)))
        return found

    @property
    def fingerprint(self) -> str:
        """Digest of what determines the results."""
        members = [(name, training.fingerprint) for name, training in self.members]
        return fingerprint(members=members, schema=SWEEPS.version)

    @property
    def partition(self) -> str:
        """Name of the partition in the table `sweeps`."""
        return f"run=s{self.fingerprint}"


def sweep_published(home: Home, sweep: Sweep) -> Published | None:
    """Return the published rows of exactly this sweep."""
    return published(home, SWEEPS, sweep.partition)


def begin_sweep(home: Path, sweep: Sweep) -> str:
    """Open the sweep's run in MLflow, that of an interrupted sweep if there is one, and return its id."""
    tracking = Tracking(home)
    found = tracking.continue_run(SWEEP_TAG, sweep.fingerprint)
    if found is not None:
        return found
    params = {
        "variants": ", ".join(variant.name for variant in sweep.variants),
        "training_seeds": ", ".join(map(str, sweep.training_seeds)),
        "labels": sweep.labels.partition,
    }
    run_id = tracking.start_run("sweep", params, {SWEEP_TAG: sweep.fingerprint})
    log_labels(tracking, run_id, Home(path=home), sweep.labels)
    log_frozen_sets(tracking, run_id, load_frozen_sets())
    return run_id


@task(task_run_name="train-{index}", cache_policy=NO_CACHE)
def train_member(home: Path, sweep: Sweep, parent: str, index: int) -> str | None:
    """Train one variant with one seed, log it as a child of the sweep's run, and keep its rows.

    Returns:
        The run's id; None where an interrupted sweep had done it.

    Raises:
        SolverFailedError: The training's process died.
    """
    at = Home(path=home)
    staging = at.dataset(SWEEPS).stage(sweep.partition, sweep.fingerprint)
    if staging.finished(index):
        return None
    variant, training = sweep.members[index]
    outcome, sizes = run_in_kept_child(LONGEST_S, train_in_child, at, training)
    tracking = Tracking(home)
    tracking.end_abandoned_runs(MEMBER_TAG, training.fingerprint)
    params = {"variant": variant, **training.config.as_params(), **asdict(training.network)}
    tags = {MEMBER_TAG: training.fingerprint}
    with tracking.run(f"{variant} seed {training.config.seed}", params, tags, parent=parent) as run_id:
        log_labels(tracking, run_id, at, sweep.labels)
        log_frozen_sets(tracking, run_id, load_frozen_sets())
        for epoch in outcome.epochs:
            tracking.log_epoch(run_id, epoch)
        log_outcome(tracking, run_id, replace(outcome, resumed_after=0), set())
    rows = _rows(sweep.fingerprint, variant, training.config.seed, outcome, sizes, run_id)
    staging.write(index, SWEEPS.sorted(SWEEPS.table(rows)))
    return run_id


def train_in_child(home: Home, training: Training) -> tuple[TrainOutcome, dict[str, int]]:
    """Train, or go on where a killed process was; returns the outcome and the problems of each validation set."""
    from respect_core.policy.imitation import train_imitation

    source, frozen = ShardedLabels(home, training.labels, seed=0), load_frozen_sets()
    folder = home.checkpoints / f"sweep-{training.fingerprint}"
    folder.mkdir(parents=True, exist_ok=True)
    outcome = train_imitation(
        source, source.validation, folder=folder, config=training.config, network=training.network, frozen=frozen
    )
    return outcome, {"held-out": len(source.validation), **{one.name: len(one) for one in frozen.sets}}


@task(task_run_name="publish-sweep", cache_policy=NO_CACHE)
def publish_sweep(home: Path, sweep: Sweep, parent: str) -> Published:
    """Check and publish the rows, end the sweep's run, and leave the comparison as an artifact of both."""
    at, tracking = Home(path=home), Tracking(home)
    checks: Checks = {SWEEPS.name: lambda tables: sweep_checks(tables[SWEEPS.name])}
    facts = {"labels": sweep.labels.partition, "variants": [variant.name for variant in sweep.variants]}
    (done,) = publish_all(at, (SWEEPS,), sweep.partition, sweep.fingerprint, facts, checks)
    summary = summary_of(at.dataset(SWEEPS).read(sweep.partition), [variant.name for variant in sweep.variants])
    text = summary_markdown(summary)
    create_markdown_artifact(text, key="policy-sweep", description=sweep.partition)
    tracking.log_text(parent, text, "sweep.md")
    means = {f"{line.variant}/gap": line.sets[EVERYTHING].mean for line in summary}
    tracking.log_metrics(parent, means)
    tracking.end_run(parent)
    return done


def _rows(
    sweep: str, variant: str, seed: int, outcome: TrainOutcome, sizes: dict[str, int], run_id: str
) -> list[dict[str, Any]]:
    gaps = {**outcome.best_set_gaps, EVERYTHING: outcome.best_gap}
    problems = {**sizes, EVERYTHING: sum(sizes.values())}
    return [
        {
            "sweep": sweep,
            "variant": variant,
            "training_seed": seed,
            "set_name": name,
            "problems": problems[name],
            "mean_gap": gap,
            "num_epochs": len(outcome.epochs),
            "is_refined": outcome.refined,
            "train_seconds": sum(epoch.epoch_seconds for epoch in outcome.epochs),
            "run_id": run_id,
        }
        for name, gap in gaps.items()
    ]
