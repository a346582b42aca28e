"""The SDC+ILP model of one problem: which stage every block is in, and what is legal.

The model object and its `weighted_sum` are handed in, so this module needs no solver to be imported. Two formulations:
`prefix` has one boolean for "block b is in a stage <= k" and turns precedence into implications (a system of difference
constraints); `assignment` has one boolean for "block b is in stage k" and a difference constraint along every edge, as
in published work.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import numpy as np

from respect_core.graph import IntArray
from respect_core.solve.domains import Blocks, Windows
from respect_core.solve.protocol import Problem

Formulation = Literal["prefix", "assignment"]
FORMULATIONS: Final[tuple[Formulation, ...]] = get_args(Formulation)

Boolean = Any
"""A variable of the solver, its negation, or True or False."""


@dataclass
class Sum:
    """A linear expression in the making: constants are folded, variables collected."""

    variables: list[Any] = field(default_factory=list)
    coefficients: list[int] = field(default_factory=list)
    constant: int = 0

    def add(self, variable: Any, coefficient: int) -> Sum:
        """Add ``coefficient * variable``; the variable may be True or False."""
        if isinstance(variable, bool):
            self.constant += coefficient * variable
        elif coefficient:
            self.variables.append(variable)
            self.coefficients.append(coefficient)
        return self

    def extend(self, other: Sum, factor: int = 1) -> Sum:
        """Add ``factor * other``."""
        self.variables += other.variables
        self.coefficients += [factor * c for c in other.coefficients]
        self.constant += factor * other.constant
        return self


class StageModel:
    """The legal schedules of one problem within some windows.

    Args:
        model: An empty model of the solver.
        weighted_sum: Makes the solver's expression of variables and coefficients.
        problem: The problem.
        blocks: Its merged ops.
        windows: First and last stage of every block; pins, inputs and outputs are already in them.
        formulation: Which booleans to use.
    """

    def __init__(
        self,
        model: Any,
        weighted_sum: Callable[[Sequence[Any], Sequence[int]], Any],
        problem: Problem,
        blocks: Blocks,
        windows: Windows,
        formulation: Formulation,
    ) -> None:
        self.model, self._weighted_sum = model, weighted_sum
        self.problem, self.blocks, self.formulation = problem, blocks, formulation
        self.num_stages = problem.num_stages
        self.low: list[int] = windows[0].tolist()
        self.high: list[int] = windows[1].tolist()
        self._prefix: list[list[Boolean]] = []
        self._inside: list[list[Boolean]] = []
        if formulation == "prefix":
            self._add_prefixes()
        else:
            self._add_assignment()
        self._add_legality()
        self._add_constraints()

    # -- reading and steering ----------------------------------------------------------------------------------------

    def expression(self, terms: Sum) -> Any:
        """Return a sum as the solver's expression."""
        return self._weighted_sum(terms.variables, terms.coefficients) + terms.constant

    def stages(self, is_true: Callable[[Any], bool]) -> list[int]:
        """Return the stage of every op from the values of the variables."""

        def holds(literal: Boolean) -> bool:
            return literal if isinstance(literal, bool) else is_true(literal)

        if self.formulation == "prefix":
            of_block = [sum(not holds(y) for y in row) for row in self._prefix]
        else:
            of_block = [next(k for k, x in enumerate(row) if holds(x)) for row in self._inside]
        return [of_block[b] for b in self.blocks.block_of.tolist()]

    def hint(self, stage_of: Sequence[int]) -> None:
        """Suggest a schedule, in place of what was suggested before."""
        self.model.clear_hints()
        rows = self._prefix if self.formulation == "prefix" else self._inside
        for ops, row in zip(self.blocks.members, rows, strict=True):
            stage = stage_of[ops[0]]
            for k, literal in enumerate(row):
                if not isinstance(literal, bool):
                    self.model.add_hint(literal, stage <= k if self.formulation == "prefix" else stage == k)

    def fix(self, block: int, stage: int) -> None:
        """Hold a block in a stage."""
        for literal in self._in_stage(block, stage):
            self.clause([literal])

    # -- sums for the objective --------------------------------------------------------------------------------------

    def stage_number(self, block: int) -> Sum:
        """Return the stage of a block."""
        out = Sum()
        for k in range(self.num_stages):
            if self.formulation == "prefix":
                out.add(self._prefix[block][k], -1).constant += 1
            else:
                out.add(self._inside[block][k], k)
        return out

    def member(self, block: int, k: int) -> Sum:
        """Return 1 where a block is in stage k, else 0."""
        if self.formulation == "assignment":
            return Sum().add(self._inside[block][k], 1)
        out = Sum().add(self._prefix[block][k], 1)
        return out.add(self._prefix[block][k - 1], -1) if k else out

    def last_stage(self, blocks: frozenset[int]) -> Sum:
        """Return the last stage among blocks, or more where nothing presses it down."""
        if len(blocks) == 1:
            return self.stage_number(next(iter(blocks)))
        low, high = max(self.low[b] for b in blocks), max(self.high[b] for b in blocks)
        if low == high:
            return Sum(constant=low)
        if self.formulation == "assignment":
            last = self.model.new_int_var(low, high, "")
            for b in blocks:
                self.model.add(self.expression(self.stage_number(b)) <= last)
            return Sum().add(last, 1)
        out = Sum(constant=low)
        for k in range(low, high):
            done = self.model.new_bool_var("")
            out.add(done, -1).constant += 1
            for b in blocks:
                self.clause([done.negated(), self._prefix[b][k]])
        return out

    def stage_sums(self, per_block: IntArray) -> list[Sum]:
        """Return the sum of a number of every block for each stage.

        With prefixes these are differences of running totals, each a variable: the model is sparser and proves faster.
        """
        weights = [(b, w) for b, w in enumerate(per_block.tolist()) if w]
        if self.formulation == "assignment":
            out = [Sum() for _ in range(self.num_stages)]
            for k, total in enumerate(out):
                for b, w in weights:
                    total.add(self._inside[b][k], w)
            return out
        running = [self._running_total(weights, k) for k in range(self.num_stages)]
        return [running[0], *(Sum().extend(b).extend(a, -1) for a, b in itertools.pairwise(running))]

    def _running_total(self, weights: list[tuple[int, int]], k: int) -> Sum:
        total = Sum()
        for b, w in weights:
            total.add(self._prefix[b][k], w)
        if len(total.variables) <= 1:
            return total
        variable = self.model.new_int_var(total.constant, total.constant + sum(total.coefficients), "")
        self.model.add(self.expression(total) == variable)
        return Sum().add(variable, 1)

    # -- variables and rules -----------------------------------------------------------------------------------------

    def clause(self, literals: list[Boolean]) -> None:
        """Demand that one of the literals holds."""
        if not any(literal is True for literal in literals):
            self.model.add_bool_or([literal for literal in literals if literal is not False])

    def _add_prefixes(self) -> None:
        for low, high in zip(self.low, self.high, strict=True):
            row = [self.model.new_bool_var("") if low <= k < high else k >= high for k in range(self.num_stages)]
            self._prefix.append(row)
            for k in range(low, high - 1):
                self.clause([_not(row[k]), row[k + 1]])
        for u, v in self.blocks.edges:
            for k in range(self.low[v], self.high[u]):
                self.clause([_not(self._prefix[v][k]), self._prefix[u][k]])

    def _add_assignment(self) -> None:
        for low, high in zip(self.low, self.high, strict=True):
            row: list[Boolean] = [False] * self.num_stages
            row[low : high + 1] = [self.model.new_bool_var("") for _ in range(low, high + 1)] if low < high else [True]
            if low < high:
                self.model.add_exactly_one(row[low : high + 1])
            self._inside.append(row)
        for u, v in self.blocks.edges:
            if self.high[u] > self.low[v]:
                self.model.add(self.expression(self.stage_number(u)) <= self.expression(self.stage_number(v)))

    def _add_legality(self) -> None:
        sure = {low for low, high in zip(self.low, self.high, strict=True) if low == high}
        if len(sure) == self.num_stages:
            return
        counts = self.stage_sums(np.ones(self.blocks.num_blocks, dtype=np.int64))
        for k, count in enumerate(counts):
            if k not in sure:
                self.model.add(self.expression(count) >= 1)

    def _add_constraints(self) -> None:
        rules, graph, block_of = self.problem.constraints, self.problem.graph, self.blocks.block_of.tolist()
        for group in rules.first_stage_groups(graph):
            self.clause([literal for v in group for literal in self._in_stage(block_of[v], 0)])
        for a, b in rules.different_stages:
            for k in range(self.num_stages):
                both = self._in_stage(block_of[a], k) + self._in_stage(block_of[b], k)
                self.clause([_not(literal) for literal in both])
        for rule in rules.implications:
            broken = [_not(literal) for literal in self._in_stage(block_of[rule.if_op], rule.if_stage)]
            for literal in self._in_stage(block_of[rule.then_op], rule.then_stage):
                self.clause([*broken, literal])

    def _in_stage(self, block: int, k: int) -> list[Boolean]:
        """Return literals that all hold exactly where a block is in stage k."""
        if self.formulation == "assignment":
            return [self._inside[block][k]]
        row = self._prefix[block]
        return [row[k], _not(row[k - 1])] if k else [row[k]]


def _not(literal: Boolean) -> Boolean:
    return not literal if isinstance(literal, bool) else literal.negated()
