"""Building int8 models with TensorFlow: the errors without it, and with it the committed graphs and equal bytes."""

from __future__ import annotations

import builtins
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from respect_core.errors import MissingExtraError, UnknownNameError
from respect_core.sources import keras_int8
from respect_core.sources.catalog import int8_models, load_model
from respect_core.sources.keras_int8 import build_int8_model, check_tensorflow
from respect_core.sources.model_folder import ModelFolder
from respect_core.sources.tflite import read_tflite
from tasks.child import run_in_child
from tasks.home import Home
from tests.same_graph import differences

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed (extra tensorflow)"
)


def test_an_unknown_model_is_named_without_tensorflow() -> None:
    with pytest.raises(UnknownNameError, match="unknown Keras model 'VGG16': choose from Xception, "):
        build_int8_model("VGG16")


def test_without_tensorflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name in {"keras", "tensorflow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    for variable in ("KERAS_BACKEND", "CUDA_VISIBLE_DEVICES", "TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS"):
        monkeypatch.setenv(variable, "")  # so that what the call sets is undone
    with pytest.raises(MissingExtraError, match=r"pip install 'respect-edgetpu\[tensorflow\]' brings it"):
        build_int8_model("ResNet50")


def test_it_is_noticed_at_once_that_tensorflow_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="needs the package 'tensorflow': pip install"):
        check_tensorflow()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    check_tensorflow()


def test_what_native_code_prints_is_collected(capfd: pytest.CaptureFixture[str]) -> None:
    with keras_int8._collected_stderr() as read:
        os.write(2, b"from native code\n")
        sys.stderr.write("from Python\n")
        assert "from native code\n" in read()
    os.write(2, b"after\n")
    assert "native" not in capfd.readouterr().err


@pytest.mark.slow
@needs_tensorflow
def test_a_build_equals_the_committed_graph_and_another_build(tmp_path: Path) -> None:
    first, second = (run_in_child(600, build_int8_model, "MobileNetV2") for _ in range(2))
    assert first == second
    path = tmp_path / "MobileNetV2-int8.tflite"
    path.write_bytes(first)
    assert differences(read_tflite(path), load_model("MobileNetV2-int8")) == []


def test_importing_the_module_imports_no_tensorflow() -> None:
    code = (
        "import sys, respect_core.sources.keras_int8; sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_built_files_have_the_committed_graphs() -> None:
    folder = ModelFolder(Home.at().models)
    built = [name for name in int8_models() if folder.find(name, thoroughly=False) is not None]
    if not built:
        pytest.skip(f"no models are built in {folder.path} (respect models build)")
    for name in built:
        assert differences(read_tflite(folder.file(name)), load_model(name)) == [], name
