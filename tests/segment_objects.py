"""Comparing a segment with its model, field by field of the schema's objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

REFERENCES = {"buffer", "opcodeIndex", "inputs", "outputs", "intermediates", "debugMetadataIndex"}
"""Fields that hold an index of the file and so differ from file to file."""


def differing_fields(original: Any, part: Any, ops: Sequence[int]) -> list[str]:
    """Compare the ops of a part with the original's ops of these indices, and everything that they refer to."""
    old, new = original.subgraphs[0], part.subgraphs[0]
    found = []
    if len(ops) != len(new.operators):
        found.append(f"{len(new.operators)} ops instead of {len(ops)}")
    for v, made in zip(ops, new.operators, strict=False):
        op = old.operators[v]
        found += _fields(op, made, f"op {v}")
        found += _fields(original.operatorCodes[op.opcodeIndex], part.operatorCodes[made.opcodeIndex], f"code of {v}")
        for what in ("inputs", "outputs", "intermediates"):
            mine, theirs = getattr(op, what), getattr(made, what)
            mine, theirs = ([] if x is None else list(x) for x in (mine, theirs))
            if len(mine) != len(theirs):
                found.append(f"op {v}: {len(theirs)} {what} instead of {len(mine)}")
            for a, b in zip(mine, theirs, strict=False):
                if a < 0 or b < 0:
                    found += [f"op {v}: {what}"] if a != b else []
                    continue
                where = f"{what[:-1]} {old.tensors[a].name} of op {v}"
                found += _fields(old.tensors[a], new.tensors[b], where)
                found += _fields(
                    original.buffers[old.tensors[a].buffer], part.buffers[new.tensors[b].buffer], f"data of {where}"
                )
    return found


def _fields(a: Any, b: Any, where: str) -> list[str]:
    return [
        f"{where}: {name}"
        for name in {**vars(a), **vars(b)}
        if name not in REFERENCES | {"Pack"} and not _same(getattr(a, name), getattr(b, name))
    ]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.tobytes() == b.tobytes()
    if hasattr(a, "__dict__"):
        return type(a) is type(b) and all(_same(vars(a)[name], vars(b)[name]) for name in vars(a))
    return bool(a == b)
