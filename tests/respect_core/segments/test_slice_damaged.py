"""Thousands of damaged files, opened and cut: only errors that name the file, and no more memory than there may be."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from ai_edge_litert import schema_py_generated as tflite

from respect_core.errors import InputFileError
from respect_core.segments.model_file import open_model
from respect_core.segments.slice import reorder_model, slice_model
from tests.conftest import SHARED
from tests.damage import damaged
from tests.tflite_models import OP, M, O, T, random_runnable, write_model


def written(seed: int) -> bytes:
    rng = random.Random(seed)
    names = {"x": 0}
    model = random_runnable(rng, 6)
    extras = {"description": "damaged", "metadata": {"m": bytes(9), "n": b"1"}, "signatures": {"s": (names, names)}}
    return write_model(M(**{**vars(model), **extras}))


def check_damaged(data: bytes, path: Path, seed: int, rounds: int) -> None:
    """Whatever can still be read is cut into two, or is refused by an error that names the file."""
    rng = random.Random(seed)
    cut, refused = 0, 0
    for _ in range(rounds):
        path.write_bytes(damaged(data, rng))
        try:
            model = open_model(path)
            count = model.graph.num_ops
            num_stages = min(2, count)
            segments = slice_model(model, [min(v * 2 // count, num_stages - 1) for v in range(count)], num_stages)
            reorder_model(model, range(count))
            assert sum(len(segment.content) for segment in segments) < 20 * len(data) + 2**17
            cut += 1
        except InputFileError as error:
            assert str(error).startswith(str(path))
            assert len(error.why) < 1500
            refused += 1
    assert cut > rounds // 20
    assert refused > rounds // 20


@pytest.mark.parametrize("seed", range(4))
def test_damage_of_small_models(seed: int, tmp_path: Path) -> None:
    check_damaged(written(seed), tmp_path / "a.tflite", seed, 600)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["keras_lstm_mnist_ptq.tflite", "split_concat.tflite"])
def test_damage_of_real_models(name: str, tmp_path: Path) -> None:
    check_damaged((SHARED / "data" / "models" / name).read_bytes(), tmp_path / "a.tflite", 3, 600)


def test_tables_that_share_a_vector_cost_no_memory_without_bounds(tmp_path: Path) -> None:
    """Two hundred tensors whose scales are one and the same vector of half a megabyte: each copy would be written."""
    count = 200
    scales = tuple(0.5 for _ in range(2**17))
    tensors = [T(name="t0", scale=scales), *(T(name=f"t{t}", scale=(1.0,)) for t in range(1, count + 1))]
    ops = tuple(O(builtin=OP.RELU, inputs=(v,), outputs=(v + 1,)) for v in range(count))
    data = bytearray(write_model(M(tensors=tensors, ops=ops, outputs=(count,))))
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)

    def vector(t: int) -> tuple[int, int]:
        """Return where a tensor says where its scales are, and where they are."""
        table = graph.Tensors(t).Quantization()._tab
        at = table.Pos + table.Offset(8)
        return at, at + int.from_bytes(data[at : at + 4], "little")

    shared = vector(0)[1]
    for t in range(1, count + 1):  # a builder writes from the end: the first tensor comes last
        at, _ = vector(t)
        data[at : at + 4] = (shared - at).to_bytes(4, "little")
    path = tmp_path / "a.tflite"
    path.write_bytes(data)
    model = open_model(path)
    tracemalloc.start()
    try:
        with pytest.raises(InputFileError, match=r"its tables claim over \d+ bytes together"):
            slice_model(model, [0] * count, 1)
        assert tracemalloc.get_traced_memory()[1] < 8 * len(data)
    finally:
        tracemalloc.stop()
