"""Other cuts for a split of which some segments do not compile.

The compiler does not say which ops are at fault, and a segment that contains a failed one fails too. So no proposal
holds all ops of a failed segment in one stage again, and with every try a larger part of it has to leave.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from respect_core.constraints import Pair
from respect_core.errors import BadInputError
from respect_core.graph import IntArray
from respect_core.solve.orders import SIMPLE_ORDERS
from respect_core.solve.protocol import Problem
from respect_core.solve.split import Splitter

StageVector = tuple[int, ...]

LEAVING: Final = (0.0, 0.125, 0.25, 0.5)
"""Share of a failed segment's ops that has to leave it, at the first and at later tries; at least one op."""

_MOST_COMBINED: Final = 3


@dataclass(frozen=True, kw_only=True)
class CutAttempt:
    """One schedule whose segments were compiled."""

    stage_of: StageVector
    value: tuple[int, ...]
    """Components of the problem's objective."""
    failed: tuple[int, ...]
    """Stages whose segments did not compile."""


@dataclass(frozen=True, kw_only=True)
class RetryOutcome:
    """What became of a search for cuts that compile."""

    attempts: tuple[CutAttempt, ...]
    """All schedules that were tried, the given one first."""
    message: str
    """Why it ended without success; empty where the last attempt compiled."""

    @property
    def success(self) -> bool:
        """Whether every segment of the last attempt compiled."""
        return not self.attempts[-1].failed

    @property
    def stage_of(self) -> StageVector:
        """The last schedule tried: the one that compiles, where one does."""
        return self.attempts[-1].stage_of


def failed_ops(problem: Problem, attempts: Sequence[CutAttempt]) -> list[tuple[int, ...]]:
    """Return the op sets of all failed segments without those that contain another; ops in the schedule's order."""
    sets = [
        tuple(v for v in schedule_order(problem, one.stage_of).tolist() if one.stage_of[v] == stage)
        for one in attempts
        for stage in one.failed
    ]
    smallest: list[tuple[int, ...]] = []
    for ops in sorted(dict.fromkeys(sets), key=len):
        if not any(set(other) <= set(ops) for other in smallest):
            smallest.append(ops)
    return smallest


def schedule_order(problem: Problem, stage_of: Sequence[int]) -> IntArray:
    """Return the topological order that runs the stages one after the other, each in the graph's order. Shape (n,)."""
    order = problem.graph.topological_order
    return order[np.argsort(np.asarray(stage_of)[order], kind="stable")]


def propose_cuts(problem: Problem, attempts: Sequence[CutAttempt]) -> list[tuple[tuple[int, ...], StageVector]]:
    """Return other schedules for a problem of which some were tried in vain, the best first.

    A part of every segment that failed last has to leave it, at its end or at its beginning: one op at first, with
    each further try more of them (`LEAVING`), fewer again where there is no such cut. Under that, and with no failed
    segment whole in one stage, the simple topological orders and those of the tried schedules are cut optimally for
    the problem's objective.

    Args:
        problem: What to solve; its constraints hold for the proposals too.
        attempts: What was tried, in order; the last one must have failed segments.

    Returns:
        (value, stage of every op) pairs, ascending by value, each legal, none tried before and none with a stage that
        contains a failed segment. Empty where there is none, above all where a failed segment is a single op.

    Raises:
        BadInputError: Nothing failed.
    """
    if not attempts or not attempts[-1].failed:
        raise BadInputError("no segment failed: there is nothing to cut elsewhere")
    failures = failed_ops(problem, attempts)
    if any(len(ops) == 1 for ops in failures):
        return []
    recent = [ops for ops in failed_ops(problem, attempts[-1:]) if ops in failures]
    older = [Pair(ops[0], ops[-1]) for ops in failures if ops not in recent]
    first_share = min(len(attempts) - 1, len(LEAVING) - 1)
    for share in reversed(LEAVING[: first_share + 1]):
        apart = [(*older, *pairs) for pairs in _separations(recent, share)]
        most = {ops: len(ops) - (_leaving(ops, share) if ops in recent else 1) for ops in failures}
        found = _best_cuts(problem, attempts, apart, most)
        if found:
            return found
    return []


def _best_cuts(
    problem: Problem,
    attempts: Sequence[CutAttempt],
    apart: Sequence[tuple[Pair, ...]],
    most_together: Mapping[tuple[int, ...], int],
) -> list[tuple[tuple[int, ...], StageVector]]:
    """Cut every order optimally for each choice of ops to keep apart.

    Returns:
        What is new and leaves at most as many ops of a failed segment together as ``most_together`` says, sorted.
    """
    orders = [schedule_order(problem, one.stage_of) for one in attempts]
    orders += [order(problem.graph) for order in SIMPLE_ORDERS.values()]
    orders = list({order.tobytes(): order for order in orders}.values())
    tried = {one.stage_of for one in attempts}
    found: dict[StageVector, tuple[int, ...]] = {}
    for pairs in apart:
        splitter = Splitter(_with_apart(problem, pairs))
        for order in orders:
            stages = splitter.split(order)
            if stages is None:
                continue
            stage_of = tuple(stages.tolist())
            if stage_of not in tried and stage_of not in found and _is_apart(stage_of, most_together):
                found[stage_of] = problem.value(problem.evaluate(stage_of))
    return sorted((value, stage_of) for stage_of, value in found.items())


def retry_cuts(
    problem: Problem,
    stage_of: Sequence[int],
    failed: Sequence[int],
    compile_schedule: Callable[[StageVector], Sequence[int]],
    retries: int,
) -> RetryOutcome:
    """Try other cuts until all segments compile.

    Args:
        problem: What the schedule solves.
        stage_of: A legal schedule. Shape (n,).
        failed: Its stages whose segments did not compile.
        compile_schedule: Cuts the model as a schedule says, compiles the segments and returns the stages that failed
            in a way that other cuts may help; anything else it raises.
        retries: Most schedules to try besides the given one.

    Returns:
        What was tried, and whether the last one compiles.
    """
    attempts = [_attempt(problem, stage_of, failed)]
    for _ in range(retries):
        if not attempts[-1].failed:
            break
        proposals = propose_cuts(problem, attempts)
        if not proposals:
            return RetryOutcome(attempts=tuple(attempts), message=_no_proposal(problem, attempts))
        chosen = proposals[0][1]
        attempts.append(_attempt(problem, chosen, compile_schedule(chosen)))
    count = len(attempts) - 1
    plural = "" if count == 1 else "s"
    message = f"segments still fail after {count} other cut{plural} were tried" if attempts[-1].failed else ""
    return RetryOutcome(attempts=tuple(attempts), message=message)


def _attempt(problem: Problem, stage_of: Sequence[int], failed: Sequence[int]) -> CutAttempt:
    stages = tuple(int(k) for k in stage_of)
    value = problem.value(problem.evaluate(stages))
    return CutAttempt(stage_of=stages, value=value, failed=tuple(sorted(set(failed))))


def _no_proposal(problem: Problem, attempts: Sequence[CutAttempt]) -> str:
    names = problem.graph.op_names
    ops = min(failed_ops(problem, attempts), key=len)
    if len(ops) == 1:
        return f"op {names[ops[0]]!r} does not compile even alone: no other cut can help"
    return (
        f"no other cut in {problem.num_stages} stages separates the {len(ops)} ops {names[ops[0]]!r} to "
        f"{names[ops[-1]]!r}: allow more stages"
    )


def _separations(failures: Sequence[tuple[int, ...]], share: float) -> Iterator[tuple[Pair, ...]]:
    """Yield pairs of ops to keep apart, so that a share of every failed segment leaves at its end or its beginning.

    All combinations of sides for up to `_MOST_COMBINED` failed segments, else the same side for all.
    """
    sides = []
    for ops in failures:
        leaving = _leaving(ops, share)
        sides.append((Pair(ops[0], ops[-leaving]), Pair(ops[leaving - 1], ops[-1])))
    yield from itertools.product(*sides) if len(sides) <= _MOST_COMBINED else zip(*sides, strict=True)


def _with_apart(problem: Problem, pairs: tuple[Pair, ...]) -> Problem:
    constraints = problem.constraints
    return replace(
        problem, constraints=replace(constraints, different_stages=constraints.different_stages + tuple(pairs))
    )


def _leaving(ops: tuple[int, ...], share: float) -> int:
    return min(len(ops) - 1, max(1, round(share * len(ops))))


def _is_apart(stage_of: StageVector, most_together: Mapping[tuple[int, ...], int]) -> bool:
    return all(max(Counter(stage_of[v] for v in ops).values()) <= most for ops, most in most_together.items())
