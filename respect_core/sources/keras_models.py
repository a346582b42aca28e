"""Layer graphs of Keras applications, built with Keras, and the command that rebuilds the committed ones.

Run ``python -m respect_core.sources.keras_models --out datasets/imagenet`` in a checkout.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from respect_core.errors import BadInputError, MissingExtraError, RespectError, UnknownNameError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.kinds import INPUT
from respect_core.sources.catalog import EXTRA_MODELS, IMAGENET_MODELS, INT8_TABLE_FILES, NOTOP, TABLE_FILES
from respect_core.sources.tflite import read_tflite
from respect_core.tables.files import check_writable, write_atomically
from respect_core.tables.graph_rows import GraphTables, graphs_to_tables

KIND_OF_LAYER: Final = {
    "InputLayer": INPUT,
    "Conv2D": "conv2d",
    "DepthwiseConv2D": "depthwise_conv2d",
    "SeparableConv2D": "separable_conv2d",
    "Dense": "fully_connected",
    "BatchNormalization": "batch_norm",
    "Activation": "activation",
    "ReLU": "activation",
    "Add": "add",
    "CustomScaleLayer": "add",  # InceptionResNetV2's x + scale * y: an addition whose factor quantisation absorbs
    "Concatenate": "concat",
    "ZeroPadding2D": "pad",
    "Cropping2D": "crop",
    "MaxPooling2D": "max_pool",
    "AveragePooling2D": "average_pool",
    "GlobalAveragePooling2D": "mean",
}
"""Canonical kind of every layer class that the known models use."""

_MULTIPLYING: Final = frozenset({"conv2d", "depthwise_conv2d", "separable_conv2d", "fully_connected"})


def build_keras_graph(name: str, include_top: bool = True) -> DnnGraph:
    """Build the layer graph of a Keras application: an op a layer, a tensor a layer's output.

    Keras runs on its torch backend unless `KERAS_BACKEND` says otherwise; its global session is cleared so that the
    names of layers do not depend on what was built before. Weights are random and never looked at.

    Args:
        name: One of `IMAGENET_MODELS` or `EXTRA_MODELS`, at its default image size.
        include_top: Whether to keep the layers from global pooling on; without them the graph is `NAME-notop`.

    Returns:
        Ops in the order of `model.layers`: one byte for every parameter, multiply-accumulates of one image, the
        elements of the output as its tensor's bytes (int8, without the batch).

    Raises:
        UnknownNameError: No known model has this name.
        MissingExtraError: Keras or its backend is not installed.
    """
    if name not in IMAGENET_MODELS + EXTRA_MODELS:
        raise UnknownNameError("Keras model", name, IMAGENET_MODELS + EXTRA_MODELS)
    with _clean_keras() as keras:
        model = _application(keras, name)
        layers = list(model.layers)
        outputs = list(model.outputs)
        if not include_top:
            first = next(i for i, layer in enumerate(layers) if type(layer).__name__ == "GlobalAveragePooling2D")
            layers, outputs = layers[:first], _as_list(layers[first].input)
        return _graph_of_layers(name if include_top else name + NOTOP, layers, outputs)


def write_models(folder: Path, names: Sequence[str] = IMAGENET_MODELS + EXTRA_MODELS) -> None:
    """Build models with and without their tops and write them as the three tables.

    The bytes of the files depend on the graphs and the version of pyarrow alone.

    Args:
        folder: Where `graphs.parquet`, `ops.parquet` and `tensors.parquet` are written.
        names: The models.

    Raises:
        MissingExtraError: Keras is not installed.
        UnwritableError: ``folder`` cannot be written.
    """
    check_writable(folder)
    graphs = []
    for number, name in enumerate(names, start=1):
        sys.stderr.write(f"[{number}/{len(names)}] {name}\n")
        graphs += [build_keras_graph(name), build_keras_graph(name, include_top=False)]
    write_graph_files(graphs_to_tables(graphs), folder)


def write_graph_files(tables: GraphTables, folder: Path, files: Sequence[str] = TABLE_FILES) -> None:
    """Write the three tables of known models.

    Args:
        tables: Graphs, ops and tensors.
        folder: Where the files are written.
        files: Their names: `TABLE_FILES` of layer graphs, `INT8_TABLE_FILES` of op graphs.

    Raises:
        UnwritableError: ``folder`` cannot be written.
    """
    for file, table in zip(files, (tables.graphs, tables.ops, tables.tensors), strict=True):

        def write(temporary: Path, table: Any = table) -> None:
            pq.write_table(table, temporary, compression="zstd", compression_level=9, write_page_checksum=True)

        write_atomically(folder / file, write)
        (folder / file).chmod(0o644)


def write_int8_graphs(folder: Path, files: Sequence[Path]) -> None:
    """Write the op graphs of built TFLite files as the tables of the known int8 models.

    Args:
        folder: Where they are written.
        files: The files, each named after its model.

    Raises:
        InputFileError: A file cannot be read.
        UnwritableError: ``folder`` cannot be written.
    """
    check_writable(folder)
    write_graph_files(graphs_to_tables(map(read_tflite, files)), folder, INT8_TABLE_FILES)


@contextmanager
def _clean_keras() -> Iterator[Any]:
    """Yield the module `keras` with an empty session and channels last, whatever the user's own settings are."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    try:
        import keras
    except ImportError as error:
        raise MissingExtraError(
            f"building Keras graphs needs the package {error.name or 'keras'!r}: "
            "pip install 'respect-edgetpu[models]' brings it"
        ) from error
    layout = keras.config.image_data_format()
    keras.utils.clear_session()
    keras.config.set_image_data_format("channels_last")
    try:
        yield keras
    finally:
        keras.config.set_image_data_format(layout)


def _application(keras: Any, name: str) -> Any:
    if name == "NASNetMobile" and keras.backend.backend() == "torch":
        # The public function refuses torch because of a fault in what its models compute, not in their graphs;
        # these are the arguments it would pass on.
        from keras.src.applications.nasnet import NASNet

        return NASNet(
            penultimate_filters=1056,
            num_blocks=4,
            stem_block_filters=32,
            skip_reduction=False,
            filter_multiplier=2,
            default_size=224,
            weights=None,
        )
    return getattr(keras.applications, name)(weights=None)


def _graph_of_layers(name: str, layers: list[Any], outputs: list[Any]) -> DnnGraph:
    maker = {id(layer.output): v for v, layer in enumerate(layers)}
    readers: list[list[int]] = [[] for _ in layers]
    for v, layer in enumerate(layers):
        if _kind(layer) == INPUT:
            continue
        for tensor in _as_list(layer.input):
            readers[maker[id(tensor)]].append(v)
    made_outputs = {maker[id(tensor)] for tensor in outputs}
    n = len(layers)
    return DnnGraph(
        name=name,
        source="keras",
        op_names=tuple(layer.name for layer in layers),
        op_kinds=tuple(_kind(layer) for layer in layers),
        param_bytes=np.array([layer.count_params() for layer in layers], dtype=np.int64),
        macs=np.array([_macs(layer) for layer in layers], dtype=np.int64),
        compiled_bytes=np.full(n, UNKNOWN, dtype=np.int64),
        always_streamed_bytes=np.zeros(n, dtype=np.int64),
        op_time_us=np.full(n, np.nan),
        tensor_names=tuple(f"{layer.name}:0" for layer in layers),
        tensor_bytes=np.array([math.prod(layer.output.shape[1:]) for layer in layers], dtype=np.int64),
        tensor_producer=np.arange(n, dtype=np.int64),
        tensor_consumers=tuple(tuple(ops) for ops in readers),
        tensor_is_output=np.array([v in made_outputs for v in range(n)], dtype=np.bool_),
    )


def _kind(layer: Any) -> str:
    kind = KIND_OF_LAYER.get(type(layer).__name__)
    if kind is None:
        raise BadInputError(
            f"layer {layer.name!r} is a {type(layer).__name__}, known are {', '.join(sorted(KIND_OF_LAYER))}"
        )
    return kind


def _macs(layer: Any) -> int:
    """Count multiply-accumulates of one image: every weight of a kernel works once at each output position.

    Additions of a bias and the arithmetic of all other layers are not counted. A separable convolution strides in
    its depthwise part, so both its kernels work at the positions of the output.
    """
    if _kind(layer) not in _MULTIPLYING:
        return 0
    kernels = sum(math.prod(weight.shape) for weight in layer.weights if weight.name.endswith("kernel"))
    return int(kernels * math.prod(layer.output.shape[1:-1]))


def _as_list(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]


def main(arguments: Sequence[str] | None = None) -> int:
    """Rebuild the committed graphs; the exit code is 2 if that cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m respect_core.sources.keras_models",
        description="Rebuild the layer graphs of the known models with Keras.",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the three Parquet files")
    folder = parser.parse_args(arguments).out
    try:
        write_models(folder)
    except RespectError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
