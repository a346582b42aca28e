"""The policy's network in torch: messages along the edges of the graph, one pass, four numbers an op."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from respect_core.policy.config import NetworkConfig
from respect_core.policy.features import NUM_FEATURES
from respect_core.solve.local_search_orders import NEARNESS, NUM_COEFFICIENTS


class MessageLayer(nn.Module):
    """One round of messages: ``h + out(relu(own(norm h) + parents(mean) + children(mean) + all(mean)))``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(3 * width, width)
        self.all = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, h: Tensor, parents: Tensor, children: Tensor) -> Tensor:
        """Pass messages.

        Args:
            h: Shape (B, n, d).
            parents: Row v averages over the parents of op v. Shape (B, n, n).
            children: Likewise for its children. Shape (B, n, n).
        """
        x = self.norm(h)
        near = torch.cat([x, parents @ x, children @ x], dim=2)  # (B, n, d) three times -> (B, n, 3d)
        everywhere = self.all(x.mean(dim=1, keepdim=True))  # (B, n, d) -> (B, 1, d)
        out: Tensor = h + self.out(torch.relu(self.mix(near) + everywhere))
        return out


class PolicyNetwork(nn.Module):
    """Turns the ops' features into the coefficients of their scores."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Linear(NUM_FEATURES, config.width)
        self.layers = nn.ModuleList(MessageLayer(config.width) for _ in range(config.rounds))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, NUM_COEFFICIENTS)

    def forward(self, features: Tensor, parents: Tensor, children: Tensor) -> Tensor:
        """Return the coefficients of every op.

        Args:
            features: `respect_core.policy.features.fill_features`. Shape (B, n, NUM_FEATURES).
            parents: Averaging matrices over parents. Shape (B, n, n).
            children: And over children. Shape (B, n, n).

        Returns:
            Shape (B, n, NUM_COEFFICIENTS).
        """
        h = self.embed(features)
        for layer in self.layers:
            h = layer(h, parents, children)
        out: Tensor = self.head(self.norm(h))
        return out


def step_scores(coefficients: Tensor, dynamic: Tensor, shares: Tensor) -> Tensor:
    """Return the score of every op at every step, as `respect_core.solve.local_search_orders.draw_order` computes it.

    Args:
        coefficients: Shape (B, n, NUM_COEFFICIENTS).
        dynamic: Share of the budget left, and stage over the last stage. Shape (B, steps, 2).
        shares: Load of every op over the budget. Shape (B, n).

    Returns:
        Shape (B, steps, n).
    """
    left, stage = dynamic[..., 0], dynamic[..., 1]
    basis = torch.stack([torch.ones_like(left), left, stage, stage * stage], dim=2)  # (B, steps) -> (B, steps, 4)
    scores = basis @ coefficients[..., :4].transpose(1, 2)  # (B, steps, 4) @ (B, 4, n) -> (B, steps, n)
    room = (left.unsqueeze(2) - shares.unsqueeze(1)).clamp(min=0)  # (B, steps, 1) - (B, 1, n) -> (B, steps, n)
    for i, nearness in enumerate(NEARNESS):
        scores = scores + coefficients[..., 4 + i].unsqueeze(1) / (1 + nearness * room)
    return scores


def imitation_loss(scores: Tensor, allowed: Tensor, led: Tensor) -> Tensor:
    """Return the mean cross-entropy of taking any op that the label takes, over the steps where there is a choice.

    Args:
        scores: Shape (B, steps, n).
        allowed: Ops that could be taken. Shape (B, steps, n), bool.
        led: Ops that the label takes, part of ``allowed``. Shape (B, steps, n), bool.
    """
    masked = scores.masked_fill(~allowed, MASKED)
    weights = (masked - masked.detach().amax(dim=2, keepdim=True)).exp()  # of softmax, the largest is 1
    everyone, wanted = weights.sum(dim=2), (weights * led).sum(dim=2).clamp(min=LEAST)
    choice = (allowed != led).any(dim=2)
    return ((everyone.log() - wanted.log()) * choice).sum() / choice.sum().clamp(min=1)


MASKED = -1e9
"""Score of an op that must not be taken: finite, so that nothing becomes NaN."""

LEAST = 1e-30
"""Probabilities below are taken for this one."""
