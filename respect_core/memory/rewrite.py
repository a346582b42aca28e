"""Identity rewriting: the same network with concatenations taken apart (Ahn et al., MLSys 2020).

A convolution of a concatenation is the sum of convolutions of its inputs, each with the weights of their channels
(channel-wise); an op that treats every channel by itself can be applied to each input before they are joined
(kernel-wise). Both are equal in real arithmetic and let the inputs die one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.memory.rewrite_network import Network, Piece, Share, network_of
from respect_core.memory.rules import ACCUMULATING_CONVOLUTION, CONCATENATIONS

Accumulation = Literal["fused", "add"]
"""How partial convolutions are summed up: each adds to the sum in place (the paper's), or an `add` op follows each."""

ACCUMULATIONS: Final[tuple[str, ...]] = get_args(Accumulation)

CHANNEL_WISE: Final = frozenset({"conv2d", "separable_conv2d"})
"""Kinds that sum over their input channels."""

KERNEL_WISE: Final = frozenset({"depthwise_conv2d", "max_pool", "average_pool", "activation"})
"""Kinds that treat every channel by itself."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A concatenation that was taken apart."""

    concat: str
    """Name of the op: a concatenation of the network, or the kernel-wise op whose results are joined instead."""
    inputs: tuple[str, ...]
    """Names of the tensors that it joined."""
    channel_wise: tuple[str, ...]
    """Names of the ops that became sums of partial ops."""
    kernel_wise: tuple[str, ...]
    """Names of the ops that are applied to each input instead."""


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """A rewritten network."""

    graph: DnnGraph
    pieces: tuple[Piece, ...]
    """What each op of the graph is made from."""
    sites: tuple[Site, ...]


def rewrite(
    graph: DnnGraph,
    chosen: Collection[str] | None = None,
    *,
    accumulation: Accumulation = "fused",
    refused: Collection[str] = (),
    layout: Mapping[str, Sequence[str]] | None = None,
    rank: Mapping[str, int] | None = None,
) -> Rewritten:
    """Take concatenations of a network apart.

    One is taken apart where all that reads its output can be rewritten, it is no graph output, and its distinct inputs
    have as many bytes as it; then they lie in it one after the other. That this is along the channels and that
    convolutions have one group is taken for granted unless ``refused`` knows better. Parameters and MACs are shared out
    in proportion to the channels; their sums stay what they are.

    Args:
        graph: The network.
        chosen: Names of the concatenations to take apart, as in `Site.concat`; None for all that can be.
        accumulation: How partial convolutions are summed up.
        refused: Names of ops that must stay as they are.
        layout: For names of concatenations, the names of the tensors that they join as these lie one after the other;
            they lie as the graph's tensors are numbered where it says nothing.
        rank: For tensor names, in which order the inputs of a concatenation are summed up: the smallest first; that of
            the graph's tensors if None.

    Raises:
        BadInputError: An accumulation that does not exist.
    """
    if accumulation not in ACCUMULATIONS:
        raise BadInputError(f"accumulation is {accumulation!r}, choose from {', '.join(ACCUMULATIONS)}")
    network = network_of(graph, layout or {})
    ranks = dict(rank if rank is not None else {name: i for i, name in enumerate(graph.tensor_names)})
    sites = []
    # Ops come in topological order, and the joints that kernel-wise rewriting makes come after the op it is at.
    at = 0
    while at < len(network.pieces):
        joint = network.pieces[at]
        at += 1
        if chosen is not None and joint.name not in chosen:
            continue
        inputs = _joined(network, joint, refused)
        if inputs:
            sites.append(_take_apart(network, joint, inputs, ranks, accumulation))
            at -= 1
    return Rewritten(graph=network.graph(graph), pieces=tuple(network.pieces), sites=tuple(sites))


def _joined(network: Network, joint: Piece, refused: Collection[str]) -> tuple[str, ...]:
    """Return the inputs of a joint that can be taken apart, none if it cannot be."""
    if joint.kind not in CONCATENATIONS or joint.name in refused or len(joint.outputs) != 1:
        return ()
    output = joint.outputs[0]
    sizes = [network.size[t] for t in joint.inputs]
    total = network.size[output]
    readers = network.readers(output)
    if len(sizes) < 2 or min(sizes) < 1 or sum(sizes) != total or output in network.outputs or not readers:
        return ()
    for reader in readers:
        if reader.role != "op" or reader.inputs != (output,) or len(reader.outputs) != 1 or reader.name in refused:
            return ()
        if reader.kind in KERNEL_WISE:
            if any(network.size[reader.outputs[0]] * size % total for size in sizes):
                return ()
        elif reader.kind not in CHANNEL_WISE:
            return ()
    return joint.inputs


def _take_apart(
    network: Network, joint: Piece, inputs: tuple[str, ...], ranks: dict[str, int], accumulation: Accumulation
) -> Site:
    output = joint.outputs[0]
    ranked = tuple(sorted(inputs, key=lambda t: ranks.get(t, -1)))
    total = network.size[output]
    shares, start = {}, 0
    for t in inputs:
        shares[t] = Share(start=start, size=network.size[t], total=total)
        start += network.size[t]
    readers = network.readers(output)
    for reader in readers:
        if reader.kind in KERNEL_WISE:
            made = _each_by_itself(network, joint, reader, inputs, shares)
            for piece in made[:-1]:
                ranks.setdefault(piece.outputs[0], ranks.get(piece.inputs[0], -1))
        elif accumulation == "fused":
            made = _accumulated(network, reader, ranked, shares)
        else:
            made = _added_up(network, reader, ranked, shares)
        network.replace(reader, made)
    network.remove(joint)
    return Site(
        concat=joint.name,
        inputs=inputs,
        channel_wise=tuple(r.name for r in readers if r.kind in CHANNEL_WISE),
        kernel_wise=tuple(r.name for r in readers if r.kind in KERNEL_WISE),
    )


def _each_by_itself(
    network: Network, joint: Piece, op: Piece, inputs: tuple[str, ...], shares: Mapping[str, Share]
) -> list[Piece]:
    """Apply an op to each input and join what comes of it."""
    made = []
    for i, t in enumerate(inputs):
        size = shares[t].of(network.size[op.outputs[0]])
        output = network.new_tensor(f"{op.outputs[0]}/part{i}", size)
        name = network.new_name(f"{op.name}/part{i}")
        made.append(
            Piece(
                name=name,
                kind=op.kind,
                origin=op.origin,
                role="channels",
                inputs=(t,),
                outputs=(output,),
                share=shares[t],
            )
        )
    parts = tuple(piece.outputs[0] for piece in made)
    # It bears the op's name, so that the op's readers' readers can be named before they exist.
    joined = Piece(name=op.name, kind=joint.kind, origin=joint.origin, role="joint", inputs=parts, outputs=op.outputs)
    return [*made, joined]


def _accumulated(network: Network, op: Piece, ranked: tuple[str, ...], shares: Mapping[str, Share]) -> list[Piece]:
    """Let each partial op add to the sum of those before it, in place."""
    made: list[Piece] = []
    for i, t in enumerate(ranked):
        is_last = i == len(ranked) - 1
        output = op.outputs[0]
        if not is_last:
            output = network.new_tensor(f"{op.outputs[0]}/sum{i}", network.size[op.outputs[0]])
        made.append(
            Piece(
                name=op.name if is_last else network.new_name(f"{op.name}/part{i}"),
                kind=ACCUMULATING_CONVOLUTION if made else op.kind,
                origin=op.origin,
                role="partial",
                inputs=(t, *made[-1].outputs) if made else (t,),
                outputs=(output,),
                share=shares[t],
                is_first=not made,
                is_last=is_last,
            )
        )
    return made


def _added_up(network: Network, op: Piece, ranked: tuple[str, ...], shares: Mapping[str, Share]) -> list[Piece]:
    """Let an `add` follow each partial op but the first."""
    size = network.size[op.outputs[0]]
    made: list[Piece] = []
    so_far = ""
    for i, t in enumerate(ranked):
        part = network.new_tensor(f"{op.outputs[0]}/part{i}", size)
        made.append(
            Piece(
                name=network.new_name(f"{op.name}/part{i}"),
                kind=op.kind,
                origin=op.origin,
                role="partial",
                inputs=(t,),
                outputs=(part,),
                share=shares[t],
                is_first=not i,
            )
        )
        if not i:
            so_far = part
            continue
        is_last = i == len(ranked) - 1
        output = op.outputs[0] if is_last else network.new_tensor(f"{op.outputs[0]}/sum{i}", size)
        made.append(
            Piece(
                name=op.name if is_last else network.new_name(f"{op.name}/sum{i}"),
                kind="add",
                origin=op.origin,
                role="sum",
                inputs=(so_far, part),
                outputs=(output,),
                is_last=is_last,
            )
        )
        so_far = output
    return made
