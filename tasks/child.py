"""Work that can be killed: a function in a process of its own, with a deadline that also stops compiled code."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import ParamSpec, TypeVar

from respect_core.errors import SolverFailedError

P = ParamSpec("P")
R = TypeVar("R")


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
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, function, args, kwargs), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(time_limit_s):
            raise SolverFailedError(f"{function.__name__} took longer than {time_limit_s:.0f} s and was stopped")
        try:
            failed, outcome = receiver.recv()
        except EOFError:
            process.join(5)
            raise SolverFailedError(
                f"the process of {function.__name__} died (exit code {process.exitcode}), perhaps out of memory"
            ) from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if failed:
        raise outcome
    result: R = outcome
    return result


def _call(
    sender: Connection, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    try:
        outcome: tuple[bool, object] = (False, function(*args, **kwargs))
    except Exception as error:
        outcome = (True, error)
    sender.send(outcome)
    sender.close()
