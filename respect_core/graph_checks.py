"""What makes a `DnnGraph` legal: each check names the first op or tensor that breaks its rule."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from respect_core.errors import InvalidGraphError

if TYPE_CHECKING:
    from respect_core.graph import DnnGraph

UNKNOWN: Final = -1
"""Stands for "not known" in `compiled_bytes` and for "no producing op" in `tensor_producer`."""

MAX_TOTAL: Final = 2**53
"""Largest sum of bytes or MACs of a graph: what JSON readers and float64 keep exactly."""

SOURCES: Final = ("keras", "tflite", "synthetic", "json")
"""Where a graph may come from, which says what its bytes mean."""


def frozen_array(graph: DnnGraph, attribute: str, dtype: type) -> NDArray[Any]:
    """Return a read-only copy of an attribute as an array; what ``dtype`` cannot hold exactly is refused."""
    what, names = ("tensor", graph.tensor_names) if attribute.startswith("tensor_") else ("op", graph.op_names)
    try:
        given = np.asarray(getattr(graph, attribute))
    except (TypeError, ValueError):
        raise InvalidGraphError(graph.name, f"{attribute} is not a list of {len(names)} numbers") from None
    if given.shape != (len(names),):
        raise InvalidGraphError(graph.name, f"{attribute} has shape {given.shape}, expected ({len(names)},)")
    if given.dtype.kind not in "biuf":  # integers of more than 64 bits, or no numbers at all
        for name, value in zip(names, getattr(graph, attribute), strict=True):
            if not _is_small_number(value):
                why = f"{what} {name!r} has {attribute} {reprlib.repr(value)}, a number of at most 2**53 is needed"
                raise InvalidGraphError(graph.name, why)
        given = given.astype(np.float64)
    with np.errstate(invalid="ignore"):
        array: NDArray[Any] = given.astype(dtype)
    odd = np.flatnonzero(array != given)
    if odd.size and dtype is not np.float64:
        value, needed = given[odd[0]].item(), "true or false" if dtype is np.bool_ else "a whole number up to 2**53"
        why = f"{what} {names[odd[0]]!r} has {attribute} {value!r}, {needed} is needed"
        raise InvalidGraphError(graph.name, why)
    return read_only(array)


def reader_ids(graph: DnnGraph, tensor: str, readers: Sequence[int]) -> tuple[int, ...]:
    """Return the ascending distinct readers of a tensor."""
    try:
        return tuple(sorted(set(map(operator.index, readers))))
    except TypeError:
        raise InvalidGraphError(graph.name, f"the readers of tensor {tensor!r} must be indices of ops") from None


def check_names(graph: DnnGraph) -> None:
    """Refuse an unknown source, no ops, and names that are empty, no text or not unique."""
    if graph.source not in SOURCES:
        raise InvalidGraphError(graph.name, f"its source is {graph.source!r}, choose from {', '.join(SOURCES)}")
    if not _is_text(graph.name):
        raise InvalidGraphError(graph.name, "its name must be a text that is not empty")
    if not graph.op_names:
        raise InvalidGraphError(graph.name, "it has no ops, at least one is needed")
    if len(graph.op_kinds) != len(graph.op_names):
        raise InvalidGraphError(graph.name, f"{len(graph.op_kinds)} kinds for {len(graph.op_names)} ops")
    if len(graph.tensor_consumers) != len(graph.tensor_names):
        raise InvalidGraphError(
            graph.name, f"{len(graph.tensor_consumers)} consumer lists for {len(graph.tensor_names)} tensors"
        )
    for what, names in (("op", graph.op_names), ("tensor", graph.tensor_names)):
        seen: set[str] = set()
        for name in names:
            if not _is_text(name):
                why = f"the name of {what} number {names.index(name)} is {name!r}, a text is needed"
                raise InvalidGraphError(graph.name, why if name else why.replace("''", "empty"))
            if name in seen:
                raise InvalidGraphError(graph.name, f"two {what}s are named {name!r}, names must be unique")
            seen.add(name)
    for name, kind in zip(graph.op_names, graph.op_kinds, strict=True):
        if not _is_text(kind):
            raise InvalidGraphError(graph.name, f"op {name!r} has kind {kind!r}, a text is needed")


def check_numbers(graph: DnnGraph) -> None:
    """Refuse negative and too large numbers; arrays must have been made by `frozen_array`."""
    for attribute, names, what, lowest in (
        ("param_bytes", graph.op_names, "op", 0),
        ("macs", graph.op_names, "op", 0),
        ("compiled_bytes", graph.op_names, "op", UNKNOWN),
        ("always_streamed_bytes", graph.op_names, "op", 0),
        ("tensor_bytes", graph.tensor_names, "tensor", 0),
    ):
        array: NDArray[np.int64] = getattr(graph, attribute)
        low = np.flatnonzero(array < lowest)
        if low.size:
            name, value = names[low[0]], int(array[low[0]])
            raise InvalidGraphError(graph.name, f"{what} {name!r} has {attribute} {value}, at least 0 is needed")
        total = sum(int(x) for x in array if x > 0)
        if total > MAX_TOTAL:
            worst = names[int(array.argmax())]
            raise InvalidGraphError(
                graph.name, f"{attribute} sums to {total}, at most 2**53 is allowed (largest: {what} {worst!r})"
            )
    times = graph.op_time_us
    bad = np.flatnonzero((times < 0) | np.isinf(times) | (times > MAX_TOTAL / 1000))
    if bad.size:
        name = graph.op_names[bad[0]]
        raise InvalidGraphError(
            graph.name, f"op {name!r} has time_us {times[bad[0]]}, a finite number of at least 0 is needed"
        )


def check_ids(graph: DnnGraph) -> None:
    """Refuse ids that are no op and ops that read what they make."""
    n = graph.num_ops
    outside = np.flatnonzero((graph.tensor_producer < UNKNOWN) | (graph.tensor_producer >= n))
    if outside.size:
        name, producer = graph.tensor_names[outside[0]], int(graph.tensor_producer[outside[0]])
        raise InvalidGraphError(graph.name, f"tensor {name!r} is made by op {producer}, ops are 0..{n - 1}")
    for t, readers in enumerate(graph.tensor_consumers):
        name = graph.tensor_names[t]
        for v in readers:
            if not 0 <= v < n:
                raise InvalidGraphError(graph.name, f"tensor {name!r} is read by op {v}, ops are 0..{n - 1}")
        if graph.tensor_producer[t] in readers:
            op = graph.op_names[graph.tensor_producer[t]]
            raise InvalidGraphError(graph.name, f"there is a cycle: op {op!r} reads its own tensor {name!r}")


def _is_small_number(value: Any) -> bool:
    """Tell whether ``value`` is a number, NaN included, that float64 and int64 hold exactly."""
    return isinstance(value, int | float | np.integer) and not (value > MAX_TOTAL or value < -MAX_TOTAL)


def _is_text(value: object) -> bool:
    """Tell whether ``value`` is a text that is not empty and can be written to a file (no lone surrogates)."""
    if not isinstance(value, str) or not value:
        return False
    return value.isascii() or value.encode(errors="replace").decode() == value


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array refuse to be written to, and return it."""
    array.setflags(write=False)
    return array
