from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hardware_runners.compiler import CompiledSegment
from hardware_runners.compiling.log import parse_log
from respect_core.segments.dataflow import first_dataflow_fault
from respect_core.segments.model_file import TfliteModel, open_model
from respect_core.segments.rows import segment_rows
from respect_core.segments.slice import slice_model
from respect_core.solve.compiler_rule import compiler_segments
from respect_core.tables.domain_checks import segment_checks
from respect_core.tables.segments import NOT_COMPILED, SEGMENTS
from tests.conftest import SHARED
from tests.hardware_runners.compiler_double import log_text
from tests.respect_core.tables.segment_rows import Row
from tests.respect_core.tables.table_data import broken
from tests.tflite_models import SMALL_CNN, write_model

MODELS = SHARED / "data" / "models"
BIRD = "mobilenet_v2_1.0_224_inat_bird_quant"


def rows_of(model: TfliteModel, num_stages: int) -> list[Row]:
    segments = slice_model(model, compiler_segments(model.graph, num_stages), num_stages)
    return segment_rows(
        model, segments, objective="throughput", device="usb3", solver="compiler-rule", kernel_mode="builtin",
        fits_pycoral=first_dataflow_fault(segments, model.input_names, model.output_names) is None,
    )  # fmt: skip


def test_the_columns_of_the_compiler_are_the_same_with_and_without_it() -> None:
    done = CompiledSegment(
        stage=0, segment=Path("a"), status="compiled", message="", seconds=0.5, tries=1, facts=parse_log(log_text()),
        output=Path("b"), log=Path("c"),
    )  # fmt: skip
    columns = done.columns("16.0")
    assert set(columns) == set(NOT_COMPILED)
    assert columns["compiler_status"] == "compiled" and columns["edge_tpu_ops"] == 84
    failed = dataclasses.replace(done, status="crashed", output=None, facts=parse_log(""))
    assert failed.columns("16.0")["on_chip_bytes"] is None


def test_a_small_network_gives_right_rows(tmp_path: Path) -> None:
    path = tmp_path / "cnn.tflite"
    path.write_bytes(write_model(SMALL_CNN))
    model = open_model(path)
    table = SEGMENTS.table(row for K in (1, 2, 5) for row in rows_of(model, K))
    columns = segment_checks(table, {"cnn": model.graph}).columns
    assert {name: column.to_pylist() for name, column in columns.items() if broken(column)} == {}
    assert sum(row["storage_bytes"] for row in rows_of(model, 5)) == model.storage_bytes


@pytest.mark.shared
def test_the_rows_of_a_real_split_say_what_is_known_of_it() -> None:
    model = open_model(MODELS / f"{BIRD}.tflite")
    rows = rows_of(model, 3)
    assert [row["num_ops"] for row in rows] == [54, 7, 4]
    assert [row["param_bytes"] for row in rows] == [1_040_704, 802_560, 1_653_780]
    assert all(row["unsupported_ops"] == 0 and row["fits_pycoral"] for row in rows)
    columns = segment_checks(SEGMENTS.table(rows), {BIRD: model.graph}).columns
    assert {name: column.to_pylist() for name, column in columns.items() if broken(column)} == {}


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    [
        "deeplabv3_mnv2_dm05_pascal_quant.tflite",
        "keras_lstm_mnist_ptq.tflite",
        "posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite",
        "split_concat.tflite",
        "swiftnet_hpd_uint8.lite",
    ],
)
def test_rows_of_real_models_pass_their_checks(name: str) -> None:
    model = open_model(MODELS / name)
    rows = [row for K in range(2, min(8, model.graph.num_ops) + 1) for row in rows_of(model, K)]
    columns = segment_checks(SEGMENTS.table(rows), {model.name: model.graph}).columns
    assert {name: column.to_pylist() for name, column in columns.items() if broken(column)} == {}
