"""The order of the ops inside each stage of a pipeline, and the activation memory that each stage needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph, IntArray
from respect_core.memory.rules import DEFAULT_RULES, MemoryRules
from respect_core.solve.protocol import SolveOptions

StageOrder = Literal["file", "memory"]
"""How ops run inside a stage: as in the model's file, or such that least activation memory is needed."""

STAGE_ORDERS: Final[tuple[str, ...]] = get_args(StageOrder)


def stage_order(name: str) -> StageOrder:
    """Return the order of this name.

    Raises:
        BadInputError: There is none.
    """
    for order in get_args(StageOrder):
        if order == name:
            return order  # type: ignore[no-any-return]
    raise BadInputError(f"order is {name!r}, choose from {', '.join(STAGE_ORDERS)}")


@dataclass(frozen=True, kw_only=True)
class StageMemory:
    """An order of all ops, and what each stage needs when its ops run in that order."""

    order: tuple[int, ...]
    """A topological order of all ops, stage after stage."""
    peak_bytes: tuple[int, ...]
    """Largest sum of live activations of each stage, counted with the tensors that it is given."""
    method: str | None
    """Who ordered the ops; None for the model's own order."""


def stage_memory(
    graph: DnnGraph,
    stage_of: Sequence[int] | IntArray,
    num_stages: int,
    how: StageOrder = "file",
    *,
    rules: MemoryRules = DEFAULT_RULES,
    options: SolveOptions = SolveOptions(time_limit_s=10.0),  # noqa: B008
) -> StageMemory:
    """Order the ops of each stage.

    Args:
        graph: The network.
        stage_of: A legal schedule. Shape (n,).
        num_stages: Number of stages K.
        how: `memory` to order them for the smallest peak, which is never above that of the model's order.
        rules: What counts.
        options: The deadline for each stage.

    Returns:
        The orders joined, which is topological because no stage reads what a later one makes.
    """
    from respect_core.memory.order import MemoryOrderSolver
    from respect_core.memory.part import subgraph
    from respect_core.memory.peak import memory_profile

    stages = np.asarray(stage_of)
    solver = MemoryOrderSolver()
    order: list[int] = []
    peaks = []
    for stage in range(num_stages):
        ops = np.flatnonzero(stages == stage)
        part = subgraph(graph, ops)
        if how == "memory":
            found = solver.solve(part, rules, options)
            chosen, peak = found.order, found.peak_bytes
        else:
            profile = memory_profile(part, None, rules)
            chosen, peak = profile.order, profile.peak_bytes
        order += ops[list(chosen)].tolist()
        peaks.append(peak)
    return StageMemory(
        order=tuple(order),
        peak_bytes=tuple(peaks),
        method=f"{solver.name} {solver.version}" if how == "memory" else None,
    )
