"""The committed graphs against published figures, and every way in which reading them can fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from respect_core.errors import CorruptDatasetError, InputFileError, UnknownNameError
from respect_core.graph import UNKNOWN
from respect_core.kinds import INPUT, KINDS
from respect_core.sources import catalog
from respect_core.sources.catalog import (
    EXTRA_MODELS,
    IMAGENET_MODELS,
    INT8,
    INT8_TABLE_FILES,
    SMALL_NETWORK,
    TABLE_FILES,
    imagenet_folder,
    int8_models,
    known_models,
    load_model,
    resolve_model,
)
from respect_core.sources.graph_json import graph_to_json
from respect_core.tables.graph_rows import graphs_to_tables
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.ops import OPS
from respect_core.tables.tensors import TENSORS
from tests.same_graph import differences

ROOT = Path(__file__).resolve().parents[3]
MIB = 2**20

# Ops, largest in-degree, depth in edges and MiB of parameters without top, as published for the ten models.
PUBLISHED = {
    "Xception": (134, 2, 125, 19.90),
    "ResNet50": (177, 2, 168, 22.49),
    "ResNet101": (347, 2, 338, 40.68),
    "ResNet152": (517, 2, 508, 55.67),
    "DenseNet121": (429, 2, 428, 6.71),
    "ResNet101V2": (379, 2, 371, 40.65),
    "ResNet152V2": (566, 2, 558, 55.63),
    "DenseNet169": (597, 2, 596, 12.06),
    "DenseNet201": (709, 2, 708, 17.47),
    "InceptionResNetV2": (782, 4, 571, 51.82),
}

# Ops of the int8 TFLite files that TensorFlow's converter makes of models whose batch norm is not trivial.
INT8_OPS = {
    "Xception": 104,
    "ResNet50": 75,
    "ResNet101": 143,
    "ResNet152": 211,
    "ResNet101V2": 217,
    "ResNet152V2": 319,
    "DenseNet121": 311,
    "DenseNet169": 431,
    "DenseNet201": 511,
    "InceptionResNetV2": 335,
    "MobileNetV2": 65,
    "InceptionV3": 125,
    "NASNetMobile": 571,
}

# Parameters and multiply-accumulates of whole networks as their authors and Keras give them.
KERAS_PARAMETERS = {
    "Xception": 22_910_480,
    "ResNet50": 25_636_712,
    "ResNet101": 44_707_176,
    "ResNet152": 60_419_944,
    "ResNet101V2": 44_675_560,
    "ResNet152V2": 60_380_648,
    "DenseNet121": 8_062_504,
    "DenseNet169": 14_307_880,
    "DenseNet201": 20_242_984,
    "InceptionResNetV2": 55_873_736,
    "MobileNetV2": 3_538_984,
    "InceptionV3": 23_851_784,
    "NASNetMobile": 5_326_716,
}
GMACS = {"ResNet50": 3.86, "MobileNetV2": 0.30, "Xception": 8.36, "DenseNet121": 2.83, "InceptionV3": 5.71}


def test_the_names() -> None:
    assert tuple(PUBLISHED) == IMAGENET_MODELS
    assert EXTRA_MODELS == ("MobileNetV2", "InceptionV3", "NASNetMobile")
    assert len(known_models()) == len(set(known_models())) == 40
    ids = [
        pq.read_table(imagenet_folder() / files[0])["graph_id"].to_pylist() for files in (TABLE_FILES, INT8_TABLE_FILES)
    ]
    assert ids == [sorted(set(known_models()) - set(int8_models())), sorted(int8_models())]
    assert set(int8_models()) == {name + INT8 for name in INT8_OPS} | {SMALL_NETWORK}


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_the_ten_models_equal_the_published_figures(name: str, published: tuple[int, int, int, float]) -> None:
    graph, notop = load_model(name), load_model(f"{name}-notop")
    ops, in_degree, depth, mib = published
    assert (graph.num_ops, graph.max_in_degree, graph.depth) == (ops, in_degree, depth)
    assert round(int(notop.param_bytes.sum()) / MIB, 2) == mib
    # networkx sees the same graph
    seen = graph.to_networkx()
    assert nx.dag_longest_path_length(seen, weight=None, default_weight=1) == depth
    assert max(degree for _, degree in seen.in_degree) == in_degree
    assert nx.is_weakly_connected(seen)


@pytest.mark.parametrize(("name", "num_ops"), [("ResNet50", 175), ("Xception", 132), ("InceptionResNetV2", 780)])
def test_ops_without_top(name: str, num_ops: int) -> None:
    assert load_model(f"{name}-notop").num_ops == num_ops


@pytest.mark.parametrize("name", IMAGENET_MODELS + EXTRA_MODELS)
def test_every_model_is_a_layer_graph(name: str) -> None:
    graph = load_model(name)
    assert (graph.name, graph.source) == (name, "keras")
    assert graph.param_bytes.sum() == KERAS_PARAMETERS[name]
    assert set(graph.op_kinds) <= KINDS
    assert graph.op_kinds.count(INPUT) == 1
    assert graph.op_kinds[0] == INPUT
    assert graph.tensor_producer.tolist() == list(range(graph.num_ops))
    assert graph.output_ops == (graph.num_ops - 1,)
    assert [not readers for readers in graph.tensor_consumers] == graph.tensor_is_output.tolist()
    assert graph.is_topological(range(graph.num_ops))
    assert set(graph.compiled_bytes.tolist()) == {UNKNOWN}
    assert not graph.always_streamed_bytes.any()
    assert np.isnan(graph.op_time_us).all()
    kinds = np.array(graph.op_kinds)
    multiplying = np.isin(kinds, ["conv2d", "separable_conv2d", "depthwise_conv2d", "fully_connected"])
    assert (graph.macs[multiplying] > 0).all()
    assert not graph.macs[~multiplying].any()
    assert (graph.param_bytes[multiplying | (kinds == "batch_norm")] > 0).all()
    assert not graph.param_bytes[~multiplying & (kinds != "batch_norm")].any()
    if name in GMACS:
        assert graph.macs.sum() / 1e9 == pytest.approx(GMACS[name], abs=0.005)
    side = 299 if name in {"Xception", "InceptionV3", "InceptionResNetV2"} else 224
    assert graph.tensor_bytes[0] == side * side * 3
    assert graph.tensor_bytes[-1] == 1000


@pytest.mark.parametrize("name", IMAGENET_MODELS + EXTRA_MODELS)
def test_without_top_is_the_same_graph_cut_before_pooling(name: str) -> None:
    graph, notop = load_model(name), load_model(f"{name}-notop")
    n = notop.num_ops
    assert graph.op_kinds[n:] == ("mean", "fully_connected")
    assert notop.op_names == graph.op_names[:n]
    assert notop.op_kinds == graph.op_kinds[:n]
    for attribute in ("param_bytes", "macs", "tensor_bytes"):
        assert getattr(notop, attribute).tolist() == getattr(graph, attribute)[:n].tolist()
    assert notop.edges.tolist() == [edge for edge in graph.edges.tolist() if edge[1] < n]
    assert notop.output_ops == (n - 1,)


@pytest.mark.parametrize(
    ("op", "kind", "param_bytes", "macs", "tensor_bytes"),
    [
        ("conv1_conv", "conv2d", 7 * 7 * 3 * 64 + 64, 112 * 112 * 64 * 7 * 7 * 3, 112 * 112 * 64),
        ("conv1_bn", "batch_norm", 4 * 64, 0, 112 * 112 * 64),
        ("pool1_pad", "pad", 0, 0, 114 * 114 * 64),
        ("pool1_pool", "max_pool", 0, 0, 56 * 56 * 64),
        ("conv2_block1_add", "add", 0, 0, 56 * 56 * 256),
        ("avg_pool", "mean", 0, 0, 2048),
        ("predictions", "fully_connected", 2048 * 1000 + 1000, 2048 * 1000, 1000),
    ],
)
def test_some_layers_of_resnet50(op: str, kind: str, param_bytes: int, macs: int, tensor_bytes: int) -> None:
    graph = load_model("ResNet50")
    v = graph.op_index(op)
    assert (graph.op_kinds[v], graph.param_bytes[v], graph.macs[v]) == (kind, param_bytes, macs)
    assert graph.tensor_bytes[v] == tensor_bytes


def test_separable_and_depthwise_layers_count_both_parts() -> None:
    xception, mobilenet = load_model("Xception"), load_model("MobileNetV2")
    v = xception.op_index("block2_sepconv1")  # 64 -> 128 channels, 3 x 3, on 147 x 147
    assert xception.param_bytes[v] == 9 * 64 + 64 * 128
    assert xception.macs[v] == 147 * 147 * (9 * 64 + 64 * 128)
    v = mobilenet.op_index("block_1_depthwise")  # 96 channels, 3 x 3, 112 -> 56
    assert (mobilenet.param_bytes[v], mobilenet.macs[v]) == (9 * 96, 56 * 56 * 9 * 96)


# -- op graphs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "num_ops"), INT8_OPS.items())
def test_an_op_graph_has_the_ops_and_the_work_of_its_model(name: str, num_ops: int) -> None:
    graph, layers = load_model(name + INT8), load_model(name)
    assert (graph.name, graph.source, graph.num_ops) == (name + INT8, "tflite", num_ops)
    assert graph.op_kinds[-1] == "softmax"
    assert nx.is_weakly_connected(graph.to_networkx())
    # Batch norm is folded into the convolutions, whose biases have four bytes: about one byte a parameter remains.
    assert 0.95 < graph.param_bytes.sum() / layers.param_bytes.sum() < 1.02
    assert graph.macs.sum() == layers.macs.sum()
    # an image of one byte a channel goes in, a byte for each of 1000 classes comes out
    given = graph.tensor_producer == UNKNOWN
    assert graph.tensor_bytes[given].tolist() == [layers.tensor_bytes[0]]
    assert graph.tensor_bytes[graph.tensor_is_output].tolist() == [1000]


def test_the_op_graph_of_the_small_network() -> None:
    graph = resolve_model("small-int8")
    assert graph.source == "tflite"
    assert {"conv2d", "depthwise_conv2d", "add", "concat", "max_pool", "fully_connected"} <= set(graph.op_kinds)


# -- the files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [TABLE_FILES, INT8_TABLE_FILES])
def test_the_files_have_the_schemas_of_the_tables(files: tuple[str, ...]) -> None:
    for file, schema in zip(files, (GRAPHS, OPS, TENSORS), strict=True):
        assert schema.matches(pq.read_schema(ROOT / "datasets" / "imagenet" / file)) is None


@pytest.mark.parametrize(
    ("files", "names"),
    [(TABLE_FILES, set(known_models()) - set(int8_models())), (INT8_TABLE_FILES, set(int8_models()))],
)
def test_the_rows_are_what_the_graphs_give(files: tuple[str, ...], names: set[str]) -> None:
    tables = graphs_to_tables(map(load_model, names))
    for file, table in zip(files, (tables.graphs, tables.ops, tables.tensors), strict=True):
        assert pq.read_table(imagenet_folder() / file).equals(table)


def test_reading_a_model_is_light() -> None:
    """Commands read a model before they know whether they need anything heavy."""
    code = (
        "import sys; from respect_core.sources.catalog import resolve_model; resolve_model('ResNet50'); "
        "sys.exit(str({'pandas', 'numba', 'torch', 'keras', 'networkx', 'filelock'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == ""


def test_a_model_is_read_once() -> None:
    assert load_model("Xception") is load_model("Xception")


# -- where they are looked for -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, named by the environment variable."""
    copied = tmp_path / "copied"
    shutil.copytree(ROOT / "datasets" / "imagenet", copied)
    monkeypatch.setenv("RESPECT_IMAGENET", str(copied))
    return copied


def test_the_variable_comes_first(folder: Path) -> None:
    assert imagenet_folder() == folder
    assert load_model("Xception").num_ops == 134


def test_an_installed_package_finds_them_under_the_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESPECT_IMAGENET", raising=False)
    monkeypatch.setattr(catalog, "__file__", str(tmp_path / "lib" / "respect_core" / "sources" / "catalog.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(
        CorruptDatasetError, match=r"graphs\.parquet is in none of .*datasets/imagenet, .*share/respect"
    ):
        load_model("Xception")
    installed = tmp_path / "share" / "respect" / "imagenet"
    shutil.copytree(ROOT / "datasets" / "imagenet", installed)
    assert imagenet_folder() == installed
    assert load_model("Xception").num_ops == 134


def test_a_wrong_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESPECT_IMAGENET", str(tmp_path / "nowhere"))
    with pytest.raises(CorruptDatasetError, match=r"nowhere.*set RESPECT_IMAGENET"):
        load_model("Xception")


# -- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", TABLE_FILES)
@pytest.mark.parametrize("size", [0, 3, 1000])
def test_a_truncated_file_is_named(folder: Path, file: str, size: int) -> None:
    path = folder / file
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CorruptDatasetError) as caught:
        load_model("ResNet50")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("file", TABLE_FILES[1:])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(CorruptDatasetError, match=f"{file} is missing"):
        load_model("ResNet50")
    assert load_model("ResNet50-int8").num_ops == 75


@pytest.mark.parametrize("file", INT8_TABLE_FILES)
def test_a_missing_file_of_op_graphs_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(CorruptDatasetError, match=f"{file} is missing"):
        load_model("ResNet50-int8")
    assert load_model("ResNet50").num_ops == 177


def test_a_foreign_file_is_named(folder: Path) -> None:
    shutil.copy(folder / "ops.parquet", folder / "tensors.parquet")
    with pytest.raises(CorruptDatasetError, match=r"tensors\.parquet does not belong to table 'tensors'.*table 'ops'"):
        load_model("ResNet50")
    pq.write_table(pa.table({"x": [1]}), folder / "tensors.parquet")
    with pytest.raises(CorruptDatasetError, match=r"tensors\.parquet.*no table of this project"):
        load_model("ResNet50")


def test_missing_rows_are_named(folder: Path) -> None:
    ops = pq.read_table(folder / "ops.parquet")
    pq.write_table(ops.slice(0, ops.num_rows - 1), folder / "ops.parquet")
    with pytest.raises(CorruptDatasetError, match=r"do not fit together \(graph 'Xception-notop' should have 132 ops"):
        load_model("Xception-notop")
    pq.write_table(pq.read_table(folder / "graphs.parquet").slice(1), folder / "graphs.parquet")
    with pytest.raises(CorruptDatasetError, match=r"graphs\.parquet has 0 rows of 'DenseNet121', expected one"):
        load_model("DenseNet121")


def test_rows_that_make_no_graph_are_named(folder: Path) -> None:
    tensors = pq.read_table(folder / "tensors.parquet")
    backwards = pa.array([[0]] * tensors.num_rows, type=pa.list_(pa.int32()))
    at = tensors.schema.get_field_index("consumers")
    pq.write_table(tensors.set_column(at, tensors.schema.field(at), backwards), folder / "tensors.parquet")
    with pytest.raises(CorruptDatasetError, match=r"do not fit together.*there is a cycle"):
        load_model("ResNet50")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(TABLE_FILES), st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_noticed_or_harmless(folder: Path, file: str, at: int, change: int) -> None:
    intact = load_model("Xception")
    path = folder / file
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[at % len(whole)] ^= change
    path.write_bytes(bytes(damaged))
    catalog._load.cache_clear()
    try:
        assert differences(intact, load_model("Xception")) == []
    except CorruptDatasetError as error:
        assert str(folder) in str(error)
    finally:
        path.write_bytes(whole)
        catalog._load.cache_clear()


# -- what a user writes ------------------------------------------------------------------------------------------


def test_a_known_name() -> None:
    assert resolve_model("ResNet50") is load_model("ResNet50")
    assert resolve_model("ResNet50-notop").num_ops == 175


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("resnet50", "ResNet50"),
        ("RESNET50-NOTOP", "ResNet50-notop"),
        ("Xeption", "Xception"),
        ("densenet-201", "DenseNet201"),
        ("resnet50-int-8", "ResNet50-int8"),
    ],
)
def test_similar_names_are_suggested(wrong: str, meant: str) -> None:
    for refuse in (load_model, resolve_model):
        with pytest.raises(UnknownNameError) as caught:
            refuse(wrong)
        assert f"unknown model {wrong!r}: choose from Xception, " in str(caught.value)
        assert f"did you mean '{meant}'" in str(caught.value)


@pytest.mark.parametrize("wrong", ["", "GoogleNet-42", "a\0b", "x" * 5000, "..", "/", "🙂"])
def test_other_names_are_refused_with_what_is_allowed(wrong: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve_model(wrong)
    assert all(name in str(caught.value) for name in known_models())
    assert "or the path of a graph in JSON (.json)" in str(caught.value)


def test_a_graph_in_json(tmp_path: Path) -> None:
    graph = load_model("MobileNetV2")
    path = tmp_path / "mine.JSON"
    path.write_text(graph_to_json(graph))
    assert differences(graph, resolve_model(str(path))) == []
    with pytest.raises(InputFileError, match=r"missing\.json: the graph cannot be read"):
        resolve_model(str(tmp_path / "missing.json"))


@pytest.mark.parametrize("name", ["model.tflite", "model.lite", "Model.TFLITE"])
def test_tflite_files_go_to_their_reader(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match="the model cannot be read"):
        resolve_model(name)
    path = tmp_path / name
    path.write_bytes(b"{}")
    with pytest.raises(InputFileError, match="it is not a TFLite file"):
        resolve_model(str(path))


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("{}")
    with pytest.raises(
        InputFileError, match=r"graph\.txt: a graph is read from a file in JSON whose name ends in \.json"
    ):
        resolve_model(str(path))
