"""The folder of built models: what is found again, what is built anew, and a damaged manifest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from respect_core.errors import CorruptDatasetError, UnknownNameError
from respect_core.sources import model_folder
from respect_core.sources.catalog import int8_models
from respect_core.sources.model_folder import MANIFEST, ModelFolder, int8_name
from respect_core.sources.small_network import SmallNetwork, small_network
from respect_core.tables.files import sha256_of

CONTENT = small_network(SmallNetwork(image_size=16, num_classes=10))


def test_what_is_added_is_found(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "models")
    assert folder.listed() == {}
    assert folder.find("small-int8") is None
    added = folder.add("small-int8", CONTENT, "a test")
    assert folder.find("small-int8") == added == ModelFolder(folder.path).listed()["small-int8"]
    assert (added.bytes, added.num_ops, added.made_by) == (len(CONTENT), 31, "a test")
    assert added.sha256 == sha256_of(folder.file("small-int8"))
    folder.add("Xception-int8", CONTENT, "a test")
    assert list(folder.listed()) == ["Xception-int8", "small-int8"]
    files = sorted(path.name for path in folder.path.iterdir())
    assert files == ["Xception-int8.tflite", MANIFEST, "small-int8.tflite"]


def test_a_changed_file_is_not_found(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path)
    folder.add("small-int8", CONTENT, "a test")
    path = folder.file("small-int8")
    path.write_bytes(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]))
    assert folder.find("small-int8") is None
    assert folder.find("small-int8", thoroughly=False) is not None
    path.write_bytes(CONTENT[:-1])
    assert folder.find("small-int8", thoroughly=False) is None
    path.unlink()
    assert folder.find("small-int8", thoroughly=False) is None


def test_a_file_of_another_recipe_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ModelFolder(tmp_path)
    folder.add("small-int8", CONTENT, "a test")
    monkeypatch.setattr(model_folder, "RECIPE", model_folder.RECIPE + 1)
    assert folder.find("small-int8") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"models": 3}',
        '{"models": [{"name": "a"}]}',
        '{"models": [{"name": 1, "sha256": "", "bytes": 1, "num_ops": 1, "recipe": 1, "made_by": ""}]}',
        '{"models": [], "models": []}',
        "\ud800",
    ],
)
def test_a_damaged_manifest_is_named_with_the_way_out(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(CorruptDatasetError, match=rf"{MANIFEST} is no manifest of built models .*: delete it"):
        ModelFolder(tmp_path).find("small-int8")


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CorruptDatasetError, match=r"file/models\.json cannot be read"):
        ModelFolder(tmp_path / "file").add("small-int8", CONTENT, "a test")


def test_the_manifest_says_what_it_should(tmp_path: Path) -> None:
    ModelFolder(tmp_path).add("small-int8", CONTENT, "a test")
    content: dict[str, Any] = json.loads((tmp_path / MANIFEST).read_text())
    (entry,) = content["models"]
    assert set(entry) == {"name", "sha256", "bytes", "num_ops", "recipe", "made_by"}


def test_short_names() -> None:
    assert int8_name("ResNet50") == int8_name("ResNet50-int8") == "ResNet50-int8"
    assert int8_name("small") == "small-int8"
    for wrong in ("resnet50", "ResNet50-notop", "", "VGG16"):
        with pytest.raises(UnknownNameError) as caught:
            int8_name(wrong)
        assert all(name in str(caught.value) for name in int8_models())
