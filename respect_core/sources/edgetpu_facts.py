"""What the rules of the Edge TPU look at of an op and of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class TensorFacts:
    """What the rules look at of a tensor."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    is_constant: bool = False
    is_variable: bool = False
    values: tuple[int, ...] | None = None
    """Elements of a short integer constant, in order; None where they are not known."""
    is_zero: bool = False
    """A constant all of whose elements stand for the number 0."""


@dataclass(frozen=True, kw_only=True)
class OpFacts:
    """What the rules look at of an op."""

    builtin: str
    """Name of the builtin operator, `CUSTOM` for a custom one."""
    custom_code: str = ""
    inputs: tuple[TensorFacts | None, ...] = ()
    """None for an optional input left out."""
    outputs: tuple[TensorFacts, ...] = ()
    options: Mapping[str, int] = field(default_factory=dict)
    """Those of the file's options that rules need, by the schema's names (`FusedActivationFunction`)."""

    @property
    def kind(self) -> str:
        """The builtin operator, or the custom one's name."""
        return f"custom op {self.custom_code!r}" if self.builtin == "CUSTOM" else self.builtin

    def option(self, name: str, default: int = 0) -> int:
        """Return an option; files leave out what has its default."""
        return self.options.get(name, default)

    def input(self, position: int) -> TensorFacts | None:
        """Return an input, None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None


Check = Callable[[OpFacts], str | None]
"""Returns what breaks a rule, None where nothing does."""
