"""Models that nobody on this project made, against what the commercial compiler and other tools say of them."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from respect_core.errors import InputFileError
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.kinds import KINDS
from respect_core.solve.compiler_rule import compiler_segments
from respect_core.sources.tflite import read_tflite
from respect_core.sources.tflite_costs import compiled_bytes_of
from tests.conftest import SHARED

pytestmark = pytest.mark.shared

MODELS = SHARED / "data" / "models"
BIRDS = "mobilenet_v2_1.0_224_inat_bird_quant"
OPS = {
    "deeplabv3_mnv2_dm05_pascal_quant.tflite": 72,
    "keras_lstm_mnist_ptq.tflite": 6,
    "mobilenet_v1_0.25_128_quant.tflite": 31,
    f"{BIRDS}.tflite": 65,
    f"{BIRDS}_segment_0_of_3.tflite": 54,
    f"{BIRDS}_segment_1_of_3.tflite": 7,
    f"{BIRDS}_segment_2_of_3.tflite": 4,
    "posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite": 38,
    "split_concat.tflite": 3,
    "swiftnet_hpd_uint8.lite": 85,
}


def names(graph: DnnGraph, chosen: np.ndarray) -> set[str]:
    return {graph.tensor_names[t] for t in np.flatnonzero(chosen)}


@pytest.mark.parametrize(("name", "num_ops"), OPS.items())
def test_every_valid_model_is_read(name: str, num_ops: int) -> None:
    graph = read_tflite(MODELS / name)
    assert graph.num_ops == num_ops
    assert graph.is_topological(range(num_ops))
    assert graph.tensor_is_output.any()
    assert (graph.tensor_producer == UNKNOWN).any()
    assert graph.param_bytes.sum() < (MODELS / name).stat().st_size
    more = {
        "arg_max",
        "quantize",
        "resize_bilinear",
        "unidirectional_sequence_lstm",
        "split",
        "custom:PosenetDecoderOp",
    }
    assert set(graph.op_kinds) <= KINDS | more


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("keras_lstm_mnist_ptq_edgetpu.tflite", "op 'StatefulPartitionedCall:0' .*already compiled for the Edge TPU"),
        ("model_invoking_error.tflite", "tensor 'tensor_1': it refers to buffer 0, which is missing"),
    ],
)
def test_the_others_are_refused(name: str, why: str) -> None:
    with pytest.raises(InputFileError, match=why):
        read_tflite(MODELS / name)


def test_the_parameter_count_rule_cuts_like_the_real_compiler() -> None:
    graph = read_tflite(MODELS / f"{BIRDS}.tflite")
    stage_of = compiler_segments(graph, 3)
    assert [int((stage_of == k).sum()) for k in range(3)] == [54, 7, 4]
    assert [int(graph.param_bytes[stage_of == k].sum()) for k in range(3)] == [1_040_704, 802_560, 1_653_780]
    made_in = np.where(graph.tensor_producer == UNKNOWN, -1, stage_of[graph.tensor_producer])
    last_read = np.array([max((stage_of[v] for v in readers), default=-1) for readers in graph.tensor_consumers])
    for k in range(3):
        reference = read_tflite(MODELS / f"{BIRDS}_segment_{k}_of_3.tflite")
        read_here = np.array([any(stage_of[v] == k for v in readers) for readers in graph.tensor_consumers])
        assert names(graph, read_here & (made_in != k)) == names(reference, reference.tensor_producer == UNKNOWN)
        sent = (made_in == k) & ((last_read > k) | graph.tensor_is_output)
        assert names(graph, sent) == names(reference, reference.tensor_is_output)
        ops = np.flatnonzero(stage_of == k)
        assert {graph.op_names[v] for v in ops} == set(reference.op_names)
        for attribute in ("param_bytes", "macs", "compiled_bytes"):
            assert getattr(graph, attribute)[ops].sum() == getattr(reference, attribute).sum()


@pytest.mark.parametrize(
    ("name", "published"), [("mobilenet_v1_0.25_128_quant.tflite", 14e6), (f"{BIRDS}.tflite", 300e6)]
)
def test_macs_are_the_published_ones(name: str, published: float) -> None:
    assert read_tflite(MODELS / name).macs.sum() == pytest.approx(published, rel=0.05)


def test_a_model_with_a_state_a_custom_op_and_several_outputs() -> None:
    lstm = read_tflite(MODELS / "keras_lstm_mnist_ptq.tflite")
    assert lstm.num_tensors == lstm.num_ops + 1  # a chain: no state among the tensors
    posenet = read_tflite(MODELS / "posenet_mobilenet_v1_075_353_481_16_quant_decoder.tflite")
    decoder = posenet.op_kinds.index("custom:PosenetDecoderOp")
    assert posenet.param_bytes[decoder] == 0
    assert names(posenet, posenet.tensor_is_output) == {"poses", "poses:1", "poses:2", "poses:3"}
    split = read_tflite(MODELS / "split_concat.tflite")
    assert max(np.bincount(split.tensor_producer[split.tensor_producer != UNKNOWN])) > 2


def test_the_whole_file_is_read_from_a_path_without_an_ending(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes((MODELS / "split_concat.tflite").read_bytes())
    assert read_tflite(path).name == "model"


def test_compiled_bytes_against_what_the_compiler_reports() -> None:
    """Published networks of five 3 x 3 convolutions on three channels: what it says lies on and off the chip."""
    errors = []
    with (SHARED / "data" / "measurements.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["n_stages"] != "1" or not re.fullmatch(r"synthetic_CONV_\d+", row["model"]):
                continue
            width = int(row["model"].rsplit("_", 1)[1])
            reported = (float(row["seg_on_chip_MiB"]) + float(row["seg_off_chip_MiB"])) * 2**20
            shapes = [(width, 3, 3, 3), *[(width, 3, 3, width)] * 4]
            ours = sum(compiled_bytes_of("conv2d", shape, "INT8") for shape in shapes)
            errors.append(abs(ours / reported - 1))
    assert len(errors) > 20
    assert np.median(errors) < 0.005
    assert max(errors) < 0.035
