"""Canonical kinds of ops: the words in which every source describes what an op does.

A graph may use other kinds too; an unknown kind costs what its MACs, parameters and tensors cost.
"""

from __future__ import annotations

from typing import Final

INPUT: Final = "input"
"""Receives a graph input from the host; its output tensor *is* that input."""

CONVOLUTIONS: Final = frozenset({"conv2d", "separable_conv2d", "fully_connected"})
DEPTHWISE: Final = frozenset({"depthwise_conv2d"})
MULTIPLY_OR_CONCAT: Final = frozenset({"mul", "concat"})
ADD_PAD_OR_POOL: Final = frozenset({"add", "pad", "max_pool", "average_pool"})

KINDS: Final = (
    frozenset(
        {INPUT, "batch_norm", "activation", "softmax", "mean", "global_max_pool", "reshape", "dropout", "crop"}
        | {"scale", "normalization", "sub"}
    )
    | CONVOLUTIONS
    | DEPTHWISE
    | MULTIPLY_OR_CONCAT
    | ADD_PAD_OR_POOL
)
"""Every kind that the project's own sources produce."""
