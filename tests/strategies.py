"""Hypothesis strategies for small graphs, device profiles, constraints and whole problems."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np

from respect_core.constraints import Constraints, Implication, Pair, Pin
from respect_core.device import MIB, DeviceProfile
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.kinds import ADD_PAD_OR_POOL, DEPTHWISE, INPUT, MULTIPLY_OR_CONCAT
from respect_core.objective import OBJECTIVES
from respect_core.solve.protocol import Problem

KINDS = sorted({"conv2d", "batch_norm", "own-kind"} | DEPTHWISE | MULTIPLY_OR_CONCAT | ADD_PAD_OR_POOL)


def sizes(largest: int = 5000) -> st.SearchStrategy[int]:
    """Bytes or MACs: often zero, often equal, sometimes anything up to ``largest``."""
    return st.one_of(st.just(0), st.integers(0, min(3, largest)), st.integers(0, largest))


@st.composite
def graphs(draw: Any, min_ops: int = 1, max_ops: int = 7, *, largest: int = 5000, measured: bool = True) -> DnnGraph:
    """Draw a graph whose op indices need not be in topological order.

    It may have graph inputs without a producing op, `input` ops, tensors that several ops or nobody read, several
    outputs, ops that make several tensors or none, two tensors between the same two ops, and zero bytes.

    Args:
        draw: Given by hypothesis.
        min_ops: Fewest ops.
        max_ops: Most ops.
        largest: Largest number of bytes of an op or a tensor.
        measured: Whether ops may have a measured time, compiled bytes and always streamed bytes.
    """
    n = draw(st.integers(min_ops, max_ops))
    index = draw(st.permutations(range(n)))  # index of the op at each position of a topological order
    producers: list[int] = []
    readers: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(0, 2))):
        producers.append(UNKNOWN)
        readers.append(tuple(index[at] for at in draw(st.sets(st.integers(0, n - 1), max_size=3))))
    for position in range(n):
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2]))):
            producers.append(index[position])
            later = st.integers(position + 1, min(n - 1, position + 4))
            chosen = draw(st.sets(later, max_size=3)) if position + 1 < n else set()
            readers.append(tuple(index[at] for at in chosen))
    m = len(producers)
    reading = {v for ops in readers for v in ops}
    kinds = [draw(st.sampled_from(KINDS if v in reading else [*KINDS, INPUT, INPUT, INPUT])) for v in range(n)]
    flags = draw(st.lists(st.sampled_from([False, False, True]), min_size=m, max_size=m))
    numbers = st.lists(sizes(largest), min_size=n, max_size=n)
    compiled = st.one_of(st.just(UNKNOWN), sizes(largest))
    times = st.one_of(st.just(float("nan")), st.integers(0, 40000).map(lambda ns: ns / 1000))
    always = st.one_of(st.just(0), sizes(largest))
    return DnnGraph(
        name="drawn",
        source="json",
        op_names=tuple(f"op{v}" for v in range(n)),
        op_kinds=tuple(kinds),
        param_bytes=np.array(draw(numbers), dtype=np.int64),
        macs=np.array([1000 * macs for macs in draw(numbers)], dtype=np.int64),
        compiled_bytes=np.array([draw(compiled) if measured else UNKNOWN for _ in range(n)], dtype=np.int64),
        always_streamed_bytes=np.array([draw(always) if measured else 0 for _ in range(n)], dtype=np.int64),
        op_time_us=np.array([draw(times) if measured else float("nan") for _ in range(n)], dtype=np.float64),
        tensor_names=tuple(f"t{t}" for t in range(m)),
        tensor_bytes=np.array(draw(st.lists(sizes(largest), min_size=m, max_size=m)), dtype=np.int64),
        tensor_producer=np.array(producers, dtype=np.int64),
        tensor_consumers=tuple(readers),
        tensor_is_output=np.array(flags, dtype=np.bool_),
    )


@st.composite
def profiles(draw: Any, graph: DnnGraph) -> DeviceProfile:
    """Draw a device so small that this graph's stages spill, and inputs take room from parameters."""
    total = int(graph.param_bytes.sum() + graph.compiled_bytes.clip(0).sum())
    moved = int(graph.tensor_bytes.sum())
    per_mib = st.sampled_from([0.0, 0.5, 1.0, 8.0])
    return DeviceProfile(
        name="drawn",
        overhead_ms=draw(st.sampled_from([0.0, 0.001, 0.13])),
        input_ms_per_mib=draw(per_mib),
        output_ms_per_mib=draw(per_mib),
        compute_ms_per_gmac=draw(st.sampled_from([0.0, 0.7, 1.1, 5.0])),
        mul_concat_ms_per_mib=draw(per_mib),
        depthwise_ms_per_mib=draw(per_mib),
        add_pad_pool_ms_per_mib=draw(per_mib),
        streaming_ms_per_mib=draw(st.sampled_from([0.0, 1.0, 2.37, 9.0])),
        capacity_mib=draw(st.integers(0, total + 1)) / MIB,
        shared_capacity_mib=draw(st.integers(0, total + moved + 1)) / MIB,
        overlap=draw(st.sampled_from([0, 0.5, 1, 0.3, 0.333333, 0.999])),
    )


@st.composite
def constraints_for(draw: Any, graph: DnnGraph, num_stages: int) -> Constraints:
    """Draw constraints that name ops and stages of this problem; they may contradict each other."""
    op, stage = st.integers(0, graph.num_ops - 1), st.integers(0, num_stages - 1)
    seldom = st.sampled_from([False, False, True])

    def some(kind: Any, *parts: st.SearchStrategy[int]) -> tuple[Any, ...]:
        return tuple(draw(st.lists(st.builds(kind, *parts), max_size=3))) if draw(seldom) else ()

    return Constraints(
        outputs_last=draw(seldom),
        inputs_first=draw(seldom),
        colocate_children=draw(seldom),
        pins=some(Pin, op, stage),
        same_stage=some(Pair, op, op),
        different_stages=some(Pair, op, op),
        implications=some(Implication, op, stage, op, stage),
    )


@st.composite
def problems(
    draw: Any,
    *,
    min_ops: int = 1,
    max_ops: int = 6,
    max_stages: int = 4,
    objectives: tuple[str, ...] = OBJECTIVES,
    constrained: bool | None = None,
    largest: int = 5000,
) -> Problem:
    """Draw a whole problem that brute force can solve.

    Args:
        draw: Given by hypothesis.
        min_ops: Fewest ops.
        max_ops: Most ops; ``max_stages ** max_ops`` stage vectors are what brute force looks at.
        max_stages: Most stages.
        objectives: Objectives to choose from.
        constrained: Whether there are constraints; None leaves it to chance.
        largest: Largest number of bytes of an op or a tensor.
    """
    graph = draw(graphs(min_ops, max_ops, largest=largest))
    num_stages = draw(st.integers(1, min(max_stages, graph.num_ops)))
    with_constraints = draw(st.booleans()) if constrained is None else constrained
    return Problem(
        graph=graph,
        num_stages=num_stages,
        objective=draw(st.sampled_from(objectives)),
        profile=draw(profiles(graph)),
        constraints=draw(constraints_for(graph, num_stages)) if with_constraints else Constraints(),
        ratio=draw(st.sampled_from([100, 1, 0, 512])),
    )


@st.composite
def stage_vectors(draw: Any, graph: DnnGraph, num_stages: int) -> list[int]:
    """Draw a stage for every op, monotone along edges (so often legal); some stage may be empty."""
    out = [0] * graph.num_ops
    for v in graph.topological_order.tolist():
        lowest = max((out[u] for u in graph.parents[v]), default=0)
        out[v] = draw(st.integers(lowest, num_stages - 1))
    return out
