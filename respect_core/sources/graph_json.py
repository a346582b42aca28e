"""Graphs in JSON: the documented exchange format, read with every mistake named, and written."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any, Final

import numpy as np

from respect_core.errors import BadInputError, InputFileError, InvalidGraphError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.json_text import distinct, shown

_OP_KEYS: Final = ("name", "kind", "param_bytes", "macs", "time_us", "compiled_bytes", "always_streamed_bytes")
_TENSOR_KEYS: Final = ("name", "bytes", "producer", "consumers", "is_output")
_TOP_KEYS: Final = ("name", "source", "ops", "tensors")


def read_graph(path: str | Path) -> DnnGraph:
    """Read a graph from a JSON file.

    Raises:
        InputFileError: The file cannot be read or is not such a graph; the offending op or tensor is named.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputFileError(path, f"the graph cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputFileError(path, f"the graph is not text ({error.reason} at byte {error.start})") from error
    except ValueError as error:
        raise InputFileError(path, f"the graph cannot be read ({error})") from error
    try:
        return graph_from_json(text)
    except BadInputError as error:
        raise InputFileError(path, str(error)) from error


def graph_from_json(text: str) -> DnnGraph:
    """Parse a graph: keys `name`, `ops` and `tensors` (the README shows an example).

    An op needs `name`, `kind` and `param_bytes`; `macs` (0), `time_us` (null), `compiled_bytes` (null) and
    `always_streamed_bytes` (0) may be left out. A tensor needs `name`, `bytes`, `producer` (null for a graph input)
    and `consumers`; `is_output` defaults to true where nobody reads the tensor. Ops are referred to by name.

    Raises:
        BadInputError: Not JSON, or not of this form; a key that comes twice in one object is refused.
        InvalidGraphError: The form is right and the graph is not: a cycle, a dangling tensor, a negative number, a
            duplicate name.
    """
    try:
        content = json.loads(text, object_pairs_hook=distinct)
    except BadInputError:
        raise
    except (RecursionError, ValueError) as error:
        raise BadInputError(f"the graph is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise BadInputError(f"the graph is {shown(content)}, expected an object with name, ops, tensors")
    _check_keys(content, "the graph", _TOP_KEYS, required=("name", "ops", "tensors"))
    name = _text(content, "name", "the graph")
    ops = [_op(entry, i) for i, entry in enumerate(_list(content, "ops", "the graph"))]
    tensors = [_tensor(entry, i) for i, entry in enumerate(_list(content, "tensors", "the graph"))]
    index = {op["name"]: v for v, op in enumerate(ops)}
    if len(index) < len(ops):  # said before tensors are looked at, which may then seem to dangle
        twice = next(op["name"] for v, op in enumerate(ops) if index[op["name"]] != v)
        raise InvalidGraphError(name, f"two ops are named {twice!r}, names must be unique")

    def op_of(reference: object, tensor: str, role: str) -> int:
        if not isinstance(reference, str) or reference not in index:
            raise InvalidGraphError(name, f"tensor {tensor!r} dangles: its {role} {shown(reference)} is not an op")
        return index[reference]

    producers = [UNKNOWN if t["producer"] is None else op_of(t["producer"], t["name"], "producer") for t in tensors]
    consumers = [tuple(op_of(c, t["name"], "consumer") for c in t["consumers"]) for t in tensors]
    return DnnGraph(
        name=name,
        source=_text(content, "source", "the graph") if "source" in content else "json",
        op_names=tuple(op["name"] for op in ops),
        op_kinds=tuple(op["kind"] for op in ops),
        param_bytes=_ints(ops, "param_bytes"),
        macs=_ints(ops, "macs"),
        compiled_bytes=_ints(ops, "compiled_bytes"),
        always_streamed_bytes=_ints(ops, "always_streamed_bytes"),
        op_time_us=np.array([op["time_us"] for op in ops], dtype=np.float64),
        tensor_names=tuple(t["name"] for t in tensors),
        tensor_bytes=_ints(tensors, "bytes"),
        tensor_producer=np.array(producers, dtype=np.int64),
        tensor_consumers=tuple(consumers),
        tensor_is_output=np.array([t["is_output"] for t in tensors], dtype=np.bool_),
    )


def graph_to_json(graph: DnnGraph) -> str:
    """Write a graph as one line of JSON that `graph_from_json` reads back to an equal graph."""
    names = graph.op_names
    ops = [
        {
            "name": names[v],
            "kind": graph.op_kinds[v],
            "param_bytes": int(graph.param_bytes[v]),
            "macs": int(graph.macs[v]),
            "time_us": None if math.isnan(graph.op_time_us[v]) else float(graph.op_time_us[v]),
            "compiled_bytes": None if graph.compiled_bytes[v] == UNKNOWN else int(graph.compiled_bytes[v]),
            "always_streamed_bytes": int(graph.always_streamed_bytes[v]),
        }
        for v in range(graph.num_ops)
    ]
    tensors = [
        {
            "name": name,
            "bytes": int(graph.tensor_bytes[t]),
            "producer": None if graph.tensor_producer[t] == UNKNOWN else names[graph.tensor_producer[t]],
            "consumers": [names[v] for v in graph.tensor_consumers[t]],
            "is_output": bool(graph.tensor_is_output[t]),
        }
        for t, name in enumerate(graph.tensor_names)
    ]
    return json.dumps({"name": graph.name, "source": graph.source, "ops": ops, "tensors": tensors})


def graph_digest(graph: DnnGraph) -> str:
    """Return the hexadecimal SHA-256 of a graph: equal graphs have equal digests."""
    return hashlib.sha256(graph_to_json(graph).encode()).hexdigest()


def _ints(entries: list[dict[str, Any]], key: str) -> Any:
    """Collect integers; those beyond int64 stay Python objects so that the graph's own check names them."""
    values = [entry[key] for entry in entries]
    fits = all(-(2**63) <= value < 2**63 for value in values)
    return np.array(values, dtype=np.int64 if fits else object)


def _op(entry: object, position: int) -> dict[str, Any]:
    where = f"op number {position}"
    checked = _object(entry, where, _OP_KEYS, required=("name", "kind", "param_bytes"))
    name = _text(checked, "name", where)
    where = f"op {name!r}"
    compiled = checked.get("compiled_bytes")
    time_us = checked.get("time_us")
    if time_us is not None and (isinstance(time_us, bool) or not isinstance(time_us, int | float)):
        raise BadInputError(f"{where}: time_us is {shown(time_us)}, expected a number or null")
    return {
        "name": name,
        "kind": _text(checked, "kind", where),
        "param_bytes": _whole(checked["param_bytes"], "param_bytes", where),
        "macs": _whole(checked.get("macs", 0), "macs", where),
        "time_us": math.nan if time_us is None else _finite(time_us, where),
        "compiled_bytes": UNKNOWN if compiled is None else _whole(compiled, "compiled_bytes", where),
        "always_streamed_bytes": _whole(checked.get("always_streamed_bytes", 0), "always_streamed_bytes", where),
    }


def _tensor(entry: object, position: int) -> dict[str, Any]:
    where = f"tensor number {position}"
    checked = _object(entry, where, _TENSOR_KEYS, required=("name", "bytes", "producer", "consumers"))
    name = _text(checked, "name", where)
    where = f"tensor {name!r}"
    consumers = _list(checked, "consumers", where)
    is_output = checked.get("is_output", not consumers)
    if not isinstance(is_output, bool):
        raise BadInputError(f"{where}: is_output is {shown(is_output)}, expected true or false")
    size = _whole(checked["bytes"], "bytes", where)
    return {
        "name": name,
        "bytes": size,
        "producer": checked["producer"],
        "consumers": consumers,
        "is_output": is_output,
    }


def _object(entry: object, where: str, known: tuple[str, ...], required: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise BadInputError(f"{where} is {shown(entry)}, expected an object")
    named = f"{where} ({shown(entry['name'])})" if "name" in entry else where
    _check_keys(entry, named, known, required)
    return entry


def _check_keys(entry: dict[str, Any], where: str, known: tuple[str, ...], required: tuple[str, ...]) -> None:
    missing = [key for key in required if key not in entry]
    if missing:
        raise BadInputError(f"{where} lacks {missing[0]!r}, needed are {', '.join(required)}")
    unknown = sorted(set(entry) - set(known))
    if unknown:
        raise BadInputError(f"{where} has an unknown key {unknown[0]!r}, known are {', '.join(known)}")


def _text(entry: dict[str, Any], key: str, where: str) -> str:
    value = entry[key]
    if not isinstance(value, str):
        raise BadInputError(f"{where}: {key} is {shown(value)}, expected a text")
    return value


def _list(entry: dict[str, Any], key: str, where: str) -> list[Any]:
    value = entry[key]
    if not isinstance(value, list):
        raise BadInputError(f"{where}: {key} is {shown(value)}, expected a list")
    return value


def _whole(value: object, key: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInputError(f"{where}: {key} is {shown(value)}, expected a whole number")
    if value < 0:
        raise BadInputError(f"{where}: {key} is {shown(value)}, at least 0 is needed")
    return value


def _finite(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadInputError(f"{where}: time_us is {shown(value)}, a finite number is needed")
    return number
