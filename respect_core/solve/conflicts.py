"""Which of the user's constraints contradict each other, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from respect_core.constraints import NAMED, Constraints
from respect_core.solve.protocol import Problem

_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One constraint of a problem, alone."""

    text: str
    alone: Constraints


def rules_of(problem: Problem) -> tuple[Rule, ...]:
    """Split a problem's constraints into single rules, each described with the names of its ops."""
    rules, names = problem.constraints, problem.graph.op_names
    out = [Rule(text=f"constraint {name}", alone=Constraints.named([name])) for name in NAMED if getattr(rules, name)]
    for pin in rules.pins:
        text = f"op {names[pin.op]!r} is pinned to stage {pin.stage}"
        out.append(Rule(text=text, alone=Constraints(pins=(pin,))))
    for pair in rules.same_stage:
        text = f"ops {names[pair.first]!r} and {names[pair.second]!r} share a stage"
        out.append(Rule(text=text, alone=Constraints(same_stage=(pair,))))
    for pair in rules.different_stages:
        text = f"ops {names[pair.first]!r} and {names[pair.second]!r} are in different stages"
        out.append(Rule(text=text, alone=Constraints(different_stages=(pair,))))
    for rule in rules.implications:
        text = (
            f"if op {names[rule.if_op]!r} is in stage {rule.if_stage}, "
            f"op {names[rule.then_op]!r} is in stage {rule.then_stage}"
        )
        out.append(Rule(text=text, alone=Constraints(implications=(rule,))))
    return tuple(out)


def combined(rules: tuple[Rule, ...]) -> Constraints:
    """Return constraints that demand all of some rules."""
    parts = [rule.alone for rule in rules]
    return Constraints(
        outputs_last=any(part.outputs_last for part in parts),
        inputs_first=any(part.inputs_first for part in parts),
        colocate_children=any(part.colocate_children for part in parts),
        pins=tuple(pin for part in parts for pin in part.pins),
        same_stage=tuple(pair for part in parts for pair in part.same_stage),
        different_stages=tuple(pair for part in parts for pair in part.different_stages),
        implications=tuple(rule for part in parts for rule in part.implications),
    )


def smallest_conflict(
    rules: tuple[Rule, ...], is_impossible: Callable[[Constraints], bool | None]
) -> tuple[tuple[Rule, ...], bool]:
    """Leave out rules, in ever smaller groups, as long as the rest still allows no schedule.

    Args:
        rules: Rules that together allow no schedule, though none at all would allow one.
        is_impossible: Tells whether the problem with other constraints has no legal schedule; None where there was no
            time to find out.

    Returns:
        Rules that together allow no schedule, and whether it is known that none of them can be left out.
    """
    size = max(1, len(rules) // 2)
    while True:
        start, is_smallest = 0, True
        while start < len(rules) and len(rules) > 1:
            rest = rules[:start] + rules[start + size :]
            answer = is_impossible(combined(rest)) if rest else False
            if answer:
                rules = rest
            else:
                is_smallest = is_smallest and answer is not None
                start += size
        if size == 1:
            return rules, is_smallest
        size = max(1, size // 2)


def conflict_message(problem: Problem, is_impossible: Callable[[Constraints], bool | None]) -> str:
    """Describe a conflicting subset of the constraints of a problem that is known to have no legal schedule.

    Args:
        problem: The problem.
        is_impossible: As in `smallest_conflict`.

    Returns:
        One sentence that names the constraints and their ops.
    """
    rules, is_smallest = smallest_conflict(rules_of(problem), is_impossible)
    shown = "; ".join(rule.text for rule in rules[:_SHOWN])
    if len(rules) > _SHOWN:
        shown += f"; and {len(rules) - _SHOWN} more"
    if len(rules) == 1:
        what = "a constraint contradicts precedence or that every stage needs an op"
    elif is_smallest:
        what = "constraints contradict each other, given precedence and an op in every stage"
    else:
        what = "among these constraints is a contradiction, given precedence and an op in every stage"
    return f"graph {problem.graph.name!r} has no schedule with {problem.num_stages} stages: {what}: {shown}"
