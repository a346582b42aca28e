"""What counts as activation memory: the named options of the peak model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from respect_core.errors import BadInputError

Placement = Literal["in-place", "separate"]
"""Whether an op's output may take the room of inputs that die there."""

PLACEMENTS: Final[tuple[str, ...]] = get_args(Placement)

CONCATENATIONS: Final = frozenset({"concat"})

ELEMENTWISE: Final = frozenset({"activation", "add", "batch_norm", "div", "dropout", "mul", "reshape", "scale", "sub"})
"""Kinds whose output element depends on the same element of their inputs alone, and those that only rename memory."""

ACCUMULATING_CONVOLUTION: Final = "accumulating_conv2d"
"""Kind of a convolution that adds its result to a tensor, which it always writes over if that dies there."""


@dataclass(frozen=True, kw_only=True)
class MemoryRules:
    """How live bytes are counted.

    While an op runs, its inputs, its outputs and all other live tensors are held. A tensor lives from the op that makes
    it (a graph input, or the output of an `input` op: from the start) to its last reader; a graph output lives to the
    end, and a tensor that nobody reads only while it is made. A graph input that nobody reads takes no room unless it
    is an output too. Constants and state that an op keeps between inferences are no activations: they need the same
    room in every order.

    Raises:
        BadInputError: A placement that does not exist.
    """

    concat: Placement = "in-place"
    """`in-place`: the inputs of a concatenation that die there have been written to where its output lies, so while it
    runs they and the output are counted once; inputs that live on are copied. `separate`: inputs and output are both
    held, like those of any other op."""
    elementwise: Placement = "separate"
    """`in-place`: an elementwise op with one output writes it over an input of equal bytes that dies there."""
    count_inputs: bool = True
    """Whether graph inputs take room; if not, they are streamed from outside while they are read."""

    def __post_init__(self) -> None:
        for what, placement in (("concat", self.concat), ("elementwise", self.elementwise)):
            if placement not in PLACEMENTS:
                raise BadInputError(f"{what} is {placement!r}, choose from {', '.join(PLACEMENTS)}")


DEFAULT_RULES: Final = MemoryRules()
