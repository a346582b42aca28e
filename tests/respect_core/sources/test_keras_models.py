"""Building layer graphs with Keras: the committed rows do not drift, and the command's errors."""

from __future__ import annotations

import builtins
import math
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from respect_core.errors import BadInputError, MissingExtraError, UnknownNameError
from respect_core.sources import keras_models
from respect_core.sources.catalog import TABLE_FILES, imagenet_folder, load_model
from respect_core.sources.keras_models import KIND_OF_LAYER, build_keras_graph, main, write_graph_files
from respect_core.tables.graph_rows import graphs_to_tables
from tests.same_graph import differences

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def keras() -> Iterator[Any]:
    """Keras on torch; its import warns of things that are not ours to change."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip("keras", reason="keras is not installed (extra models)")


@pytest.mark.parametrize("name", ["ResNet50", "MobileNetV2"])
def test_a_rebuilt_model_equals_the_committed_rows(keras: Any, name: str) -> None:
    graphs = [build_keras_graph(name), build_keras_graph(name, include_top=False)]
    tables = graphs_to_tables(graphs)
    wanted = {name, f"{name}-notop"}
    for file, built in zip(TABLE_FILES, (tables.graphs, tables.ops, tables.tensors), strict=True):
        committed = pq.read_table(ROOT / "datasets" / "imagenet" / file, filters=[("graph_id", "in", wanted)])
        assert committed.equals(built)


def test_names_do_not_depend_on_what_was_built_before(keras: Any) -> None:
    keras.applications.Xception(weights=None)  # names its unnamed layers conv2d, conv2d_1, ...
    assert differences(build_keras_graph("Xception"), load_model("Xception")) == []


def test_nasnet_can_be_built_on_torch(keras: Any) -> None:
    assert differences(build_keras_graph("NASNetMobile"), load_model("NASNetMobile")) == []


def test_the_users_image_layout_is_kept_and_not_used(keras: Any) -> None:
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        assert differences(build_keras_graph("MobileNetV2"), load_model("MobileNetV2")) == []
        assert keras.config.image_data_format() == "channels_first"
    finally:
        keras.config.set_image_data_format(before)


def test_the_cut_equals_what_keras_builds_without_top(keras: Any) -> None:
    """Keras's own models without top have the layers that the cut keeps."""
    keras.utils.clear_session()
    model = keras.applications.DenseNet121(weights=None, include_top=False, input_shape=(224, 224, 3))
    graph = load_model("DenseNet121-notop")
    assert [layer.name for layer in model.layers] == list(graph.op_names)
    assert [layer.count_params() for layer in model.layers] == graph.param_bytes.tolist()
    assert [math.prod(layer.output.shape[1:]) for layer in model.layers] == graph.tensor_bytes.tolist()


def test_edges_and_work_follow_from_the_saved_configuration(keras: Any) -> None:
    """An independent reading: Keras's serialised configuration, and the textbook formulas of work."""
    keras.utils.clear_session()
    model = keras.applications.MobileNetV2(weights=None)
    graph = load_model("MobileNetV2")
    index = {name: v for v, name in enumerate(graph.op_names)}
    edges = set()
    for entry in model.get_config()["layers"]:
        for node in entry["inbound_nodes"]:
            found: list[str] = []
            _collect_history(node["args"], found)
            edges |= {(index[producer], index[entry["name"]]) for producer in found}
    assert sorted(edges) == [tuple(edge) for edge in graph.edges.tolist()]
    for v, layer in enumerate(model.layers):
        kind = type(layer).__name__
        work = 0
        if kind == "Conv2D":
            work = math.prod(layer.output.shape[1:]) * math.prod(layer.kernel_size) * layer.input.shape[-1]
        elif kind == "DepthwiseConv2D":
            work = math.prod(layer.output.shape[1:]) * math.prod(layer.kernel_size)
        elif kind == "Dense":
            work = layer.input.shape[-1] * layer.units
        assert graph.macs[v] == work


def _collect_history(part: Any, found: list[str]) -> None:
    if isinstance(part, dict):
        if "keras_history" in part.get("config", {}):
            found.append(part["config"]["keras_history"][0])
        else:
            _collect_history(list(part.values()), found)
    elif isinstance(part, list | tuple):
        for inner in part:
            _collect_history(inner, found)


def test_an_unknown_layer_is_named() -> None:
    class Lambda:
        name = "mystery"

    with pytest.raises(BadInputError, match=f"layer 'mystery' is a Lambda, known are {min(KIND_OF_LAYER)}"):
        keras_models._kind(Lambda())


def test_an_unknown_model_is_named_without_keras() -> None:
    with pytest.raises(UnknownNameError, match="unknown Keras model 'VGG16': choose from Xception, "):
        build_keras_graph("VGG16")


def test_without_keras_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_keras(name: str, *rest: Any, **named: Any) -> Any:
        if name == "keras":
            raise ModuleNotFoundError("No module named 'keras'", name="keras")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_keras)
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    with pytest.raises(MissingExtraError, match=r"needs the package 'keras': pip install 'respect-edgetpu\[models\]'"):
        build_keras_graph("ResNet50")


def test_the_committed_bytes_can_be_written_again(tmp_path: Path) -> None:
    ids = pq.read_table(imagenet_folder() / "graphs.parquet")["graph_id"].to_pylist()
    write_graph_files(graphs_to_tables(load_model(name) for name in reversed(ids)), tmp_path)
    write_graph_files(graphs_to_tables(load_model(name) for name in ids), tmp_path / "again")
    for file in TABLE_FILES:
        assert (tmp_path / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
        assert pq.read_table(tmp_path / file).equals(pq.read_table(imagenet_folder() / file))


def test_the_command_says_what_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--out", str(tmp_path / "file")]) == 2
    assert f"error: {tmp_path / 'file'} cannot be written" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([])


def test_the_command_writes_every_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def committed(name: str, include_top: bool = True) -> Any:
        return load_model(name if include_top else f"{name}-notop")

    monkeypatch.setattr(keras_models, "build_keras_graph", committed)
    assert main(["--out", str(tmp_path / "made")]) == 0
    assert "[13/13] NASNetMobile" in capsys.readouterr().err
    for file in TABLE_FILES:
        assert pq.read_table(tmp_path / "made" / file).equals(pq.read_table(imagenet_folder() / file))
