"""Building TFLite models one at a time, each in a process of its own, into a folder that remembers them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from respect_core.errors import MissingExtraError, ModelBuildError, SolverFailedError
from respect_core.sources.catalog import IMAGENET_MODELS, INT8, SMALL_NETWORK
from respect_core.sources.keras_int8 import build_int8_model, check_tensorflow
from respect_core.sources.model_folder import BuiltModel, ModelFolder
from respect_core.tables.files import check_writable, writing
from tasks.child import run_in_child
from tasks.sizes import SizeName

TIME_LIMIT_S: Final = 3600.0
"""After this a build has hung; the largest model takes a minute on two cores."""


@dataclass(frozen=True, kw_only=True)
class BuildResult:
    """One model of a build."""

    model: BuiltModel
    path: Path
    was_there: bool
    """Whether its file was there already."""


def build_models(
    folder: Path,
    names: Sequence[str],
    *,
    anew: bool = False,
    starting: Callable[[str], None] = lambda name: None,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[BuildResult]:
    """Build models that are not in the folder yet, one at a time.

    TensorFlow keeps gigabytes, hence each model is built in a process that then ends.

    Args:
        folder: Where the files and their manifest go.
        names: Full names of int8 models, like ``ResNet50-int8``.
        anew: Build also what is there.
        starting: Told the name before a model is built.
        say: Told once, before waiting, that another build is at work in the folder.

    Yields:
        The models in the order of ``names``.

    Raises:
        MissingExtraError: A model needs TensorFlow, which is not installed; nothing is built then.
        ModelBuildError: TensorFlow cannot build a model, or its process died; what was built before stays.
        UnwritableError: The folder cannot be written.
    """
    check_writable(folder)
    built = ModelFolder(folder)
    with _one_build(folder, say):
        found = {} if anew else {name: model for name in names if (model := built.find(name)) is not None}
        if any(name != SMALL_NETWORK for name in names if name not in found):
            check_tensorflow()
        for name in names:
            if name in found:
                yield BuildResult(model=found[name], path=built.file(name), was_there=True)
                continue
            starting(name)
            content, made_by = _content(name)
            yield BuildResult(model=built.add(name, content, made_by), path=built.file(name), was_there=False)


def models_of(folder: Path, size: SizeName) -> tuple[tuple[str, ...], str]:
    """Choose the models that a pipeline run works on.

    Args:
        folder: Where built models are.
        size: smoke has the small network, the others the ten ImageNet models.

    Returns:
        Full names of int8 models, and what to say where they are not those of the size, else nothing: without
        TensorFlow, the ImageNet models that are built already, or the small network if there is none.

    Raises:
        CorruptDatasetError: The folder's manifest is damaged.
    """
    if size == "smoke":
        return (SMALL_NETWORK,), ""
    wanted = tuple(name + INT8 for name in IMAGENET_MODELS)
    try:
        check_tensorflow()
    except MissingExtraError as error:
        built = ModelFolder(folder)
        found = tuple(name for name in wanted if built.find(name) is not None)
        if len(found) == len(wanted):
            return wanted, ""
        instead = f"only {', '.join(found)}, built before," if found else f"only {SMALL_NETWORK}"
        return found or (SMALL_NETWORK,), f"{instead} will do for the {len(wanted)} ImageNet models: {error}"
    return wanted, ""


def _content(name: str) -> tuple[bytes, str]:
    if name == SMALL_NETWORK:
        from respect_core.sources.small_network import small_network

        return small_network(), "RESPECT"
    try:
        content = run_in_child(TIME_LIMIT_S, build_int8_model, name.removesuffix(INT8))
    except SolverFailedError as error:
        raise ModelBuildError(f"{name} could not be built: {error}; the largest models need 8 GB of memory") from error
    return content, f"tensorflow {version('tensorflow-cpu')}, keras {version('keras')}"


@contextmanager
def _one_build(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other builds off the folder, which would build the same and need the memory of two."""
    with writing(folder):
        lock = FileLock(folder / ".build.lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another build is at work in {folder}: waiting until it is done")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()
