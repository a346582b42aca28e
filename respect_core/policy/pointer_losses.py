"""What the pointer network is trained to lower, and how it is judged while it is."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from respect_core.graph import BoolArray, FloatArray, IntArray
from respect_core.policy.config import PointerConfig, TrainConfig
from respect_core.policy.decode import Budgets, order_peak
from respect_core.policy.pointer import MASKED, Encoded, PointerNetwork
from respect_core.policy.pointer_orders import NO_BUDGET, DrawnGraphs, MaskArray, Steps, follow_labels, follow_orders
from respect_core.policy.rollout import cosine_costs, decode_orders, peak_gaps

LOOSENED, LOOSER = 0.4, 0.03
"""Share of the labels imitated under a larger budget than their peak, and by how much it is larger at most."""

LOOSEST = 1.06
"""REINFORCE draws budgets between a label's peak and so many times of it."""

_VALIDATION_BATCH = 256


class NormOverAll(nn.BatchNorm1d):
    """Batch norm over the ops of all graphs of a batch."""

    def forward(self, rows: Tensor) -> Tensor:
        """Normalise (B, n, H)."""
        return super().forward(rows.flatten(0, 1)).view(rows.shape)


def with_batch_norm(config: PointerConfig) -> PointerNetwork:
    """Return a network with batch norm, as published, where ours has layer norm."""
    network = PointerNetwork(config)
    network.embed_norm = NormOverAll(config.embed_size)  # type: ignore[assignment]
    network.encoder_norm = NormOverAll(config.hidden_size)  # type: ignore[assignment]
    return network


class Losses:
    """The losses of one network, and its baseline.

    Args:
        config: How it is trained.
        network: It.
    """

    def __init__(self, config: TrainConfig, network: PointerNetwork) -> None:
        self.config, self.network = config, network
        self.baseline: PointerNetwork | None = None
        """The frozen network whose greedy orders are the baseline, once there is one."""
        self.exponential_mean: float | None = None

    def imitate(self, batch: DrawnGraphs, rng: np.random.Generator) -> tuple[Tensor, float, float]:
        """Follow every label, in a random order that obeys it.

        Returns:
            The cross-entropy of choosing any op that the label's current stage holds, over the steps where that leaves
            a choice; the same as a number; and that of choosing any allowed op.
        """
        labels, n = batch.num_stages.size, batch.parents.shape[1]
        graph_of = np.repeat(np.arange(len(batch.names)), labels)
        size, peaks = graph_of.size, batch.peak_bytes.ravel()
        budgets = np.full(size, NO_BUDGET)
        if self.network.config.knows_budget:
            loosen = np.where(rng.random(size) < LOOSENED, rng.random(size) * LOOSER, 0.0)
            budgets = (peaks * (1 + loosen)).astype(np.int64)
        steps = follow_labels(
            self._parents(batch)[graph_of],
            batch.stages.reshape(size, n),
            batch.param_bytes[graph_of],
            budgets,
            rng.random((size, n)),
        )
        led = steps.led.sum(axis=2)
        choice = led < steps.num_allowed
        log_p = self._score(self.network.encode(torch.from_numpy(batch.features)), graph_of, steps, choice)
        loss = -log_p.masked_fill(~torch.from_numpy(steps.led[choice]), MASKED).logsumexp(dim=1).sum()
        count = max(1, int(choice.sum()))
        loss = loss / count
        return loss, float(loss.detach()), float(np.log(steps.num_allowed[choice] / led[choice]).sum()) / count

    def reinforce(
        self, batch: DrawnGraphs, rng: np.random.Generator, generator: torch.Generator
    ) -> tuple[Tensor, float, float]:
        """Sample orders of every graph; returns REINFORCE's loss, the orders' mean cost, and that of the baseline."""
        config, network = self.config, self.network
        size = len(batch.names)
        label = rng.integers(batch.num_stages.size, size=size)
        graph_of = np.repeat(np.arange(size), config.samples)
        encoded = network.encode(torch.from_numpy(batch.features))
        budgets = np.full(size, NO_BUDGET)
        if network.config.knows_budget:
            budgets = (batch.peak_bytes[np.arange(size), label] * rng.uniform(1, LOOSEST, size)).astype(np.int64)
        budgets = budgets[graph_of]
        parents, param_bytes = self._parents(batch)[graph_of], batch.param_bytes[graph_of]
        detached = Encoded(*(tensor.detach() for tensor in encoded))
        rows = decode_orders(network, detached, graph_of, parents, param_bytes, budgets, generator)
        cost = self._costs(batch, graph_of, label[graph_of], rows)
        if config.samples > 1:
            each = cost.reshape(size, config.samples)
            others = (each.sum(axis=1, keepdims=True) - each) / (config.samples - 1)
            advantage = (each - others).ravel()
            advantage /= advantage.std() + 1e-9
            baseline = cost
        elif self.baseline is None:
            mean = float(cost.mean())
            last = mean if self.exponential_mean is None else self.exponential_mean
            self.exponential_mean = config.warmup_decay * last + (1 - config.warmup_decay) * mean
            baseline = np.full(cost.shape, self.exponential_mean)
            advantage = cost - baseline
        else:
            self.baseline.eval()
            with torch.no_grad():
                read = self.baseline.encode(torch.from_numpy(batch.features))
            greedy = decode_orders(self.baseline, read, graph_of, parents, param_bytes, budgets)
            baseline = self._costs(batch, graph_of, label[graph_of], greedy)
            advantage = cost - baseline
        steps = follow_orders(parents, rows, param_bytes, budgets)
        choice = steps.num_allowed > 1
        log_p = self._score(encoded, graph_of, steps, choice)
        chosen = log_p[torch.from_numpy(steps.led[choice])]  # one of each step
        weight = np.broadcast_to(advantage[:, None], choice.shape)[choice].astype(np.float32)
        loss = (torch.from_numpy(weight) * chosen).sum() / cost.size
        if config.entropy_weight:
            loss = loss + config.entropy_weight * (log_p.exp() * log_p).sum() / max(1, log_p.shape[0])
        return loss, float(cost.mean()), float(baseline.mean())

    def validate(self, held: DrawnGraphs) -> tuple[FloatArray, FloatArray]:
        """Decode every label's problem greedily, and keep the order with the smallest peak memory.

        A network without a precedence mask is judged by two orders: as it was trained for the cost, and with the mask
        for the gap, as its own orders are not legal.

        Returns:
            The cosine cost and the gap to the optimal peak of every label. Shapes (G J,).
        """
        self.network.eval()
        costs, gaps = [], []
        for at in range(0, len(held.names), _VALIDATION_BATCH):
            part = held.pick(np.arange(at, min(at + _VALIDATION_BATCH, len(held.names))))
            cost, gap = self._validate_part(part)
            costs.append(cost)
            gaps.append(gap)
        self.network.train()
        return np.concatenate(costs).ravel(), np.concatenate(gaps).ravel()

    def _validate_part(self, part: DrawnGraphs) -> tuple[FloatArray, FloatArray]:
        """Return the cost and the gap of every label's best order. Shapes (G, J)."""
        network, size, labels = self.network, len(part.names), part.num_stages.size
        everyone = np.arange(size)
        with torch.no_grad():
            encoded = network.encode(torch.from_numpy(part.features))
        if network.config.knows_budget:
            tried = [self._best_of_budgets(part, encoded, j) for j in range(labels)]
            return np.stack([cost for cost, _ in tried], axis=1), np.stack([gap for _, gap in tried], axis=1)
        given, rest = (network, encoded, everyone), (part.param_bytes, np.full(size, NO_BUDGET))
        rows = decode_orders(*given, self._parents(part), *rest)  # one order serves all K
        legal = rows if self.config.legal else decode_orders(*given, part.parents, *rest)
        costs = np.stack([cosine_costs(part.stages[:, j], rows) for j in range(labels)], axis=1)
        return costs, peak_gaps(part, everyone, legal)

    def _best_of_budgets(self, part: DrawnGraphs, encoded: Encoded, j: int) -> tuple[FloatArray, FloatArray]:
        """Decode for label j under a budget after the other, as `decode.PointerDecoder` does. Shapes (G,)."""
        stages = int(part.num_stages[j])
        paths = [Budgets(param_bytes, stages, self.network.config.slacks) for param_bytes in part.param_bytes]
        peaks: list[int | None] = [None] * len(paths)
        costs, gaps = np.full(len(paths), np.inf), np.full(len(paths), np.inf)
        for step in range(max(path.most for path in paths)):
            budgets = [path.next(step, peak) for path, peak in zip(paths, peaks, strict=True)]
            which = np.array([g for g, budget in enumerate(budgets) if budget is not None], dtype=np.int64)
            if not which.size:
                break
            some = part.pick(which)
            given = np.array([budget for budget in budgets if budget is not None], dtype=np.int64)
            rows = decode_orders(self.network, encoded, which, self._parents(some), some.param_bytes, given)
            gap, cost = peak_gaps(part, which, rows)[:, j], cosine_costs(some.stages[:, j], rows)
            better = gap < gaps[which]
            gaps[which[better]], costs[which[better]] = gap[better], cost[better]
            for at, g in enumerate(which.tolist()):
                found, best = order_peak(part.param_bytes[g], rows[at], stages), peaks[g]
                peaks[g] = found if best is None else min(best, found)
        return costs, gaps

    def _score(self, encoded: Encoded, graph_of: IntArray, steps: Steps, choice: BoolArray) -> Tensor:
        """Return the log-probabilities of the allowed ops at the steps (B, n) that are to be scored."""
        return self.network.score_orders(
            encoded,
            torch.from_numpy(graph_of),
            torch.from_numpy(steps.rows),
            torch.from_numpy(steps.allowed),
            torch.from_numpy(steps.known & choice[..., None]),
            torch.from_numpy(steps.loads),
        )

    def _costs(self, batch: DrawnGraphs, graph_of: IntArray, label: IntArray, rows: IntArray) -> FloatArray:
        """Return the cost of each order (B, n) of the graphs and labels (B,)."""
        if self.config.reward == "cosine":
            return cosine_costs(batch.stages[graph_of, label], rows)
        gaps = peak_gaps(batch, graph_of, rows)
        if self.network.config.knows_budget:
            gaps = gaps[np.arange(label.size), label][:, None]
        mean: FloatArray = gaps.mean(axis=1)
        return mean

    def _parents(self, graphs: DrawnGraphs) -> MaskArray:
        return graphs.parents if self.config.legal else np.zeros_like(graphs.parents)
