"""Op graphs of published networks: equal to the committed ones where both exist, and named as benchmarks name them."""

from __future__ import annotations

import numpy as np
import pytest

from respect_core.calibration.networks import (
    densenet,
    inception_v1,
    mobilenet_v1,
    mobilenet_v2,
    network_of,
    resnet,
    resnet_v2,
    vgg,
)
from respect_core.errors import UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.sources.catalog import load_model


@pytest.mark.parametrize(
    ("built", "name"),
    [(resnet(50), "ResNet50"), (resnet(101), "ResNet101"), (resnet(152), "ResNet152"),
     (densenet(121), "DenseNet121"), (densenet(169), "DenseNet169"), (densenet(201), "DenseNet201"),
     (resnet_v2(101), "ResNet101V2"), (resnet_v2(152), "ResNet152V2"), (mobilenet_v2(), "MobileNetV2")],
)  # fmt: skip
def test_a_network_is_the_op_graph_of_its_tflite_file(built: DnnGraph, name: str) -> None:
    """All but the parameters of ops: files made from random weights have no bias in the last layer."""
    known = load_model(f"{name}-int8")
    assert sorted(built.op_kinds) == sorted(known.op_kinds)
    assert built.macs.sum() == known.macs.sum()
    assert sorted(built.compiled_bytes.clip(0).tolist()) == sorted(known.compiled_bytes.clip(0).tolist())
    assert built.always_streamed_bytes.sum() == known.always_streamed_bytes.sum()
    assert sorted(built.tensor_bytes.tolist()) == sorted(known.tensor_bytes.tolist())


@pytest.mark.parametrize(
    ("graph", "gmac", "million"),
    [(vgg(16), 15.47, 138.36), (vgg(19), 19.63, 143.67), (mobilenet_v1(), 0.569, 4.23), (resnet(50), 3.86, 25.6),
     (densenet(121), 2.83, 8.0), (resnet_v2(50), 3.48, 25.6), (inception_v1(), 1.50, 6.62)],
)  # fmt: skip
def test_sizes_are_the_published_ones(graph: DnnGraph, gmac: float, million: float) -> None:
    """GMAC and parameters (as int8 with biases of four bytes) within 3 % of the papers' figures."""
    assert graph.macs.sum() / 1e9 == pytest.approx(gmac, rel=0.01)
    assert graph.param_bytes.sum() / 1e6 == pytest.approx(million, rel=0.03)


def test_a_larger_image_costs_macs_and_no_parameters() -> None:
    small, large = resnet(50), resnet(50, 299)
    assert np.array_equal(small.param_bytes, large.param_bytes) and large.macs.sum() > 1.7 * small.macs.sum()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ResNet-50 V1", "ResNet50-224"), ("ResNet-152 unpruned (59.39 MiB compiled)", "ResNet152-224"),
     ("DenseNet", "DenseNet121-224"), ("DenseNet201", "DenseNet201-224"), ("VGG16", "VGG16-224"),
     ("MobileNet v1", "MobileNetV1-224"), ("MobileNet v1 (1.0)", "MobileNetV1-224"), ("VGG19", "VGG19-224"),
     ("ResNet-50 V2", "ResNet50V2-224"), ("MobileNet v2", "MobileNetV2-224"), ("Inception V1", "InceptionV1-224")],
)  # fmt: skip
def test_names_of_benchmarks_are_understood(name: str, expected: str) -> None:
    assert network_of(name).name == expected


@pytest.mark.parametrize("name", ["ResNet-50 V3", "Inception v4", "VGG11", "MobileNet v1 SSD", ""])
def test_other_networks_are_not_guessed(name: str) -> None:
    with pytest.raises(UnknownNameError, match="published network"):
        network_of(name)
