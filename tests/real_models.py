"""The real TFLite files beside the checkout that can be run."""

from __future__ import annotations

from tests.conftest import SHARED

MODELS = SHARED / "data" / "models"
BIRDS = "mobilenet_v2_1.0_224_inat_bird_quant"
RUNNABLE = {
    "deeplabv3_mnv2_dm05_pascal_quant.tflite": 8,
    "keras_lstm_mnist_ptq.tflite": 6,
    "mobilenet_v1_0.25_128_quant.tflite": 8,
    f"{BIRDS}.tflite": 8,
    f"{BIRDS}_segment_0_of_3.tflite": 8,
    f"{BIRDS}_segment_1_of_3.tflite": 7,
    f"{BIRDS}_segment_2_of_3.tflite": 4,
    "split_concat.tflite": 2,
    "swiftnet_hpd_uint8.lite": 8,
}
"""Largest number of stages up to 8 that has all outputs in the last one."""
