"""A network as a list of ops that can be replaced, for rewriting it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph, IntArray

Role = Literal["op", "joint", "channels", "partial", "sum"]
"""An op of the network as it is; a concatenation of what kernel-wise ops make; a kernel-wise op of some channels; a
convolution of some input channels, which may add to a sum; an addition of such a convolution to the sum so far."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """Consecutive bytes of the innermost dimension, in proportion to channels."""

    start: int
    size: int
    total: int

    def of(self, whole: int) -> int:
        """Return this share of a number; it is rounded such that the shares of all parts sum up to the number."""
        return (self.start + self.size) * whole // self.total - self.start * whole // self.total

    def channels(self, whole: int) -> range:
        """Return the indices of the channels among so many."""
        return range(self.start * whole // self.total, (self.start + self.size) * whole // self.total)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """An op of a rewritten network."""

    name: str
    kind: str
    origin: int
    """Op of the network whose constants and options it has."""
    role: Role
    inputs: tuple[str, ...]
    """Names of the distinct tensors it reads, constants apart; of an accumulating op the sum so far is the last."""
    outputs: tuple[str, ...]
    share: Share | None = None
    """The input channels it computes with, None for all."""
    is_first: bool = False
    """Of a `partial`: it starts the sum, and adds the bias."""
    is_last: bool = False
    """It ends the sum, and applies what is fused to the convolution."""


@dataclass(kw_only=True)
class Network:
    """The ops in a topological order, and their tensors."""

    pieces: list[Piece]
    size: dict[str, int]
    """Bytes of every tensor."""
    outputs: set[str]
    """Names of the graph outputs."""
    names: set[str] = field(default_factory=set)
    """Names of ops that are taken."""
    _readers: dict[str, list[Piece]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names.update(piece.name for piece in self.pieces)
        for piece in self.pieces:
            self._enter(piece)

    def readers(self, tensor: str) -> list[Piece]:
        """Return the ops that read a tensor, in their order."""
        return list(self._readers.get(tensor, ()))

    def new_tensor(self, name: str, size: int) -> str:
        """Add a tensor and return its name, the given one or, if that is taken, one like it."""
        name = _free(name, self.size)
        self.size[name] = size
        return name

    def new_name(self, name: str) -> str:
        """Reserve a name for an op and return it: the given one or, if that is taken, one like it."""
        name = _free(name, self.names)
        self.names.add(name)
        return name

    def replace(self, old: Piece, new: Sequence[Piece]) -> None:
        """Put ops in the place of one."""
        at = self.pieces.index(old)
        self.pieces[at : at + 1] = new
        for tensor in old.inputs:
            self._readers[tensor].remove(old)
        for piece in new:
            self._enter(piece)

    def remove(self, joint: Piece) -> None:
        """Take out an op that nobody reads any more, with its output."""
        self.replace(joint, ())
        for tensor in joint.outputs:
            del self.size[tensor]

    def graph(self, whole: DnnGraph) -> DnnGraph:
        """Return the network as a graph: op i is ``pieces[i]``, the whole graph's tensors come first in its order."""
        op_of = {name: i for i, piece in enumerate(self.pieces) for name in piece.outputs}
        names = tuple(self.size)
        param_bytes = [self._shared(piece, whole.param_bytes) for piece in self.pieces]
        is_whole = np.array([piece.role == "op" for piece in self.pieces])
        origin = np.array([piece.origin for piece in self.pieces], dtype=np.int64)
        op_index = {piece.name: i for i, piece in enumerate(self.pieces)}
        return DnnGraph(
            name=whole.name,
            source=whole.source,
            op_names=tuple(piece.name for piece in self.pieces),
            op_kinds=tuple(piece.kind for piece in self.pieces),
            param_bytes=np.array(param_bytes, dtype=np.int64),
            macs=np.array([self._shared(piece, whole.macs) for piece in self.pieces], dtype=np.int64),
            compiled_bytes=np.where(is_whole, whole.compiled_bytes[origin], UNKNOWN),
            always_streamed_bytes=np.where(is_whole, whole.always_streamed_bytes[origin], 0),
            op_time_us=np.where(is_whole, whole.op_time_us[origin], np.nan),
            tensor_names=names,
            tensor_bytes=np.array([self.size[name] for name in names], dtype=np.int64),
            tensor_producer=np.array([op_of.get(name, UNKNOWN) for name in names], dtype=np.int64),
            tensor_consumers=tuple(
                tuple(sorted(op_index[piece.name] for piece in self._readers.get(name, ()))) for name in names
            ),
            tensor_is_output=np.array([name in self.outputs for name in names], dtype=np.bool_),
        )

    def _enter(self, piece: Piece) -> None:
        for tensor in piece.inputs:
            self._readers.setdefault(tensor, []).append(piece)

    @staticmethod
    def _shared(piece: Piece, numbers: IntArray) -> int:
        number = int(numbers[piece.origin])
        if piece.role in ("joint", "sum"):
            return 0
        return number if piece.share is None else piece.share.of(number)


def network_of(graph: DnnGraph, layout: Mapping[str, Sequence[str]]) -> Network:
    """Return a graph as a network; its ops come in the order of their indices where that is topological.

    Args:
        graph: The network.
        layout: For names of ops, their inputs in the order to list them in; else they come as in the graph.
    """
    inputs: list[list[str]] = [[] for _ in graph.op_names]
    outputs: list[list[str]] = [[] for _ in graph.op_names]
    for t, name in enumerate(graph.tensor_names):
        if graph.tensor_producer[t] != UNKNOWN:
            outputs[int(graph.tensor_producer[t])].append(name)
        for v in graph.tensor_consumers[t]:
            inputs[v].append(name)
    indices = np.arange(graph.num_ops)
    order = indices if graph.is_topological(indices) else graph.topological_order
    return Network(
        pieces=[
            Piece(
                name=graph.op_names[v],
                kind=graph.op_kinds[v],
                origin=v,
                role="op",
                inputs=_laid_out(inputs[v], layout.get(graph.op_names[v], ())),
                outputs=tuple(outputs[v]),
            )
            for v in order.tolist()
        ],
        size=dict(zip(graph.tensor_names, graph.tensor_bytes.tolist(), strict=True)),
        outputs={name for name, given in zip(graph.tensor_names, graph.tensor_is_output, strict=True) if given},
    )


def _laid_out(inputs: list[str], order: Sequence[str]) -> tuple[str, ...]:
    """Return inputs in the order given, if it is one of them."""
    return tuple(order) if sorted(order) == sorted(inputs) else tuple(inputs)


def _free(name: str, taken: set[str] | dict[str, int]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
