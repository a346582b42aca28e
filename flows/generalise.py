"""The generalisation test as a part of a flow."""

from __future__ import annotations

from pathlib import Path

from prefect import get_run_logger

from tasks.generalisation import (
    GeneralisationSet,
    generalisation_published,
    generalise_shard,
    publish_generalisation,
)
from tasks.home import Home
from tasks.progress import run_shards
from tasks.publishing import Published


def ensure_generalisation(home: Home, wanted: GeneralisationSet, checkpoint: Path) -> Published:
    """Publish the generalisation test of one policy unless it is published already (inside a flow)."""
    log = get_run_logger()
    done = generalisation_published(home, wanted)
    if done is not None:
        log.info("generalisation %s: unchanged, %d rows reused", wanted.partition, done.rows)
        return done
    calls = [{"home": home.path, "wanted": wanted, "sweep": sweep, "checkpoint": checkpoint} for sweep in wanted.sweeps]
    run_shards(generalise_shard, calls, "sweeps of the generalisation test", log)
    done = publish_generalisation(home.path, wanted)
    log.info("generalisation %s: %d rows published", done.partition, done.rows)
    return done
