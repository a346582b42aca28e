"""Small TFLite files, written through the object API of the schema module."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as tflite

from respect_core.sources.tflite_pack import data_buffer, packed


@dataclass(frozen=True, kw_only=True)
class T:
    """A tensor to write; `data` makes it a constant in a buffer of its own."""

    name: str | bytes | None
    shape: tuple[int, ...] = (1, 4)
    type: int = tflite.TensorType.INT8
    data: bytes | None = None
    buffer: int | None = None
    """Index of the buffer instead: 0 is the empty one, k the k-th one of those with data."""
    variable: bool = False
    sparse: bool = False
    variants: int = 0
    external_buffer: int = 0
    scale: tuple[float, ...] = ()
    """One for the whole tensor, or one for each slice along `axis`."""
    zero_point: int = 0
    axis: int = 0


@dataclass(frozen=True, kw_only=True)
class O:  # noqa: E742
    """An op to write."""

    builtin: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    custom: str | None = None
    options: Any = None
    """An `...OptionsT` of the schema module."""
    intermediates: tuple[int, ...] | None = None
    large_options: int = 0


@dataclass(frozen=True, kw_only=True)
class M:
    """A model to write."""

    tensors: Sequence[T]
    ops: Sequence[O]
    inputs: tuple[int, ...] = (0,)
    outputs: tuple[int, ...] = ()
    subgraphs: int = 1
    old_codes: bool = False
    """Write operator codes as writers of before 2020 did."""
    external: tuple[int, int] = field(default=(0, 0))
    """Offset and size that the last buffer gives for data outside of the flatbuffer."""
    description: str | None = None
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    signatures: Mapping[str, tuple[dict[str, int], dict[str, int]]] = field(default_factory=dict)
    """For each key the tensors of its inputs and of its outputs."""


def write_model(model: M) -> bytes:
    """Return the bytes of a TFLite file."""
    datas = [None, *(t.data for t in model.tensors if t.data is not None), *model.metadata.values()]
    buffers = [data_buffer(None if data is None else np.frombuffer(data, dtype=np.uint8)) for data in datas]
    buffers[-1].offset, buffers[-1].size = model.external
    codes = sorted({(op.builtin, op.custom) for op in model.ops}, key=str)
    first_metadata = len(datas) - len(model.metadata)
    return packed(
        tflite.ModelT(
            version=3,
            operatorCodes=[_code(*code, old=model.old_codes) for code in codes],
            subgraphs=[_subgraph(model, codes) for _ in range(model.subgraphs)],
            description=model.description,
            buffers=buffers,
            metadata=[tflite.MetadataT(name=name, buffer=first_metadata + i) for i, name in enumerate(model.metadata)],
            signatureDefs=[
                tflite.SignatureDefT(signatureKey=key, inputs=_entries(inputs), outputs=_entries(outputs))
                for key, (inputs, outputs) in model.signatures.items()
            ],
        )
    )


def _entries(tensors: Mapping[str, int]) -> list[Any]:
    return [tflite.TensorMapT(name=name, tensorIndex=t) for name, t in tensors.items()]


def _subgraph(model: M, codes: list[tuple[int, str | None]]) -> Any:
    tensors, given = [], 0
    for t in model.tensors:
        given += t.data is not None
        buffer = t.buffer if t.buffer is not None else given if t.data is not None else 0
        tensors.append(_tensor(t, buffer))
    ops = [_op(op, codes.index((op.builtin, op.custom))) for op in model.ops]
    return tflite.SubGraphT(
        tensors=tensors, inputs=list(model.inputs), outputs=list(model.outputs), operators=ops, name="main"
    )


def _tensor(t: T, buffer: int) -> Any:
    quantisation = None
    if t.scale:
        quantisation = tflite.QuantizationParametersT(
            scale=np.array(t.scale, dtype=np.float32),
            zeroPoint=np.full(len(t.scale), t.zero_point, dtype=np.int64),
            quantizedDimension=t.axis,
        )
    return tflite.TensorT(
        shape=list(t.shape),
        type=t.type,
        buffer=buffer,
        name=t.name,
        quantization=quantisation,
        isVariable=t.variable,
        sparsity=tflite.SparsityParametersT() if t.sparse else None,
        variantTensors=[tflite.VariantSubTypeT() for _ in range(t.variants)] or None,
        externalBuffer=t.external_buffer,
    )


def _op(op: O, code: int) -> Any:
    kind = type(op.options).__name__.removesuffix("T")
    return tflite.OperatorT(
        opcodeIndex=code,
        inputs=list(op.inputs),
        outputs=list(op.outputs),
        builtinOptionsType=0 if op.options is None else getattr(tflite.BuiltinOptions, kind),
        builtinOptions=op.options,
        intermediates=None if op.intermediates is None else list(op.intermediates),
        largeCustomOptionsOffset=op.large_options,
    )


def _code(builtin: int, custom: str | None, *, old: bool) -> Any:
    return tflite.OperatorCodeT(
        deprecatedBuiltinCode=min(builtin, 127), builtinCode=0 if old else builtin, customCode=custom, version=1
    )


INT32 = tflite.TensorType.INT32
OP = tflite.BuiltinOperator

SMALL_CNN = M(
    tensors=(
        T(name="image", shape=(1, 8, 8, 3)),
        T(name="k1", shape=(16, 3, 3, 3), data=bytes(16 * 27)),
        T(name="b1", shape=(16,), type=INT32, data=bytes(64)),
        T(name="c1", shape=(1, 8, 8, 16)),
        T(name="k2", shape=(1, 3, 3, 16), data=bytes(144)),
        T(name="c2", shape=(1, 4, 4, 16)),
        T(name="scale", shape=(16,), data=bytes(16)),
        T(name="c3", shape=(1, 4, 4, 16)),
        T(name="flat", shape=(1, 256)),
        T(name="k4", shape=(10, 256), data=bytes(2560)),
        T(name="logits", shape=(1, 10)),
    ),
    ops=(
        O(builtin=OP.CONV_2D, inputs=(0, 1, 2), outputs=(3,)),
        O(builtin=OP.DEPTHWISE_CONV_2D, inputs=(3, 4, -1), outputs=(5,)),
        O(builtin=OP.MUL, inputs=(5, 6), outputs=(7,)),
        O(builtin=OP.RESHAPE, inputs=(7,), outputs=(8,)),
        O(builtin=OP.FULLY_CONNECTED, inputs=(8, 9, -1), outputs=(10,)),
    ),
    outputs=(10,),
)
"""A chain of five ops: every kind with a formula of its own."""

SHAPE = (1, 2, 2)
"""Leading dimensions of what flows in `RunnableModel`."""


class RunnableModel:
    """Puts a model together op by op whose ops the interpreter has kernels for; what flows is int8 of 2 or 4 channels.

    All scales are equal, because some kernels demand that of what they join.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tensors: list[T] = []
        self.ops: list[O] = []
        self.inputs: list[int] = []
        self.channels: dict[int, int] = {}
        self.num_buffers = 0

    def given(self, name: str, channels: int) -> int:
        self.inputs.append(self._flow(name, channels))
        return self.inputs[-1]

    def constant(self, shape: tuple[int, ...], *, shared: int | None = None, per_channel: bool = False) -> int:
        """Add an int8 constant; ``shared`` is the number of a buffer that has it already."""
        data = None if shared else self.rng.randbytes(math.prod(shape))
        self.num_buffers += data is not None
        scale = tuple(self.rng.uniform(0.01, 0.05) for _ in range(shape[0])) if per_channel else (0.05,)
        self.tensors.append(T(name=f"c{len(self.tensors)}", shape=shape, data=data, buffer=shared, scale=scale))
        return len(self.tensors) - 1

    def integers(self, *values: int) -> int:
        self.num_buffers += 1
        data = np.array(values, dtype=np.int32)
        shape = () if len(values) == 1 else (len(values),)
        self.tensors.append(T(name="numbers", shape=shape, type=INT32, data=data.tobytes()))
        return len(self.tensors) - 1

    def add(self, name: str, a: int, b: int) -> int:
        channels = self.channels.get(a, self.tensors[a].shape[-1])
        return self._op(OP.ADD, (a, b), (name,), channels, tflite.AddOptionsT())[0]

    def dense(self, name: str, a: int, channels: int) -> int:
        """A fully connected op without a bias: its third input is left out."""
        weights = self.constant((channels, self.channels[a]), per_channel=True)
        return self._op(
            OP.FULLY_CONNECTED, (a, weights, -1), (name,), channels, tflite.FullyConnectedOptionsT(keepNumDims=True)
        )[0]

    def relu(self, name: str, a: int) -> int:
        return self._op(OP.RELU, (a,), (name,), self.channels[a], None)[0]

    def split(self, names: tuple[str, str], a: int) -> tuple[int, ...]:
        return self._op(OP.SPLIT, (self.integers(3), a), names, self.channels[a] // 2, tflite.SplitOptionsT(2))

    def concat(self, name: str, a: int, b: int) -> int:
        channels = self.channels[a] + self.channels[b]
        return self._op(OP.CONCATENATION, (a, b), (name,), channels, tflite.ConcatenationOptionsT(axis=3))[0]

    def model(self, outputs: Sequence[int], **more: Any) -> M:
        return M(tensors=self.tensors, ops=self.ops, inputs=tuple(self.inputs), outputs=tuple(outputs), **more)

    def _flow(self, name: str, channels: int) -> int:
        self.tensors.append(T(name=name, shape=(*SHAPE, channels), scale=(0.05,), zero_point=-3))
        self.channels[len(self.tensors) - 1] = channels
        return len(self.tensors) - 1

    def _op(
        self, builtin: int, inputs: tuple[int, ...], names: Sequence[str], channels: int, options: Any
    ) -> tuple[int, ...]:
        made = tuple(self._flow(name, channels) for name in names)
        self.ops.append(O(builtin=builtin, inputs=inputs, outputs=made, options=options))
        return made


def random_runnable(rng: random.Random, num_ops: int, *, names: Sequence[str] = ()) -> M:
    """Return a random model of ops that can be run.

    Several inputs and outputs, outputs that are read too, inputs that are outputs or unread, unused halves of a split,
    ops that nobody reads, ops of constants alone, shared buffers and optional inputs left out.

    Args:
        rng: Where chance comes from.
        num_ops: Number of ops.
        names: Names to choose from for what flows, so that some come twice; each has its own if empty.
    """
    net = RunnableModel(rng)

    count = itertools.count()

    def name() -> str:
        return rng.choice(names) if names and rng.random() < 0.3 else f"t{next(count)}:0"

    for _ in range(rng.randint(1, 3)):
        net.given(name(), rng.choice([2, 4]))
    for _ in range(num_ops):
        a = rng.choice(list(net.channels))
        alike = [t for t, channels in net.channels.items() if channels == net.channels[a]]
        match rng.randrange(7):
            case 0 | 1:
                net.add(name(), a, rng.choice(alike))
            case 2:
                shared = rng.randint(0, net.num_buffers) if net.channels[a] == 2 else 0
                data = [t.data for t in net.tensors if t.data is not None]
                fits = shared and len(data[shared - 1]) == 8
                net.add(name(), a, net.constant((*SHAPE, net.channels[a]), shared=shared if fits else None))
            case 3:
                net.dense(name(), a, rng.choice([2, 4]))
            case 4 if net.channels[a] == 4:
                net.split((name(), name()), a)
            case 4:
                net.concat(name(), a, rng.choice(alike))
            case 5:
                net.relu(name(), a)
            case _:
                net.add(name(), net.constant((*SHAPE, 2)), net.constant((*SHAPE, 2)))
    flowing = list(net.channels)
    return net.model(rng.sample(flowing, rng.randint(1, min(3, len(flowing)))))
