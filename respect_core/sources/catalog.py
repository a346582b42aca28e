"""The known models: their layer and op graphs lie in `datasets/imagenet` and are read from there, without Keras."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Final

from respect_core.errors import CorruptDatasetError, InputFileError, UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.sources.graph_json import read_graph
from respect_core.sources.tflite import read_tflite

IMAGENET_MODELS: Final = (
    "Xception",
    "ResNet50",
    "ResNet101",
    "ResNet152",
    "DenseNet121",
    "ResNet101V2",
    "ResNet152V2",
    "DenseNet169",
    "DenseNet201",
    "InceptionResNetV2",
)
"""The ten models that published schedules exist for, in the order of their tables."""

EXTRA_MODELS: Final = ("MobileNetV2", "InceptionV3", "NASNetMobile")
"""Further known models."""

NOTOP: Final = "-notop"
"""Ends the name of a layer graph without the layers from global pooling on."""

INT8: Final = "-int8"
"""Ends the name of the op graph of a model's int8 TFLite file, and the file's own name."""

SMALL_NETWORK: Final = "small" + INT8
"""The network that the project writes itself, without TensorFlow."""

TABLE_FILES: Final = ("graphs.parquet", "ops.parquet", "tensors.parquet")
"""The files of the layer graphs, in the folder of the known models."""

INT8_TABLE_FILES: Final = ("int8_graphs.parquet", "int8_ops.parquet", "int8_tensors.parquet")
"""The files of the op graphs, beside them."""

FOLDER_VARIABLE: Final = "RESPECT_IMAGENET"
"""Environment variable that names another folder with these files."""


def known_models() -> tuple[str, ...]:
    """Return the names of all known models.

    They are the layer graphs of the ten and the extra ones, each of them without its top, and the op graphs of
    `int8_models`.
    """
    models = IMAGENET_MODELS + EXTRA_MODELS
    return models + tuple(name + NOTOP for name in models) + int8_models()


def int8_models() -> tuple[str, ...]:
    """Return the names of the op graphs: the ten and the extra models as int8 TFLite files, and the small network."""
    return (*(name + INT8 for name in IMAGENET_MODELS + EXTRA_MODELS), SMALL_NETWORK)


def imagenet_folder() -> Path:
    """Return the folder of the known models' tables.

    It is `$RESPECT_IMAGENET` if that is set, else `datasets/imagenet` of the checkout this package lies in, else
    where a wheel puts it.

    Raises:
        CorruptDatasetError: None of them holds the tables; the folders looked in are named.
    """
    given = os.environ.get(FOLDER_VARIABLE)
    places = (
        [Path(given)]
        if given
        else [
            Path(__file__).resolve().parents[2] / "datasets" / "imagenet",
            Path(sys.prefix) / "share" / "respect" / "imagenet",
        ]
    )
    for place in places:
        if (place / TABLE_FILES[0]).is_file():
            return place
    raise CorruptDatasetError(
        f"the known models' {TABLE_FILES[0]} is in none of {', '.join(map(str, places))}: install the project again or "
        f"set {FOLDER_VARIABLE} to the folder that holds it"
    )


def load_model(name: str) -> DnnGraph:
    """Read the graph of a known model; the same object is returned again later.

    Raises:
        UnknownNameError: No known model has this name; similar names are suggested.
        CorruptDatasetError: A file of the known models is missing, truncated or foreign; it is named.
    """
    if name not in known_models():
        raise UnknownNameError("model", name, known_models())
    return _load(imagenet_folder(), name)


def resolve_model(model: str) -> DnnGraph:
    """Return the graph that a user means: a known model's name, the path of a graph in JSON, or of a TFLite file.

    Raises:
        UnknownNameError: It is none of them.
        InputFileError: The file cannot be read as what its name ends in.
        CorruptDatasetError: A file of the known models is missing, truncated or foreign; it is named.
    """
    if model in known_models():
        return load_model(model)
    path = Path(model)
    ending = path.suffix.lower()
    if ending == ".json":
        return read_graph(path)
    if ending in {".tflite", ".lite"}:
        return read_tflite(path)
    if _is_file(path):
        raise InputFileError(
            path, "a graph is read from a file in JSON whose name ends in .json, or from a TFLite file (.tflite)"
        )
    ways = "or the path of a graph in JSON (.json) or of a TFLite file (.tflite)"
    raise UnknownNameError("model", model, (*known_models(), ways))


def _is_file(path: Path) -> bool:
    """Tell whether a path is a file; what cannot even be a path, as too long a name, is none."""
    try:
        return path.is_file()
    except OSError:
        return False


@lru_cache(maxsize=64)
def _load(folder: Path, name: str) -> DnnGraph:
    from respect_core.sources.catalog_tables import read_known_graph

    return read_known_graph(folder, INT8_TABLE_FILES if name in int8_models() else TABLE_FILES, name)
