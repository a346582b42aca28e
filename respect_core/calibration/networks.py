"""Op graphs of published networks at any input size, as the TFLite converter leaves them.

Batch normalisation and activations are folded into the convolution before them; where there is none (DenseNet, ResNet
V2) a MUL and an ADD remain. Names of public benchmarks ("ResNet-50 V1") are understood by `network_of`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from respect_core.calibration.network_builder import NetworkBuilder
from respect_core.errors import UnknownNameError
from respect_core.graph import DnnGraph

_RESNET_BLOCKS: Final = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_DENSENET_BLOCKS: Final = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}
_INVERTED: Final = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, width, blocks and first stride of MobileNet V2."""
_INCEPTION_V1: Final = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip
"""Widths of each module: 1x1; 1x1 and 3x3; 1x1 and 3x3; 1x1 after pooling."""


def resnet(layers: int, side: int = 224) -> DnnGraph:
    """Return ResNet V1 (He et al. 2015) with 50, 101 or 152 layers, strides in the first convolution of a block."""
    net = NetworkBuilder()
    x = net.conv(net.pad(net.image(side), 6), 64, 7, 2, same=False)
    x = net.pool(net.pad(x, 2), 3, 2)
    for stage, blocks in enumerate(_RESNET_BLOCKS[layers]):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            shortcut = x if block else net.conv(x, 4 * width, 1, stride)
            y = net.conv(net.conv(x, width, 1, stride), width, 3)
            x = net.join("add", [shortcut, net.conv(y, 4 * width, 1)])
    return net.finish(f"ResNet{layers}-{side}", net.dense(net.mean(x), 1000))


def resnet_v2(layers: int, side: int = 224) -> DnnGraph:
    """Return ResNet V2 (He et al. 2016) with 50, 101 or 152 layers, strides in the last block of a stage."""
    net = NetworkBuilder()
    x = net.conv(net.pad(net.image(side), 6), 64, 7, 2, same=False)
    x = net.pool(net.pad(x, 2), 3, 2)
    for stage, blocks in enumerate(_RESNET_BLOCKS[layers]):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage < 3 and block == blocks - 1 else 1
            active = net.scale(x)
            shortcut = net.conv(active, 4 * width, 1) if not block else x
            y = net.conv(active, width, 1)
            y = net.conv(net.pad(y, 2), width, 3, 2, same=False) if stride == 2 else net.conv(y, width, 3)
            y = net.conv(y, 4 * width, 1)
            if stride == 2:
                shortcut = net.pool(shortcut, 1, 2)
            x = net.join("add", [shortcut, y])
    return net.finish(f"ResNet{layers}V2-{side}", net.dense(net.mean(net.scale(x)), 1000))


def vgg(layers: int, side: int = 224) -> DnnGraph:
    """Return VGG with 16 or 19 layers (Simonyan and Zisserman 2014)."""
    net = NetworkBuilder()
    x = net.image(side)
    deep = 3 if layers == 16 else 4
    for convolutions, width in ((2, 64), (2, 128), (deep, 256), (deep, 512), (deep, 512)):
        for _ in range(convolutions):
            x = net.conv(x, width, 3)
        x = net.pool(x, 2, 2)
    return net.finish(f"VGG{layers}-{side}", net.dense(net.dense(net.dense(x, 4096), 4096), 1000))


def mobilenet_v1(side: int = 224) -> DnnGraph:
    """Return MobileNet V1 of full width (Howard et al. 2017)."""
    net = NetworkBuilder()
    x = net.conv(net.image(side), 32, 3, 2)
    for width, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ):
        x = net.conv(net.depthwise(x, 3, stride), width, 1)
    return net.finish(f"MobileNetV1-{side}", net.conv(net.mean(x), 1000, 1))


def mobilenet_v2(side: int = 224) -> DnnGraph:
    """Return MobileNet V2 of full width (Sandler et al. 2018)."""
    net = NetworkBuilder()
    x = net.conv(net.image(side), 32, 3, 2)
    for expansion, width, blocks, first_stride in _INVERTED:
        for block in range(blocks):
            stride = first_stride if not block else 1
            y = net.conv(x, expansion * x.channels, 1) if expansion > 1 else x
            y = net.conv(net.depthwise(y, 3, stride), width, 1)
            x = net.join("add", [x, y]) if block else y
    return net.finish(f"MobileNetV2-{side}", net.dense(net.mean(net.conv(x, 1280, 1)), 1000))


def inception_v1(side: int = 224) -> DnnGraph:
    """Return GoogLeNet (Szegedy et al. 2014) with batch normalisation and 3x3 in place of 5x5 filters."""
    net = NetworkBuilder()
    x = net.pool(net.conv(net.image(side), 64, 7, 2), 3, 2, same=True)
    x = net.pool(net.conv(net.conv(x, 64, 1), 192, 3), 3, 2, same=True)
    for number, (one, before3, three, before5, five, pooled) in enumerate(_INCEPTION_V1):
        if number in (2, 7):
            x = net.pool(x, 3 if number == 2 else 2, 2, same=True)
        branches = [
            net.conv(x, one, 1),
            net.conv(net.conv(x, before3, 1), three, 3),
            net.conv(net.conv(x, before5, 1), five, 3),
            net.conv(net.pool(x, 3, 1, same=True), pooled, 1),
        ]
        x = net.join("concat", branches)
    return net.finish(f"InceptionV1-{side}", net.conv(net.mean(x), 1000, 1))


def densenet(layers: int, side: int = 224) -> DnnGraph:
    """Return DenseNet (Huang et al. 2016) with 121, 169 or 201 layers, growth 32."""
    net = NetworkBuilder()
    x = net.conv(net.pad(net.image(side), 6), 64, 7, 2, same=False)
    x = net.pool(net.pad(x, 2), 3, 2)
    blocks = _DENSENET_BLOCKS[layers]
    for number, units in enumerate(blocks):
        for _ in range(units):
            x = net.join("concat", [x, net.conv(net.conv(net.scale(x), 128, 1), 32, 3)])
        if number < len(blocks) - 1:
            x = net.pool(net.conv(net.scale(x), x.channels // 2, 1), 2, 2, "average_pool")
    return net.finish(f"DenseNet{layers}-{side}", net.dense(net.mean(net.scale(x)), 1000))


_NETWORKS: Final[tuple[tuple[str, Callable[[int, int], DnnGraph]], ...]] = (
    (r"resnet(50|101|152)(v1)?", resnet),
    (r"resnet(50|101|152)v2", resnet_v2),
    (r"densenet(121|169|201)?", lambda layers, side: densenet(layers or 121, side)),
    (r"vgg(16|19)", vgg),
    (r"mobilenet(v1)?", lambda _, side: mobilenet_v1(side)),
    (r"mobilenetv2", lambda _, side: mobilenet_v2(side)),
    (r"inceptionv1|googlenet", lambda _, side: inception_v1(side)),
)

NAMES: Final = (
    "ResNet-50 (101, 152) V1 and V2", "DenseNet-121 (169, 201)", "VGG16 (19)", "MobileNet v1 (v2)", "Inception v1",
)  # fmt: skip

SIDE: Final = 224
"""Image side where a measurement does not say."""


def network_of(name: str, side: int = SIDE) -> DnnGraph:
    """Return the op graph of a published network by the name that a benchmark gives it.

    What is in brackets and the word "unpruned" are remarks; "DenseNet" alone is DenseNet-121.

    Raises:
        UnknownNameError: None of the networks has this name.
    """
    plain = re.sub(r"[^a-z0-9]", "", re.sub(r"\(.*?\)|unpruned", "", name.lower()))
    for pattern, build in _NETWORKS:
        found = re.fullmatch(pattern, plain)
        if found:
            return build(int(next((group for group in found.groups() if (group or "").isdecimal()), 0)), side)
    raise UnknownNameError("published network", name, NAMES)
