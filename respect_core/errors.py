"""Every deliberate error of the project: a `RespectError` that is also the builtin a caller would catch."""

from __future__ import annotations

from pathlib import Path


class RespectError(Exception):
    """Base of all errors raised on purpose; its message is one sentence meant for the user."""


class BadInputError(RespectError, ValueError):
    """The user's input cannot be used; the message names the offender and what is allowed."""


class InvalidGraphError(BadInputError):
    """A graph breaks a rule of `DnnGraph`.

    Attributes:
        graph: Name of the graph.
        why: What is wrong, naming the op or tensor.
    """

    def __init__(self, graph: str, why: str) -> None:
        self.graph, self.why = graph, why
        super().__init__(f"graph {graph!r}: {why}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.graph, self.why)


class InvalidScheduleError(BadInputError):
    """A schedule is not legal for its problem; the message names the first violation."""


class InputFileError(BadInputError):
    """A file given by the user cannot be read as what it should be.

    Attributes:
        path: The file.
        why: What is wrong with it and what is expected.
    """

    def __init__(self, path: str | Path, why: str) -> None:
        self.path, self.why = str(path), why
        super().__init__(f"{path}: {why}")

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.path, self.why)


class UnknownNameError(BadInputError, LookupError):
    """A model, solver, profile or the like of this name does not exist."""

    def __init__(self, what: str, name: str, allowed: list[str] | tuple[str, ...]) -> None:
        from difflib import get_close_matches

        self.what, self.name, self.allowed = what, name, tuple(allowed)
        lower = {candidate.lower(): candidate for candidate in self.allowed}
        close = [lower[found] for found in get_close_matches(name.lower(), lower, n=2, cutoff=0.7)]
        hint = f" - did you mean {' or '.join(map(repr, close))}?" if close else ""
        super().__init__(f"unknown {what} {name!r}: choose from {', '.join(self.allowed)}{hint}")

    def __reduce__(self) -> tuple[type, tuple[str, str, tuple[str, ...]]]:
        return type(self), (self.what, self.name, self.allowed)


class ModelCannotRunError(BadInputError, RuntimeError):
    """The LiteRT interpreter cannot run a model; the message names the op and the way out."""


class VerificationError(RespectError, ValueError):
    """The segments of a model do not compute what the model computes; the message names the tensor and the stage."""


class UnwritableError(RespectError, OSError):
    """A directory or file that must be written cannot be."""


class CorruptDatasetError(RespectError, OSError):
    """A published dataset holds something it should not: a foreign, truncated or changed file."""


class QualityError(RespectError, ValueError):
    """Data failed its checks; nothing was published.

    Attributes:
        table: Name of the table.
        failures: One line a broken rule, each naming the rule and example rows.
    """

    def __init__(self, table: str, failures: list[str] | tuple[str, ...], kept_at: str | None = None) -> None:
        self.table, self.failures, self.kept_at = table, tuple(failures), kept_at
        kept = f"; the rejected parts are kept in {kept_at}" if kept_at else ""
        super().__init__(f"table {table!r} failed its checks and was not published: " + "; ".join(failures) + kept)

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...], str | None]]:
        return type(self), (self.table, self.failures, self.kept_at)


class MissingExtraError(RespectError, ImportError):
    """An optional dependency is needed for this and is not installed; the message says which extra brings it."""


class ModelBuildError(RespectError, RuntimeError):
    """A model file could not be built; the message names the model and what the builder said."""


class SolverFailedError(RespectError, RuntimeError):
    """A solver's process died or had to be killed."""


class TrainingDivergedError(RespectError, ArithmeticError):
    """The training's loss or gradient became NaN or infinite; the last good checkpoint is kept."""
