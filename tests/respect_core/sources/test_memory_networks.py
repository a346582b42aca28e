"""The networks of the memory comparisons: equal to the published file where there is one, else as documented."""

from __future__ import annotations

import numpy as np
import pytest

from respect_core.errors import BadInputError, UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.sources.conv_builder import ConvBuilder
from respect_core.sources.memory_networks import load_memory_network, memory_networks
from respect_core.sources.swiftnet import swiftnet_graph
from respect_core.sources.tflite import read_tflite
from tests.conftest import SHARED


@pytest.mark.shared
def test_swiftnet_equals_its_file() -> None:
    built, read = swiftnet_graph(), read_tflite(SHARED / "data" / "models" / "swiftnet_hpd_uint8.lite")
    assert built.op_kinds == read.op_kinds
    for attribute in ("param_bytes", "macs", "compiled_bytes", "always_streamed_bytes", "edges"):
        assert np.array_equal(getattr(built, attribute), getattr(read, attribute)), attribute
    assert _tensors(built) == _tensors(read)


def _tensors(graph: DnnGraph) -> list[tuple[object, ...]]:
    columns = (graph.tensor_producer, graph.tensor_consumers, graph.tensor_bytes, graph.tensor_is_output)
    return sorted(
        (int(maker), readers, int(size), bool(out)) for maker, readers, size, out in zip(*columns, strict=True)
    )


@pytest.mark.parametrize("name", memory_networks())
def test_each_bears_its_name_and_runs_in_the_order_of_its_indices(name: str) -> None:
    graph = load_memory_network(name)
    assert graph.name == name
    assert graph.is_topological(range(graph.num_ops))
    assert graph.tensor_is_output.any()


def test_the_darts_cell() -> None:
    graph = load_memory_network("DARTS-normal")
    assert graph.num_ops == 33
    assert set(graph.tensor_bytes.tolist()) == {150528, 4 * 150528}
    assert len([1 for maker in graph.tensor_producer if maker < 0]) == 2
    # 5 separable convolutions of two depthwise and pointwise pairs, 1 dilated, no bias without a convolution.
    assert graph.op_kinds.count("depthwise_conv2d") == graph.op_kinds.count("conv2d") == 11
    assert graph.op_kinds.count("activation") == 6
    assert graph.op_kinds.count("add") == 4


def test_the_randwire_cells_halve_their_tensors() -> None:
    sizes = []
    for cell in "ABC":
        graph = load_memory_network(f"RandWire-CIFAR100-{cell}")
        assert graph.num_ops == 33
        sizes.append(int(graph.tensor_bytes[graph.tensor_producer == 5][0]))
    assert sizes == [19968, 9984, 4992]


def test_unknown_names_and_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'SwiftNet-HPD"):
        load_memory_network("SwiftNet-HPB")
    net = ConvBuilder(1, [("input", (8, 8, 4))])
    net.conv("half", -1, 4, stride=2)
    with pytest.raises(BadInputError, match="'join' joins outputs of different height"):
        net.concat("join", [-1, 0])
    with pytest.raises(BadInputError, match="'sum' adds outputs of different shapes"):
        net.add("sum", [-1, 0])
