"""Put a TFLite file together op by op, through the schema package's object interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from respect_core.sources.tflite_pack import data_buffer, packed

SCHEMA_VERSION: Final = 3
"""Version of the model format, not of the schema package."""

_TYPES: Final = {
    np.dtype(np.int8): schema.TensorType.INT8,
    np.dtype(np.int32): schema.TensorType.INT32,
    np.dtype(np.float32): schema.TensorType.FLOAT32,
}


class TfliteBuilder:
    """Collects tensors and ops and gives the bytes of the file; tensors are named by their index."""

    def __init__(self, description: str) -> None:
        self._model: Any = schema.ModelT()
        self._model.version = SCHEMA_VERSION
        self._model.description = description
        self._model.buffers = [data_buffer(None)]  # the first is empty by convention
        self._model.operatorCodes = []
        self._graph: Any = schema.SubGraphT()
        self._graph.name = "main"
        self._graph.tensors, self._graph.operators = [], []
        self._graph.inputs, self._graph.outputs = [], []
        self._model.subgraphs = [self._graph]
        self._codes: dict[tuple[int, int], int] = {}

    def tensor(
        self, name: str, shape: Sequence[int], *, scale: float, zero_point: int, dtype: type[np.generic] = np.int8
    ) -> int:
        """Add a tensor that an op makes or that is given; return its index."""
        quantisation = _quantisation(np.array([scale], dtype=np.float32), zero_point, 0)
        return self._add(name, shape, np.dtype(dtype), 0, quantisation)

    def constant(
        self, name: str, values: NDArray[Any], *, scales: NDArray[np.float32] | None = None, axis: int = 0
    ) -> int:
        """Add a constant; return its index.

        Args:
            name: Its name.
            values: Its values, int8, int32 or float32.
            scales: A scale for the whole tensor or for each slice along ``axis``, shape (slices,); None for what is not
                quantised, like a shape.
            axis: Dimension of the slices.
        """
        data = np.frombuffer(values.tobytes(), dtype=np.uint8)
        self._model.buffers.append(data_buffer(data))
        quantisation = None if scales is None else _quantisation(scales, 0, axis)
        return self._add(name, values.shape, values.dtype, len(self._model.buffers) - 1, quantisation)

    def op(
        self, builtin: str, version: int, inputs: Sequence[int], outputs: Sequence[int], options: Any = None
    ) -> None:
        """Add an op.

        Args:
            builtin: Name of the builtin operator, like ``CONV_2D``.
            version: Version of the operator that its kernel must have.
            inputs: Indices of the tensors it reads.
            outputs: Indices of the tensors it makes.
            options: Its options, an object of the schema package named ``...OptionsT``.
        """
        number = getattr(schema.BuiltinOperator, builtin)
        if (number, version) not in self._codes:
            code: Any = schema.OperatorCodeT()
            code.builtinCode, code.version = number, version
            code.deprecatedBuiltinCode = min(number, 127)  # what readers of before 2020 look at
            self._codes[number, version] = len(self._codes)
            self._model.operatorCodes.append(code)
        made: Any = schema.OperatorT()
        made.opcodeIndex = self._codes[number, version]
        made.inputs, made.outputs = list(inputs), list(outputs)
        if options is not None:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
            made.builtinOptions = options
        self._graph.operators.append(made)

    def finish(self, inputs: dict[str, int], outputs: dict[str, int]) -> bytes:
        """Set the graph's inputs and outputs, under the names of its signature, and return the file's bytes."""
        self._graph.inputs, self._graph.outputs = list(inputs.values()), list(outputs.values())
        signature: Any = schema.SignatureDefT()
        signature.signatureKey = "serving_default"
        signature.subgraphIndex = 0
        signature.inputs, signature.outputs = _tensor_map(inputs), _tensor_map(outputs)
        self._model.signatureDefs = [signature]
        return packed(self._model)

    def _add(self, name: str, shape: Sequence[int], dtype: np.dtype[Any], buffer: int, quantisation: Any) -> int:
        tensor: Any = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name, [int(size) for size in shape], _TYPES[dtype]
        tensor.buffer, tensor.quantization, tensor.hasRank = buffer, quantisation, True
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1


def _quantisation(scales: NDArray[np.float32], zero_point: int, axis: int) -> Any:
    quantisation: Any = schema.QuantizationParametersT()
    quantisation.scale = scales.astype(np.float32)
    quantisation.zeroPoint = np.full(len(scales), zero_point, dtype=np.int64)
    quantisation.quantizedDimension = axis
    return quantisation


def _tensor_map(names: dict[str, int]) -> list[Any]:
    maps = []
    for name, index in names.items():
        entry: Any = schema.TensorMapT()
        entry.name, entry.tensorIndex = name, index
        maps.append(entry)
    return maps
