from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from respect_core.errors import BadInputError, InputFileError, UnwritableError
from respect_core.policy.checkpoint import read_checkpoint, write_checkpoint, write_tensors
from respect_core.policy.config import PointerConfig
from respect_core.policy.decode import weight_shapes

CONFIG = PointerConfig(embed_size=3, hidden_size=4, slacks=(1.05, 1.2))


def weights(config=CONFIG, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in weight_shapes(config).items()}


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "policy.safetensors"
    write_checkpoint(file, CONFIG, weights(), {"epoch": 3, "note": "naïve"})
    return file


def test_what_was_written_is_read_back(path):
    found = read_checkpoint(path)
    assert found.config == CONFIG
    assert found.training == {"epoch": 3, "note": "naïve"}
    assert found.weights.keys() == weights().keys()
    for name, weight in weights().items():
        assert np.array_equal(found.weights[name], weight)


def test_the_same_content_gives_the_same_version_and_other_weights_another(path, tmp_path):
    again, other = tmp_path / "again.safetensors", tmp_path / "other.safetensors"
    write_checkpoint(again, CONFIG, weights(), {"epoch": 3, "note": "naïve"})
    write_checkpoint(other, CONFIG, weights(seed=1), {"epoch": 3, "note": "naïve"})
    assert read_checkpoint(again).version == read_checkpoint(path).version
    assert read_checkpoint(other).version != read_checkpoint(path).version


@pytest.mark.parametrize("share", [0.0, 0.001, 0.2, 0.5, 0.999])
def test_a_truncated_file_is_named(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(InputFileError, match=r"policy\.safetensors: the checkpoint is truncated or is no safetensors"):
        read_checkpoint(path)


def test_a_pickle_or_text_is_refused_unread(tmp_path):
    file = tmp_path / "model.pt"
    file.write_bytes(b"PK\x03\x04" + bytes(200))
    with pytest.raises(InputFileError, match="no safetensors file"):
        read_checkpoint(file)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(InputFileError, match="cannot be read"):
        read_checkpoint(tmp_path / "none.safetensors")
    with pytest.raises(InputFileError, match="cannot be read"):
        read_checkpoint(tmp_path)


def test_a_foreign_safetensors_file_is_refused(tmp_path):
    file = tmp_path / "foreign.safetensors"
    save_file({"w": np.zeros(3, np.float32)}, file)
    with pytest.raises(InputFileError, match="not written by this program"):
        read_checkpoint(file)
    save_file({"w": np.zeros(3, np.float32)}, file, metadata={"respect": "{"})
    with pytest.raises(InputFileError, match="not JSON"):
        read_checkpoint(file)
    save_file({"w": np.zeros(3, np.float32)}, file, metadata={"respect": "[]"})
    with pytest.raises(InputFileError, match="not a JSON object"):
        read_checkpoint(file)


GOOD = {
    "architecture": "pointer",
    "format_version": 1,
    "config": {"embed_size": 3, "hidden_size": 4, "clip": 10.0, "slacks": [1.05, 1.2]},
    "training": {},
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "transformer"}, "architecture 'transformer', this program reads 'messages' and 'pointer'"),
        ({"architecture": ["pointer"]}, r"architecture \['pointer'\], this program reads"),
        ({"format_version": 2}, "format version 2, this program reads 1"),
        ({"config": None}, "lacks its config"),
        ({"config": {**GOOD["config"], "hidden_size": 0}}, "hidden_size is 0"),
        ({"config": {**GOOD["config"], "heads": 4}}, "heads"),
        ({"config": {**GOOD["config"], "hidden_size": 5}}, "expected float32 of shape"),
        ({"config": {**GOOD["config"], "slacks": []}}, "unknown weight 'budget.weight'"),
        ({"training": 7}, "training facts"),
    ],
)
def test_a_header_that_does_not_fit_is_named(tmp_path, change, message):
    file = tmp_path / "policy.safetensors"
    write_tensors(file, weights(), GOOD | change)
    with pytest.raises(InputFileError, match=message):
        read_checkpoint(file)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_neither_written_nor_read(path, tmp_path, value):
    bad = weights()
    bad["decoder.bias_hh"][2] = value
    before = path.read_bytes()
    with pytest.raises(BadInputError, match=r"decoder\.bias_hh.*not finite"):
        write_checkpoint(path, CONFIG, bad, {})
    assert path.read_bytes() == before
    file = tmp_path / "nan.safetensors"
    write_tensors(file, bad, GOOD)
    with pytest.raises(InputFileError, match=r"decoder\.bias_hh.*not finite"):
        read_checkpoint(file)


def test_a_missing_weight_is_named(tmp_path):
    some = weights()
    del some["pointer.v"]
    file = tmp_path / "policy.safetensors"
    write_tensors(file, some, json.loads(json.dumps(GOOD)))
    with pytest.raises(InputFileError, match=r"'pointer\.v' is missing"):
        read_checkpoint(file)


def test_a_failed_write_leaves_the_old_file_and_no_other(path, tmp_path, monkeypatch):
    before = path.read_bytes()

    def no_space(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("respect_core.policy.checkpoint.os.fsync", no_space)
    with pytest.raises(UnwritableError, match="No space left"):
        write_checkpoint(path, CONFIG, weights(seed=1), {})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UnwritableError, match="cannot be written"):
        write_checkpoint(tmp_path / "none" / "policy.safetensors", CONFIG, weights(), {})
