"""A folder of built TFLite models with a manifest beside them, so that what is there is not built again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from respect_core.errors import CorruptDatasetError, UnknownNameError
from respect_core.json_text import distinct
from respect_core.sources.catalog import INT8, int8_models
from respect_core.tables.files import sha256_of, write_atomically

MANIFEST: Final = "models.json"
"""Name of the manifest in the folder."""

RECIPE: Final = 1
"""Version of how models are built; files of another recipe are built again."""


@dataclass(frozen=True, kw_only=True)
class BuiltModel:
    """A model file as the manifest lists it."""

    name: str
    """Name of the known model; the file is ``NAME.tflite``."""
    sha256: str
    bytes: int
    num_ops: int
    recipe: int
    made_by: str
    """The program that made it, with its version."""


class ModelFolder:
    """The built models below one path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Return where the file of a model is, or would be."""
        return self.path / f"{name}.tflite"

    def listed(self) -> dict[str, BuiltModel]:
        """Return what the manifest lists, by name; nothing where there is none.

        Raises:
            CorruptDatasetError: The manifest is damaged; the way out is named.
        """
        path = self.path / MANIFEST
        try:
            content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=distinct)
            models = [BuiltModel(**entry) for entry in content["models"]]
            if not all(isinstance(getattr(model, name), kind) for model in models for name, kind in _KINDS.items()):
                raise TypeError("a value has another type")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise CorruptDatasetError(f"{path} cannot be read ({error.strerror})") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptDatasetError(
                f"{path} is no manifest of built models ({error}): delete it, the models are then built again"
            ) from error
        return {model.name: model for model in models}

    def find(self, name: str, *, thoroughly: bool = True) -> BuiltModel | None:
        """Return the entry of a model whose file is there as listed, else None.

        Args:
            name: Name of the known model.
            thoroughly: Read the file and compare its digest; else its size alone.
        """
        model = self.listed().get(name)
        path = self.file(name)
        try:
            if model is None or model.recipe != RECIPE or path.stat().st_size != model.bytes:
                return None
        except OSError:
            return None
        return model if not thoroughly or sha256_of(path) == model.sha256 else None

    def add(self, name: str, content: bytes, made_by: str) -> BuiltModel:
        """Write a model's file, then the manifest.

        Args:
            name: Name of the known model.
            content: The file.
            made_by: The program that made it, with its version.

        Returns:
            The new entry.

        Raises:
            UnwritableError: The folder cannot be written.
            InputFileError: The content is no readable TFLite file.
        """
        from respect_core.sources.tflite import read_tflite

        path, others = self.file(name), self.listed()
        write_atomically(path, lambda temporary: temporary.write_bytes(content))
        model = BuiltModel(
            name=name,
            sha256=sha256_of(path),
            bytes=len(content),
            num_ops=read_tflite(path).num_ops,
            recipe=RECIPE,
            made_by=made_by,
        )
        models = sorted((others | {name: model}).values(), key=lambda entry: entry.name)
        text = json.dumps({"models": [asdict(entry) for entry in models]}, indent=1) + "\n"
        write_atomically(self.path / MANIFEST, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        return model


_KINDS: Final[dict[str, type[Any]]] = {"name": str, "sha256": str, "bytes": int, "num_ops": int, "recipe": int}


def int8_name(name: str) -> str:
    """Return the full name of a model that can be built: ``ResNet50`` means ``ResNet50-int8``.

    Raises:
        UnknownNameError: There is none of this name.
    """
    full = name if name.endswith(INT8) else name + INT8
    if full not in int8_models():
        raise UnknownNameError("int8 model", name, int8_models())
    return full
