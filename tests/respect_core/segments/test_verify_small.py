"""A network of the kinds of layers that large ones have, cut by random schedules: bit-identical, in any order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.segments.items import random_items
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.slice import slice_model
from respect_core.segments.verify import chain_parts, verify_segments, whole_model
from respect_core.sources.small_network import SmallNetwork, small_network
from tests.random_schedules import cut, random_order


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> TfliteModel:
    path = tmp_path_factory.mktemp("small") / "small.tflite"
    path.write_bytes(small_network(SmallNetwork(image_size=16, num_classes=10)))
    return open_model(path)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**9), data=st.data())
def test_random_schedules_are_identical(small: TfliteModel, seed: int, data: st.DataObject) -> None:
    rng = random.Random(seed)
    num_stages = data.draw(st.integers(1, min(12, small.graph.num_ops)))
    stage_of = cut(random_order(small.graph, rng), num_stages, rng)
    order = random_order(small.graph, rng) if data.draw(st.booleans()) else None
    whole = whole_model(small)
    parts = chain_parts(small, slice_model(small, stage_of, num_stages, op_order=order))
    found = verify_segments(whole, parts, random_items(whole.inputs, 1, seed))
    assert found.num_items == 1 and found.num_bytes > 0
