"""Timing one job folder with one runner, from folder to result; what an error leaves over is kept, and marked."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional, Union

from hardware_runners.errors import RunnerError
from hardware_runners.job import read_job
from hardware_runners.jobs.plan import TimingPlan
from hardware_runners.protocol import open_runner
from hardware_runners.results import Result, check_writable, result_of, write_result


def time_job(
    folder: Union[str, Path],
    runner: str,
    plan: Optional[TimingPlan] = None,
    out: Optional[Union[str, Path]] = None,
    partial_out: Optional[Union[str, Path]] = None,
    **options: Any,
) -> Result:
    """Time a job folder.

    Args:
        folder: The job folder.
        runner: Name of the runner.
        plan: How often to run it, None for the job's own plan.
        out: Result file to write, None for none.
        partial_out: Where to keep what was measured until an error, if anything was; None for ``out``.
        **options: Of the runner.

    Returns:
        The complete result.

    Raises:
        UnwritableResultError: A result could not be written; nothing was run.
        RunnerError: The job, the runner or a device failed; what was measured until then is its `partial`.
    """
    job = read_job(folder)
    for path in {str(one) for one in (out, partial_out) if one is not None}:
        check_writable(path)
    started = datetime.now(timezone.utc).isoformat(timespec="microseconds")
    chosen = plan or job.plan
    try:
        with open_runner(runner, **options) as opened:
            timings = opened.time(job, chosen)
    except RunnerError as error:
        kept = partial_out or out
        if kept is not None and error.partial is not None:
            write_result(kept, result_of(job, chosen, error.partial, started, error))
        raise
    result = result_of(job, chosen, timings, started)
    if out is not None:
        write_result(out, result)
    return result
