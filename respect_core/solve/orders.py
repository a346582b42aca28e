"""Simple topological orders, and the solvers that split them optimally."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from respect_core.compiled import compiled
from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph, FloatArray, IntArray
from respect_core.solve.order_arrays import order_arrays
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of
from respect_core.solve.split import Splitter

NO_SPLIT = "no contiguous split of the tried orders obeys the constraints; the solvers exact and ilp search further"


def file_order(graph: DnnGraph) -> IntArray:
    """Return the order of the graph's file where that is topological, else the closest: smallest ready index first."""
    return graph.topological_order


def kahn_order(graph: DnnGraph) -> IntArray:
    """Return Kahn's order with a first-in-first-out queue. Shape (n,)."""
    waiting = [len(p) for p in graph.parents]
    ready = deque(v for v, w in enumerate(waiting) if w == 0)
    order: list[int] = []
    while ready:
        v = ready.popleft()
        order.append(v)
        for c in graph.children[v]:
            waiting[c] -= 1
            if waiting[c] == 0:
                ready.append(c)
    return np.array(order, dtype=np.int64)


def dfs_order(graph: DnnGraph) -> IntArray:
    """Return the reversed post-order of a depth-first search from the ops without parents. Shape (n,)."""
    done = [False] * graph.num_ops
    post: list[int] = []
    for root in (v for v, p in enumerate(graph.parents) if not p):
        stack: list[tuple[int, Iterator[int]]] = [(root, iter(graph.children[root]))]
        done[root] = True
        while stack:
            v, rest = stack[-1]
            child = next((c for c in rest if not done[c]), None)
            if child is None:
                post.append(v)
                stack.pop()
            else:
                done[child] = True
                stack.append((child, iter(graph.children[child])))
    return np.array(post[::-1], dtype=np.int64)


def random_order(graph: DnnGraph, rng: np.random.Generator) -> IntArray:
    """Return a topological order that takes a uniformly drawn ready op at every step. Shape (n,)."""
    rows = order_arrays(graph)
    return _random_order(rows.child_start, rows.child, rows.num_parents, rng.random(graph.num_ops))


@compiled
def _random_order(child_start: IntArray, child: IntArray, num_parents: IntArray, draws: FloatArray) -> IntArray:
    n = num_parents.size
    waiting = num_parents.copy()
    ready = np.empty(n, np.int64)
    num_ready = 0
    for v in range(n):
        if waiting[v] == 0:
            ready[num_ready] = v
            num_ready += 1
    order = np.empty(n, np.int64)
    for step in range(n):
        pick = int(draws[step] * num_ready)
        v = ready[pick]
        num_ready -= 1
        ready[pick] = ready[num_ready]
        order[step] = v
        for r in range(child_start[v], child_start[v + 1]):
            waiting[child[r]] -= 1
            if waiting[child[r]] == 0:
                ready[num_ready] = child[r]
                num_ready += 1
    return order


class OrderSolver:
    """One topological order and its optimal contiguous split."""

    version = "1"

    def __init__(self, name: str, order: Callable[[DnnGraph], IntArray]) -> None:
        self.name, self._order = name, order

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Split the order; `feasible`, or `timeout` where no contiguous split is legal."""
        watch = Stopwatch(options.time_limit_s)
        stage_of = Splitter(problem).split(self._order(problem.graph))
        return result_of(
            self,
            problem,
            stage_of,
            status="timeout" if stage_of is None else "feasible",
            solve_seconds=watch.seconds,
            message=NO_SPLIT if stage_of is None else "",
        )


SIMPLE_ORDERS: dict[str, Callable[[DnnGraph], IntArray]] = {
    "order-file": file_order,
    "order-kahn": kahn_order,
    "order-dfs": dfs_order,
}


class BestOrderSolver:
    """The best of the three simple orders: the strongest baseline that takes no randomness."""

    name = "best-order"
    version = "1"

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the best split of the simple orders."""
        return _best_of(self, problem, options, (order(problem.graph) for order in SIMPLE_ORDERS.values()))


class RandomOrdersSolver:
    """The best of N random topological orders, each split optimally; stops early at the time limit."""

    name = "random-orders"
    version = "1"

    def __init__(self, num_orders: int = 128) -> None:
        if num_orders < 1:
            raise BadInputError(f"{num_orders} random orders were asked for, at least 1 is needed")
        self.num_orders = num_orders

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the best split of the random orders drawn from the options' seed."""
        rng = np.random.default_rng(options.seed)
        orders = (random_order(problem.graph, rng) for _ in range(self.num_orders))
        return _best_of(self, problem, options, orders)


def _best_of(
    solver: BestOrderSolver | RandomOrdersSolver, problem: Problem, options: SolveOptions, orders: Iterator[IntArray]
) -> SolveResult:
    """Split orders until they run out or the time does (the first one is always split)."""
    watch = Stopwatch(options.time_limit_s)
    splitter = Splitter(problem)
    best: tuple[tuple[int, ...], IntArray] | None = None
    for order in orders:
        stage_of = splitter.split(order)
        if stage_of is not None:
            value = problem.value(problem.evaluate(stage_of))
            if best is None or value < best[0]:
                best = value, stage_of
        if watch.left == 0:
            break
    return result_of(
        solver,
        problem,
        best[1] if best else None,
        status="feasible" if best else "timeout",
        solve_seconds=watch.seconds,
        message="" if best else NO_SPLIT,
    )
