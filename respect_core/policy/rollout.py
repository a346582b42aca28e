"""Decoding a batch of graphs of one size with gradients: sampled, greedy, or led by labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from respect_core.errors import BadInputError, InvalidScheduleError
from respect_core.graph import DnnGraph, IntArray
from respect_core.policy.encoding import node_features, row_edges, row_order
from respect_core.policy.pointer import MASKED, PointerNetwork

_DONE = 2**30
"""Stands for the stage of an op that is chosen already."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """B graphs of n ops each, as the network reads them; what belongs to ops stands in the rows of `row_order`."""

    features: Tensor
    """Shape (B, n, 15)."""
    children: Tensor
    """``children[b, i, j]`` is 1 where row j reads what row i makes. Shape (B, n, n), int16."""
    param_bytes: Tensor
    """Shape (B, n), int64."""
    budget_bytes: Tensor
    """What a stage may hold, for networks that know a budget. Shape (B,), int64."""

    @classmethod
    def of(cls, graphs: Sequence[DnnGraph], budgets: Sequence[int]) -> Batch:
        """Encode graphs that all have the same number of ops, with a stage's budget in bytes for each.

        Raises:
            BadInputError: No graphs, or graphs of different sizes.
        """
        sizes = sorted({graph.num_ops for graph in graphs})
        if len(sizes) != 1:
            raise BadInputError(f"a batch holds graphs of one size, got the sizes {sizes}")
        n = sizes[0]
        children = np.zeros((len(graphs), n, n), dtype=np.int16)
        for b, graph in enumerate(graphs):
            edges = row_edges(graph)
            children[b, edges[:, 0], edges[:, 1]] = 1
        return cls(
            features=torch.from_numpy(np.stack([node_features(graph) for graph in graphs])),
            children=torch.from_numpy(children),
            param_bytes=torch.from_numpy(np.stack([graph.param_bytes[row_order(graph)] for graph in graphs])),
            budget_bytes=torch.tensor(list(budgets), dtype=torch.int64),
        )

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def pick(self, which: Tensor) -> Batch:
        """Return the graphs of these indices as a batch of their own."""
        return Batch(
            features=self.features[which],
            children=self.children[which],
            param_bytes=self.param_bytes[which],
            budget_bytes=self.budget_bytes[which],
        )

    def with_budgets(self, budget_bytes: Tensor) -> Batch:
        """Return the same graphs under other budgets (B,)."""
        return replace(self, budget_bytes=budget_bytes)


class Rollout(NamedTuple):
    """What was chosen for a batch, and how likely the network found it."""

    rows: Tensor
    """Rows in the order they were chosen. Shape (B, n)."""
    log_prob: Tensor
    """Sum of the choices' log-probabilities; led by labels, of the sets they allowed. Shape (B,)."""
    entropy: Tensor
    """Mean entropy of a choice in nats. Shape (B,)."""


def rollout(
    network: PointerNetwork,
    batch: Batch,
    generator: torch.Generator | None = None,
    *,
    labels: Tensor | None = None,
) -> Rollout:
    """Order every graph of a batch.

    Args:
        network: The policy.
        batch: B graphs of n ops.
        generator: Draws the ops from their distribution; without one the likeliest op is taken.
        labels: Stage of every row (B, n). If given, the labels lead: each step takes a ready op of the first stage that
            is not complete, drawn uniformly by ``generator``, and its log-probability is that of choosing any of them.

    Returns:
        The choices; gradients flow through `log_prob` and `entropy` unless torch's gradients are off.
    """
    size, n = len(batch), int(batch.features.shape[1])
    encoded = network.encode(batch.features)
    hidden, cell, gates = encoded.hidden, encoded.cell, network.start_gates(size)
    everyone = torch.arange(size)
    waiting = batch.children.sum(dim=1)  # (B, n, n) -> (B, n): parents not chosen yet
    filled = torch.zeros(size, dtype=torch.int64)
    left = None if labels is None else labels.clone()
    rows, log_probs, entropies = [], [], []
    for _ in range(n):
        allowed = waiting == 0
        loads = None
        if network.config.knows_budget:
            loads, fits = _loads(batch, filled)
            fitting = allowed & fits
            if left is None:  # labels may close a stage early, so they are not held to the rule
                allowed = torch.where(fitting.any(dim=1, keepdim=True), fitting, allowed)
        log_p, hidden, cell = network.step(encoded, gates, hidden, cell, allowed, loads)
        if left is not None:
            led = allowed & (left == left.min(dim=1, keepdim=True).values)
            chosen = torch.multinomial(led.float(), 1, generator=generator).squeeze(1)  # (B, 1) -> (B,)
            log_probs.append(log_p.masked_fill(~led, MASKED).logsumexp(dim=1))
            left[everyone, chosen] = _DONE
        elif generator is None:
            chosen = log_p.argmax(dim=1)
            log_probs.append(log_p[everyone, chosen])
        else:
            chosen = torch.multinomial(log_p.detach().exp(), 1, generator=generator).squeeze(1)  # (B, 1) -> (B,)
            log_probs.append(log_p[everyone, chosen])
        rows.append(chosen)
        entropies.append(-(log_p.exp() * log_p).sum(dim=1))
        gates = encoded.input_gates[everyone, chosen]
        own = batch.param_bytes[everyone, chosen]
        filled = torch.where(filled + own > batch.budget_bytes, own, filled + own)  # beyond it, the next stage opens
        waiting = waiting - batch.children[everyone, chosen]
        waiting[everyone, chosen] = -1  # never 0 again: all its parents are chosen already
    return Rollout(
        rows=torch.stack(rows, dim=1),
        log_prob=torch.stack(log_probs, dim=1).sum(dim=1),  # (B, n) -> (B,)
        entropy=torch.stack(entropies, dim=1).mean(dim=1),  # (B, n) -> (B,)
    )


def _loads(batch: Batch, filled: Tensor) -> tuple[Tensor, Tensor]:
    """Return every op's own share of the budget and the share with it in the stage (B, n, 2), and which fit (B, n)."""
    budget = batch.budget_bytes.unsqueeze(1)  # (B,) -> (B, 1)
    together = batch.param_bytes + filled.unsqueeze(1)  # (B, n)
    shares = torch.stack([batch.param_bytes, together], dim=2) / budget.clamp(min=1).double().unsqueeze(2)
    return shares.float(), together <= budget


def orders_of(graphs: Sequence[DnnGraph], rows: Tensor) -> list[IntArray]:
    """Translate chosen rows (B, n) to orders of ops, each checked to be topological.

    Raises:
        InvalidScheduleError: An order is not; the graph is named.
    """
    orders = []
    for graph, chosen in zip(graphs, rows.numpy(), strict=True):
        order: IntArray = row_order(graph)[chosen]
        if not graph.is_topological(order):
            raise InvalidScheduleError(f"the policy's order of graph {graph.name!r} is not a topological one")
        orders.append(order)
    return orders
