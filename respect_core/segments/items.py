"""Items to run a model on: drawn from a seed, or given by the user in a NumPy file."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from respect_core.errors import BadInputError, InputFileError
from respect_core.json_text import shown
from respect_core.segments.interpreter import Array, TensorSpec

MAX_ITEM_BYTES: Final = 2**28
"""Most bytes that the given items may have together: they are copied to the process that runs the model."""

_SMALL_BYTES: Final = 1
"""Integers of so few bytes are quantised values; wider ones may be indices and are drawn small."""

_INDEX_LIMIT: Final = 2


def random_items(inputs: Sequence[TensorSpec], count: int, seed: int) -> tuple[Array, ...]:
    """Draw items: integers of one byte over their whole range, floats normal, wider integers (indices) from 0 and 1.

    Args:
        inputs: Inputs of the model.
        count: Number of items N, at least 1.
        seed: Equal seeds give equal items.

    Returns:
        One array an input, of shape (N, *shape).
    """
    rng = np.random.default_rng(seed)
    return tuple(_drawn(spec, (count, *spec.shape), rng) for spec in inputs)


def _drawn(spec: TensorSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        if dtype.itemsize > _SMALL_BYTES:
            return rng.integers(0, _INDEX_LIMIT, shape).astype(dtype)
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def load_items(path: str | Path, inputs: Sequence[TensorSpec]) -> tuple[Array, ...]:
    """Read items from a NumPy file, without pickled objects.

    Args:
        path: A `.npy` file for a model with one input, or an `.npz` file with one array an input, named after the
            tensor or ``input_0``, ``input_1``, ... in their order. An array holds one item, of the tensor's shape, or
            N items: shape (N, *shape), where a leading 1 of the shape may be left out.
        inputs: Inputs of the model.

    Returns:
        One array an input, of shape (N, *shape).

    Raises:
        InputFileError: Not such a file, or an array does not fit its tensor; the tensor is named.
    """
    path = Path(path)
    arrays = _read(path)
    try:
        items = [_fitting(spec, _array_of(arrays, i, spec, len(inputs))) for i, spec in enumerate(inputs)]
        counts = {len(array) for array in items}
        if len(counts) > 1:
            raise BadInputError(f"its inputs hold {' and '.join(map(str, sorted(counts)))} items, all need as many")
        known = {"", *(spec.name for spec in inputs), *(f"input_{i}" for i in range(len(inputs)))}
        for name in sorted(arrays.keys() - known):
            raise BadInputError(f"the model has no input {shown(name)}, its inputs are {_listed(inputs)}")
    except BadInputError as error:
        raise InputFileError(path, str(error)) from error
    return tuple(items)


def joined(first: Sequence[Array], second: Sequence[Array]) -> tuple[Array, ...]:
    """Return the items of two sets, one after the other."""
    return tuple(np.concatenate(pair) for pair in zip(first, second, strict=True))


def _read(path: Path) -> dict[str, Array]:
    """Return the arrays of a file by name; that of a `.npy` file has the name ""."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):  # opening a pipe would wait for somebody to write
            raise InputFileError(path, "the items cannot be read (it is not a regular file)")
        _check_size(path, info.st_size)
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return {"": found}
            with found:
                _check_size(path, sum(info.file_size for info in found.zip.infolist()))
                return {name: np.asarray(found[name]) for name in found.files}
    except InputFileError:
        raise
    except OSError as error:
        raise InputFileError(path, f"the items cannot be read ({error.strerror or error})") from error
    except (ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        why = "it is no .npy or .npz file of plain arrays, which items are read from"
        raise InputFileError(path, f"{why} ({error})") from error


def _check_size(path: Path, size: int) -> None:
    if size > MAX_ITEM_BYTES:
        raise InputFileError(path, f"its arrays have {size} bytes, at most {MAX_ITEM_BYTES} are read: give fewer items")


def _array_of(arrays: dict[str, Array], i: int, spec: TensorSpec, count: int) -> Array:
    if "" in arrays:
        if count != 1:
            raise BadInputError(f"it holds one array and the model has {count} inputs: an .npz file is needed")
        return arrays[""]
    for name in (spec.name, f"input_{i}"):
        if name in arrays:
            return arrays[name]
    raise BadInputError(f"it lacks input {shown(spec.name)} (or input_{i}), it holds {', '.join(map(shown, arrays))}")


def _fitting(spec: TensorSpec, array: Array) -> Array:
    if array.dtype.name != spec.dtype:
        raise BadInputError(
            f"input {shown(spec.name)} takes {spec.dtype}, the array is {array.dtype.name}: "
            "the model takes values as they are, convert or quantise them first"
        )
    if array.shape == spec.shape:
        array = array[np.newaxis]
    elif spec.shape[:1] == (1,) and array.shape[1:] == spec.shape[1:]:
        array = array[:, np.newaxis]
    if array.shape[1:] != spec.shape or not len(array):
        raise BadInputError(
            f"input {shown(spec.name)} takes shape {list(spec.shape)} or several items of it, "
            f"the array has shape {list(array.shape)}"
        )
    return np.ascontiguousarray(array)


def _listed(specs: Sequence[Any]) -> str:
    return ", ".join(shown(spec.name) for spec in specs)
