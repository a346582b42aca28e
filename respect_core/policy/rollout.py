"""Orders of many small graphs from a pointer network in torch, and what they cost."""

from __future__ import annotations

import numpy as np
import torch

from respect_core.compiled import compiled
from respect_core.graph import FloatArray, IntArray
from respect_core.policy.pointer import Encoded, PointerNetwork
from respect_core.policy.pointer_orders import DrawnGraphs, MaskArray, allowed_ops, take
from respect_core.solve.split_loops import smallest_peak


@torch.no_grad()
def decode_orders(
    network: PointerNetwork,
    encoded: Encoded,
    graph_of: IntArray,
    parents: MaskArray,
    param_bytes: IntArray,
    budgets: IntArray,
    generator: torch.Generator | None = None,
) -> IntArray:
    """Order B times a graph, step by step.

    Args:
        network: The policy.
        encoded: The G graphs of n ops as the network's `encode` read them.
        graph_of: Graph of each order. Shape (B,).
        parents: What must come before each op, as bits; zeros mask visited ops only. Shape (B, n).
        param_bytes: Shape (B, n).
        budgets: Bytes that a stage may hold. Shape (B,).
        generator: Draws the ops from their distribution; without one the likeliest op is taken.

    Returns:
        The orders. Shape (B, n).
    """
    size, n = parents.shape
    done, filled = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.int64)
    allowed, rows = np.zeros((size, n), dtype=np.int64), np.empty((size, n), dtype=np.int64)
    loads = np.zeros((size, n, 2), dtype=np.float32)
    which = torch.from_numpy(graph_of)
    hidden, cell, gates = encoded.hidden[which], encoded.cell[which], network.start_gates(size)
    glimpse_refs, pointer_refs = encoded.glimpse_refs.flatten(0, 1), encoded.pointer_refs.flatten(0, 1)
    input_gates = encoded.input_gates.flatten(0, 1)  # (G, n, 4H) -> (G n, 4H)
    everyone = np.arange(size)
    for step in range(n):
        count = allowed_ops(parents, done, param_bytes, budgets, filled, allowed, loads)
        most = int(count.max())
        hidden, cell = network.advance(gates, hidden, cell)
        chosen = np.zeros(size, dtype=np.int64)
        if most > 1:
            where = torch.from_numpy((graph_of[:, None] * n + allowed[:, :most]).ravel())
            known = torch.from_numpy(np.arange(most) < count[:, None])
            log_p = network.point(
                hidden,
                glimpse_refs.index_select(0, where).view(size, most, -1),
                pointer_refs.index_select(0, where).view(size, most, -1),
                known,
                torch.from_numpy(np.ascontiguousarray(loads[:, :most])),
            )
            if generator is None:
                chosen = log_p.argmax(dim=1).numpy()
            else:
                # Where a score is not finite any op is drawn: the loss of such an order is not finite and says so.
                weights = torch.where(log_p.isfinite(), log_p.exp(), known.to(log_p.dtype))
                chosen = torch.multinomial(weights, 1, generator=generator).squeeze(1).numpy()
        rows[:, step] = allowed[everyone, chosen]
        take(rows[:, step], param_bytes, budgets, done, filled)
        gates = input_gates[torch.from_numpy(graph_of * n + rows[:, step])]
    return rows


def cosine_costs(stages: IntArray, rows: IntArray) -> FloatArray:
    """Return RESPECT's cost of orders: 1 - cosine of the labels in chosen order and the labels in ascending order.

    It is 0 exactly where the order visits the stages one after the other; then the order's optimal split is optimal.

    Args:
        stages: Stage of every op. Shape (B, n).
        rows: Orders. Shape (B, n).

    Returns:
        Shape (B,), in [0, 1], 0 where all labels are 0.
    """
    taken = np.take_along_axis(stages, rows, axis=1).astype(np.float64)
    ascending = np.sort(stages, axis=1).astype(np.float64)
    length = (ascending * ascending).sum(axis=1)
    return np.where(length > 0, 1 - (taken * ascending).sum(axis=1) / np.maximum(length, 1), 0.0)


def peak_gaps(graphs: DrawnGraphs, graph_of: IntArray, rows: IntArray) -> FloatArray:
    """Return the gap of each order's optimal split to each label's peak. Shape (B, J), for orders (B, n)."""
    return _gaps(rows, graphs.param_bytes[graph_of], graphs.num_stages, graphs.peak_bytes[graph_of])


@compiled
def _gaps(rows: IntArray, param_bytes: IntArray, num_stages: IntArray, peak_bytes: IntArray) -> FloatArray:
    size, n = rows.shape
    gaps = np.empty((size, num_stages.size))
    prefix = np.zeros(n + 1, np.int64)
    for b in range(size):
        for i in range(n):
            prefix[i + 1] = prefix[i] + param_bytes[b, rows[b, i]]
        for j in range(num_stages.size):
            peak = smallest_peak(prefix, num_stages[j])
            gaps[b, j] = (peak - peak_bytes[b, j]) / max(1, peak_bytes[b, j])
    return gaps
