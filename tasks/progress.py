"""Shards of work, submitted together, with a line of progress as they finish."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import Any

from prefect import Task
from prefect.futures import PrefectFuture, as_completed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner


def task_runner() -> TaskRunner[PrefectFuture[Any]]:
    """Return a runner of as many tasks at once as there are cores: each keeps one busy, in a process of its own."""
    runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=os.cpu_count() or 1)
    return runner


def run_shards(
    task: Task[..., bool], calls: Sequence[dict[str, Any]], what: str, log: logging.Logger | logging.LoggerAdapter[Any]
) -> int:
    """Run ``task`` once for every call and say how far it is and how long the rest will take.

    Args:
        task: Returns False where an interrupted run had done the work already.
        calls: Keyword arguments of each call.
        what: Name of a shard in the log.
        log: Where progress goes.

    Returns:
        Number of shards that were done anew.

    Raises:
        Exception: Of the first task that failed, after its retries.
    """
    start = time.monotonic()
    anew = 0
    futures = [task.submit(**call) for call in calls]
    step = max(1, len(futures) // 20)
    for number, future in enumerate(as_completed(futures), start=1):
        anew += bool(future.result())
        if number % step == 0 or number == len(futures):
            seconds = time.monotonic() - start
            left = seconds / number * (len(futures) - number)
            log.info("%s: %d of %d in %.0f s, about %.0f s left", what, number, len(futures), seconds, left)
    if anew < len(futures):
        log.info("%s: %d of %d were done by an interrupted run and are reused", what, len(futures) - anew, len(futures))
    return anew
