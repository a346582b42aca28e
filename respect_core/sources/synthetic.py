"""Seeded random graphs of the families `local`, `wide` and `paper`: each can be made again alone from its id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from respect_core.errors import BadInputError, UnknownNameError
from respect_core.graph import UNKNOWN, DnnGraph, IntArray

FAMILIES: Final = ("local", "wide", "paper")
"""`local`: parents among the previous 8 ops; `wide`: among all earlier ops; `paper`: `local` with 10-25 levels."""

GENERATOR_VERSION: Final = 1
"""Goes up whenever the same id gives another graph."""

WINDOW: Final = 8
"""Previous ops among which `local` and `paper` choose parents."""

FEWEST_LEVELS: Final = 10
MOST_LEVELS: Final = 25
"""Ops on the longest path of a `paper` graph."""

MOST_DRAWS: Final = 100_000
"""How often a `paper` graph is drawn at most; an id that fails as often has no graph."""

MACS_PER_BYTE: Final = 196
"""Multiply-accumulates per parameter byte: each weight works at 14 x 14 positions, the middle of a real network."""

_SEED_LIMIT: Final = 2**32
_LARGEST_PAPER: Final = 1 + WINDOW * (MOST_LEVELS - 1)
_ID: Final = re.compile(r"(?P<family>[a-z]+)-(?P<num_ops>\d+)-s(?P<seed>\d+)-(?P<index>\d{7,})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SyntheticSpec:
    """What a run of synthetic graphs has in common.

    Raises:
        UnknownNameError: There is no such family.
        BadInputError: No graph of the family has so many ops, or the seed is outside 0..2**32-1.
    """

    family: str
    """One of `FAMILIES`."""
    num_ops: int = 30
    """Ops of every graph, at least 1."""
    seed: int = 0
    """Together with family, size and index it determines a graph."""

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise UnknownNameError("family of synthetic graphs", self.family, FAMILIES)
        _check_whole("num_ops", self.num_ops, lowest=1)
        _check_whole("seed", self.seed, lowest=0)
        if self.family == "paper" and not FEWEST_LEVELS <= self.num_ops <= _LARGEST_PAPER:
            why = (
                f"fewer than {FEWEST_LEVELS} ops have fewer than {FEWEST_LEVELS} levels"
                if self.num_ops < FEWEST_LEVELS
                else f"every {WINDOW} ops add a level, as parents are among the previous {WINDOW}"
            )
            raise BadInputError(
                f"a paper graph has {FEWEST_LEVELS}-{MOST_LEVELS} levels, impossible with num_ops {self.num_ops} "
                f"because {why}: choose {FEWEST_LEVELS}..{_LARGEST_PAPER} ops (30 is usual) or another family"
            )


def graph_id(spec: SyntheticSpec, index: int) -> str:
    """Return the id of one graph.

    Raises:
        BadInputError: ``index`` is outside 0..2**32-1.

    >>> graph_id(SyntheticSpec(family="local"), 12)
    'local-30-s0-0000012'
    """
    _check_whole("index", index, lowest=0)
    return f"{spec.family}-{spec.num_ops}-s{spec.seed}-{index:07d}"


def parse_graph_id(text: str) -> tuple[SyntheticSpec, int]:
    """Return what `graph_id` made an id from.

    Raises:
        BadInputError: It is not such an id, or there is no such graph.
    """
    found = _ID.fullmatch(text)
    if found:
        family, num_ops, seed, index = found.groups()
        spec = SyntheticSpec(family=family, num_ops=_whole(num_ops), seed=_whole(seed))
        if graph_id(spec, _whole(index)) == text:
            return spec, _whole(index)
    raise BadInputError(
        f"{text!r} is not the id of a synthetic graph, expected FAMILY-OPS-sSEED-INDEX like 'local-30-s0-0000012'"
    )


def generate_graph(spec: SyntheticSpec, index: int) -> DnnGraph:
    """Draw graph ``index`` of ``spec``; it depends on nothing else.

    A graph's largest in-degree D is uniform in 2..6; op v > 0 has min(uniform in 1..D, as many as there are) distinct
    parents. Parameter bytes are 0 with probability 1/3, else uniform in 1..5000; tensor bytes are uniform in 1..5000.
    A `paper` graph is drawn again as a whole until it has 10-25 levels. Every op makes one tensor; what nobody reads is
    an output of the graph, and there are no graph inputs.

    Args:
        spec: Family, size and seed.
        index: Number of the graph, 0..2**32-1.

    Returns:
        A graph whose name is `graph_id(spec, index)` and whose op indices are in topological order.

    Raises:
        BadInputError: ``index`` is out of range, or no `paper` graph was found in `MOST_DRAWS` draws.
    """
    from respect_core.sources.synthetic_loops import NUMBERS_PER_GRAPH, NUMBERS_PER_OP, draw, empty_arrays

    name = graph_id(spec, index)
    n = spec.num_ops
    rng = np.random.default_rng(seed_words(spec, index))
    window = n if spec.family == "wide" else WINDOW
    parents, numbers = empty_arrays(n)
    for _ in range(MOST_DRAWS):
        levels = draw(rng.random(NUMBERS_PER_GRAPH + NUMBERS_PER_OP * n), window, parents, numbers)
        if spec.family != "paper" or FEWEST_LEVELS <= levels <= MOST_LEVELS:
            break
    else:
        raise undrawable(name, n)
    return _graph(name, parents, numbers)


def seed_words(spec: SyntheticSpec, index: int) -> list[int]:
    """Return what seeds the generator of one graph."""
    return [FAMILIES.index(spec.family), spec.num_ops, spec.seed, index]


def undrawable(name: str, num_ops: int) -> BadInputError:
    """Return the error of a graph that none of `MOST_DRAWS` draws gave."""
    return BadInputError(
        f"synthetic graph {name!r}: none of {MOST_DRAWS} draws of {num_ops} ops had {FEWEST_LEVELS}-{MOST_LEVELS} "
        "levels, choose a size nearer to 30 ops or another family"
    )


def _graph(name: str, parents: IntArray, numbers: IntArray) -> DnnGraph:
    n = len(parents)
    consumers: list[list[int]] = [[] for _ in range(n)]
    for v, row in enumerate(parents.tolist()):
        for u in row:
            if u < 0:
                break
            consumers[u].append(v)
    op_names, tensor_names, kinds = _names(n)
    return DnnGraph(
        name=name,
        source="synthetic",
        op_names=op_names,
        op_kinds=kinds,
        param_bytes=numbers[1],
        macs=numbers[1] * MACS_PER_BYTE,
        compiled_bytes=np.full(n, UNKNOWN, dtype=np.int64),
        always_streamed_bytes=np.zeros(n, dtype=np.int64),
        op_time_us=np.full(n, np.nan),
        tensor_names=tensor_names,
        tensor_bytes=numbers[2],
        tensor_producer=np.arange(n, dtype=np.int64),
        tensor_consumers=tuple(map(tuple, consumers)),
        tensor_is_output=np.array([not readers for readers in consumers]),
    )


@lru_cache(maxsize=8)
def _names(n: int) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return names of ops, names of tensors and kinds: the same for all graphs of n ops."""
    ops = tuple(f"op{v}" for v in range(n))
    return ops, tuple(f"{name}:0" for name in ops), ("conv2d",) * n


def _check_whole(what: str, value: int, lowest: int) -> None:
    """Refuse numbers that the seed sequence would not keep apart: each must fit 32 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInputError(f"{what} of synthetic graphs is {value!r}, expected a whole number")
    if not lowest <= value < _SEED_LIMIT:
        raise BadInputError(f"{what} of synthetic graphs is {value}, expected {lowest}..{_SEED_LIMIT - 1}")


def _whole(digits: str) -> int:
    """Read a number of an id; longer than any allowed one, it is only told to be too large."""
    return int(digits) if len(digits) <= 10 else _SEED_LIMIT
