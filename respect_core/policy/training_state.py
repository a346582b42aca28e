"""What a training needs to go on after it was killed, kept as safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from respect_core.errors import InputFileError
from respect_core.policy.checkpoint import read_tensors, write_tensors
from respect_core.policy.encoding import Float32Array
from respect_core.policy.pointer import PointerNetwork

_KIND = "training-state"


@dataclass(kw_only=True)
class Learner:
    """The networks and the optimiser of one training."""

    network: PointerNetwork
    baseline: PointerNetwork
    """The frozen copy whose greedy orders are the baseline."""
    optimiser: torch.optim.Adam


def weights_of(network: PointerNetwork) -> dict[str, Float32Array]:
    """Return a copy of the weights as NumPy arrays by name."""
    return {name: tensor.detach().numpy().copy() for name, tensor in network.state_dict().items()}


def load_weights(network: PointerNetwork, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copy weights of the right names and shapes into the network."""
    network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})


def save_state(path: Path, learner: Learner, facts: Mapping[str, Any]) -> None:
    """Write the state atomically, with plain JSON facts in its header.

    Raises:
        UnwritableError: The file cannot be written.
    """
    tensors: dict[str, NDArray[Any]] = {}
    for prefix, network in (("network", learner.network), ("baseline", learner.baseline)):
        tensors |= {f"{prefix}.{name}": array for name, array in weights_of(network).items()}
    for name, parameter in learner.network.named_parameters():
        for key, value in learner.optimiser.state.get(parameter, {}).items():
            tensors[f"adam.{key}.{name}"] = np.asarray(value.detach().numpy()).copy()
    write_tensors(path, tensors, {"kind": _KIND, "facts": dict(facts)})


def restore_state(path: Path, learner: Learner, belongs_to: Mapping[str, Any]) -> dict[str, Any] | None:
    """Load a state into the learner if it belongs to this training.

    Args:
        path: Where `save_state` wrote.
        learner: Overwritten on success only.
        belongs_to: Facts that must be equal (configuration, digest of the data).

    Returns:
        All facts, or None where there is no state, or one that is damaged or of another training.
    """
    if not path.exists():
        return None
    try:
        tensors, header, _ = read_tensors(path)
    except InputFileError:
        return None
    facts = header.get("facts")
    if header.get("kind") != _KIND or not isinstance(facts, dict):
        return None
    if any(facts.get(key) != value for key, value in belongs_to.items()):
        return None
    parts = {
        prefix: {name.removeprefix(f"{prefix}."): a for name, a in tensors.items() if name.startswith(f"{prefix}.")}
        for prefix in ("network", "baseline", "adam")
    }
    load_weights(learner.network, parts["network"])
    load_weights(learner.baseline, parts["baseline"])
    for name, parameter in learner.network.named_parameters():
        moments = {key: parts["adam"].get(f"{key}.{name}") for key in ("step", "exp_avg", "exp_avg_sq")}
        learner.optimiser.state[parameter] = {
            key: torch.from_numpy(array.copy()) for key, array in moments.items() if array is not None
        }
    return facts
