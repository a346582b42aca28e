"""Randomly wired networks: stages whose nodes are connected like a Watts-Strogatz small world.

After Xie, Kirillov, Girshick and He, "Exploring Randomly Wired Neural Networks for Image Recognition" (ICCV 2019): a
ring of N nodes, each joined to its k nearest, every edge rewired with probability p; edges point from the lower to the
higher index. Nodes that nobody feeds read the stage's input, and what nobody reads is averaged to the stage's output. A
node is a weighted sum, a ReLU, a separable 3x3 convolution and a batch norm; each stage halves the resolution and
doubles the channels. All of these graphs are wide: they have many more down-sets than hand-made networks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.kinds import INPUT

_LARGEST_BYTES = 5000
_NO_WEIGHTS = 1 / 3


@dataclass(frozen=True, kw_only=True)
class RandWireSpec:
    """One randomly wired network; the defaults are the paper's WS(4, 0.75), 32 nodes in three stages from 78 channels.

    Raises:
        BadInputError: A number is out of range.
    """

    num_nodes: int = 32
    """Nodes N of a stage, at least 3."""
    neighbours: int = 4
    """Neighbours k of each node in the ring, even, 2 <= k < N."""
    rewired: float = 0.75
    """Probability p that an edge is rewired."""
    num_stages: int = 3
    """Stages, at least 1."""
    channels: int = 78
    """Channels of the first stage."""
    resolution: int = 112
    """Height and width that the first stage reads (it halves them)."""
    random_bytes: bool = False
    """Draw parameter and tensor bytes like the synthetic families (0 with probability 1/3, else 1..5000; 1..5000)."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_nodes < 3:
            raise BadInputError(f"a randomly wired stage has {self.num_nodes} nodes, at least 3 are needed")
        if self.neighbours % 2 or not 2 <= self.neighbours < self.num_nodes:
            raise BadInputError(
                f"{self.neighbours} neighbours in a ring of {self.num_nodes} nodes, allowed are even numbers in "
                f"2..{self.num_nodes - 1}"
            )
        if not 0 <= self.rewired <= 1:
            raise BadInputError(f"probability of rewiring is {self.rewired}, expected 0..1")
        if self.num_stages < 1 or self.channels < 1 or self.resolution < 1:
            raise BadInputError("stages, channels and resolution of a randomly wired network are at least 1")
        if not 0 <= self.seed < 2**32:
            raise BadInputError(f"seed is {self.seed}, expected 0..{2**32 - 1}")

    @property
    def name(self) -> str:
        """Name of the graph."""
        weights = "-random" if self.random_bytes else f"-c{self.channels}-r{self.resolution}"
        return f"randwire-{self.num_nodes}x{self.num_stages}-k{self.neighbours}-p{self.rewired:g}{weights}-s{self.seed}"


def small_world(num_nodes: int, neighbours: int, rewired: float, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Draw the edges of a Watts-Strogatz graph, from the lower to the higher index, sorted.

    Args:
        num_nodes: Nodes of the ring.
        neighbours: Nearest neighbours that each node is joined to, half on either side.
        rewired: Probability that an edge's far end moves to a node drawn uniformly from those not joined yet.
        rng: Source of randomness.

    Returns:
        ``num_nodes * neighbours / 2`` distinct edges.
    """
    joined = [set[int]() for _ in range(num_nodes)]
    for v in range(num_nodes):
        for distance in range(1, neighbours // 2 + 1):
            joined[v].add((v + distance) % num_nodes)
            joined[(v + distance) % num_nodes].add(v)
    for distance in range(1, neighbours // 2 + 1):
        for v in range(num_nodes):
            far = (v + distance) % num_nodes
            choices = [w for w in range(num_nodes) if w != v and w not in joined[v]]
            if rng.random() < rewired and choices and far in joined[v]:
                new = choices[int(rng.integers(len(choices)))]
                joined[v].remove(far)
                joined[far].remove(v)
                joined[v].add(new)
                joined[new].add(v)
    return sorted((v, w) for v in range(num_nodes) for w in joined[v] if v < w)


def randwire_graph(spec: RandWireSpec) -> DnnGraph:
    """Build a randomly wired network; it depends on the spec alone.

    One byte a parameter and a tensor element (int8). The graph has an input op, a stem, ``num_stages`` stages of
    ``num_nodes`` nodes and an averaging op each, and a head.

    Args:
        spec: Size, wiring and seed.

    Returns:
        A graph with source `synthetic` whose op indices are in topological order.
    """
    rng = np.random.default_rng([spec.seed, spec.num_nodes, spec.neighbours, spec.num_stages])
    net = _Builder()
    at = net.add("input", INPUT, [], params=0, macs=0, size=3 * (2 * spec.resolution) ** 2)
    width, channels = spec.resolution, max(1, spec.channels // 2)
    at = net.add("stem", "conv2d", [at], params=27 * channels + 4 * channels, macs=27 * channels * width**2,
                 size=channels * width**2)  # fmt: skip
    for stage in range(spec.num_stages):
        wider = spec.channels * 2**stage
        width = max(1, width // 2)
        edges = small_world(spec.num_nodes, spec.neighbours, spec.rewired, rng)
        nodes: list[int] = []
        for v in range(spec.num_nodes):
            sources = [nodes[u] for u, w in edges if w == v] or [at]
            reads = wider if sources != [at] else channels
            params = len(sources) + 9 * reads + reads * wider + 4 * wider
            nodes.append(
                net.add(f"stage{stage}_node{v}", "separable_conv2d", sources, params=params,
                        macs=(9 * reads + reads * wider) * width**2, size=wider * width**2)
            )  # fmt: skip
        loose = [nodes[v] for v in range(spec.num_nodes) if all(u != v for u, _ in edges)]
        at = net.add(f"stage{stage}_out", "add", loose, params=0, macs=0, size=wider * width**2)
        channels = wider
    at = net.add("head", "conv2d", [at], params=channels * 1280 + 4 * 1280, macs=channels * 1280 * width**2,
                 size=1280 * width**2)  # fmt: skip
    at = net.add("pool", "mean", [at], params=0, macs=0, size=1280)
    net.add("logits", "fully_connected", [at], params=1281 * 1000, macs=1_280_000, size=1000)
    return net.graph(spec.name, rng if spec.random_bytes else None)


class _Builder:
    """Collects ops in topological order; every op makes one tensor."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.kinds: list[str] = []
        self.numbers: list[tuple[int, int, int]] = []
        self.consumers: list[list[int]] = []

    def add(self, name: str, kind: str, sources: list[int], *, params: int, macs: int, size: int) -> int:
        v = len(self.names)
        self.names.append(name)
        self.kinds.append(kind)
        self.numbers.append((params, macs, size))
        self.consumers.append([])
        for u in sources:
            self.consumers[u].append(v)
        return v

    def graph(self, name: str, rng: np.random.Generator | None) -> DnnGraph:
        n = len(self.names)
        params, macs, sizes = np.array(self.numbers, dtype=np.int64).T
        if rng is not None:
            params = np.where(rng.random(n) < _NO_WEIGHTS, 0, rng.integers(1, _LARGEST_BYTES + 1, n))
            sizes = rng.integers(1, _LARGEST_BYTES + 1, n)
        return DnnGraph(
            name=name,
            source="synthetic",
            op_names=tuple(self.names),
            op_kinds=tuple(self.kinds),
            param_bytes=params,
            macs=macs,
            compiled_bytes=np.full(n, UNKNOWN, dtype=np.int64),
            always_streamed_bytes=np.zeros(n, dtype=np.int64),
            op_time_us=np.full(n, np.nan),
            tensor_names=tuple(f"{op}:0" for op in self.names),
            tensor_bytes=sizes,
            tensor_producer=np.arange(n, dtype=np.int64),
            tensor_consumers=tuple(map(tuple, self.consumers)),
            tensor_is_output=np.array([not readers for readers in self.consumers]),
        )
