"""What is found out about one network: its best order with or without rewriting, peaks and off-chip traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from respect_core.errors import UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.memory.order import MemoryOrderSolver, OrderResult, OrderSolver
from respect_core.memory.rewrite_search import RewriteOptions, RewriteResult, rewrite_memory
from respect_core.memory.rules import DEFAULT_RULES, MemoryRules
from respect_core.memory.serenity import SerenitySolver
from respect_core.memory.traffic import Traffic, off_chip_traffic
from respect_core.solve.protocol import SolveOptions

KIB: Final = 1024

ON_CHIP_BYTES: Final = 256 * KIB
"""On-chip memory for which traffic is told unless another is asked for: that of the published figure."""

WHOLE: Final = "all"
"""Stands for all ops of a network where a part could be."""

ORDER_SOLVERS: Final = (MemoryOrderSolver.name, SerenitySolver.name)


def open_order_solver(name: str) -> OrderSolver:
    """Return the solver of this name.

    Raises:
        UnknownNameError: There is none.
    """
    if name == MemoryOrderSolver.name:
        return MemoryOrderSolver()
    if name == SerenitySolver.name:
        return SerenitySolver()
    raise UnknownNameError("solver of orders", name, ORDER_SOLVERS)


@dataclass(frozen=True, kw_only=True)
class OrderStudy:
    """The best order of a network beside the order of its ops in the file."""

    network: DnnGraph
    """The network, or the part of it, as it is."""
    ordered: DnnGraph
    """What the order is an order of: the network, or what it was rewritten to."""
    result: OrderResult
    rewriting: RewriteResult | None
    """None if none was asked for."""
    on_chip_bytes: int
    traffic: Traffic
    """Of the order."""
    file_order_traffic: Traffic
    """Of the network in the order of its ops."""

    @property
    def num_rewritten(self) -> int:
        """Concatenations that were taken apart."""
        if self.rewriting is None or self.rewriting.rewritten is None:
            return 0
        return len(self.rewriting.rewritten.sites)

    @property
    def reduction(self) -> float | None:
        """How many times the peak of the file's order is that of the order; None if that is 0."""
        peak = self.result.peak_bytes
        return self.result.file_order_peak_bytes / peak if peak else None


def study_order(
    network: DnnGraph,
    rules: MemoryRules = DEFAULT_RULES,
    options: SolveOptions = SolveOptions(),  # noqa: B008
    *,
    solver: OrderSolver | None = None,
    rewriting: RewriteOptions | None = None,
    on_chip_bytes: int = ON_CHIP_BYTES,
) -> OrderStudy:
    """Find the order of a network with the smallest peak and say what it is worth.

    Args:
        network: The network, or a part of one.
        rules: What counts.
        options: The deadline.
        solver: Who orders the ops; the exact one if None.
        rewriting: What may be rewritten; None to leave the network as it is.
        on_chip_bytes: Room for activations, for the traffic.

    Raises:
        BadInputError: Negative room.
    """
    solver = solver or MemoryOrderSolver()
    file_order_traffic = off_chip_traffic(network, on_chip_bytes, None, rules)
    found: RewriteResult | None = None
    ordered = network
    if rewriting is None:
        result = solver.solve(network, rules, options)
    else:
        found = rewrite_memory(network, rules, options, rewriting, solver)
        result = found.best
        ordered = found.rewritten.graph if found.rewritten is not None else network
    return OrderStudy(
        network=network,
        ordered=ordered,
        result=result,
        rewriting=found,
        on_chip_bytes=on_chip_bytes,
        traffic=off_chip_traffic(ordered, on_chip_bytes, result.order, rules),
        file_order_traffic=file_order_traffic,
    )


def memory_row(study: OrderStudy, model: str, part: str = WHOLE) -> dict[str, Any]:
    """Return the row of the table `memory` for a study."""
    result, rules = study.result, study.result.rules
    return {
        "model": model,
        "part": part,
        "num_ops": study.network.num_ops,
        "concat": rules.concat,
        "elementwise": rules.elementwise,
        "counts_inputs": rules.count_inputs,
        "solver": result.solver,
        "solver_version": result.version,
        "may_rewrite": study.rewriting is not None,
        "rewritten_concats": study.num_rewritten,
        "ordered_ops": study.ordered.num_ops,
        "status": result.status,
        "peak_bytes": result.peak_bytes,
        "file_order_peak_bytes": result.file_order_peak_bytes,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "on_chip_bytes": study.on_chip_bytes,
        "traffic_bytes": study.traffic.total_bytes,
        "file_order_traffic_bytes": study.file_order_traffic.total_bytes,
        "order": list(result.order),
        "solve_seconds": result.solve_seconds,
    }
