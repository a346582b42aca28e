"""What a training needs to go on after it was killed, kept as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import Module

from respect_core.errors import InputFileError
from respect_core.policy.checkpoint import read_tensors, write_tensors
from respect_core.policy.encoding import Float32Array

Tensors = dict[str, NDArray[Any]]

_MOMENTS: Final = ("step", "exp_avg", "exp_avg_sq")


def weights_of(network: Module) -> dict[str, Float32Array]:
    """Return a copy of the weights as NumPy arrays by name."""
    return {name: tensor.detach().numpy().copy() for name, tensor in network.state_dict().items()}


def load_weights(network: Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copy weights of the right names and shapes into the network."""
    network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})


def tensors_of(network: Module, optimiser: torch.optim.Adam) -> Tensors:
    """Return the weights as ``network.NAME`` and what Adam remembers as ``adam.MOMENT.NAME``."""
    tensors: Tensors = {f"network.{name}": array for name, array in weights_of(network).items()}
    for name, parameter in network.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"adam.{key}.{name}"] = np.asarray(value.detach().numpy()).copy()
    return tensors


def load_tensors(tensors: Tensors, network: Module, optimiser: torch.optim.Adam) -> None:
    """Take over what `tensors_of` returned."""
    load_weights(network, _below("network", tensors))
    moments = _below("adam", tensors)
    for name, parameter in network.named_parameters():
        optimiser.state[parameter] = {
            key: torch.from_numpy(moments[f"{key}.{name}"].copy()) for key in _MOMENTS if f"{key}.{name}" in moments
        }


def write_state(path: Path, kind: str, tensors: Tensors, facts: Mapping[str, Any]) -> None:
    """Write a state atomically, with plain JSON facts in its header.

    Raises:
        UnwritableError: The file cannot be written.
    """
    write_tensors(path, tensors, {"kind": kind, "facts": dict(facts)})


def read_state(path: Path, kind: str, belongs_to: Mapping[str, Any]) -> tuple[Tensors, dict[str, Any]] | None:
    """Read a state and its facts.

    Args:
        path: Where `write_state` wrote.
        kind: What it was written as.
        belongs_to: Facts that must be equal (configuration, digest of the data).

    Returns:
        None where there is no state, or one that is damaged, of another kind or of another training.
    """
    if not path.exists():
        return None
    try:
        tensors, header, _ = read_tensors(path)
    except InputFileError:
        return None
    facts = header.get("facts")
    if header.get("kind") != kind or not isinstance(facts, dict):
        return None
    if any(facts.get(key) != value for key, value in belongs_to.items()):
        return None
    return dict(tensors), facts


def _below(prefix: str, tensors: Tensors) -> Tensors:
    return {name.removeprefix(f"{prefix}."): a for name, a in tensors.items() if name.startswith(f"{prefix}.")}
