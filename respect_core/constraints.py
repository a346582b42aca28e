"""Constraints on a schedule beyond precedence, and the user's file of them."""

from __future__ import annotations

import itertools
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from respect_core.errors import BadInputError, InputFileError, UnknownNameError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.json_text import distinct


class Pin(NamedTuple):
    """Op ``op`` must be in stage ``stage``."""

    op: int
    stage: int


class Pair(NamedTuple):
    """Two ops that a constraint relates."""

    first: int
    second: int


class Implication(NamedTuple):
    """If op ``if_op`` is in stage ``if_stage``, op ``then_op`` must be in stage ``then_stage``."""

    if_op: int
    if_stage: int
    then_op: int
    then_stage: int


NAMED: Final = ("outputs_last", "inputs_first", "colocate_children")
"""Constraints that are switched on by name."""


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What a schedule must obey besides precedence and non-empty stages; ops are given by index."""

    outputs_last: bool = False
    """Every op that makes a graph output is in the last stage."""
    inputs_first: bool = False
    """Every graph input that is read at all has a reader in stage 0, and ops of kind `input` are in stage 0."""
    colocate_children: bool = False
    """All readers of a tensor are in one stage (RESPECT's rule)."""
    pins: tuple[Pin, ...] = ()
    same_stage: tuple[Pair, ...] = ()
    different_stages: tuple[Pair, ...] = ()
    implications: tuple[Implication, ...] = ()

    @classmethod
    def named(cls, names: Sequence[str]) -> Constraints:
        """Switch on the constraints of these names.

        Raises:
            UnknownNameError: A name that is not in `NAMED`.
        """
        for name in names:
            if name.replace("-", "_") not in NAMED:
                raise UnknownNameError("constraint", name, NAMED)
        chosen = {name.replace("-", "_") for name in names}
        return cls(
            outputs_last="outputs_last" in chosen,
            inputs_first="inputs_first" in chosen,
            colocate_children="colocate_children" in chosen,
        )

    def check(self, graph: DnnGraph, num_stages: int) -> None:
        """Raise `BadInputError` where an op or a stage does not exist; the offender is named."""
        ops = [pin.op for pin in self.pins]
        places = [(pin.op, pin.stage) for pin in self.pins]
        for pair in (*self.same_stage, *self.different_stages):
            ops += pair
        for rule in self.implications:
            ops += [rule.if_op, rule.then_op]
            places += [(rule.if_op, rule.if_stage), (rule.then_op, rule.then_stage)]
        for op in ops:
            if not 0 <= op < graph.num_ops:
                raise BadInputError(f"a constraint names op {op}, graph {graph.name!r} has ops 0..{graph.num_ops - 1}")
        for op, stage in places:
            if not 0 <= stage < num_stages:
                raise BadInputError(
                    f"a constraint puts op {graph.op_names[op]!r} in stage {stage}, the stages are 0..{num_stages - 1}"
                )

    def same_stage_pairs(self, graph: DnnGraph) -> tuple[Pair, ...]:
        """Return every pair of ops that must share a stage, those of `colocate_children` included."""
        pairs = list(self.same_stage)
        if self.colocate_children:
            pairs += [Pair(a, b) for readers in graph.tensor_consumers for a, b in itertools.pairwise(readers)]
        return tuple(dict.fromkeys(pairs))

    def last_stage_ops(self, graph: DnnGraph) -> tuple[int, ...]:
        """Return the ops that `outputs_last` holds in the last stage."""
        return graph.output_ops if self.outputs_last else ()

    def first_stage_groups(self, graph: DnnGraph) -> tuple[tuple[int, ...], ...]:
        """Return groups of ops of which `inputs_first` wants at least one in stage 0."""
        if not self.inputs_first:
            return ()
        groups: list[tuple[int, ...]] = [(v,) for v in graph.input_ops]
        for t, producer in enumerate(graph.tensor_producer.tolist()):
            if producer == UNKNOWN and graph.tensor_consumers[t]:
                groups.append(graph.tensor_consumers[t])
        return tuple(dict.fromkeys(groups))


NO_CONSTRAINTS: Final = Constraints()

_KEYS: Final = ("pin", "same_stage", "different_stages", "implies")
_EXPECTED: Final = (
    "expected keys pin = [{op, stage}], same_stage = [[op, op]], different_stages = [[op, op]], "
    "implies = [{if: {op, stage}, then: {op, stage}}]"
)


def load_constraints(path: str | Path, graph: DnnGraph, base: Constraints = NO_CONSTRAINTS) -> Constraints:
    """Read a user's file of constraints (JSON or TOML by its suffix) for ``graph``; ops are given by name.

    Args:
        path: A file like ``{"pin": [{"op": "conv1", "stage": 0}], "same_stage": [["a", "b", "c"]],
            "different_stages": [["a", "d"]],
            "implies": [{"if": {"op": "a", "stage": 0}, "then": {"op": "d", "stage": 2}}]}``.
        graph: The graph whose ops the file names.
        base: Constraints to add to.

    Returns:
        ``base`` with the file's constraints added.

    Raises:
        InputFileError: Not such a file, or an op that the graph does not have.
    """
    content = _read(Path(path))
    if not isinstance(content, dict) or not set(content) <= set(_KEYS):
        extra = sorted(set(content) - set(_KEYS)) if isinstance(content, dict) else [type(content).__name__]
        raise InputFileError(path, f"unexpected {extra[0]!r}, {_EXPECTED}")
    reader = _Reader(path, graph)
    for key in _KEYS:
        if not isinstance(content.get(key, []), list):
            raise InputFileError(path, f"{key!r} is not a list, {_EXPECTED}")
    pins = [Pin(*reader.place(entry)) for entry in content.get("pin", [])]
    same = [pair for entry in content.get("same_stage", []) for pair in reader.pairs(entry, chain=True)]
    different = [pair for entry in content.get("different_stages", []) for pair in reader.pairs(entry, chain=False)]
    rules = []
    for entry in content.get("implies", []):
        if not isinstance(entry, dict) or set(entry) != {"if", "then"}:
            raise InputFileError(path, f"'implies' holds {entry!r}, {_EXPECTED}")
        rules.append(Implication(*reader.place(entry["if"]), *reader.place(entry["then"])))
    return replace(
        base,
        pins=base.pins + tuple(pins),
        same_stage=base.same_stage + tuple(same),
        different_stages=base.different_stages + tuple(different),
        implications=base.implications + tuple(rules),
    )


def _read(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=distinct)
    except BadInputError as error:
        raise InputFileError(path, str(error)) from error
    except OSError as error:
        raise InputFileError(path, f"the constraints cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputFileError(path, f"the constraints are not text ({error})") from error
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        what = "TOML" if path.suffix == ".toml" else "JSON"
        raise InputFileError(path, f"the constraints are not {what} ({error})") from error


class _Reader:
    """Turns the names of a constraints file into indices, or says what is wrong."""

    def __init__(self, path: str | Path, graph: DnnGraph) -> None:
        self.path, self.graph = path, graph
        self.index = {name: v for v, name in enumerate(graph.op_names)}

    def op(self, name: object) -> int:
        if not isinstance(name, str) or name not in self.index:
            raise InputFileError(self.path, f"graph {self.graph.name!r} has no op {name!r}")
        return self.index[name]

    def place(self, entry: object) -> tuple[int, int]:
        if not isinstance(entry, dict) or set(entry) != {"op", "stage"}:
            raise InputFileError(self.path, f"{entry!r} is not an op and a stage, {_EXPECTED}")
        stage = entry["stage"]
        if isinstance(stage, bool) or not isinstance(stage, int):
            raise InputFileError(self.path, f"op {entry['op']!r}: stage {stage!r} is not a whole number")
        return self.op(entry["op"]), stage

    def pairs(self, entry: object, *, chain: bool) -> list[Pair]:
        if not isinstance(entry, list) or len(entry) < 2:
            raise InputFileError(self.path, f"{entry!r} is not a list of two or more ops, {_EXPECTED}")
        ops = [self.op(name) for name in entry]
        if chain:
            return [Pair(a, b) for a, b in itertools.pairwise(ops)]
        return [Pair(a, b) for i, a in enumerate(ops) for b in ops[i + 1 :]]
