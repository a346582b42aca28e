"""Work that can be killed: a function in a process of its own, with a deadline that also stops compiled code."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import time
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection, wait
from threading import Lock, Thread
from typing import Any, Final, ParamSpec, TypeVar

from respect_core.errors import SolverFailedError

P = ParamSpec("P")
R = TypeVar("R")

IDLE_S: Final = 60.0
"""How long a process that is kept waits for more work."""

LONGEST_S: Final = 1e6
"""Longest deadline, in seconds; the operating system takes none above 24 days."""

GOODBYE_S: Final = 3.0
"""How long a process may take to end when it is let go."""


def run_in_child(time_limit_s: float, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call ``function`` in a new process and return what it returns.

    Args:
        time_limit_s: The process is killed after this many seconds.
        function: A module-level function; its arguments and result must pickle.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Raises:
        SolverFailedError: The process died, or had to be killed at the deadline.
        Exception: Whatever the function raised.
    """
    child = _Child()
    try:
        result: R = child.call(time_limit_s, function, args, kwargs)
        return result
    finally:
        child.stop()


def run_in_kept_child(time_limit_s: float, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do as `run_in_child`, in a process that an earlier call left idle, and leave it idle for the next.

    Starting a process and importing what the work needs takes seconds, more than many a part of the work. An idle
    process ends by itself after `IDLE_S`. A process that may not have children, like a worker of a cluster, calls the
    function itself: its own master replaces it when it dies.
    """
    if multiprocessing.current_process().daemon:
        return function(*args, **kwargs)
    _end_idle_children_at_exit()
    child = _idle_child() or _Child()
    try:
        result: R = child.call(time_limit_s, function, args, kwargs)
    finally:
        if child.is_usable:
            with _lock:
                _idle.append(child)
        else:
            child.stop()
    return result


def _idle_child() -> _Child | None:
    """Take a child that waits for work; those that wait for long are about to end and are dropped."""
    with _lock:
        while _idle:
            child = _idle.pop()
            if child.is_fresh:
                return child
            child.stop()
    return None


@cache
def _end_idle_children_at_exit() -> None:
    atexit.register(_end_idle_children)


def _end_idle_children() -> None:
    with _lock:
        while _idle:
            _idle.pop().stop()


class _Child:
    """A process that calls what it is sent, one after the other; it ends when its parent does."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.is_usable = True
        self._waits_since = time.monotonic()

    @property
    def is_fresh(self) -> bool:
        """True where the process surely waits for work still."""
        return self._process.is_alive() and time.monotonic() - self._waits_since < IDLE_S / 2

    def call(
        self, time_limit_s: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return what the function returns, or raise what it raised."""
        self.is_usable = False
        try:
            self._connection.send((function, args, kwargs))
            if not self._connection.poll(min(time_limit_s, LONGEST_S)):
                raise SolverFailedError(f"{function.__name__} took longer than {time_limit_s:.0f} s and was stopped")
            failed, outcome = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join(5)
            raise SolverFailedError(
                f"the process of {function.__name__} died (exit code {self._process.exitcode}), perhaps out of memory"
            ) from None
        self.is_usable = True
        self._waits_since = time.monotonic()
        if failed:
            raise outcome
        return outcome

    def stop(self) -> None:
        """End the process: let it go where it waits for work, kill it where it does not answer."""
        self._connection.close()
        if self.is_usable:
            self._process.join(GOODBYE_S)
        self.is_usable = False
        self._process.kill()
        self._process.join()


_idle: list[_Child] = []
_lock = Lock()


def _serve(connection: Connection) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    while connection.poll(IDLE_S):
        try:
            function, args, kwargs = connection.recv()
        except EOFError:
            return
        try:
            outcome: tuple[bool, object] = (False, function(*args, **kwargs))
        except Exception as error:
            outcome = (True, error)
        connection.send(outcome)


def _end_with_parent() -> None:
    """Leave no orphan at work when the parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
