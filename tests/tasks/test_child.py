"""Processes that are kept for more work: used again, replaced when they die, killed at the deadline."""

from __future__ import annotations

import os
import signal
import time

import pytest

from respect_core.errors import SolverFailedError
from tasks import child
from tasks.child import run_in_child, run_in_kept_child


def test_a_kept_process_is_used_again_and_another_one_is_not() -> None:
    kept = run_in_kept_child(60, os.getpid)
    assert kept != os.getpid()
    assert run_in_kept_child(60, os.getpid) == kept
    assert run_in_child(60, os.getpid) not in (kept, os.getpid())
    with pytest.raises(ValueError, match="no number"):
        run_in_kept_child(60, int, "no number")
    assert run_in_kept_child(1e12, os.getpid) == kept


def test_a_process_that_dies_or_overruns_is_told_and_replaced() -> None:
    with pytest.raises(SolverFailedError, match="died"):
        run_in_kept_child(60, os._exit, 3)
    kept = run_in_kept_child(60, os.getpid)
    with pytest.raises(SolverFailedError, match="took longer than 0 s"):
        run_in_kept_child(0.1, time.sleep, 60)
    again = run_in_kept_child(60, os.getpid)
    assert again != kept
    os.kill(again, signal.SIGKILL)
    time.sleep(0.3)
    assert run_in_kept_child(60, os.getpid) != again


def test_idle_processes_are_dropped_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = run_in_kept_child(60, os.getpid)
    monkeypatch.setattr(child, "IDLE_S", 0.0)
    assert run_in_kept_child(60, os.getpid) != kept
