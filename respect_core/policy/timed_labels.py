"""Labels for `throughput`: drawn graphs and devices, schedules of the exact search, features as at inference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from respect_core.device import DeviceProfile
from respect_core.device_constants import load_known_profile
from respect_core.device_scenarios import draw_scenarios
from respect_core.graph import DnnGraph, IntArray
from respect_core.policy.chunks import LabelChunk, check_labels
from respect_core.policy.scoring import made_bytes_of
from respect_core.policy.solver import profile_shares
from respect_core.solve.exact import ExactSolver
from respect_core.solve.local_search_run import LocalSearch
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.randwire import RandWireSpec, randwire_graph
from respect_core.sources.synthetic import SyntheticSpec, generate_graph

FIRST_SEED: Final = 70_000

DEVICES: Final = ("usb3", "pcie")

LIMIT_S: Final = 2.0
"""Of one exact solve: graphs are so small that nearly all of them take milliseconds. Whether the few near the limit are
among the labels depends on the machine: a training that is to repeat keeps its chunks in a folder."""

MOST_LOADED: Final = 1.5
"""Labels are left out if a stage holds more than so many times the smallest possible load: there transfers decide, and
filling stages up to a budget, which is what an order is drawn by, tells nothing."""

RECIPE: Final = (FIRST_SEED, DEVICES, LIMIT_S, MOST_LOADED)
"""What the labels follow from, beside this file's code."""


@dataclass(frozen=True, kw_only=True)
class TimedLabel:
    """A problem under `throughput` and an optimal schedule of it."""

    problem: Problem
    stage_of: IntArray
    """Shape (n,)."""


def timed_chunk(labels: Sequence[TimedLabel]) -> LabelChunk:
    """Lay labels out as what the local search and the network see of them at inference.

    Raises:
        BadInputError: A label that is no schedule.
    """
    searches = [LocalSearch(label.problem, 0) for label in labels]
    graphs = [label.problem.graph for label in labels]
    peaks = [
        int(np.bincount(label.stage_of, weights=search.loads).max())
        for label, search in zip(labels, searches, strict=True)
    ]
    starts = np.cumsum([0, *(graph.num_ops for graph in graphs)])
    chunk = LabelChunk(
        ids=tuple(f"{label.problem.graph.name}@{label.problem.profile.name}" for label in labels),
        op_start=starts,
        loads=np.concatenate([search.loads for search in searches]),
        made_bytes=np.concatenate([made_bytes_of(graph) for graph in graphs]),
        edge_start=np.cumsum([0, *(len(graph.edges) for graph in graphs)]),
        edges=np.concatenate([graph.edges for graph in graphs]),
        graph_of=np.arange(len(labels)),
        num_stages=np.array([label.problem.num_stages for label in labels]),
        peaks=np.array(peaks),
        shares=np.stack([profile_shares(search) for search in searches]),
        label_start=starts,
        stage_of=np.concatenate([label.stage_of for label in labels]).astype(np.int16),
    )
    check_labels(chunk)
    return chunk


def draw_timed_labels(index: int, count: int) -> list[TimedLabel]:
    """Draw at most ``count`` labels, number ``index`` of such sets: what is not proven or `MOST_LOADED` is left out."""
    solver, labels = ExactSolver(), []
    for problem in draw_problems(index, count):
        found = solver.solve(problem, SolveOptions(time_limit_s=LIMIT_S))
        if found.status != "optimal" or found.stage_of is None:
            continue
        stage_of = np.array(found.stage_of, dtype=np.int64)
        search = LocalSearch(problem, 0)
        if np.bincount(stage_of, weights=search.loads).max() <= MOST_LOADED * search.bound:
            labels.append(TimedLabel(problem=problem, stage_of=stage_of))
    return labels


def draw_problems(index: int, count: int) -> Iterator[Problem]:
    """Draw ``count`` problems, a third of each kind: randomly wired, `local` and `wide`, of a few sizes each.

    K is 2..8. About half of the problems are under a profile of `DEVICES`, the others under one with constants drawn
    from their plausible ranges. The compute of `local` and `wide` graphs is scaled so that it outweighs their transfers
    more or less, the parameters so that some do not fit the chips.
    """
    rng = np.random.default_rng([FIRST_SEED, index])
    known = [load_known_profile(name) for name in DEVICES]
    drawn = [draw_scenarios(device, 200, FIRST_SEED + index) for device in known]
    kinds = ("randwire", "local", "wide")
    sizes = {
        "randwire": [(int(rng.integers(5, 10)), int(rng.integers(1, 4))) for _ in range(3)],
        "local": rng.integers(12, 24, 3).tolist(),
        "wide": rng.integers(12, 19, 2).tolist(),
    }
    for number in range(count):
        kind, device = kinds[number % 3], int(rng.integers(2))
        profile: DeviceProfile = known[device].profile
        if rng.random() < 0.5:
            profile = drawn[device][int(rng.integers(200))]
        size = sizes[kind][int(rng.integers(len(sizes[kind])))]
        graph = _graph(kind, size, FIRST_SEED + index, number, rng)
        num_stages = int(rng.integers(2, min(8, graph.num_ops) + 1))
        yield Problem(graph=graph, num_stages=num_stages, objective="throughput", profile=profile)


def _graph(kind: str, size: int | tuple[int, int], seed: int, number: int, rng: np.random.Generator) -> DnnGraph:
    if isinstance(size, tuple):
        nodes, stages = size
        resolution, channels = int(rng.choice([14, 28, 56, 112])), int(rng.choice([24, 78, 154]))
        spec = RandWireSpec(
            num_nodes=nodes, num_stages=stages, channels=channels, resolution=resolution, random_bytes=True,
            seed=seed * 10_000 + number,
        )  # fmt: skip
        graph = randwire_graph(spec)
    else:
        graph = generate_graph(SyntheticSpec(family=kind, num_ops=size, seed=seed), number)
        graph = replace(graph, macs=graph.macs * 2 ** int(rng.integers(6, 15)))
    return replace(graph, param_bytes=graph.param_bytes * 2 ** int(rng.integers(0, 13)))
