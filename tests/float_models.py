"""Small float TFLite files with concatenations, convolutions and depthwise convolutions, which the interpreter runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as tflite

from tests.tflite_models import OP, M, O, T

FLOAT = tflite.TensorType.FLOAT32
RELU, RELU6 = 1, 3


class FloatModel:
    """Puts a float network together op by op; tensors are named by their number."""

    def __init__(self, rng: np.random.Generator, side: int = 6) -> None:
        self.rng, self.side = rng, side
        self.tensors: list[T] = []
        self.ops: list[O] = []
        self.inputs: list[int] = []
        self.num_buffers = 0

    def shape(self, t: int) -> tuple[int, ...]:
        return self.tensors[t].shape

    def given(self, channels: int, name: str = "") -> int:
        self.inputs.append(self._flow((1, self.side, self.side, channels), name))
        return self.inputs[-1]

    def constant(self, *shape: int) -> int:
        values = self.rng.standard_normal(shape).astype(np.float32)
        self.num_buffers += 1
        self.tensors.append(T(name=f"c{len(self.tensors)}", shape=shape, type=FLOAT, data=values.tobytes()))
        return len(self.tensors) - 1

    def conv(
        self,
        a: int,
        channels: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        dilation: int = 1,
        same: bool = True,
        activation: int = 0,
        weights: int | None = None,
        groups: int = 1,
        name: str = "",
    ) -> int:
        size = self.shape(a)
        if weights is None:
            weights = self.constant(channels, kernel, kernel, size[3] // groups)
        inputs = (a, weights, self.constant(channels))
        options = tflite.Conv2DOptionsT(
            padding=0 if same else 1,
            strideH=stride,
            strideW=stride,
            dilationHFactor=dilation,
            dilationWFactor=dilation,
            fusedActivationFunction=activation,
        )
        height = _out(size[1], kernel, stride, dilation, same)
        return self._op(OP.CONV_2D, inputs, (1, height, height, channels), options, name)

    def depthwise(self, a: int, *, multiplier: int = 1, stride: int = 1, activation: int = 0, name: str = "") -> int:
        size = self.shape(a)
        channels = size[3] * multiplier
        inputs = (a, self.constant(1, 3, 3, channels), self.constant(channels))
        options = tflite.DepthwiseConv2DOptionsT(
            padding=0,
            strideH=stride,
            strideW=stride,
            depthMultiplier=multiplier,
            fusedActivationFunction=activation,
            dilationHFactor=1,
            dilationWFactor=1,
        )
        height = _out(size[1], 3, stride, 1, same=True)
        return self._op(OP.DEPTHWISE_CONV_2D, inputs, (1, height, height, channels), options, name)

    def concat(self, *joined: int, axis: int = 3, activation: int = 0, name: str = "") -> int:
        size = list(self.shape(joined[0]))
        size[axis] = sum(self.shape(t)[axis] for t in joined)
        options = tflite.ConcatenationOptionsT(axis=axis, fusedActivationFunction=activation)
        return self._op(OP.CONCATENATION, joined, tuple(size), options, name)

    def add(self, a: int, b: int, *, name: str = "") -> int:
        return self._op(OP.ADD, (a, b), self.shape(a), tflite.AddOptionsT(), name)

    def relu(self, a: int, *, name: str = "") -> int:
        return self._op(OP.RELU, (a,), self.shape(a), None, name)

    def pool(self, a: int, *, name: str = "") -> int:
        options = tflite.Pool2DOptionsT(padding=0, strideH=1, strideW=1, filterHeight=3, filterWidth=3)
        return self._op(OP.MAX_POOL_2D, (a,), self.shape(a), options, name)

    def model(self, *outputs: int, **more: Any) -> M:
        return M(tensors=self.tensors, ops=self.ops, inputs=tuple(self.inputs), outputs=outputs, **more)

    def _flow(self, shape: tuple[int, ...], name: str) -> int:
        self.tensors.append(T(name=name or f"t{len(self.tensors)}", shape=shape, type=FLOAT))
        return len(self.tensors) - 1

    def _op(self, builtin: int, inputs: Sequence[int], shape: tuple[int, ...], options: Any, name: str) -> int:
        made = self._flow(shape, name)
        self.ops.append(O(builtin=builtin, inputs=tuple(inputs), outputs=(made,), options=options))
        return made


def _out(size: int, kernel: int, stride: int, dilation: int, same: bool) -> int:
    if same:
        return -(-size // stride)
    return -(-(size - (kernel - 1) * dilation) // stride)


def random_cell(rng: np.random.Generator, num_joints: int = 4) -> M:
    """Return a random float network like a cell of an irregularly wired one: joints of all sorts, read by all sorts."""
    net = FloatModel(rng)
    known = [net.given(int(rng.integers(1, 4))) for _ in range(int(rng.integers(1, 3)))]
    known += [net.conv(int(rng.choice(known)), int(rng.integers(1, 5))) for _ in range(2)]
    for _ in range(num_joints):
        count = int(rng.integers(2, 5))
        again = bool(rng.integers(4) == 0) or len(known) < count
        joined = net.concat(*(int(t) for t in rng.choice(known, count, replace=again)))
        for _ in range(int(rng.integers(1, 3))):
            known.append(_reader(net, rng, joined))
        if rng.integers(3) == 0:
            known.append(net.conv(_reader(net, rng, joined), 2, activation=RELU))
    outputs = {int(t) for t in rng.choice(known, int(rng.integers(1, 4)))} | {known[-1]}
    return net.model(*sorted(outputs))


def _reader(net: FloatModel, rng: np.random.Generator, t: int) -> int:
    activation = int(rng.choice([0, RELU, RELU6]))
    match int(rng.integers(6)):
        case 0:
            return net.depthwise(t, multiplier=int(rng.integers(1, 3)), activation=activation)
        case 1:
            return net.pool(t)
        case 2:
            return net.relu(t)
        case 3:
            return net.conv(t, 3, kernel=3, dilation=2, activation=activation)
        case _:
            return net.conv(t, int(rng.integers(1, 5)), kernel=int(rng.choice([1, 3])), activation=activation)
