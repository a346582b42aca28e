"""Flow `sweep`: variants of a training compared, with several training seeds each."""

from __future__ import annotations

from dataclasses import dataclass

from prefect import flow, get_run_logger

from flows.label import ensure_labels
from respect_core.errors import BadInputError
from respect_core.policy.variants import chosen_variants
from respect_core.tables.sweeps import SWEEPS
from tasks.home import Home
from tasks.plan import RunPlan
from tasks.progress import run_shards, task_runner
from tasks.publishing import Published
from tasks.sizes import SizeName
from tasks.sweep import Sweep, begin_sweep, publish_sweep, sweep_published, train_member
from tasks.sweep_summary import VariantSummary, summary_of

MOST_SEEDS = 100


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """What the flow returns."""

    published: Published
    summary: list[VariantSummary]


@flow(flow_run_name="sweep-{size}-s{seed}", task_runner=task_runner())
def sweep(
    size: SizeName = "smoke",
    seeds: int = 3,
    variants: list[str] | None = None,
    seed: int = 0,
    home: str | None = None,
) -> SweepResult:
    """Train variants of the policy with several seeds each and compare them on the frozen validation sets.

    A sweep registers nothing. Killed, it goes on: trainings that were finished are not repeated, the others resume.

    Args:
        size: Labels and settings that the variants change: smoke, nightly or full.
        seeds: Training seeds of each variant, numbered from 0.
        variants: Names of the variants; all known ones if empty.
        seed: Seed of the training graphs.
        home: Folder of all state; RESPECT_HOME if empty.
    """
    at, log = Home.at(home), get_run_logger()
    if not 1 <= seeds <= MOST_SEEDS:
        raise BadInputError(f"seeds is {seeds}, allowed are whole numbers in 1..{MOST_SEEDS}")
    chosen, plan = chosen_variants(variants or []), RunPlan.of(size, seed)
    wanted = Sweep(
        labels=plan.training.labels,
        variants=chosen,
        training_seeds=tuple(range(seeds)),
        config=plan.size.train,
        network=plan.size.network,
    )
    with at.one_run(log.warning):
        done = sweep_published(at, wanted)
        if done is None:
            ensure_labels(at, wanted.labels)
            parent = begin_sweep(at.path, wanted)
            calls = [
                {"home": at.path, "sweep": wanted, "parent": parent, "index": index}
                for index in range(len(wanted.members))
            ]
            run_shards(train_member, calls, "trainings", log)
            done = publish_sweep(at.path, wanted, parent)
        else:
            log.info("sweep %s: unchanged, %d rows reused", done.partition, done.rows)
        rows = at.dataset(SWEEPS).read(done.partition)
        return SweepResult(published=done, summary=summary_of(rows, [variant.name for variant in chosen]))
