"""The commercial compiler's parameter-count rule, remade from its published open-source description (libcoral)."""

from __future__ import annotations

from collections import deque

import numpy as np

from respect_core.graph import DnnGraph, IntArray
from respect_core.schedule import check_num_stages, first_violation
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of


def compiler_order(graph: DnnGraph) -> IntArray:
    """Return the order in which the rule takes the ops. Shape (n,).

    Kahn's algorithm with a stack: ops without parents are pushed in ascending index and popped from the back. An op
    whose last parent is done goes to the back, or to the front (as late as possible) if nobody reads what it makes.
    Children are visited in descending index, so that the smallest runs first.
    """
    waiting = [len(p) for p in graph.parents]
    stack = deque(v for v, w in enumerate(waiting) if w == 0)
    order: list[int] = []
    while stack:
        v = stack.pop()
        order.append(v)
        for c in reversed(graph.children[v]):
            waiting[c] -= 1
            if waiting[c] == 0:
                if graph.children[c]:
                    stack.append(c)
                else:
                    stack.appendleft(c)
    return np.array(order, dtype=np.int64)


def compiler_segments(graph: DnnGraph, num_stages: int) -> IntArray:
    """Return the stage of every op under the rule. Shape (n,).

    With ``avg = total // K + 1``, every stage but the last takes ops in order while its bytes stay at or below ``avg``
    and enough ops remain for the later stages; each takes at least one. The first op in order that nobody reads bounds
    all stages but the last, as far as that leaves each an op. The last stage takes the rest.
    """
    check_num_stages(graph, num_stages)
    order = compiler_order(graph).tolist()
    sizes = graph.param_bytes.tolist()
    average = sum(sizes) // num_stages + 1
    first_end = next(i for i, v in enumerate(order) if not graph.children[v])
    stage_of = np.full(graph.num_ops, num_stages - 1, dtype=np.int64)
    start = 0
    for k in range(num_stages - 1):
        limit = graph.num_ops - (num_stages - 1 - k)
        end, size = start, 0
        while end < limit and (end == start or (size + sizes[order[end]] <= average and end < first_end)):
            size += sizes[order[end]]
            end += 1
        stage_of[order[start:end]] = k
        start = end
    return stage_of


class CompilerRuleSolver:
    """The parameter-count rule as a solver; it knows neither objective nor constraints."""

    name = "compiler-rule"
    version = "1"

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the rule's schedule, or `timeout` with the reason where it breaks the problem's constraints."""
        watch = Stopwatch(options.time_limit_s)
        stage_of = compiler_segments(problem.graph, problem.num_stages)
        seconds = watch.seconds
        broken = first_violation(problem.graph, stage_of, problem.num_stages, problem.constraints)
        return result_of(
            self,
            problem,
            None if broken else stage_of,
            status="timeout" if broken else "feasible",
            solve_seconds=seconds,
            message=f"the rule ignores constraints: {broken}" if broken else "",
        )
