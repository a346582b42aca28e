"""Training examples: graphs with exact labels, checked, grouped by size and encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph, IntArray
from respect_core.policy.encoding import row_order
from respect_core.policy.rollout import Batch
from respect_core.schedule import check_schedule
from respect_core.sources.graph_json import graph_to_json


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingExample:
    """One graph with an optimal schedule, the teacher.

    Raises:
        InvalidScheduleError: The label is not a legal schedule.
        BadInputError: The label's peak memory is not the one that is called optimal.
    """

    graph: DnnGraph
    num_stages: int
    stage_of: IntArray
    """Stage of every op in an optimal schedule. Shape (n,)."""
    optimal_peak_bytes: int
    """Proven smallest peak memory."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stage_of", np.asarray(self.stage_of, dtype=np.int64))
        check_schedule(self.graph, self.stage_of, self.num_stages)
        loads = np.zeros(self.num_stages, dtype=np.int64)
        np.add.at(loads, self.stage_of, self.graph.param_bytes)
        if int(loads.max()) != self.optimal_peak_bytes:
            raise BadInputError(
                f"graph {self.graph.name!r} with {self.num_stages} stages: the label's peak is {int(loads.max())} "
                f"bytes, the optimal one {self.optimal_peak_bytes}; only optimal labels can teach"
            )


def split_examples(
    examples: Sequence[TrainingExample], fraction: float, seed: int
) -> tuple[list[TrainingExample], list[TrainingExample]]:
    """Set a fraction of the *graphs* aside for validation; all K of one graph stay on one side.

    Returns:
        Training and validation examples, neither of them empty.

    Raises:
        BadInputError: Fewer than two graphs, or a fraction outside (0, 1).
    """
    names = sorted({example.graph.name for example in examples})
    if len(names) < 2:
        raise BadInputError(
            f"{len(names)} labelled graphs are too few to train and validate with, at least 2 are needed"
        )
    if not 0 < fraction < 1:
        raise BadInputError(f"the validation fraction is {fraction}, allowed are numbers in (0, 1)")
    count = min(len(names) - 1, max(1, round(fraction * len(names))))
    chosen = np.random.default_rng(seed).choice(len(names), size=count, replace=False)
    aside = {names[i] for i in chosen.tolist()}
    return (
        [example for example in examples if example.graph.name not in aside],
        [example for example in examples if example.graph.name in aside],
    )


def examples_digest(examples: Sequence[TrainingExample]) -> str:
    """Return a SHA-256 over the graphs and labels, in their order."""
    total = hashlib.sha256()
    for example in examples:
        total.update(graph_to_json(example.graph).encode())
        total.update(f"{example.num_stages} {example.stage_of.tolist()}\n".encode())
    return total.hexdigest()


@dataclass(frozen=True, kw_only=True)
class ExampleGroup:
    """The examples of one size, encoded once; each with the label's peak as its budget."""

    examples: tuple[TrainingExample, ...] = field(repr=False)
    batch: Batch = field(repr=False)
    labels: Tensor = field(repr=False)
    """Stage of every row. Shape (B, n), int64."""
    positions: Tensor = field(repr=False)
    """Where each example stood in the whole list. Shape (B,), int64."""


def group_by_size(examples: Sequence[TrainingExample]) -> list[ExampleGroup]:
    """Encode examples, those with equally many ops together, smallest graphs first.

    Raises:
        BadInputError: There are none.
    """
    if not examples:
        raise BadInputError("there are no examples, at least one is needed")
    by_size: dict[int, list[int]] = {}
    for position, example in enumerate(examples):
        by_size.setdefault(example.graph.num_ops, []).append(position)
    groups = []
    for _, positions in sorted(by_size.items()):
        members = tuple(examples[p] for p in positions)
        labels = np.stack([member.stage_of[row_order(member.graph)] for member in members])
        groups.append(
            ExampleGroup(
                examples=members,
                batch=Batch.of([m.graph for m in members], [m.optimal_peak_bytes for m in members]),
                labels=torch.from_numpy(labels),
                positions=torch.tensor(positions, dtype=torch.int64),
            )
        )
    return groups


def shuffled_batches(
    groups: Sequence[ExampleGroup], batch_size: int, generator: torch.Generator
) -> Iterator[tuple[ExampleGroup, Tensor]]:
    """Yield every example once, in batches of one size each: the group and the indices in it."""
    chunks = [
        (group, part)
        for group in groups
        for part in in_parts(torch.randperm(len(group.examples), generator=generator), batch_size)
    ]
    for i in torch.randperm(len(chunks), generator=generator).tolist():
        yield chunks[i]


def in_parts(indices: Tensor, size: int) -> list[Tensor]:
    """Cut indices (m,) into parts of at most ``size``."""
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def cosine_cost(labels: Tensor, rows: Tensor) -> Tensor:
    """Return RESPECT's cost of orders: 1 - cosine of the labels in chosen order and the labels in ascending order.

    It is 0 exactly where the order visits the stages one after the other; then the order's optimal split is optimal.

    Args:
        labels: Stage of every row. Shape (B, n).
        rows: Rows in the order they were chosen. Shape (B, n).

    Returns:
        Shape (B,), in [0, 1], 0 where all labels are 0.
    """
    stages = labels.double()
    ascending = stages.sort(dim=1).values
    product = (stages.gather(1, rows) * ascending).sum(dim=1)
    length = (ascending * ascending).sum(dim=1)
    return torch.where(length > 0, 1 - product / length.clamp(min=1), 0.0).float()
