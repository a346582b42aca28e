"""Checkpoints: safetensors weights with their configuration and training facts in the header, written atomically."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from respect_core.errors import BadInputError, InputFileError, UnwritableError
from respect_core.policy import decode, forward
from respect_core.policy.config import NetworkConfig, PointerConfig
from respect_core.policy.encoding import Float32Array

CHECKPOINT_NAME: Final = "policy.safetensors"
"""What a checkpoint's file is called wherever one is kept."""

AnyConfig = NetworkConfig | PointerConfig

ARCHITECTURES: Final[dict[str, type[AnyConfig]]] = {"messages": NetworkConfig, "pointer": PointerConfig}
"""Settings by the name of the architecture: the policy's network, and RESPECT's."""

FORMAT_VERSION: Final = 1
"""Raise it when features or weights change their meaning."""

_KEY: Final = "respect"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A trained network."""

    config: AnyConfig
    weights: dict[str, Float32Array] = field(repr=False)
    training: dict[str, Any]
    """How it came about, as plain JSON values."""
    digest: str
    """SHA-256 of the file, in hexadecimal."""

    @property
    def version(self) -> str:
        """Architecture, format and the first digits of the digest: two different checkpoints never share it."""
        return f"{architecture_of(self.config)}-{FORMAT_VERSION}-{self.digest[:12]}"


def architecture_of(config: AnyConfig) -> str:
    """Return the name of the architecture that these settings belong to."""
    return next(name for name, kind in ARCHITECTURES.items() if isinstance(config, kind))


def write_checkpoint(
    path: str | Path,
    config: AnyConfig,
    weights: Mapping[str, Float32Array],
    training: Mapping[str, Any],
    *,
    half: bool = False,
) -> None:
    """Write a checkpoint under a temporary name, then rename it: a reader never sees half of one.

    Args:
        path: The file; its folder must exist.
        config: The network's sizes.
        weights: Named and shaped as `weight_shapes` says, finite.
        training: Facts about the training, plain JSON values.
        half: Store float16, which holds weights of 11 bits without a loss.

    Raises:
        BadInputError: A weight is missing, has another shape, is not finite, or is not a float16 where ``half`` is set.
        UnwritableError: The file cannot be written.
    """
    problem = _first_problem(config, weights) or (_first_not_half(weights) if half else None)
    if problem:
        raise BadInputError(f"the checkpoint {path} was not written: {problem}")
    header = {
        "architecture": architecture_of(config),
        "format_version": FORMAT_VERSION,
        "config": asdict(config),
        "training": dict(training),
    }
    stored = np.float16 if half else np.float32
    write_tensors(path, {name: np.asarray(w, dtype=stored) for name, w in weights.items()}, header)


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        InputFileError: The file is missing, truncated or foreign, of another architecture or format version, or
            holds weights that are missing, misshapen or not finite.
    """
    stored, header, digest = read_tensors(path)
    weights = {name: w.astype(np.float32) if w.dtype == np.float16 else w for name, w in stored.items()}
    architecture, version = header.get("architecture"), header.get("format_version")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        known = " and ".join(map(repr, ARCHITECTURES))
        raise InputFileError(path, f"the checkpoint is of architecture {architecture!r}, this program reads {known}")
    if version != FORMAT_VERSION:
        raise InputFileError(
            path, f"the checkpoint has format version {version!r}, this program reads {FORMAT_VERSION}"
        )
    settings, training = header.get("config"), header.get("training")
    if not isinstance(settings, dict) or not isinstance(training, dict):
        raise InputFileError(path, "the checkpoint's header lacks its config or training facts")
    try:
        config = ARCHITECTURES[architecture](**settings)
    except (TypeError, BadInputError) as error:
        raise InputFileError(path, f"the checkpoint's config cannot be used ({error})") from error
    problem = _first_problem(config, weights)
    if problem:
        raise InputFileError(path, f"the checkpoint cannot be used: {problem}")
    return Checkpoint(config=config, weights=weights, training=training, digest=digest)


def write_tensors(path: str | Path, tensors: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Write named arrays and a JSON header as safetensors, atomically.

    Raises:
        UnwritableError: The file cannot be written.
    """
    from safetensors.numpy import save

    path = Path(path)
    content = save(
        {name: np.ascontiguousarray(array) for name, array in tensors.items()}, metadata={_KEY: json.dumps(header)}
    )
    temporary: str | None = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise UnwritableError(f"{path}: the checkpoint cannot be written ({error.strerror})") from error


def read_tensors(path: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any], str]:
    """Read what `write_tensors` wrote; returns the arrays, the header and the file's SHA-256.

    Raises:
        InputFileError: The file is missing, truncated, or was not written by this program.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import load

    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputFileError(path, f"the checkpoint cannot be read ({error.strerror})") from error
    try:
        tensors: dict[str, NDArray[Any]] = load(content)
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(_KEY)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise InputFileError(path, f"the checkpoint is truncated or is no safetensors file ({error})") from error
    if text is None:
        raise InputFileError(path, "the safetensors file was not written by this program: its header says nothing")
    try:
        header = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputFileError(path, f"the checkpoint's header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise InputFileError(path, "the checkpoint's header is not a JSON object")
    return tensors, header, hashlib.sha256(content).hexdigest()


def _first_problem(config: AnyConfig, weights: Mapping[str, Float32Array]) -> str | None:
    """Name the first weight that is missing, extra, misshapen or not finite."""
    shapes = decode.weight_shapes(config) if isinstance(config, PointerConfig) else forward.weight_shapes(config)
    extra = sorted(set(weights) - set(shapes))
    if extra:
        return f"it has an unknown weight {extra[0]!r}"
    for name, shape in shapes.items():
        if name not in weights:
            return f"weight {name!r} is missing"
        weight = weights[name]
        if weight.dtype != np.float32 or weight.shape != shape:
            return f"weight {name!r} is {weight.dtype} of shape {weight.shape}, expected float32 of shape {shape}"
        if not np.isfinite(weight).all():
            return f"weight {name!r} holds a number that is not finite (NaN or infinity)"
    return None


def _first_not_half(weights: Mapping[str, Float32Array]) -> str | None:
    """Name the first weight that float16 would change."""
    for name, weight in weights.items():
        with np.errstate(over="ignore"):
            same = np.array_equal(weight.astype(np.float16).astype(np.float32), weight)
        if not same:
            return f"weight {name!r} holds numbers that are no float16"
    return None
