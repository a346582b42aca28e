"""The settings of the pointer network and of its training; they check themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from respect_core.errors import BadInputError


def check_whole(owner: object, name: str, lowest: int, highest: int) -> None:
    """Raise `BadInputError` unless a setting of ``owner`` is a whole number within its range."""
    value = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise BadInputError(f"{name} is {value!r}, allowed are whole numbers in {lowest}..{highest}")


def check_number(name: str, value: object, lowest: float, highest: float, *, open_below: bool = False) -> None:
    """Raise `BadInputError` unless ``value`` is a finite number within its range."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not known or not lowest <= value <= highest or (open_below and value == lowest):  # type: ignore[operator]
        opening = "(" if open_below else "["
        raise BadInputError(f"{name} is {value!r}, allowed are numbers in {opening}{lowest}, {highest}]")


@dataclass(frozen=True, kw_only=True)
class PointerConfig:
    """Sizes of the pointer network; the defaults are RESPECT's.

    Raises:
        BadInputError: A value outside its range.
    """

    embed_size: int = 256
    """Width E of the linear layer that embeds an op's features."""
    hidden_size: int = 256
    """Width H of the encoder, the decoder and the attention."""
    clip: float = 10.0
    """The pointer's scores are squeezed into [-clip, clip] by a tanh, so that sampling never dies out."""
    slacks: tuple[float, ...] = ()
    """First memory budgets to decode under, as multiples of the lower bound max(total / K, largest op); more follow
    below the best peak so far (`respect_core.policy.decode.Budgets`), and the best schedule of all is kept. Empty, as
    in RESPECT, the network knows neither K nor a budget, and one order serves all K."""

    def __post_init__(self) -> None:
        check_whole(self, "embed_size", 1, 4096)
        check_whole(self, "hidden_size", 1, 4096)
        check_number("clip", self.clip, 0.0, 1000.0, open_below=True)
        object.__setattr__(self, "slacks", tuple(self.slacks))
        for slack in self.slacks:
            check_number("slack", slack, 1.0, 100.0)

    @property
    def knows_budget(self) -> bool:
        """Whether the decoder sees how full the current stage is."""
        return bool(self.slacks)


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Sizes of the policy's message-passing network.

    Raises:
        BadInputError: A value outside its range.
    """

    width: int = 48
    """Numbers d that describe an op between two rounds."""
    rounds: int = 5
    """How far messages travel along the edges."""

    def __post_init__(self) -> None:
        check_whole(self, "width", 1, 1024)
        check_whole(self, "rounds", 1, 64)


@dataclass(frozen=True, kw_only=True)
class ImitationConfig:
    """How the policy's network is trained to imitate exact labels.

    Raises:
        BadInputError: A value outside its range.
    """

    epochs: int = 20
    """Passes over all labels."""
    patience: int = 0
    """Stop after so many epochs without a better validation gap; 0 never stops early."""
    batch_size: int = 128
    """Labels a step, of graphs with equally many ops."""
    learning_rate: float = 2.5e-3
    """Adam's step size in the first epoch."""
    final_learning_rate: float = 1e-5
    """Where the step size ends after falling along a half cosine."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    best_of_steps: int = 0
    """Steps of the second phase, which rewards the best of several samples (`respect_core.policy.best_of`); its network
    is kept where its validation gap is better than that of every epoch."""
    warm_start: bool = False
    """Begin with the weights that come with the program instead of random ones; the sizes must be theirs."""
    num_threads: int = 1
    """Threads torch computes with; another number may give other last digits."""
    seed: int = 0
    """Seed of the weights, the batches and the orders that follow the labels."""
    max_seconds: float = 0.0
    """No epoch is begun once all before it took so long, resumed ones included; 0 sets no limit. With a limit the
    clock decides the curve's length."""

    def __post_init__(self) -> None:
        check_whole(self, "epochs", 1, 10**6)
        check_whole(self, "patience", 0, 10**6)
        check_whole(self, "best_of_steps", 0, 10**9)
        check_whole(self, "batch_size", 1, 10**6)
        check_number("learning_rate", self.learning_rate, 0.0, 1.0, open_below=True)
        check_number("final_learning_rate", self.final_learning_rate, 0.0, 1.0, open_below=True)
        check_number("max_gradient_norm", self.max_gradient_norm, 0.0, 1e6, open_below=True)
        if not isinstance(self.warm_start, bool):
            raise BadInputError(f"warm_start is {self.warm_start!r}, allowed are True and False")
        check_whole(self, "num_threads", 1, 256)
        check_whole(self, "seed", 0, 2**62)
        check_number("max_seconds", self.max_seconds, 0.0, 1e9)

    def as_params(self) -> dict[str, int | float]:
        """Return every setting by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How the pointer network is trained; the defaults are the published way.

    Raises:
        BadInputError: A value outside its range.
    """

    epochs: int = 300
    """Chunks of fresh graphs, imitation and warm-up included."""
    imitation_epochs: int = 0
    """First epochs in which the network imitates the labels (cross-entropy) before REINFORCE; RESPECT has none."""
    batch_size: int = 128
    """Orders a step."""
    samples: int = 1
    """Orders of each graph in a REINFORCE step. One alone is compared with the greedy order of a frozen network; of
    several, each is compared with the mean of the others."""
    reward: Literal["cosine", "gap"] = "cosine"
    """What REINFORCE lowers: RESPECT's 1 - cosine to the label, or the gap of the order's optimal split."""
    legal: bool = False
    """Point at ready ops only; False masks visited ops alone, as RESPECT does."""
    batch_norm: bool = True
    """Batch norm as in RESPECT, or the layer norm of the networks that can be kept as checkpoints."""
    imitation_rate: float = 5e-4
    """Adam's step size while imitating, from where it falls to `learning_rate` along a half cosine."""
    learning_rate: float = 1e-4
    """Adam's step size in the first epoch of REINFORCE."""
    final_learning_rate: float = 1e-4
    """Where the step size ends after falling along a half cosine; equal to `learning_rate` it stays constant."""
    rising_steps: int = 0
    """First steps of all, in which the step size rises from 0."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    entropy_weight: float = 0.0
    """Weight of the decoder's mean entropy a step in the loss; keeps sampling alive."""
    warmup_epochs: int = 1
    """REINFORCE epochs with the exponential baseline before the greedy orders of a frozen network take over."""
    warmup_decay: float = 0.8
    """How much of the exponential baseline stays at each step."""
    baseline_p_value: float = 0.05
    """The frozen network is replaced where a one-sided paired t-test on the validation costs gives less than this."""
    num_threads: int = 1
    """Threads torch computes with; another number may give other last digits."""
    seed: int = 0
    """Seed of the weights, the batches and the samples."""

    def __post_init__(self) -> None:
        check_whole(self, "epochs", 1, 10**6)
        check_whole(self, "imitation_epochs", 0, self.epochs)
        check_whole(self, "batch_size", 1, 10**6)
        check_whole(self, "samples", 1, self.batch_size)
        if self.reward not in ("cosine", "gap"):
            raise BadInputError(f"reward is {self.reward!r}, allowed are 'cosine' and 'gap'")
        for name in ("legal", "batch_norm"):
            if not isinstance(getattr(self, name), bool):
                raise BadInputError(f"{name} is {getattr(self, name)!r}, allowed are True and False")
        check_number("imitation_rate", self.imitation_rate, 0.0, 1.0, open_below=True)
        check_number("learning_rate", self.learning_rate, 0.0, 1.0, open_below=True)
        check_number("final_learning_rate", self.final_learning_rate, 0.0, 1.0, open_below=True)
        check_whole(self, "rising_steps", 0, 10**9)
        check_number("max_gradient_norm", self.max_gradient_norm, 0.0, 1e6, open_below=True)
        check_number("entropy_weight", self.entropy_weight, 0.0, 10.0)
        check_whole(self, "warmup_epochs", 0, 10**6)
        check_number("warmup_decay", self.warmup_decay, 0.0, 1.0)
        check_number("baseline_p_value", self.baseline_p_value, 0.0, 1.0, open_below=True)
        check_whole(self, "num_threads", 1, 256)
        check_whole(self, "seed", 0, 2**62)
