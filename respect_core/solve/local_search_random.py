"""Random numbers inside compiled loops: a 64-bit xorshift whose state is an array of one word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from respect_core.compiled import compiled
from respect_core.graph import FloatArray
from respect_core.solve.local_search_graph import Int

Word = NDArray[np.uint64]

GUMBEL_SIZE = 4096
"""Entries of the table of Gumbel noise: `draw_order` takes the highest 12 bits of a draw."""


def random_state(seed: int) -> Word:
    """Return a state that depends on every bit of ``seed``."""
    words = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    return np.where(words == 0, np.uint64(1), words).astype(np.uint64)


@compiled
def draw(state: Word) -> np.uint64:
    """Return 64 random bits (xorshift64*, Vigna 2016) and step the state."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.uint64(x * np.uint64(0x2545F4914F6CDD1D))


@compiled
def below(state: Word, limit: Int) -> Int:
    """Return a number in [0, limit), limit below 2**31; the bias is below limit / 2**32."""
    return np.int64(((draw(state) >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))


def gumbel_table() -> FloatArray:
    """Return the quantiles of the standard Gumbel distribution at the middles of equal steps."""
    middles = (np.arange(GUMBEL_SIZE) + 0.5) / GUMBEL_SIZE
    return -np.log(-np.log(middles))
