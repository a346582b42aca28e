"""Shards of work, submitted together, with a line of progress as they finish."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from prefect import Task
from prefect.client.schemas.objects import State, TaskRun
from prefect.futures import as_completed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from respect_core.errors import BadInputError, MissingExtraError, QualityError

SCHEDULER_VARIABLE: Final = "RESPECT_DASK_ADDRESS"
"""Environment variable with the address of a Dask scheduler, like ``tcp://10.0.0.1:8786``, for graphs and labels."""

R = TypeVar("R")


def chosen_scheduler(scheduler: str | None = None) -> str | None:
    """Return the address that is given, else that of `RESPECT_DASK_ADDRESS`, None for this machine alone."""
    return scheduler or os.environ.get(SCHEDULER_VARIABLE) or None


def task_runner(scheduler: str | None = None) -> TaskRunner[Any]:
    """Return what runs the tasks of a flow.

    Args:
        scheduler: Address of a Dask scheduler. Without it, as many tasks at once run here as there are cores: each
            keeps one busy, in a process of its own.

    Raises:
        MissingExtraError: A scheduler is given and prefect-dask is not installed.
    """
    if scheduler is None:
        threads: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=os.cpu_count() or 1)
        return threads
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError as error:
        raise MissingExtraError(
            f"scheduler {scheduler!r} needs prefect-dask: pip install 'respect-edgetpu[dask]'"
        ) from error
    workers: TaskRunner[Any] = DaskTaskRunner(address=scheduler)
    return workers


def worth_retrying(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Tell Prefect not to repeat what would only fail again in the same way."""
    try:
        state.result()
    except (QualityError, BadInputError):
        return False
    except Exception:
        return True
    return False


def run_shards(
    task: Task[..., R],
    calls: Sequence[dict[str, Any]],
    what: str,
    log: logging.Logger | logging.LoggerAdapter[Any],
    *,
    scheduler: str | None = None,
    unit: str = "",
    sizes: Sequence[int] | None = None,
) -> list[R]:
    """Run ``task`` once for every call and say how far it is, how fast it goes and when it will end.

    Args:
        task: Returns something falsy where an interrupted run had done the work already.
        calls: Keyword arguments of each call.
        what: Name of the shards in the log.
        log: Where progress goes.
        scheduler: Address of a Dask scheduler; see `task_runner`.
        unit: What a shard consists of; its rate is told.
        sizes: How many of them each shard has; 1 by default.

    Returns:
        The results of the shards that were done anew, in the order in which they finished.

    Raises:
        Exception: Of the first task that failed, after its retries; no further shard is begun.
    """
    progress = _Progress(what, unit, list(sizes) if sizes else [1] * len(calls), log)
    anew: list[R] = []
    with task_runner(scheduler) as runner:
        futures = {runner.submit(task, parameters=dict(call)): shard for shard, call in enumerate(calls)}
        for future in as_completed(list(futures)):
            result = future.result()
            anew += [result] if result else []
            progress.done(futures[future], bool(result))
    if len(anew) < len(calls):
        log.info(
            "%s: %d of %d were done by an interrupted run and are reused", what, len(calls) - len(anew), len(calls)
        )
    return anew


class _Progress:
    """Counts finished shards and logs rate and end."""

    def __init__(
        self, what: str, unit: str, sizes: list[int], log: logging.Logger | logging.LoggerAdapter[Any]
    ) -> None:
        self._what, self._unit, self._sizes, self._log = what, unit, sizes, log
        self._start = time.monotonic()
        self._finished = self._anew = self._left = 0
        self._left = sum(sizes)
        self._step = max(1, len(sizes) // 20)

    def done(self, shard: int, anew: bool) -> None:
        """Count a shard; what was reused says nothing about the rate."""
        self._finished += 1
        self._left -= self._sizes[shard]
        self._anew += self._sizes[shard] if anew else 0
        if self._finished % self._step and self._finished < len(self._sizes):
            return
        seconds = time.monotonic() - self._start
        rate = self._anew / seconds if seconds > 0 else 0.0
        text = f"{self._what}: {self._finished} of {len(self._sizes)} in {seconds:.0f} s"
        if rate and self._unit:
            text += f", {rate:,.{0 if rate >= 10 else 1}f} {self._unit}/s"
        if rate and self._left:
            end = datetime.now().astimezone() + timedelta(seconds=self._left / rate)
            text += f", about {self._left / rate:.0f} s left, ends about {end:%H:%M:%S}"
        self._log.info("%s", text)
