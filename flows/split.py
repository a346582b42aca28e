"""Flow `split`: built TFLite models cut into segments, verified and recorded."""

from __future__ import annotations

from collections.abc import Callable

from prefect import flow, get_run_logger

from hardware_runners.compiler import COMMAND, find_compiler
from tasks.home import Home
from tasks.models import models_of
from tasks.progress import run_shards, task_runner
from tasks.publishing import Published
from tasks.segments import SegmentSet, build_model_files, publish_segments, segments_published, split_shard
from tasks.sizes import STAGES, SizeName, get_size

LONGEST_SOLVE_S = 15.0
"""Deadline of a schedule where the size allows more: what is split, not how well, is what the rows are about."""


@flow(flow_run_name="split-{size}-s{seed}", task_runner=task_runner())
def split(size: SizeName = "smoke", seed: int = 0, home: str | None = None) -> Published:
    """Split TFLite models for K = 4, 5, 6, verify every split bit by bit, check and publish a row a segment.

    The models are built first if they are missing: the small network at size smoke, else the ten ImageNet models, which
    need TensorFlow. Segments are compiled where `edgetpu_compiler` is on the PATH.

    Args:
        size: Which models: smoke, nightly or full.
        seed: Seed of the items to verify on, and of solvers that draw.
        home: Folder of all state; RESPECT_HOME if empty.
    """
    at, log = Home.at(home), get_run_logger()
    with at.one_run(log.warning):
        segments = segment_set(at, size, seed, log.warning)
        if segments.compiler is None:
            log.info("segments: %s is not on the PATH, nothing is compiled", COMMAND)
        return ensure_segments(at, segments)


def segment_set(home: Home, size: SizeName, seed: int, warn: Callable[[str], None]) -> SegmentSet:
    """Build the models of a size where they are missing and say how they are split (inside a flow).

    Args:
        home: The home folder.
        size: Which models.
        seed: Seed of the items to verify on, and of solvers that draw.
        warn: Told why there are fewer models than the size asks for.
    """
    names, note = models_of(home.models, size)
    if note:
        warn(f"segments: {note}")
    compiler = find_compiler()
    return SegmentSet(
        models=build_model_files(home.path, names),
        num_stages=STAGES,
        time_limit_s=min(get_size(size).schedule_time_limit_s, LONGEST_SOLVE_S),
        seed=seed,
        compiler=compiler.version if compiler else None,
    )


def ensure_segments(home: Home, segments: SegmentSet) -> Published:
    """Publish the segments of one set of models unless they are published already (inside a flow)."""
    log = get_run_logger()
    done = segments_published(home, segments)
    if done is not None:
        log.info("segments %s: unchanged, %d rows reused", segments.partition, done.rows)
        return done
    calls = [{"home": home.path, "segments": segments, "model": model.name} for model in segments.models]
    run_shards(split_shard, calls, "models split", log)
    done = publish_segments(home.path, segments)
    log.info("segments %s: %d rows published", done.partition, done.rows)
    return done
