"""The networks on which orders for least activation memory are compared: cells of SwiftNet, DARTS and RandWire.

The RandWire cells are stages of 32 nodes, WS(4, 0.75), on 32 x 32 images: A is the first stage (16 x 16 x 78), B the
second (8 x 8 x 156), C the third (4 x 4 x 312), one byte a value; each is counted with the output of what precedes it
as its input. The published peaks of these cells are whole multiples of those tensors (to a kilobyte); the graphs behind
them are one random draw and not known, so these are others of the same family, and the ops of a node are one op here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from respect_core.errors import UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.memory.part import subgraph
from respect_core.sources import darts, swiftnet
from respect_core.sources.randwire import RandWireSpec, randwire_graph

_SEEDS: Final = {"CIFAR10": 10, "CIFAR100": 100}

_STAGES: Final = {"CIFAR10": "AB", "CIFAR100": "ABC"}


def _randwire(dataset: str, cell: str) -> DnnGraph:
    """Cut one stage out of a randomly wired network."""
    spec = RandWireSpec(num_stages=len(_STAGES[dataset]), resolution=32, seed=_SEEDS[dataset])
    graph = randwire_graph(spec)
    stage = _STAGES[dataset].index(cell)
    return subgraph(graph, [v for v, name in enumerate(graph.op_names) if name.startswith(f"stage{stage}_")])


def _swiftnet(cell: str) -> DnnGraph:
    return subgraph(swiftnet.swiftnet_graph(), swiftnet.CELLS[cell])


_NETWORKS: Final[dict[str, Callable[[], DnnGraph]]] = {
    darts.NAME: darts.darts_normal_cell,
    swiftnet.NAME: swiftnet.swiftnet_graph,
    **{f"{swiftnet.NAME}-{cell}": partial(_swiftnet, cell) for cell in swiftnet.CELLS},
    **{f"RandWire-{data}-{cell}": partial(_randwire, data, cell) for data, cells in _STAGES.items() for cell in cells},
}


def memory_networks() -> tuple[str, ...]:
    """Return the names that `load_memory_network` knows."""
    return tuple(_NETWORKS)


def load_memory_network(name: str) -> DnnGraph:
    """Build one of the networks; the graph bears the name asked for.

    Raises:
        UnknownNameError: None of them has this name.
    """
    if name not in _NETWORKS:
        raise UnknownNameError("network", name, memory_networks())
    return replace(_NETWORKS[name](), name=name)
