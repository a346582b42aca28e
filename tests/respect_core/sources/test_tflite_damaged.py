from __future__ import annotations

import random
from pathlib import Path

import pytest

from respect_core.errors import InputFileError
from respect_core.sources.tflite import read_tflite
from tests.conftest import SHARED
from tests.damage import damaged
from tests.tflite_models import SMALL_CNN, write_model


def check_damaged(data: bytes, path: Path, seed: int, rounds: int) -> None:
    """Only an `InputFileError` may come of a damaged file, with a message that a person can read."""
    rng = random.Random(seed)
    refused = 0
    for _ in range(rounds):
        path.write_bytes(damaged(data, rng))
        try:
            read_tflite(path)
        except InputFileError as error:
            refused += 1
            assert str(error).startswith(str(path))
            assert len(error.why) < 1500
    assert refused > rounds // 5


@pytest.mark.parametrize("seed", range(2))
def test_damage_of_a_small_network(seed: int, tmp_path: Path) -> None:
    check_damaged(write_model(SMALL_CNN), tmp_path / "a.tflite", seed, 1000)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["keras_lstm_mnist_ptq.tflite", "split_concat.tflite"])
def test_damage_of_real_files(name: str, tmp_path: Path) -> None:
    check_damaged((SHARED / "data" / "models" / name).read_bytes(), tmp_path / "a.tflite", 5, 1500)


def test_every_truncation_of_a_small_network(tmp_path: Path) -> None:
    data = write_model(SMALL_CNN)
    path = tmp_path / "a.tflite"
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        with pytest.raises(InputFileError):
            read_tflite(path)


def test_random_bytes_behind_the_identifier(tmp_path: Path) -> None:
    rng = random.Random(1)
    path = tmp_path / "a.tflite"
    for size in range(400):
        path.write_bytes(rng.randrange(size + 9).to_bytes(4, "little") + b"TFL3" + rng.randbytes(size))
        with pytest.raises(InputFileError):
            read_tflite(path)
