"""Building the op graph of a convolutional network as the TFLite converter leaves it, int8, op by op."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.sources.tflite_costs import compiled_bytes_of, macs_of, mul_streamed_bytes

_BIAS_BYTES: Final = 4


@dataclass(frozen=True, kw_only=True)
class BuiltTensor:
    """A tensor under construction: its index and its shape (height, width, channels)."""

    index: int
    side: int
    channels: int


@dataclass(kw_only=True)
class NetworkBuilder:
    """Collects ops and tensors in the order in which they run; every method adds one op and returns its output."""

    kinds: list[str] = field(default_factory=list)
    param_bytes: list[int] = field(default_factory=list)
    macs: list[int] = field(default_factory=list)
    compiled: list[int] = field(default_factory=list)
    always: list[int] = field(default_factory=list)
    tensor_bytes: list[int] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    readers: list[list[int]] = field(default_factory=list)

    def image(self, side: int) -> BuiltTensor:
        """Add the graph's input, three channels."""
        return self._new_tensor(UNKNOWN, side, 3)

    def conv(self, x: BuiltTensor, outputs: int, kernel: int, stride: int = 1, *, same: bool = True) -> BuiltTensor:
        """Add a convolution, padded so that the side only shrinks by the stride, or not padded."""
        side = -(-x.side // stride) if same else (x.side - kernel) // stride + 1
        return self._filtered("conv2d", x, (outputs, kernel, kernel, x.channels), side, outputs)

    def depthwise(self, x: BuiltTensor, kernel: int, stride: int = 1) -> BuiltTensor:
        """Add a padded depthwise convolution."""
        shape = (1, kernel, kernel, x.channels)
        return self._filtered("depthwise_conv2d", x, shape, -(-x.side // stride), x.channels)

    def dense(self, x: BuiltTensor, outputs: int) -> BuiltTensor:
        """Add a fully connected op."""
        return self._filtered("fully_connected", x, (outputs, x.side**2 * x.channels), 1, outputs)

    def pad(self, x: BuiltTensor, total: int) -> BuiltTensor:
        """Add ``total`` rows and columns of padding."""
        return self._op("pad", [x], x.side + total, x.channels, params=32)

    def pool(
        self, x: BuiltTensor, kernel: int, stride: int, kind: str = "max_pool", *, same: bool = False
    ) -> BuiltTensor:
        """Add pooling; unpadded unless ``same``."""
        side = -(-x.side // stride) if same else (x.side - kernel) // stride + 1
        return self._op(kind, [x], side, x.channels)

    def mean(self, x: BuiltTensor) -> BuiltTensor:
        """Average over all pixels."""
        return self._op("mean", [x], 1, x.channels, params=8)

    def join(self, kind: str, xs: list[BuiltTensor]) -> BuiltTensor:
        """Add or concatenate tensors of one size."""
        channels = sum(x.channels for x in xs) if kind == "concat" else xs[0].channels
        return self._op(kind, xs, xs[0].side, channels)

    def scale(self, x: BuiltTensor) -> BuiltTensor:
        """Batch normalisation without a convolution to fold into: MUL and ADD, one constant a channel each."""
        shape = (1, x.side, x.side, x.channels)
        always = mul_streamed_bytes((x.channels,), shape)
        x = self._op("mul", [x], x.side, x.channels, params=x.channels, always=always)
        return self._op("add", [x], x.side, x.channels, params=x.channels)

    def finish(self, name: str, x: BuiltTensor) -> DnnGraph:
        """Add the softmax and return the graph."""
        self._op("softmax", [x], 1, x.channels)
        n, m = len(self.kinds), len(self.tensor_bytes)
        return DnnGraph(
            name=name,
            source="tflite",
            op_names=tuple(f"{v}:{kind}" for v, kind in enumerate(self.kinds)),
            op_kinds=tuple(self.kinds),
            param_bytes=np.array(self.param_bytes, dtype=np.int64),
            macs=np.array(self.macs, dtype=np.int64),
            compiled_bytes=np.array(self.compiled, dtype=np.int64),
            always_streamed_bytes=np.array(self.always, dtype=np.int64),
            op_time_us=np.full(n, np.nan),
            tensor_names=tuple(f"t{t}" for t in range(m)),
            tensor_bytes=np.array(self.tensor_bytes, dtype=np.int64),
            tensor_producer=np.array(self.producers, dtype=np.int64),
            tensor_consumers=tuple(tuple(ops) for ops in self.readers),
            tensor_is_output=np.array([not ops for ops in self.readers], dtype=np.bool_),
        )

    def _filtered(self, kind: str, x: BuiltTensor, shape: tuple[int, ...], side: int, outputs: int) -> BuiltTensor:
        weights = int(np.prod(shape))
        return self._op(
            kind,
            [x],
            side,
            outputs,
            params=weights + _BIAS_BYTES * outputs,
            macs=macs_of(kind, shape, (1, side, side, outputs)),
            compiled=compiled_bytes_of(kind, shape, "INT8"),
        )

    def _op(
        self, kind: str, xs: list[BuiltTensor], side: int, channels: int,
        *, params: int = 0, macs: int = 0, compiled: int = 0, always: int = 0,
    ) -> BuiltTensor:  # fmt: skip
        op = len(self.kinds)
        self.kinds.append(kind)
        self.param_bytes.append(params)
        self.macs.append(macs)
        self.compiled.append(compiled)
        self.always.append(always)
        for x in xs:
            self.readers[x.index].append(op)
        return self._new_tensor(op, side, channels)

    def _new_tensor(self, producer: int, side: int, channels: int) -> BuiltTensor:
        self.tensor_bytes.append(side * side * channels)
        self.producers.append(producer)
        self.readers.append([])
        return BuiltTensor(index=len(self.tensor_bytes) - 1, side=side, channels=channels)
