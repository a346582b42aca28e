"""Collects the ops of a convolutional network with their shapes, so that a description in a few lines makes a graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.sources.tflite_costs import compiled_bytes_of, macs_of

Shape = tuple[int, int, int]
"""Height, width, channels."""


class ConvBuilder:
    """Adds ops in topological order; each makes one tensor and is known by its index.

    Constants and activations count as TFLite stores them: weights and activations in ``value_bytes`` a value (1 for
    quantised networks, 4 for float), biases in 4.

    Args:
        value_bytes: Bytes of a weight or an activation.
        inputs: Names and shapes of the graph inputs; input i is known as ``-1 - i``.
    """

    def __init__(self, value_bytes: int, inputs: Sequence[tuple[str, Shape]]) -> None:
        self.value_bytes = value_bytes
        self._inputs = list(inputs)
        self._shapes: list[Shape] = []
        self._ops: list[tuple[str, str, int, int, int]] = []
        self._reads: list[list[int]] = []

    def shape(self, source: int) -> Shape:
        """Return the shape of an op's output or of a graph input."""
        return self._inputs[-1 - source][1] if source < 0 else self._shapes[source]

    def conv(self, name: str, source: int, channels: int, *, kernel: int = 1, stride: int = 1) -> int:
        """Add a convolution with bias, its output padded to cover the input."""
        height, width, depth = self.shape(source)
        filter_shape = (channels, kernel, kernel, depth)
        return self._filter_op(
            name, "conv2d", source, filter_shape, (-(-height // stride), -(-width // stride), channels)
        )

    def depthwise(self, name: str, source: int, *, kernel: int = 3, stride: int = 1) -> int:
        """Add a depthwise convolution with bias, its output padded to cover the input."""
        height, width, depth = self.shape(source)
        filter_shape = (1, kernel, kernel, depth)
        return self._filter_op(
            name, "depthwise_conv2d", source, filter_shape, (-(-height // stride), -(-width // stride), depth)
        )

    def dense(self, name: str, source: int, outputs: int) -> int:
        """Add a fully connected op with bias."""
        height, width, depth = self.shape(source)
        return self._filter_op(name, "fully_connected", source, (outputs, height * width * depth), (1, 1, outputs))

    def concat(self, name: str, sources: Sequence[int]) -> int:
        """Join outputs of equal height and width along the channels."""
        height, width, _ = self.shape(sources[0])
        if any(self.shape(s)[:2] != (height, width) for s in sources):
            raise BadInputError(f"op {name!r} joins outputs of different height or width")
        return self.add_op(name, "concat", sources, (height, width, sum(self.shape(s)[2] for s in sources)))

    def add(self, name: str, sources: Sequence[int]) -> int:
        """Add outputs of one shape."""
        if any(self.shape(s) != self.shape(sources[0]) for s in sources):
            raise BadInputError(f"op {name!r} adds outputs of different shapes")
        return self.add_op(name, "add", sources, self.shape(sources[0]))

    def pool(self, name: str, source: int, kind: str, stride: int) -> int:
        """Add a pooling op, its output padded to cover the input."""
        height, width, depth = self.shape(source)
        return self.add_op(name, kind, [source], (-(-height // stride), -(-width // stride), depth))

    def add_op(self, name: str, kind: str, sources: Sequence[int], shape: Shape, *, param_bytes: int = 0) -> int:
        """Add any op without multiply-accumulate operations."""
        return self._add(name, kind, sources, shape, (param_bytes, 0, UNKNOWN))

    def graph(self, name: str, source: str, *, breadth_first: bool = False) -> DnnGraph:
        """Return the network; what nobody reads is a graph output.

        Args:
            name: Its name.
            source: What its bytes mean.
            breadth_first: Number the ops in Kahn's order rather than in that in which they were added.
        """
        n, num_inputs = len(self._ops), len(self._inputs)
        if breadth_first:
            self._renumber(self._kahn_order())
        readers: list[list[int]] = [[] for _ in range(num_inputs + n)]
        for v, sources in enumerate(self._reads):
            for s in sources:
                readers[-1 - s if s < 0 else num_inputs + s].append(v)
        shapes = [shape for _, shape in self._inputs] + self._shapes
        names, kinds, params, macs, compiled = zip(*self._ops, strict=True)
        return DnnGraph(
            name=name,
            source=source,
            op_names=names,
            op_kinds=kinds,
            param_bytes=np.array(params, dtype=np.int64),
            macs=np.array(macs, dtype=np.int64),
            compiled_bytes=np.array(compiled, dtype=np.int64),
            always_streamed_bytes=np.zeros(n, dtype=np.int64),
            op_time_us=np.full(n, np.nan),
            tensor_names=(*(input_name for input_name, _ in self._inputs), *(f"{op}:0" for op in names)),
            tensor_bytes=np.array([self.value_bytes * h * w * c for h, w, c in shapes], dtype=np.int64),
            tensor_producer=np.array([UNKNOWN] * num_inputs + list(range(n)), dtype=np.int64),
            tensor_consumers=tuple(tuple(sorted(set(r))) for r in readers),
            tensor_is_output=np.array([not r for r in readers]),
        )

    def _kahn_order(self) -> list[int]:
        waiting = [len({s for s in sources if s >= 0}) for sources in self._reads]
        order = [v for v, count in enumerate(waiting) if count == 0]
        for u in order:  # it grows while it is walked along
            for v in range(len(waiting)):
                if u in self._reads[v]:
                    waiting[v] -= 1
                    if waiting[v] == 0:
                        order.append(v)
        return order

    def _renumber(self, order: list[int]) -> None:
        place = {v: at for at, v in enumerate(order)}
        self._ops = [self._ops[v] for v in order]
        self._shapes = [self._shapes[v] for v in order]
        self._reads = [[s if s < 0 else place[s] for s in self._reads[v]] for v in order]

    def _filter_op(self, name: str, kind: str, source: int, filter_shape: tuple[int, ...], shape: Shape) -> int:
        params = self.value_bytes * int(np.prod(filter_shape)) + 4 * shape[2]
        compiled = compiled_bytes_of(kind, filter_shape, "INT8" if self.value_bytes == 1 else "FLOAT32")
        return self._add(name, kind, [source], shape, (params, macs_of(kind, filter_shape, shape), compiled))

    def _add(self, name: str, kind: str, sources: Sequence[int], shape: Shape, numbers: tuple[int, int, int]) -> int:
        self._ops.append((name, kind, *numbers))
        self._reads.append(list(sources))
        self._shapes.append(shape)
        return len(self._ops) - 1
