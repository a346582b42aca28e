"""Greedy decodes of labelled examples in batches: their cosine cost and their gap to the optimal peak."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from respect_core.graph import FloatArray, IntArray
from respect_core.policy.decode import stage_budgets
from respect_core.policy.examples import ExampleGroup, cosine_cost
from respect_core.policy.pointer import PointerNetwork
from respect_core.policy.rollout import orders_of, rollout
from respect_core.solve.protocol import gap_of
from respect_core.solve.split_loops import smallest_peak


def validate(network: PointerNetwork, groups: Sequence[ExampleGroup]) -> tuple[FloatArray, FloatArray]:
    """Decode every example greedily, as `PolicySolver` does, and keep the order with the smallest peak memory.

    Returns:
        The cosine cost and the gap to the optimal peak of every example, in the order of the examples that were
        grouped. Shapes (m,).

    Raises:
        InvalidScheduleError: A decoded order is not topological.
    """
    count = sum(len(group.examples) for group in groups)
    costs, gaps = np.empty(count), np.empty(count)
    for group in groups:
        where = group.positions.numpy()
        costs[where], gaps[where] = _validate_group(network, group)
    return costs, gaps


def _validate_group(network: PointerNetwork, group: ExampleGroup) -> tuple[FloatArray, FloatArray]:
    graphs = [example.graph for example in group.examples]
    tries = max(1, len(network.config.slacks))
    peaks = np.empty((tries, len(graphs)), dtype=np.int64)
    costs = np.empty((tries, len(graphs)))
    for i in range(tries):
        batch = group.batch
        if network.config.knows_budget:
            slack = network.config.slacks[i : i + 1]
            budgets = [stage_budgets(example.graph, example.num_stages, slack)[0] for example in group.examples]
            batch = batch.with_budgets(torch.tensor(budgets, dtype=torch.int64))
        with torch.no_grad():
            rows = rollout(network, batch).rows
        costs[i] = cosine_cost(group.labels, rows).numpy()
        for b, order in enumerate(orders_of(graphs, rows)):
            peaks[i, b] = order_peak(graphs[b].param_bytes, order, group.examples[b].num_stages)
    best = peaks.argmin(axis=0)  # (tries, B) -> (B,)
    everyone = np.arange(len(graphs))
    gaps = [
        gap_of(int(peaks[i, b]), example.optimal_peak_bytes) or 0.0
        for b, (i, example) in enumerate(zip(best, group.examples, strict=True))
    ]
    return costs[best, everyone], np.array(gaps)


def order_peak(param_bytes: IntArray, order: IntArray, num_stages: int) -> int:
    """Return the peak memory of the optimal contiguous split of an order (n,) into non-empty stages, in bytes."""
    prefix = np.zeros(order.size + 1, dtype=np.int64)
    np.cumsum(param_bytes[order], out=prefix[1:])
    return int(smallest_peak(prefix, num_stages))
