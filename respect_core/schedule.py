"""Whether a schedule is legal: one function, used before anything is scored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from respect_core.constraints import NO_CONSTRAINTS, Constraints
from respect_core.errors import BadInputError, InvalidScheduleError
from respect_core.graph import DnnGraph, IntArray


def check_num_stages(graph: DnnGraph, num_stages: int) -> None:
    """Raise `BadInputError` unless 1 <= num_stages <= number of ops."""
    if isinstance(num_stages, bool) or not 1 <= num_stages <= graph.num_ops:
        raise BadInputError(
            f"graph {graph.name!r} cannot be cut into {num_stages} stages, "
            f"allowed are 1..{graph.num_ops} (its number of ops)"
        )


def first_violation(
    graph: DnnGraph,
    stage_of: Sequence[int] | IntArray,
    num_stages: int,
    constraints: Constraints = NO_CONSTRAINTS,
) -> str | None:
    """Name the first rule that a schedule breaks.

    Args:
        graph: The graph.
        stage_of: Stage of every op. Shape (n,).
        num_stages: Number of stages K.
        constraints: What must hold besides precedence and non-empty stages.

    Returns:
        None for a legal schedule, else one sentence that names the ops and stages.
    """
    check_num_stages(graph, num_stages)
    stages = np.asarray(stage_of)
    names = graph.op_names
    if stages.shape != (graph.num_ops,):
        return f"{stages.size} stages for {graph.num_ops} ops"
    if not np.issubdtype(stages.dtype, np.integer):
        return f"stages are of type {stages.dtype}, whole numbers are needed"
    outside = np.flatnonzero((stages < 0) | (stages >= num_stages))
    if outside.size:
        v = int(outside[0])
        return f"op {names[v]!r} is in stage {int(stages[v])}, allowed are 0..{num_stages - 1}"
    edges = graph.edges
    backward = np.flatnonzero(stages[edges[:, 0]] > stages[edges[:, 1]])
    if backward.size:
        u, v = edges[backward[0]].tolist()
        return f"op {names[u]!r} in stage {stages[u]} feeds op {names[v]!r} in the earlier stage {stages[v]}"
    empty = np.flatnonzero(np.bincount(stages, minlength=num_stages) == 0)
    if empty.size:
        return f"stage {int(empty[0])} has no op"
    return _first_broken_constraint(graph, stages, num_stages, constraints)


def _first_broken_constraint(
    graph: DnnGraph, stages: IntArray, num_stages: int, constraints: Constraints
) -> str | None:
    names = graph.op_names
    constraints.check(graph, num_stages)
    for v in constraints.last_stage_ops(graph):
        if stages[v] != num_stages - 1:
            return f"outputs_last: op {names[v]!r} makes a graph output in stage {stages[v]}, not in {num_stages - 1}"
    for group in constraints.first_stage_groups(graph):
        if all(stages[v] != 0 for v in group):
            return f"inputs_first: the graph input of op {names[group[0]]!r} is not read in stage 0"
    for a, b in constraints.same_stage_pairs(graph):
        if stages[a] != stages[b]:
            return f"ops {names[a]!r} and {names[b]!r} must share a stage but are in {stages[a]} and {stages[b]}"
    for pin in constraints.pins:
        if stages[pin.op] != pin.stage:
            return f"op {names[pin.op]!r} is pinned to stage {pin.stage} but is in {stages[pin.op]}"
    for a, b in constraints.different_stages:
        if stages[a] == stages[b]:
            return f"ops {names[a]!r} and {names[b]!r} must be in different stages but share stage {stages[a]}"
    for rule in constraints.implications:
        if stages[rule.if_op] == rule.if_stage and stages[rule.then_op] != rule.then_stage:
            return (
                f"op {names[rule.if_op]!r} is in stage {rule.if_stage}, so op {names[rule.then_op]!r} must be in "
                f"stage {rule.then_stage} but is in {stages[rule.then_op]}"
            )
    return None


def check_schedule(
    graph: DnnGraph,
    stage_of: Sequence[int] | IntArray,
    num_stages: int,
    constraints: Constraints = NO_CONSTRAINTS,
) -> None:
    """Raise `InvalidScheduleError` with the first violation, if there is one."""
    why = first_violation(graph, stage_of, num_stages, constraints)
    if why is not None:
        raise InvalidScheduleError(f"schedule of {graph.name!r}: {why}")
