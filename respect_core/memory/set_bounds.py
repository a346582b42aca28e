"""Lower bounds on the peak of every order that begins with the ops of a down-set."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.memory.steps import KEPT
from respect_core.solve.downsets import Int, lowest_bit


@compiled
def least_after(done: IntArray, least: IntArray, more: IntArray, later: IntArray, held: IntArray) -> Int:
    """Return what is held at least while some op that has not run yet runs.

    Args:
        done: The ops that have run. Shape (words,).
        least: What is held at least while each op runs. Shape (n,).
        more: By how much that grows if another op has run before. Shape (n, n), or empty.
        later: Readers of the outputs of each op. Shape (n, words).
        held: Written to. Shape (n,).
    """
    n = held.size
    first = 0  # the first op that has not run
    for w in range(done.size):
        if done[w] != -1:
            first = 64 * w + lowest_bit(~done[w])
            break
    for v in range(first, n):
        held[v] = least[v]
    for w in range(done.size if more.shape[0] > 0 else 0):
        rest = done[w]
        while rest != 0:
            u = 64 * w + lowest_bit(rest)
            rest &= rest - 1
            x = 0
            while x < done.size and later[u, x] & ~done[x] == 0:
                x += 1
            if x < done.size:  # some of its outputs are live
                for v in range(first, n):
                    held[v] += more[u, v]
    most = np.int64(0)
    for v in range(first, n):
        if held[v] > most and (done[v >> 6] >> (v & 63)) & 1 == 0:
            most = held[v]
    return most


@compiled
def least_until_a_death(
    done: IntArray, live: Int, threshold: Int, facts: IntArray, run: IntArray, spared: IntArray
) -> Int:
    """Return what is held at least until the next tensor dies, if that is above a threshold, else no more than it.

    Until then each op adds what it keeps, and whichever tensor dies first, all that come before its last reader have
    run by then.

    Args:
        done: The ops that have run. Shape (words,).
        live: Bytes that are live after them.
        threshold: Which bounds do not matter.
        facts: See `Steps`.
        run: From `bounds.closings`.
        spared: From `bounds.closings`.
    """
    least = np.int64(-1)  # more than what is live; none of the tensors seen so far can die
    t = 0
    while t < spared.size and (least < 0 or live + least > threshold):
        adds, can_die = -spared[t], False
        for w in range(done.size):
            rest = run[t, w] & ~done[w]
            while rest != 0 and (least < 0 or adds < least):
                can_die = True
                adds += facts[64 * w + lowest_bit(rest), KEPT]
                rest &= rest - 1
        if can_die and (least < 0 or adds < least):
            least = max(adds, np.int64(0))
        t += 1
    return live + least if least >= 0 else np.int64(0)
