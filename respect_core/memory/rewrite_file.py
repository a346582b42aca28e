"""Writing a rewritten network as a TFLite file: weights cut along channels, partial results summed up by `ADD`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from respect_core.errors import BadInputError
from respect_core.memory.peak import checked_order
from respect_core.memory.rewrite import Rewritten
from respect_core.memory.rewrite_network import Piece, Share
from respect_core.segments.model_file import TfliteModel
from respect_core.segments.slice import reorder_model
from respect_core.sources.tflite import content_of, naming
from respect_core.sources.tflite_pack import data_buffer, packed

_NO_ACTIVATION: Final = 0


def write_rewritten(model: TfliteModel, network: Rewritten, order: Sequence[int]) -> bytes:
    """Return the file of a rewritten model with its ops in some order.

    Names, inputs, outputs and signatures stay as they are; the first partial convolution of a sum has the bias, and the
    last addition the fused activation. Padding, strides and dilations are kept. Constants that no op uses any more are
    left out, cut ones that several ops use are written once.

    Args:
        model: The model as it is.
        network: From `rewrite` of its graph with `accumulation="add"`, the layout of `concat_layout` and, at least, the
            refusals of `refusals`.
        order: A topological order of the rewritten network's ops.

    Raises:
        BadInputError: The order is not topological, or an op adds to a sum in place, which no op of TFLite does.
        InputFileError: The file holds something that cannot be written.
    """
    checked = checked_order(network.graph, order).tolist()
    accumulating = next((p for p in network.pieces if p.role == "partial" and len(p.inputs) > 1), None)
    if accumulating is not None:
        raise BadInputError(
            f"op {accumulating.name!r} adds to a sum in place, TFLite has no such op: add it up by `add`"
        )
    with naming(model.path, model.content.file):
        content = _Writer(model).content([network.pieces[i] for i in checked])
    whole = TfliteModel(path=model.path, content=content_of(model.path, content))
    # The general writer leaves out what is not used any more.
    return reorder_model(whole, range(whole.graph.num_ops))


class _Writer:
    """The unpacked model, and where things are in it."""

    def __init__(self, model: TfliteModel) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self._schema: Any = schema
        self._source = model
        self._model: Any = schema.ModelT.InitFromObj(model.content.file.model)
        self._graph: Any = self._model.subgraphs[0]
        self._op_tables = self._graph.operators
        self._buffers = [_bytes_of(buffer) for buffer in self._model.buffers]
        self._place = dict(zip(model.graph.tensor_names, model.tensor_index, strict=True))
        self._cut: dict[tuple[int, int, int], int] = {}
        self._adding: int | None = None

    def content(self, pieces: Sequence[Piece]) -> bytes:
        for piece in pieces:
            for name in piece.outputs:
                if name not in self._place:
                    self._place[name] = self._new_tensor(name, piece)
        self._graph.operators = [self._op(piece) for piece in pieces]
        kept = len(self._buffers)
        self._model.buffers[:kept] = [data_buffer(data) for data in self._buffers]
        return packed(self._model, 2 * len(self._source.data))

    # -- ops -----------------------------------------------------------------------------------------------------

    def _op(self, piece: Piece) -> Any:
        table = self._op_tables[piece.origin]
        if piece.role == "op":
            return table
        op = copy.deepcopy(table)
        op.debugMetadataIndex = -1
        inputs = [self._place[name] for name in piece.inputs]
        op.outputs = [self._place[name] for name in piece.outputs]
        if piece.role == "sum":
            return self._addition(piece, inputs, op)
        if piece.role != "joint":
            inputs += self._constants(piece, list(table.inputs)[1:])
        if piece.role == "partial":
            op.builtinOptions.fusedActivationFunction = _NO_ACTIVATION
        op.inputs = inputs
        return op

    def _addition(self, piece: Piece, inputs: list[int], convolution: Any) -> Any:
        activation = convolution.builtinOptions.fusedActivationFunction if piece.is_last else _NO_ACTIVATION
        return self._schema.OperatorT(
            opcodeIndex=self._add_code(),
            inputs=inputs,
            outputs=convolution.outputs,
            builtinOptionsType=self._schema.BuiltinOptions.AddOptions,
            builtinOptions=self._schema.AddOptionsT(fusedActivationFunction=activation),
        )

    def _add_code(self) -> int:
        if self._adding is None:
            add = self._schema.BuiltinOperator.ADD
            self._model.operatorCodes.append(
                self._schema.OperatorCodeT(deprecatedBuiltinCode=add, builtinCode=add, version=1)
            )
            self._adding = len(self._model.operatorCodes) - 1
        return self._adding

    def _constants(self, piece: Piece, constants: list[int]) -> list[int]:
        """Return the parameters of a piece: weights and, if there is one, the bias."""
        if not constants or piece.share is None:
            return constants
        weights, *biases = constants
        cut = [self._slice(weights, piece.share)]
        if piece.role == "channels":
            cut += [bias if bias < 0 else self._slice(bias, piece.share) for bias in biases]
        elif piece.is_first:
            cut += biases
        else:  # some kernels insist on a bias
            cut += [bias if bias < 0 else self._zeros(bias) for bias in biases]
        return cut

    # -- tensors -------------------------------------------------------------------------------------------------

    def _slice(self, t: int, share: Share) -> int:
        """Return the constant that holds some of the entries of another one's last dimension."""
        table = self._graph.tensors[t]
        channels = share.channels(int(table.shape[-1]))
        key = (t, channels.start, channels.stop)
        if key not in self._cut:
            shape = [int(size) for size in table.shape]
            values = self._buffers[table.buffer].view(np.float32).reshape(shape)[..., channels.start : channels.stop]
            made = self._resized(table, len(channels))
            made.name = (table.name or b"") + f"/{channels.start}-{channels.stop}".encode()
            made.buffer = self._new_buffer(np.frombuffer(values.tobytes(), dtype=np.uint8))
            self._cut[key] = self._added(made)
        return self._cut[key]

    def _zeros(self, t: int) -> int:
        """Return a constant of zeros like another one."""
        table = self._graph.tensors[t]
        key = (t, 0, 0)
        if key not in self._cut:
            made = copy.copy(table)
            made.name = (table.name or b"") + b"/zeros"
            made.buffer = self._new_buffer(np.zeros(self._buffers[table.buffer].nbytes, dtype=np.uint8))
            self._cut[key] = self._added(made)
        return self._cut[key]

    def _new_tensor(self, name: str, piece: Piece) -> int:
        """Add a tensor that flows: like the output of the op that it stems from, or some channels of that."""
        like = self._graph.tensors[self._source.content.file.ops[piece.origin].outputs[0]]
        channels = int(like.shape[-1])
        if piece.role == "channels" and piece.share is not None:
            channels = len(piece.share.channels(channels))
        made = self._resized(like, channels)
        made.name = name.encode()
        return self._added(made)

    def _added(self, tensor: Any) -> int:
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def _new_buffer(self, data: NDArray[np.uint8]) -> int:
        self._model.buffers.append(data_buffer(data))
        return len(self._model.buffers) - 1

    @staticmethod
    def _resized(table: Any, channels: int) -> Any:
        made = copy.copy(table)
        made.shape = [*(int(size) for size in table.shape[:-1]), channels]
        if table.shapeSignature is not None and len(table.shapeSignature):
            made.shapeSignature = [*(int(size) for size in table.shapeSignature[:-1]), channels]
        made.quantization = None
        return made


def _bytes_of(buffer: Any) -> NDArray[np.uint8] | None:
    return None if buffer.data is None else np.asarray(buffer.data, dtype=np.uint8)
