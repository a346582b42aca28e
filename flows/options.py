"""Options that several commands of `respect` share, and how errors become exit codes."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec

import typer

from hardware_runners.errors import DeviceUnavailableError, MeterUnavailableError, RunnerError, WrongOutputError
from respect_core import errors

P = ParamSpec("P")

EXIT_BAD_INPUT: Final = 2
EXIT_NO_SCHEDULE: Final = 3
EXIT_QUALITY: Final = 4
EXIT_NO_DEVICE: Final = 5

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", envvar="RESPECT_HOME", help="Folder of all state.", show_default="~/.respect"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
SizeOption = Annotated[str, typer.Option("--size", help="smoke (minutes), nightly (hours) or full.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of everything that draws.")]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", envvar="RESPECT_DASK_ADDRESS", help="Address of a Dask scheduler; else this machine."),
]
DeviceOption = Annotated[str, typer.Option("--device", help="Profile: usb3, pcie or a TOML file like devices.toml.")]
ObjectiveOption = Annotated[str, typer.Option("--objective", help="throughput, peak-memory or weighted.")]
TimeLimitOption = Annotated[
    float | None,
    typer.Option("--time-limit", min=0, help="Deadline of the solver in seconds.", show_default="1 for auto, else 60"),
]
ConstraintsOption = Annotated[Path | None, typer.Option("--constraints", help="File of constraints, JSON or TOML.")]
RatioOption = Annotated[int, typer.Option("--ratio", help="Weight of a byte of peak memory in `weighted`.")]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", help="Weights for policy, pointer or auto; else the champion's or those that come along."
    ),
]


def exit_code_of(error: Exception) -> int:
    """Return the exit code of a deliberate error."""
    if isinstance(error, DeviceUnavailableError | MeterUnavailableError):
        return EXIT_NO_DEVICE
    if isinstance(error, errors.QualityError | errors.VerificationError | WrongOutputError):
        return EXIT_QUALITY
    if isinstance(error, errors.SolverFailedError):
        return EXIT_NO_SCHEDULE
    return EXIT_BAD_INPUT


def reporting(command: Callable[P, None]) -> Callable[P, None]:
    """Turn deliberate errors of a command into one line on stderr and an exit code."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (errors.RespectError, RunnerError) as error:
            typer.echo(f"error: {printable(str(error))}", err=True)
            raise typer.Exit(exit_code_of(error)) from None
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(1) from None
        except OSError as error:
            where = error.filename or ("the output" if error.errno is not None else "")
            typer.echo(f"error: {where}{': ' if where else ''}{error.strerror or error}", err=True)
            raise typer.Exit(EXIT_BAD_INPUT) from None

    return wrapped


def printable(text: str) -> str:
    """Replace what would steer a terminal: a name comes from a file and may hold anything."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def print_json(value: Any) -> None:
    """Print one JSON object on stdout; numbers that JSON lacks become null beforehand, never NaN."""
    typer.echo(json.dumps(value, allow_nan=False))
