"""One step of the second phase: sample orders, find out which lift the best of their group, make these likelier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import torch

from respect_core.errors import TrainingDivergedError
from respect_core.graph import FloatArray, IntArray
from respect_core.policy.batches import NO_PROFILE, averages
from respect_core.policy.chunks import LabelChunk
from respect_core.policy.config import check_number, check_whole
from respect_core.policy.features import NUM_FEATURES, Float32Array, fill_features, problem_globals
from respect_core.policy.greedy import bare_graph
from respect_core.policy.network import PolicyNetwork, step_scores
from respect_core.policy.reinforce import best_of_advantages, log_probabilities, sample_orders
from respect_core.solve.local_search_graph import SearchGraph
from respect_core.solve.local_search_random import random_state

_WORST_GAP: Final = 0.3
"""Gaps above count as this much: a hopeless graph shall not outweigh the others."""


@dataclass(frozen=True, kw_only=True)
class BestOfConfig:
    """How the second phase trains.

    Raises:
        BadInputError: A value outside its range.
    """

    steps: int = 5000
    """Optimiser steps."""
    batch_size: int = 16
    """Labels a step."""
    samples: int = 32
    """Orders sampled for each label."""
    group: int = 8
    """The best of so many is what is rewarded."""
    learning_rate: float = 3e-4
    """Adam's step size at first; it falls to nothing along a half cosine."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    seed: int = 0
    """Seed of the batches and the samples."""

    def __post_init__(self) -> None:
        check_whole(self, "steps", 1, 10**9)
        check_whole(self, "batch_size", 1, 10**6)
        check_whole(self, "samples", 2, 10**6)
        check_whole(self, "group", 2, self.samples)
        check_whole(self, "seed", 0, 2**62)
        check_number("learning_rate", self.learning_rate, 0.0, 1.0, open_below=True)
        check_number("max_gradient_norm", self.max_gradient_norm, 0.0, 1e6, open_below=True)


class _Problem(NamedTuple):
    """One label of a batch."""

    graph: SearchGraph
    num_stages: int
    budget: int


def best_of_step(
    network: PolicyNetwork,
    optimiser: torch.optim.Adam,
    chunk: LabelChunk,
    labels: IntArray,
    config: BestOfConfig,
    rng: np.random.Generator,
    number: int,
) -> tuple[float, float]:
    """Take one step.

    Args:
        network: The network; its weights change.
        optimiser: Its optimiser.
        chunk: Labels.
        labels: Which of them, of graphs with equally many ops. Shape (B,).
        config: How to train.
        rng: Random numbers.
        number: Number of the step, for messages.

    Returns:
        The mean gap of all samples, and that of the best in each group.

    Raises:
        TrainingDivergedError: A gradient that is not finite; the step and the graphs are named.
    """
    size, m, n = labels.size, config.samples, int(chunk.num_ops[labels[0]])
    problems, features, parents, children = _encoded(chunk, labels, n, rng)
    coefficients = network(*(torch.from_numpy(x) for x in (features, parents, children)))  # (B, n, 6)
    allowed, chosen = np.empty((size, m, n, n), np.bool_), np.empty((size, m, n), np.int64)
    dynamic, peaks = np.empty((size, m, n, 2)), np.empty((size, m), np.int64)
    state = random_state(int(rng.integers(2**62)))
    scores = coefficients.detach().double().numpy()
    for b, (graph, num_stages, budget) in enumerate(problems):
        sample_orders(graph, num_stages, budget, scores[b].ravel(), state, allowed[b], chosen[b], dynamic[b], peaks[b])
    gaps: FloatArray = peaks / np.maximum(1, chunk.peaks[labels])[:, None] - 1
    advantages = best_of_advantages(-np.minimum(gaps, _WORST_GAP), config.group)
    advantages /= advantages.std() + 1e-6
    used = np.flatnonzero(advantages.ravel() > 0)  # the worst samples have no say
    of = torch.from_numpy(used // m)
    steps = step_scores(
        coefficients[of],
        torch.from_numpy(dynamic.reshape(-1, n, 2)[used].astype(np.float32)),
        torch.from_numpy(features[..., 0])[of],
    )
    log_p = log_probabilities(
        steps, torch.from_numpy(allowed.reshape(-1, n, n)[used]), torch.from_numpy(chosen.reshape(-1, n)[used])
    )
    loss = -(torch.from_numpy(advantages.ravel()[used].astype(np.float32)) * log_p).sum() / (size * m)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    norm = float(torch.nn.utils.clip_grad_norm_(network.parameters(), config.max_gradient_norm))
    if not math.isfinite(norm):
        names = ", ".join(dict.fromkeys(chunk.ids[g] for g in chunk.graph_of[labels].tolist()))
        raise TrainingDivergedError(
            f"the training stopped at step {number} of the second phase: the gradient's norm is {norm}; the batch held "
            f"the graphs {names}; the best checkpoint of the first phase is kept"
        )
    optimiser.step()
    groups = gaps[:, : m - m % config.group].reshape(size, -1, config.group)  # (B, m) -> (B, m / k, k)
    return float(gaps.mean()), float(groups.min(axis=2).mean())


def _encoded(
    chunk: LabelChunk, labels: IntArray, n: int, rng: np.random.Generator
) -> tuple[list[_Problem], Float32Array, Float32Array, Float32Array]:
    """Return the problems, their features (B, n, F) and averaging matrices (B, n, n), with budgets near the optimum."""
    features = np.empty((labels.size, n, NUM_FEATURES), dtype=np.float32)
    parents, children = (np.zeros((labels.size, n, n), dtype=np.float32) for _ in range(2))
    problems = []
    for b, label in enumerate(labels.tolist()):
        at, num_stages = int(chunk.graph_of[label]), int(chunk.num_stages[label])
        graph = bare_graph(chunk, at)
        share = 0.03 * rng.random() * (rng.random() < 0.7)
        budget = max(1, int(chunk.peaks[label] * (1 + share)))
        made = chunk.made_bytes[chunk.op_start[at] : chunk.op_start[at + 1]]
        numbers = problem_globals(n, num_stages, graph.weight, budget, NO_PROFILE)
        fill_features(graph.weight, graph.first, graph.near, made, num_stages, budget, numbers, features[b])
        averages(graph.first, graph.near, parents[b], children[b])
        problems.append(_Problem(graph=graph, num_stages=num_stages, budget=budget))
    return problems, features, parents, children
