"""The order inside each stage: legal as a whole, never worse than the file's, equal to the definition."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.memory.part import subgraph
from respect_core.memory.rules import DEFAULT_RULES
from respect_core.memory.stages import stage_memory, stage_order
from respect_core.segments.interpreter import tensor_specs
from respect_core.segments.items import random_items
from respect_core.segments.model_file import open_model
from respect_core.segments.slice import slice_model
from respect_core.segments.verify import chain_parts, verify_segments, whole_model
from tests.memory_oracles import MemoryOracle
from tests.random_schedules import cut, random_order
from tests.strategies import graphs
from tests.tflite_models import random_runnable, write_model


def stages_of(graph: DnnGraph, num_stages: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return cut(random_order(graph, rng), num_stages, rng)


@given(graphs(max_ops=8), st.integers(1, 3), st.integers(0, 10**6))
def test_orders_of_stages(graph: DnnGraph, num_stages: int, seed: int) -> None:
    num_stages = min(num_stages, graph.num_ops)
    stages = stages_of(graph, num_stages, seed)
    file, best = (stage_memory(graph, stages, num_stages, how) for how in ("file", "memory"))
    assert (file.method, best.method) == (None, "memory-order " + (best.method or "").split()[1])
    for found in (file, best):
        assert graph.is_topological(found.order)
        assert sorted(stages[v] for v in found.order) == [stages[v] for v in found.order]
    assert all(a <= b for a, b in zip(best.peak_bytes, file.peak_bytes, strict=True))
    if num_stages == 1:
        part = subgraph(graph, range(graph.num_ops))  # without inputs that nobody reads
        assert file.peak_bytes[0] == max(MemoryOracle(part, DEFAULT_RULES).profile(file.order)[0])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_segments_ordered_for_memory_stay_bit_identical(seed: int, num_stages: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(write_model(random_runnable(random.Random(seed), 7)))
        model = open_model(path)
        stages = stages_of(model.graph, num_stages, seed)
        found = stage_memory(model.graph, stages, num_stages, "memory")
        segments = slice_model(model, stages, num_stages, op_order=found.order)
        assert [list(s.ops) for s in segments] == [[v for v in found.order if stages[v] == s.stage] for s in segments]
        whole = whole_model(model)
        specs = tensor_specs(model)
        items = random_items([specs[name] for name in model.input_names], 2, 0)
        assert verify_segments(whole, chain_parts(model, segments), items).num_items == 2


def test_names_of_orders() -> None:
    assert stage_order("memory") == "memory"
    with pytest.raises(BadInputError, match="order is 'best', choose from file, memory"):
        stage_order("best")


def test_a_stage_counts_what_it_is_given() -> None:
    from tests.memory_graphs import graph_of

    graph = graph_of([10, 1, 1], [[], [0], [1]])
    assert stage_memory(graph, np.array([0, 1, 1]), 2).peak_bytes == (10, 11)
