"""Rules of the table `segments`: whole splits, verified, true to their models, with what the compiler said or none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.memory.part import subgraph
from respect_core.memory.peak import peak_bytes
from respect_core.tables.domain_checks.columns import DomainColumns, complaints
from respect_core.tables.segments import COMPILED, NOT_RUN

Row = dict[str, Any]

_SPLIT: Final = ("model", "num_stages", "objective", "device", "solver")
"""Columns that the segments of one split share."""

_SAID: Final = ("on_chip_bytes", "on_chip_remaining_bytes", "off_chip_bytes", "edge_tpu_ops", "cpu_ops")
"""What only the compiler can know."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def segment_checks(
    segments: pa.Table, graphs: Mapping[str, DnnGraph] | None = None, *, must_be_verified: bool = True
) -> DomainColumns:
    """Check segments against each other and, where it is known, against the graph of their model.

    Args:
        segments: Rows of `segments`.
        graphs: Op graphs by model name; rules that need one do not apply where it is missing.
        must_be_verified: Refuse rows that no interpreter has verified.

    Returns:
        One column of texts a rule; a text names what is wrong in that row.
    """
    rows = segments.to_pylist()
    splits: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        splits.setdefault(tuple(row[name] for name in _SPLIT), []).append(row)
    graphs = graphs or {}

    def split_of(row: Row) -> list[Row]:
        return splits[tuple(row[name] for name in _SPLIT)]

    rules: dict[str, Callable[[Row], str | None]] = {
        "stages_complete": lambda row: _incomplete(row, split_of(row)),
        "ops_partition_the_model": lambda row: _not_a_partition(row, split_of(row)),
        "file_is_named": _misnamed,
        "files_distinct": lambda row: _same_file(row, split_of(row)),
        "verified": lambda row: _unverified(row, must_be_verified),
        "storage_within_file": _too_much_storage,
        "inputs_come_from_before": lambda row: _input_from_nowhere(row, split_of(row)),
        "graph_recomputed": lambda row: _other_than_graph(row, graphs.get(row["model"]), split_of(row)),
        "compiler_facts_where_it_ran": _compiler_contradiction,
    }
    return DomainColumns(columns={name: complaints([rule(row) for row in rows]) for name, rule in rules.items()})


def _incomplete(row: Row, split: list[Row]) -> str | None:
    count = row["num_stages"]
    if row["stage"] >= count:
        return f"stage is {row['stage']}, the split has stages 0..{count - 1}"
    missing = set(range(count)) - {other["stage"] for other in split}
    if missing:
        return f"the split has no segment of stage {min(missing)}"
    counts = {other["model_ops"] for other in split}
    return f"the split's rows give its model {sorted(counts)} ops" if len(counts) > 1 else None


def _not_a_partition(row: Row, split: list[Row]) -> str | None:
    ops, number = row["ops"], row["model_ops"]
    if len(ops) != row["num_ops"]:
        return f"num_ops is {row['num_ops']}, {len(ops)} ops are listed"
    outside = next((v for v in ops if not 0 <= v < number), None)
    if outside is not None:
        return f"op {outside} is listed, the model has ops 0..{number - 1}"
    if row["unsupported_ops"] > len(ops):
        return f"unsupported_ops is {row['unsupported_ops']} of {len(ops)} ops"
    times = Counter(v for other in split for v in other["ops"])
    twice = next((v for v in ops if times[v] > 1), None)
    if twice is not None:
        return f"op {twice} is in {times[twice]} places of the split"
    return None if len(times) == number else f"the split holds {len(times)} of the model's {number} ops"


def _misnamed(row: Row) -> str | None:
    ending = f"_segment_{row['stage']}_of_{row['num_stages']}.tflite"
    if not row["file_name"].endswith(ending):
        return f"file_name is {row['file_name']!r}, it should end in {ending!r}"
    return None if _SHA256.fullmatch(row["sha256"]) else f"sha256 is {row['sha256']!r}, not 64 hexadecimal digits"


def _same_file(row: Row, split: list[Row]) -> str | None:
    others = [other for other in split if other["stage"] != row["stage"]]
    twin = next((o for o in others if row["file_name"] == o["file_name"] or row["sha256"] == o["sha256"]), None)
    return f"stage {twin['stage']} has the same file" if twin else None


def _unverified(row: Row, must_be_verified: bool) -> str | None:
    if row["is_verified"] != (row["kernel_mode"] is not None):
        return f"is_verified is {row['is_verified']} and kernel_mode is {row['kernel_mode']}"
    return "the split was not verified" if must_be_verified and not row["is_verified"] else None


def _too_much_storage(row: Row) -> str | None:
    if row["storage_bytes"] <= row["file_bytes"]:
        return None
    return f"{row['storage_bytes']} bytes of constants in a file of {row['file_bytes']} bytes"


def _input_from_nowhere(row: Row, split: list[Row]) -> str | None:
    """Return which input is neither one of the first segment nor made before, where pycoral is to run the split."""
    for what in ("input", "output"):
        counts: Counter[str] = Counter(row[f"{what}_names"])
        twice = next((name for name, times in counts.items() if times > 1), None)
        if twice is not None:
            return f"{what} {twice!r} is listed twice"
    if not row["fits_pycoral"] or row["stage"] == 0:
        return None
    known = {name for other in split if other["stage"] == 0 for name in other["input_names"]}
    known |= {name for other in split if other["stage"] < row["stage"] for name in other["output_names"]}
    lost = next((name for name in row["input_names"] if name not in known), None)
    return None if lost is None else f"input {lost!r} is no input of stage 0 and no output of an earlier stage"


def _other_than_graph(row: Row, graph: DnnGraph | None, split: list[Row]) -> str | None:
    """Return which number or tensor differs from what the model's graph and the split's stages give."""
    if graph is None:
        return None
    if row["model_ops"] != graph.num_ops:
        return f"model_ops is {row['model_ops']}, graph {graph.name!r} has {graph.num_ops}"
    stage_of = {v: other["stage"] for other in split for v in other["ops"]}
    if sorted(stage_of) != list(range(graph.num_ops)):
        return None  # another rule tells
    stages = np.array([stage_of[v] for v in range(graph.num_ops)])
    right = int(graph.param_bytes[stages == row["stage"]].sum())
    if row["param_bytes"] != right:
        return f"param_bytes is {row['param_bytes']}, its ops have {right}"
    inputs, outputs = set(_received(graph, stages, row["stage"])), set(_sent(graph, stages, row["stage"]))
    for what, tensors, optional in (
        ("input", inputs, set(np.flatnonzero(graph.tensor_producer == UNKNOWN).tolist())),
        ("output", outputs, set(np.flatnonzero(graph.tensor_is_output).tolist())),
    ):
        wrong = _wrong_tensors(graph, row, what, tensors, optional)
        if wrong:
            return wrong
    return _wrong_activations(graph, row)


def _wrong_activations(graph: DnnGraph, row: Row) -> str | None:
    """Compare a row's peak of live activations with that of its ops in their order."""
    found = row["peak_activation_bytes"]
    if found is None:
        return None
    place = {v: i for i, v in enumerate(sorted(row["ops"]))}
    try:
        right = peak_bytes(subgraph(graph, row["ops"]), [place[v] for v in row["ops"]])
    except BadInputError as error:
        return str(error)
    return None if found == right else f"peak_activation_bytes is {found}, its ops in their order need {right}"


def _wrong_tensors(graph: DnnGraph, row: Row, what: str, needed: set[int], optional: set[int]) -> str | None:
    """Compare a row's inputs or outputs with the tensors that cross; ``optional`` ones may be there unused."""
    tensor_of = {name: t for t, name in enumerate(graph.tensor_names)}
    given = row[f"{what}_names"]
    foreign = next((name for name in given if name not in tensor_of), None)
    if foreign is not None:
        return f"{what} {foreign!r} is no tensor of the model"
    listed = {tensor_of[name] for name in given}
    lacking = next(iter(sorted(needed - listed)), None)
    if lacking is not None:
        return f"it lacks {what} {graph.tensor_names[lacking]!r}"
    needless = next(iter(sorted(listed - needed - optional)), None)
    if needless is not None:
        return f"{what} {graph.tensor_names[needless]!r} is not needed"
    total = sum(int(graph.tensor_bytes[t]) for t in listed)
    found = row[f"{what}_bytes"]
    return None if found == total else f"{what}_bytes is {found}, its {what}s have {total}"


def _received(graph: DnnGraph, stages: np.ndarray[Any, Any], stage: int) -> Iterator[int]:
    for t, producer in enumerate(graph.tensor_producer.tolist()):
        elsewhere = producer == UNKNOWN or stages[producer] != stage
        if elsewhere and any(stages[v] == stage for v in graph.tensor_consumers[t]):
            yield t


def _sent(graph: DnnGraph, stages: np.ndarray[Any, Any], stage: int) -> Iterator[int]:
    for t, producer in enumerate(graph.tensor_producer.tolist()):
        if producer == UNKNOWN or stages[producer] != stage:
            continue
        if graph.tensor_is_output[t] or any(stages[v] > stage for v in graph.tensor_consumers[t]):
            yield t


def _compiler_contradiction(row: Row) -> str | None:
    status = row["compiler_status"]
    if status == NOT_RUN:
        known = ("compiler_version", "compile_seconds", "edge_tpu_subgraphs", *_SAID)
        odd = next((name for name in known if row[name] is not None), None)
        return f"the compiler was not run and {odd} is {row[odd]}" if odd else None
    if row["compiler_version"] is None:
        return f"compiler_status is {status} and the version is null"
    if status != COMPILED:
        return None if row["message"] else f"compiler_status is {status} and the message does not say why"
    missing = next((name for name in ("on_chip_bytes", "off_chip_bytes") if row[name] is None), None)
    return f"it was compiled and {missing} is null" if missing else None
