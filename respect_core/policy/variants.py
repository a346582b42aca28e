"""Variants of a training, for a sweep: named changes of the settings, each the answer to a question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from respect_core.errors import BadInputError, UnknownNameError
from respect_core.policy.config import ImitationConfig, NetworkConfig

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)

_OF_THE_SWEEP: Final = ("seed", "num_threads", "max_seconds")
"""The sweep sets the seed and lifts the limit of time; threads change last digits only."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Changes of a size's settings.

    Raises:
        BadInputError: A name that is not of lower-case words and numbers, a setting that does not exist or that the
            sweep sets, a value outside its range, or another network that is to start with the weights that come along.
    """

    name: str
    """Such as ``scratch-width-32``."""
    question: str
    """What its comparison answers."""
    train: Mapping[str, Any] = field(default_factory=dict)
    """Changes of `ImitationConfig`."""
    network: Mapping[str, Any] = field(default_factory=dict)
    """Changes of `NetworkConfig`."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadInputError(f"variant {self.name!r}: a name is of lower-case words and numbers with - between them")
        known = [entry.name for entry in fields(ImitationConfig) if entry.name not in _OF_THE_SWEEP]
        _check_names(self.name, self.train, known)
        _check_names(self.name, self.network, [entry.name for entry in fields(NetworkConfig)])
        self.applied(ImitationConfig(), NetworkConfig())
        if self.network and self.train.get("warm_start") is not False:
            raise BadInputError(
                f"variant {self.name!r} changes the network: set warm_start to False, the weights that come with the "
                "program are of one size"
            )

    def applied(self, config: ImitationConfig, network: NetworkConfig) -> tuple[ImitationConfig, NetworkConfig]:
        """Return the settings with the changes.

        Raises:
            BadInputError: A value outside its range.
        """
        return replace(config, **self.train), replace(network, **self.network)


def _check_names(variant: str, changes: Mapping[str, Any], known: list[str]) -> None:
    for name in changes:
        if name not in known:
            raise BadInputError(f"variant {variant!r} changes {name!r}, allowed are: {', '.join(known)}")


_SCRATCH: Final = {"warm_start": False, "learning_rate": 2.5e-3, "final_learning_rate": 1e-5, "patience": 0}

VARIANTS: Final = (
    Variant(name="usual", question="the size's own settings: what the others are compared with"),
    Variant(name="one-phase", question="what does the second phase bring?", train={"best_of_steps": 0}),
    Variant(name="scratch", question="what do the weights that come along bring?", train=_SCRATCH),
    Variant(
        name="scratch-one-phase",
        question="what does the second phase bring without these weights?",
        train={**_SCRATCH, "best_of_steps": 0},
    ),
    Variant(name="scratch-width-32", question="is a narrower network as good?", train=_SCRATCH, network={"width": 32}),
    Variant(name="scratch-width-64", question="is a wider network better?", train=_SCRATCH, network={"width": 64}),
    Variant(name="scratch-rounds-3", question="do fewer rounds of messages do?", train=_SCRATCH, network={"rounds": 3}),
)


def chosen_variants(names: list[str]) -> tuple[Variant, ...]:
    """Return variants by name, all of them for an empty list.

    Raises:
        UnknownNameError: There is no such variant; similar names are suggested.
        BadInputError: One is named twice.
    """
    known = {variant.name: variant for variant in VARIANTS}
    for name in names:
        if name not in known:
            raise UnknownNameError("variant", name, list(known))
        if names.count(name) > 1:
            raise BadInputError(f"variant {name!r} is named twice")
    return tuple(known[name] for name in names) if names else VARIANTS
