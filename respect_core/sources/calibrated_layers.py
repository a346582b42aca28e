"""Layers of an int8 network that calibrate themselves: each runs on a few images as it is added.

Quantisation follows TensorFlow Lite's rules (https://ai.google.dev/edge/litert/models/quantization_spec):
real = scale x (integer - zero point), weights symmetric with a scale for each output channel, biases int32 at the scale
of input times weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from respect_core.sources.tflite_build import TfliteBuilder

NUM_IMAGES: Final = 4
"""Random images that the ranges come from."""

_LOWEST, _HIGHEST = -128, 127
_WEIGHT: Final = 127
"""Weights are integers up to this."""

Values = NDArray[np.float64]
"""Integers, held in doubles so that matrix products run in BLAS; all sums stay far below 2^53, hence exact."""


@dataclass(frozen=True, kw_only=True)
class Activation:
    """A tensor of the network with its values for the images that calibrate."""

    tensor: int
    """Its index in the file."""
    values: Values
    """Shape (images, ...), integers in -128..127."""
    scale: float
    zero_point: int

    @property
    def channels(self) -> int:
        """Size of the last dimension."""
        return int(self.values.shape[-1])

    @property
    def reals(self) -> Values:
        """The real values that the integers stand for."""
        return (self.values - self.zero_point) * self.scale


@dataclass(frozen=True, kw_only=True)
class _Unscaled:
    """The real values of a layer whose range is not settled, and what writes its op once it is."""

    name: str
    reals: Values
    write: Callable[[int], None]


class CalibratedNetwork:
    """Builds the file layer by layer."""

    def __init__(self, description: str, *, seed: int) -> None:
        self._file = TfliteBuilder(description)
        self._rng = np.random.default_rng(seed)
        self._inputs: dict[str, int] = {}

    def image(self, name: str, size: int) -> Activation:
        """Add the input, an RGB image of ``size`` x ``size`` pixels in about -1..1."""
        values = self._integers(_LOWEST, _HIGHEST, (NUM_IMAGES, size, size, 3))
        scale = float(np.float32(1 / 128))
        tensor = self._file.tensor(name, (1, *values.shape[1:]), scale=scale, zero_point=0)
        self._inputs[name] = tensor
        return Activation(tensor=tensor, values=values, scale=scale, zero_point=0)

    def conv(
        self, x: Activation, name: str, channels: int, *, kernel: int, stride: int = 1, relu: bool = False
    ) -> Activation:
        """Add a convolution, and a ReLU fused with it if ``relu``."""
        return self._settle([self._conv(x, name, channels, kernel, stride, relu)])[0]

    def depthwise_conv(
        self, x: Activation, name: str, *, kernel: int, stride: int = 1, relu: bool = False
    ) -> Activation:
        """Add a convolution of each channel with a kernel of its own."""
        weights = self._integers(-_WEIGHT, _WEIGHT, (1, kernel, kernel, x.channels))
        scales = self._weight_scales(x.channels, kernel * kernel)
        bias = self._bias(x.scale, scales)
        patches = _patches(x.values - x.zero_point, kernel, stride)
        sums = np.einsum("nhwcij,ijc->nhwc", patches, weights[0], optimize=False) + bias
        options: Any = schema.DepthwiseConv2DOptionsT()
        options.padding, options.depthMultiplier = schema.Padding.SAME, 1
        options.strideH = options.strideW = stride
        options.dilationHFactor = options.dilationWFactor = 1
        constants = self._constants(name, weights, 3, bias, x.scale, scales)
        made = self._weighted(
            "DEPTHWISE_CONV_2D", 3, x, name, constants, sums * _double(x.scale, scales), options, relu
        )
        return self._settle([made])[0]

    def concat_of_convs(self, name: str, convs: Sequence[tuple[Activation, str, int, int]]) -> Activation:
        """Concatenate convolutions (input, name, channels, kernel), all at one scale as the kernel demands."""
        parts = self._settle([self._conv(x, own, channels, kernel, 1, True) for x, own, channels, kernel in convs])
        options: Any = schema.ConcatenationOptionsT()
        options.axis = 3
        values = np.concatenate([part.values for part in parts], axis=3)
        return self._same_scale("CONCATENATION", 2, parts, name, values, options)

    def add(self, a: Activation, b: Activation, name: str, *, relu: bool = False) -> Activation:
        """Add two tensors of one shape."""
        options: Any = schema.AddOptionsT()
        options.fusedActivationFunction = _activation(relu)
        reals = a.reals + b.reals

        def write(output: int) -> None:
            self._file.op("ADD", 2, [a.tensor, b.tensor], [output], options)

        return self._settle([_Unscaled(name=name, reals=np.maximum(reals, 0) if relu else reals, write=write)])[0]

    def max_pool(self, x: Activation, name: str, size: int, stride: int) -> Activation:
        """Take the largest value of each window."""
        values = _patches(x.values, size, stride, pad_with=_LOWEST).max(axis=(-2, -1))
        return self._same_scale("MAX_POOL_2D", 2, [x], name, values, _pool_options(size, size, stride))

    def global_average_pool(self, x: Activation, name: str) -> Activation:
        """Average over all positions of each channel."""
        height, width = x.values.shape[1:3]
        values = np.rint(x.values.sum(axis=(1, 2), keepdims=True) / (height * width))
        options = _pool_options(height, width, 1)
        options.padding = schema.Padding.VALID
        return self._same_scale("AVERAGE_POOL_2D", 2, [x], name, values, options)

    def flatten(self, x: Activation, name: str) -> Activation:
        """Make a vector of each image."""
        values = x.values.reshape(len(x.values), -1)
        shape = self._file.constant(f"{name}/shape", np.array([1, values.shape[1]], dtype=np.int32))
        options: Any = schema.ReshapeOptionsT()
        options.newShape = [1, values.shape[1]]
        return self._same_scale("RESHAPE", 1, [x], name, values, options, shape)

    def fully_connected(self, x: Activation, name: str, channels: int) -> Activation:
        """Add a dense layer, whose weights have one scale."""
        weights = self._integers(-_WEIGHT, _WEIGHT, (channels, x.channels))
        scales = self._weight_scales(1, x.channels)
        bias = np.broadcast_to(self._bias(x.scale, np.repeat(scales, channels)), (channels,))
        sums = (x.values - x.zero_point) @ weights.T + bias
        options: Any = schema.FullyConnectedOptionsT()
        constants = self._constants(name, weights, 0, bias, x.scale, scales)
        made = self._weighted("FULLY_CONNECTED", 4, x, name, constants, sums * _double(x.scale, scales), options, False)
        return self._settle([made])[0]

    def softmax(self, x: Activation, name: str) -> int:
        """Turn logits into probabilities; return the index of the tensor."""
        options: Any = schema.SoftmaxOptionsT()
        options.beta = 1.0
        output = self._file.tensor(name, (1, x.channels), scale=1 / 256, zero_point=_LOWEST)
        self._file.op("SOFTMAX", 2, [x.tensor], [output], options)
        return output

    def finish(self, outputs: dict[str, int]) -> bytes:
        """Return the bytes of the file with these outputs, tensors by name."""
        return self._file.finish(self._inputs, outputs)

    # -- layers with weights -----------------------------------------------------------------------------------------

    def _conv(self, x: Activation, name: str, channels: int, kernel: int, stride: int, relu: bool) -> _Unscaled:
        weights = self._integers(-_WEIGHT, _WEIGHT, (channels, kernel, kernel, x.channels))
        scales = self._weight_scales(channels, kernel * kernel * x.channels)
        bias = self._bias(x.scale, scales)
        patches = _patches(x.values - x.zero_point, kernel, stride)  # (images, height, width, channels, kernel, kernel)
        rows = patches.reshape(*patches.shape[:3], -1)
        sums = rows @ weights.transpose(3, 1, 2, 0).reshape(-1, channels) + bias
        options: Any = schema.Conv2DOptionsT()
        options.padding = schema.Padding.SAME
        options.strideH = options.strideW = stride
        options.dilationHFactor = options.dilationWFactor = 1
        constants = self._constants(name, weights, 0, bias, x.scale, scales)
        return self._weighted("CONV_2D", 3, x, name, constants, sums * _double(x.scale, scales), options, relu)

    def _weighted(
        self,
        builtin: str,
        version: int,
        x: Activation,
        name: str,
        constants: tuple[int, int],
        reals: Values,
        options: Any,
        relu: bool,
    ) -> _Unscaled:
        options.fusedActivationFunction = _activation(relu)

        def write(output: int) -> None:
            self._file.op(builtin, version, [x.tensor, *constants], [output], options)

        return _Unscaled(name=name, reals=np.maximum(reals, 0) if relu else reals, write=write)

    def _constants(
        self, name: str, weights: Values, axis: int, bias: Values, scale: float, scales: NDArray[np.float32]
    ) -> tuple[int, int]:
        """Write weights and bias; return their tensors."""
        return (
            self._file.constant(f"{name}/weights", weights.astype(np.int8), scales=scales, axis=axis),
            self._file.constant(
                f"{name}/bias", bias.astype(np.int32), scales=_double(scale, scales).astype(np.float32)
            ),
        )

    def _weight_scales(self, channels: int, fan_in: int) -> NDArray[np.float32]:
        """Draw scales around He's: with them a ReLU keeps the size of activations (arXiv 1502.01852)."""
        he = math.sqrt(6 / fan_in) / _WEIGHT
        return (he * self._rng.uniform(0.6, 1.4, channels)).astype(np.float32)

    def _bias(self, scale: float, scales: NDArray[np.float32]) -> Values:
        """Draw biases in -0.2..0.2, as integers at the scale of the sums."""
        return np.rint(self._rng.uniform(-0.2, 0.2, len(scales)) / _double(scale, scales))

    def _integers(self, low: int, high: int, shape: tuple[int, ...]) -> Values:
        return self._rng.integers(low, high, shape, endpoint=True).astype(np.float64)

    # -- ranges ------------------------------------------------------------------------------------------------------

    def _settle(self, layers: list[_Unscaled]) -> list[Activation]:
        """Give layers one range, that of all their values and zero, and write their ops."""
        low = min(0.0, *(float(layer.reals.min()) for layer in layers))
        high = max(0.0, *(float(layer.reals.max()) for layer in layers))
        scale = float(np.float32((high - low) / (_HIGHEST - _LOWEST)))
        zero_point = min(max(round(_LOWEST - low / scale), _LOWEST), _HIGHEST)
        settled = []
        for layer in layers:
            tensor = self._file.tensor(layer.name, (1, *layer.reals.shape[1:]), scale=scale, zero_point=zero_point)
            layer.write(tensor)
            values = np.clip(np.rint(layer.reals / scale) + zero_point, _LOWEST, _HIGHEST)
            settled.append(Activation(tensor=tensor, values=values, scale=scale, zero_point=zero_point))
        return settled

    def _same_scale(
        self, builtin: str, version: int, xs: Sequence[Activation], name: str, values: Values, options: Any, *more: int
    ) -> Activation:
        """Write an op whose output has the range of its inputs."""
        scale, zero_point = xs[0].scale, xs[0].zero_point
        tensor = self._file.tensor(name, (1, *values.shape[1:]), scale=scale, zero_point=zero_point)
        self._file.op(builtin, version, [*(x.tensor for x in xs), *more], [tensor], options)
        return Activation(tensor=tensor, values=values, scale=scale, zero_point=zero_point)


def _double(scale: float, scales: NDArray[np.float32]) -> Values:
    """Return the scale of the sums of products."""
    return scale * scales.astype(np.float64)


def _activation(relu: bool) -> int:
    kinds = schema.ActivationFunctionType
    return int(kinds.RELU if relu else kinds.NONE)


def _pool_options(height: int, width: int, stride: int) -> Any:
    options: Any = schema.Pool2DOptionsT()
    options.padding = schema.Padding.SAME
    options.filterHeight, options.filterWidth = height, width
    options.strideH = options.strideW = stride
    return options


def _patches(values: Values, kernel: int, stride: int, pad_with: int = 0) -> Values:
    """Return the windows of images under `SAME` padding, shape (images, height, width, channels, kernel, kernel)."""
    pads = [(0, 0)]
    for size in values.shape[1:3]:
        missing = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        pads.append((missing // 2, missing - missing // 2))
    padded = np.pad(values, [*pads, (0, 0)], constant_values=pad_with)
    return sliding_window_view(padded, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
