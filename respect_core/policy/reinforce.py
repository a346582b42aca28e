"""REINFORCE on the best of k of m sampled orders: what it rewards is a good best schedule, not a good mean one.

A mean reward would drive the samples together, and a search lives on their differences. For m samples with rewards R in
ascending order, the gradient of the expected best of k is the mean over samples of ``advantage * grad log p`` with::

    advantage(r) = sum over j < r of C(j, k - 2) * (R(r) - R(j)) / C(m - 1, k - 1)

which is by how much sample r lifts the best of a group of k, against the best of the other k - 1 (leave-one-out).
"""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from respect_core.compiled import compiled
from respect_core.graph import BoolArray, FloatArray, IntArray
from respect_core.policy.network import MASKED
from respect_core.solve.local_search_graph import Int, SearchGraph
from respect_core.solve.local_search_orders import NEARNESS, NUM_COEFFICIENTS
from respect_core.solve.local_search_random import Word, draw
from respect_core.solve.split_loops import smallest_peak

_NEAR, _NEARER = NEARNESS


@compiled
def sample_orders(  # noqa: PLR0912
    graph: SearchGraph,
    num_stages: int,
    budget: Int,
    scores: FloatArray,
    state: Word,
    allowed: BoolArray,
    chosen: IntArray,
    dynamic: FloatArray,
    peaks: IntArray,
) -> None:
    """Sample orders step by step from the softmax of the scores of the ops that are ready and fit.

    Args:
        graph: The graph.
        num_stages: K.
        budget: What a stage may hold.
        scores: See `respect_core.solve.local_search_orders.draw_order`. Shape (6 n,).
        state: Random numbers.
        allowed: Written to: what could be taken at each step. Shape (m, n, n): sample, step, op.
        chosen: Written to: what was. Shape (m, n).
        dynamic: Written to: share of the budget left, and stage over the last stage. Shape (m, n, 2).
        peaks: Written to: smallest peak of each order's split. Shape (m,).
    """
    n, first = graph.weight.size, graph.first
    waiting, ready, fitting = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    value, prefix = np.empty(n), np.zeros(n + 1, np.int64)
    allowed[:, :, :] = False
    for sample in range(chosen.shape[0]):
        num_ready = 0
        for v in range(n):
            waiting[v] = first[n + 2 + v] - first[n + 1 + v]
            if waiting[v] == 0:
                ready[num_ready] = v
                num_ready += 1
        filled, stage = np.int64(0), 0
        for step in range(n):
            count = 0
            for i in range(num_ready):
                if filled + graph.weight[ready[i]] <= budget:
                    fitting[count] = i
                    count += 1
            if count == 0:
                filled, stage = np.int64(0), min(stage + 1, num_stages - 1)
                for i in range(num_ready):
                    fitting[i] = i
                count = num_ready
            left, at_stage = (budget - filled) / max(1, budget), stage / max(1, num_stages - 1)
            dynamic[sample, step, 0], dynamic[sample, step, 1] = left, at_stage
            highest = -np.inf
            for i in range(count):
                v = ready[fitting[i]]
                row = NUM_COEFFICIENTS * v
                after = max(0.0, left - graph.weight[v] / max(1, budget))
                value[i] = (
                    scores[row] + left * scores[row + 1] + at_stage * (scores[row + 2] + at_stage * scores[row + 3])
                )
                value[i] += scores[row + 4] / (1 + _NEAR * after) + scores[row + 5] / (1 + _NEARER * after)
                highest = max(highest, value[i])
                allowed[sample, step, v] = True
            total = 0.0
            for i in range(count):
                value[i] = math.exp(value[i] - highest)
                total += value[i]
            rest = total * (draw(state) >> np.uint64(11)) / 9007199254740992.0
            at = fitting[count - 1]
            for i in range(count):
                rest -= value[i]
                if rest < 0:
                    at = fitting[i]
                    break
            v = ready[at]
            chosen[sample, step] = v
            filled += graph.weight[v]
            prefix[step + 1] = prefix[step] + graph.weight[v]
            num_ready -= 1
            ready[at] = ready[num_ready]
            for r in range(first[v], first[v + 1]):
                c = graph.near[r]
                waiting[c] -= 1
                if waiting[c] == 0:
                    ready[num_ready] = c
                    num_ready += 1
        peaks[sample] = smallest_peak(prefix, num_stages)


def best_of_advantages(rewards: FloatArray, group: int) -> FloatArray:
    """Return how much each sample lifts the best of a group; see the module.

    Args:
        rewards: Shape (B, m).
        group: k, in 2..m.

    Returns:
        Shape (B, m), none negative.
    """
    m = rewards.shape[1]
    order = np.argsort(rewards, axis=1, kind="stable")
    ascending = np.take_along_axis(rewards, order, axis=1)
    share = np.array([math.comb(j, group - 2) for j in range(m)]) / math.comb(m - 1, group - 1)
    lift = (ascending[:, :, None] - ascending[:, None, :]) * share  # (B, m, 1) - (B, 1, m): sample, other
    advantages = np.tril(lift, -1).sum(axis=2)
    out: FloatArray = np.empty_like(advantages)
    np.put_along_axis(out, order, advantages, axis=1)
    return out


def log_probabilities(scores: Tensor, allowed: Tensor, chosen: Tensor) -> Tensor:
    """Return the log-probability of sampled orders.

    Args:
        scores: Shape (B, steps, n).
        allowed: Shape (B, steps, n), bool.
        chosen: Shape (B, steps).

    Returns:
        Shape (B,).
    """
    logits = scores.masked_fill(~allowed, MASKED).log_softmax(dim=2)
    return logits.gather(2, chosen.unsqueeze(2)).squeeze(2).sum(dim=1)  # (B, steps, 1) -> (B, steps) -> (B,)
