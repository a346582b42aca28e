"""Solvers by name; each is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final

from respect_core.errors import UnknownNameError
from respect_core.solve.protocol import Solver


def _from(module: str, attribute: str) -> Callable[[], Solver]:
    def build() -> Solver:
        solver: Solver = getattr(import_module(f"respect_core.solve.{module}"), attribute)()
        return solver

    return build


def _robust(measure: str) -> Callable[[], Solver]:
    def build() -> Solver:
        from respect_core.solve.robust import RobustSolver, check_measure

        return RobustSolver(check_measure(measure))

    return build


def _order(name: str) -> Callable[[], Solver]:
    def build() -> Solver:
        from respect_core.solve.orders import SIMPLE_ORDERS, OrderSolver

        return OrderSolver(name, SIMPLE_ORDERS[name])

    return build


SOLVERS: Final[dict[str, Callable[[], Solver]]] = {
    "auto": _from("auto", "AutoSolver"),
    "exact": _from("exact", "ExactSolver"),
    "ilp": _from("ilp", "IlpSolver"),
    "order-file": _order("order-file"),
    "order-kahn": _order("order-kahn"),
    "order-dfs": _order("order-dfs"),
    "best-order": _from("orders", "BestOrderSolver"),
    "random-orders": _from("orders", "RandomOrdersSolver"),
    "local-search": _from("local_search", "LocalSearchSolver"),
    "compiler-rule": _from("compiler_rule", "CompilerRuleSolver"),
    "profiling": _from("profiling", "ProfilingSolver"),
    "balanced": _from("balanced", "BalancedSolver"),
    "robust-max": _robust("max"),
    "robust-p90": _robust("p90"),
}
"""Solvers that need nothing but a problem; the learned `policy` also needs a checkpoint."""

POLICY: Final = "policy"
"""Name of the learned solver (`respect_core.policy.solver.PolicySolver`)."""


POINTER: Final = "pointer"
"""Name of RESPECT's network (`respect_core.policy.solver.PointerSolver`)."""


def solver_names() -> list[str]:
    """Return every name that `--solver` takes."""
    return [*SOLVERS, POLICY, POINTER]


def get_solver(name: str) -> Solver:
    """Return a new solver of this name.

    Raises:
        UnknownNameError: There is none (or it is `policy` or `pointer`, which need a checkpoint).
    """
    if name not in SOLVERS:
        raise UnknownNameError("solver", name, solver_names())
    return SOLVERS[name]()
