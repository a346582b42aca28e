"""Building models into a folder: reuse, order, what a failed build leaves, and two builds at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from respect_core.errors import MissingExtraError, ModelBuildError, SolverFailedError, UnwritableError
from respect_core.sources.catalog import IMAGENET_MODELS
from respect_core.sources.model_folder import ModelFolder
from respect_core.sources.small_network import SmallNetwork, small_network
from tasks import models
from tasks.models import build_models, models_of

CONTENT = small_network(SmallNetwork(image_size=16, num_classes=10))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Keras models that a process was asked for; it returns a small network instead of running TensorFlow."""
    names: list[str] = []

    def child(time_limit_s: float, function: Callable[..., bytes], name: str) -> bytes:
        names.append(name)
        return CONTENT

    monkeypatch.setattr(models, "run_in_child", child)
    monkeypatch.setattr(models, "check_tensorflow", lambda: None)
    monkeypatch.setattr(models, "version", lambda package: "1.2")
    return names


def test_what_is_there_is_not_built_again(tmp_path: Path, asked: list[str]) -> None:
    wanted = ["ResNet50-int8", "small-int8", "Xception-int8"]
    first = list(build_models(tmp_path, wanted))
    assert [result.model.name for result in first] == wanted
    assert [result.was_there for result in first] == [False] * 3
    assert first[0].path.read_bytes() == CONTENT
    assert first[0].model.made_by == "tensorflow 1.2, keras 1.2"
    assert asked == ["ResNet50", "Xception"]
    begun: list[str] = []
    again = list(build_models(tmp_path, wanted, starting=begun.append))
    assert [result.was_there for result in again] == [True] * 3
    assert [result.model for result in again] == [result.model for result in first]
    assert asked == ["ResNet50", "Xception"] and begun == []
    first[0].path.write_bytes(b"damaged")
    mended = list(build_models(tmp_path, wanted, starting=begun.append))
    assert begun == ["ResNet50-int8"] and mended[0].path.read_bytes() == CONTENT
    list(build_models(tmp_path, wanted, anew=True))
    assert asked[-2:] == ["ResNet50", "Xception"]


def test_without_tensorflow_nothing_is_built_but_what_is_there_is_found(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    list(build_models(tmp_path, ["ResNet50-int8"]))

    def missing() -> None:
        raise MissingExtraError("no tensorflow")

    monkeypatch.setattr(models, "check_tensorflow", missing)
    (found,) = build_models(tmp_path, ["ResNet50-int8"])
    assert found.was_there
    assert len(list(build_models(tmp_path / "other", ["small-int8"]))) == 1
    with pytest.raises(MissingExtraError):
        list(build_models(tmp_path, ["small-int8", "Xception-int8"]))
    assert ModelFolder(tmp_path).find("small-int8") is None


def test_a_process_that_dies_is_named_and_what_was_built_stays(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(time_limit_s: float, function: Any, name: str) -> bytes:
        if name == "Xception":
            raise SolverFailedError("the process died")
        return CONTENT

    monkeypatch.setattr(models, "run_in_child", dying)
    with pytest.raises(ModelBuildError, match=r"Xception-int8 could not be built: the process died; .* 8 GB of memory"):
        list(build_models(tmp_path, ["ResNet50-int8", "Xception-int8"]))
    assert list(ModelFolder(tmp_path).listed()) == ["ResNet50-int8"]
    assert not ModelFolder(tmp_path).file("Xception-int8").exists()


def test_two_builds_take_turns(tmp_path: Path, asked: list[str]) -> None:
    said: list[str] = []
    first = build_models(tmp_path, ["ResNet50-int8", "Xception-int8"])
    next(first)
    results: list[bool] = []

    def build() -> None:
        results.extend(r.was_there for r in build_models(tmp_path, ["ResNet50-int8", "Xception-int8"], say=said.append))

    other = threading.Thread(target=build)
    other.start()
    while not said:
        other.join(0.01)
    assert "another build is at work" in said[0]
    assert list(first)
    other.join(30)
    assert results == [True, True]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableError, match="file cannot be written"):
        list(build_models(tmp_path / "file", ["small-int8"]))


# -- which models a run works on ---------------------------------------------------------------------------------


def test_smoke_needs_no_tensorflow(tmp_path: Path) -> None:
    assert models_of(tmp_path, "smoke") == (("small-int8",), "")


def test_the_ten_models_where_tensorflow_is(tmp_path: Path, asked: list[str]) -> None:
    for size in ("nightly", "full"):
        names, note = models_of(tmp_path, size)
        assert [name.removesuffix("-int8") for name in names] == list(IMAGENET_MODELS) and note == ""


def test_without_tensorflow_what_is_there_does(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingExtraError("pip install it")

    with monkeypatch.context() as without:
        without.setattr(models, "check_tensorflow", missing)
        names, note = models_of(tmp_path, "nightly")
        assert names == ("small-int8",)
        assert note == "only small-int8 will do for the 10 ImageNet models: pip install it"
    list(build_models(tmp_path, ["ResNet50-int8", "Xception-int8"]))
    with monkeypatch.context() as without:
        without.setattr(models, "check_tensorflow", missing)
        names, note = models_of(tmp_path, "full")
        assert names == ("Xception-int8", "ResNet50-int8")
        assert note.startswith("only Xception-int8, ResNet50-int8, built before, will do for the 10")
    everything = [f"{name}-int8" for name in IMAGENET_MODELS]
    list(build_models(tmp_path, everything))
    monkeypatch.setattr(models, "check_tensorflow", missing)
    assert models_of(tmp_path, "full") == (tuple(everything), "")
