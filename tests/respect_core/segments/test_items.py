"""Items to verify on: drawn, and read from files that may hold anything."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respect_core.errors import InputFileError
from respect_core.segments import items as items_module
from respect_core.segments.interpreter import DTYPES, TensorSpec
from respect_core.segments.items import joined, load_items, random_items

IMAGE = TensorSpec(name="image:0", dtype="uint8", shape=(1, 2, 3))
SIZE = TensorSpec(name="size", dtype="float32", shape=())


def saved(path: Path, *args: Any, **arrays: Any) -> Path:
    with path.open("wb") as file:
        if args:
            np.save(file, args[0], allow_pickle=True)
        else:
            np.savez(file, **arrays)
    return path


@given(st.sampled_from(sorted(DTYPES.values())), st.integers(1, 4), st.integers(0, 10))
def test_every_type_is_drawn_from_its_seed(dtype: str, count: int, seed: int) -> None:
    spec = TensorSpec(name="x", dtype=dtype, shape=(2, 5))
    (one,) = random_items([spec], count, seed)
    assert one.shape == (count, 2, 5) and one.dtype.name == dtype
    assert one.tobytes() == random_items([spec], count, seed)[0].tobytes()
    if one.dtype.kind in "iu" and one.dtype.itemsize > 1:
        assert set(np.unique(one)) <= {0, 1}, "a wide integer may be an index"


def test_bytes_are_drawn_over_their_whole_range() -> None:
    for dtype in ("int8", "uint8"):
        (drawn,) = random_items([TensorSpec(name="x", dtype=dtype, shape=(10_000,))], 1, 0)
        assert (drawn.min(), drawn.max()) == (np.iinfo(dtype).min, np.iinfo(dtype).max)


def test_one_item_and_several_are_read(tmp_path: Path) -> None:
    one = np.arange(6, dtype=np.uint8).reshape(1, 2, 3)
    several = np.arange(24, dtype=np.uint8).reshape(4, 1, 2, 3)
    assert np.array_equal(load_items(saved(tmp_path / "a.npy", one), [IMAGE])[0], one[np.newaxis])
    assert np.array_equal(load_items(saved(tmp_path / "b.npy", several), [IMAGE])[0], several)
    batch = load_items(saved(tmp_path / "c.npy", several[:, 0]), [IMAGE])[0]
    assert np.array_equal(batch, several), "a batch of items that lack the leading 1"


def test_an_archive_names_its_inputs_or_numbers_them(tmp_path: Path) -> None:
    image, size = np.zeros((2, 1, 2, 3), np.uint8), np.ones(2, np.float32)
    for arrays in ({"image:0": image, "size": size}, {"input_0": image, "input_1": size}):
        found = load_items(saved(tmp_path / "a.npz", **arrays), [IMAGE, SIZE])
        assert np.array_equal(found[0], image) and np.array_equal(found[1], size)
    assert [len(array) for array in joined(found, found)] == [4, 4]


@pytest.mark.parametrize(
    ("arrays", "named"),
    [
        ({"image:0": np.zeros((1, 2, 3), np.uint8)}, "lacks input 'size' \\(or input_1\\), it holds 'image:0'"),
        ({"image:0": np.zeros((1, 2, 3), np.int8), "size": np.float32(1)}, "'image:0' takes uint8, the array is int8"),
        ({"image:0": np.zeros((2, 3, 1), np.uint8), "size": np.float32(1)}, r"takes shape \[1, 2, 3\].*\[2, 3, 1\]"),
        ({"image:0": np.zeros((0, 1, 2, 3), np.uint8), "size": np.zeros(0, np.float32)}, "takes shape"),
        ({"image:0": np.zeros((2, 1, 2, 3), np.uint8), "size": np.zeros(3, np.float32)}, "hold 2 and 3 items"),
        (
            {"image:0": np.zeros((1, 2, 3), np.uint8), "size": np.float32(1), "more": np.zeros(1)},
            "no input 'more', its inputs are 'image:0', 'size'",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, arrays: dict[str, Any], named: str) -> None:
    with pytest.raises(InputFileError, match=named) as caught:
        load_items(saved(tmp_path / "a.npz", **arrays), [IMAGE, SIZE])
    assert "a.npz" in str(caught.value)


def test_one_array_is_for_one_input(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"2 inputs: an \.npz file is needed"):
        load_items(saved(tmp_path / "a.npy", np.zeros((1, 2, 3), np.uint8)), [IMAGE, SIZE])


def _good() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{"image:0": np.zeros((1, 2, 3), np.uint8)})
    return buffer.getvalue()


@pytest.mark.parametrize("content", [b"", b"PK", b"no array", _good()[:-30], b"\x93NUMPY\x01\x00\xff\xff"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(InputFileError, match=r"a\.npz"):
        load_items(tmp_path / "a.npz", [IMAGE])
    with pytest.raises(InputFileError, match="No such file"):
        load_items(tmp_path / "gone.npz", [IMAGE])
    with pytest.raises(InputFileError, match="not a regular file"):
        load_items(tmp_path, [IMAGE])


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="plain arrays"):
        load_items(saved(tmp_path / "a.npy", np.array([{}], dtype=object)), [IMAGE])
    with pytest.raises(InputFileError, match="plain arrays"):
        load_items(saved(tmp_path / "a.npz", **{"image:0": np.array([{}], dtype=object)}), [IMAGE])


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items_module, "MAX_ITEM_BYTES", 5)
    with pytest.raises(InputFileError, match="at most 5 are read"):
        load_items(saved(tmp_path / "a.npz", **{"image:0": np.zeros((1, 2, 3), np.uint8)}), [IMAGE])
