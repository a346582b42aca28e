"""Graphs that differ from the training's in one thing: size, in-degree, width, number of stages or parameter bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph, IntArray

Weights: TypeAlias = Callable[[np.random.Generator, int], IntArray]

GRAPHS_VERSION: Final = "1"
"""Changes when the same kind, seed and index give another graph."""

SEED: Final = 30_000
"""Of the graphs; always the same, so that networks compare."""


def _usual(rng: np.random.Generator, n: int) -> IntArray:
    return np.where(rng.random(n) < 1 / 3, 0, rng.integers(1, 5001, n))


def _heavy(rng: np.random.Generator, n: int) -> IntArray:
    """Pareto's distribution of exponent 1.2: a few ops hold most of the parameters."""
    drawn = np.minimum(500 * (1 + rng.pareto(1.2, n)), 10**7).astype(np.int64)
    return np.where(rng.random(n) < 1 / 3, 0, drawn)


def _equal(rng: np.random.Generator, n: int) -> IntArray:
    return np.full(n, 1000)


def _sparse(rng: np.random.Generator, n: int) -> IntArray:
    return np.where(rng.random(n) < 0.9, 0, rng.integers(1, 5001, n))


WEIGHTS: Final[dict[str, Weights]] = {"usual": _usual, "heavy": _heavy, "equal": _equal, "sparse": _sparse}
"""Parameter bytes: as in the training (0 with probability 1/3, else 1..5000), heavy-tailed, all equal, 90 % zero."""

LOCAL: Final = 8
"""Previous ops among which parents lie in the family `local`."""


@dataclass(frozen=True, kw_only=True)
class GraphKind:
    """What graphs of one point of a sweep have in common; the defaults are those of the family `local`."""

    num_ops: int
    window: int | None = LOCAL
    """Parents lie among so many previous ops, None for all of them."""
    in_degrees: tuple[int, int] = (2, 6)
    """A graph's largest in-degree D is uniform in this range; an op has up to D parents."""
    weights: str = "usual"


def draw_graph(kind: GraphKind, seed: int, index: int) -> DnnGraph:
    """Draw graph ``index`` of a kind; it shares no seed with the generator that training graphs come from."""
    n, window = kind.num_ops, kind.window or kind.num_ops
    rng = np.random.default_rng([seed, index, n, window, *kind.in_degrees, list(WEIGHTS).index(kind.weights)])
    largest = int(rng.integers(kind.in_degrees[0], kind.in_degrees[1] + 1))
    consumers: list[list[int]] = [[] for _ in range(n)]
    for v in range(1, n):
        lowest = max(0, v - window)
        wanted = min(int(rng.integers(1, largest + 1)), v - lowest)
        for u in rng.choice(v - lowest, wanted, replace=False).tolist():
            consumers[lowest + u].append(v)
    return DnnGraph(
        name=f"drawn-{n}-{window}-{kind.weights}-{seed}-{index}", source="synthetic",
        op_names=tuple(f"op{v}" for v in range(n)), op_kinds=("conv2d",) * n,
        param_bytes=WEIGHTS[kind.weights](rng, n), macs=np.ones(n, dtype=np.int64),
        compiled_bytes=np.full(n, UNKNOWN), always_streamed_bytes=np.zeros(n, dtype=np.int64),
        op_time_us=np.full(n, np.nan), tensor_names=tuple(f"t{v}" for v in range(n)),
        tensor_bytes=rng.integers(1, 5001, n), tensor_producer=np.arange(n),
        tensor_consumers=tuple(map(tuple, consumers)),
        tensor_is_output=np.array([not readers for readers in consumers]),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a sweep."""

    label: str
    kind: GraphKind
    stages: tuple[int, ...] = (4, 5, 6)
    """K goes round these."""


def sweeps() -> dict[str, list[Point]]:
    """Return the points of every sweep by its name."""
    sizes = (30, 60, 100, 200, 500, 1000, 2000)
    return {
        "ops, local": [Point(label=str(n), kind=GraphKind(num_ops=n)) for n in sizes],
        "ops, wide": [Point(label=str(n), kind=GraphKind(num_ops=n, window=None)) for n in sizes],
        "largest in-degree (60 ops)": [
            Point(label=str(d), kind=GraphKind(num_ops=60, in_degrees=(d, d))) for d in (1, 2, 3, 4, 6, 8)
        ],
        "width: parents among previous (60 ops)": [
            Point(label=str(w or "all"), kind=GraphKind(num_ops=60, window=w)) for w in (2, 4, 8, 16, 32, None)
        ],
        "stages K (60 ops)": [
            Point(label=str(k), kind=GraphKind(num_ops=60), stages=(k,)) for k in (2, 3, 4, 6, 8, 12, 16)
        ],
        "weights, local (60 ops)": [Point(label=w, kind=GraphKind(num_ops=60, weights=w)) for w in WEIGHTS],
        "weights, wide (30 ops)": [
            Point(label=w, kind=GraphKind(num_ops=30, window=None, weights=w)) for w in WEIGHTS
        ],
    }  # fmt: skip


def few_sweeps() -> dict[str, list[Point]]:
    """Return the fewer and smaller points that a pipeline run looks at, by the name of their sweep."""
    return {
        "ops": [Point(label=str(n), kind=GraphKind(num_ops=n)) for n in (30, 60, 120, 250)],
        "stages K (60 ops)": [
            Point(label=str(k), kind=GraphKind(num_ops=60), stages=(k,)) for k in (2, 4, 8, 16)
        ],
        "largest in-degree (60 ops)": [
            Point(label=str(d), kind=GraphKind(num_ops=60, in_degrees=(d, d))) for d in (1, 4, 8)
        ],
        "width: parents among previous (60 ops)": [
            Point(label=str(w or "all"), kind=GraphKind(num_ops=60, window=w)) for w in (2, LOCAL, None)
        ],
        "weights (60 ops)": [
            Point(label=w, kind=GraphKind(num_ops=60, weights=w)) for w in ("usual", "heavy", "sparse")
        ],
    }  # fmt: skip
