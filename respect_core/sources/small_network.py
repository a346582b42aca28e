"""A small int8 image classifier that the project writes itself: something real to split where TensorFlow is missing.

It has what large networks are made of: inverted residuals, residual sums, branches that are concatenated, pooling and a
classifier. Weights are random; the ranges of the activations are calibrated by running the network in integers, so that
values spread over all of int8 and two inputs give two outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from respect_core.errors import BadInputError
from respect_core.sources.calibrated_layers import Activation, CalibratedNetwork

MAX_WIDTH: Final = 16
MIN_IMAGE: Final = 16
MAX_IMAGE: Final = 128


@dataclass(frozen=True, kw_only=True)
class SmallNetwork:
    """The size of the network and the seed of its weights."""

    width: int = 1
    """Factor of all numbers of channels; parameters grow with its square: 1 has 0.3 MB, 6 more than 8 MiB."""
    image_size: int = 48
    """Height and width of the image, in pixels."""
    num_classes: int = 100
    """Classes that it tells apart."""
    seed: int = 0
    """Seed of the weights and of the images that calibrate."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("width", 1, MAX_WIDTH),
            ("image_size", MIN_IMAGE, MAX_IMAGE),
            ("num_classes", 2, 10_000),
            ("seed", 0, 2**32 - 1),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise BadInputError(f"{name} {value} of the small network: it must be in {low}..{high}")


def small_network(config: SmallNetwork | None = None) -> bytes:
    """Write the network as a TFLite file: int8 inputs and outputs, a scale for each output channel of a convolution.

    The bytes depend on ``config`` alone: all sums are of integers that a double holds exactly, in whatever order they
    are added.

    Args:
        config: Its size; the default is that of the known model `small-int8`.

    Returns:
        The content of the file; its one input is ``image`` (1, size, size, 3), its outputs are ``logits`` and
        ``probabilities`` (1, classes): few probabilities differ from 0 in int8, so comparisons want the logits too.
    """
    config = config or SmallNetwork()
    w = config.width
    net = CalibratedNetwork("A small int8 image classifier with random weights", seed=config.seed)
    x = net.image("image", config.image_size)
    x = net.conv(x, "stem", 16 * w, kernel=3, stride=2, relu=True)
    x = _inverted_residual(net, x, "first", 16 * w)
    x = _inverted_residual(net, x, "second", 24 * w, stride=2)
    x = _inverted_residual(net, x, "third", 24 * w)
    x = _branches(net, x, "branches", (16 * w, 32 * w, 16 * w))
    x = net.max_pool(x, "pool", 3, 2)
    x = _residual(net, x, "fourth", 64 * w)
    x = _residual(net, x, "fifth", 96 * w)
    x = net.conv(x, "features", 192 * w, kernel=1, relu=True)
    x = net.global_average_pool(x, "mean")
    x = net.flatten(x, "flat")
    x = net.fully_connected(x, "logits", config.num_classes)
    return net.finish({"logits": x.tensor, "probabilities": net.softmax(x, "probabilities")})


def _inverted_residual(net: CalibratedNetwork, x: Activation, name: str, channels: int, stride: int = 1) -> Activation:
    """Expand, convolve each channel, project; and add the input where shapes allow."""
    y = net.conv(x, f"{name}/expand", 4 * x.channels, kernel=1, relu=True)
    y = net.depthwise_conv(y, f"{name}/depthwise", kernel=3, stride=stride, relu=True)
    y = net.conv(y, f"{name}/project", channels, kernel=1)
    return net.add(x, y, f"{name}/sum") if stride == 1 and x.channels == channels else y


def _residual(net: CalibratedNetwork, x: Activation, name: str, channels: int) -> Activation:
    """Two convolutions beside a shortcut, which projects where the number of channels changes."""
    y = net.conv(x, f"{name}/a", channels, kernel=3, relu=True)
    y = net.conv(y, f"{name}/b", channels, kernel=3)
    shortcut = x if x.channels == channels else net.conv(x, f"{name}/shortcut", channels, kernel=1)
    return net.add(shortcut, y, f"{name}/sum", relu=True)


def _branches(net: CalibratedNetwork, x: Activation, name: str, channels: Sequence[int]) -> Activation:
    """Three branches that see neighbourhoods of different size, concatenated."""
    narrow, wide, pooled = channels
    y = net.conv(x, f"{name}/reduce", narrow, kernel=1, relu=True)
    z = net.max_pool(x, f"{name}/pool", 3, 1)
    return net.concat_of_convs(
        f"{name}/concat",
        (
            (x, f"{name}/1x1", narrow, 1),
            (y, f"{name}/3x3", wide, 3),
            (z, f"{name}/pooled", pooled, 1),
        ),
    )
