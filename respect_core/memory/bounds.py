"""Lower bounds on the peak that hold for every order, from what must be live together."""

from __future__ import annotations

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.memory.live import OVER_ALL, SEPARATE, Rows
from respect_core.solve.downsets import Int

Reach = tuple[IntArray, IntArray]
"""Ancestors and descendants of every op, its own bit included. Shapes (n, words)."""

MAX_PAIRED_OPS = 2048
"""With more ops, only what each of them reads and makes is looked at: the rest would take too long."""


@compiled
def least_held(
    reach: Reach, waiting: Rows, size: IntArray, maker: IntArray, made: IntArray, kept: IntArray, writes: IntArray
) -> tuple[IntArray, IntArray]:
    """Return what is held at least while each op runs, and by how much that grows if another op has run before.

    A tensor is live while op v runs if it has been made and v or an op that can run only after v reads it; and it has
    been made for sure if its maker must run before v.

    Args:
        reach: What comes before and after each op.
        waiting: Readers of each tensor, ascending; n stands for what reads a tensor that stays.
        size: Bytes of each tensor. Shape (m,).
        maker: Op that makes it. Shape (m,).
        made: Bytes that each op makes. Shape (n,).
        kept: Bytes of these that live on after it. Shape (n,).
        writes: Where each op writes. Shape (n,).

    Returns:
        Shapes (n,) and (n, n): [other op, op]; the latter is empty if there are too many ops.
    """
    before, after = reach
    start, reader = waiting
    n = after.shape[0]
    has_room = n <= MAX_PAIRED_OPS
    least, more = np.zeros(n, np.int64), np.zeros((n if has_room else 0, n), np.int64)
    for v in range(n):
        held, held_after = np.int64(0), made[v]
        for t in range(size.size):
            u = maker[t]
            if u == v:
                continue
            reads, crosses = False, False
            for p in range(start[t], start[t + 1]):
                r = reader[p]
                if r == v:
                    reads = True
                elif r == n or (after[v, r >> 6] >> (r & 63)) & 1:
                    crosses = True
            if not (reads or (has_room and crosses)):
                continue
            if u < 0 or (before[v, u >> 6] >> (u & 63)) & 1:
                held += size[t]
                if crosses:
                    held_after += size[t]
            elif has_room and crosses and (after[v, u >> 6] >> (u & 63)) & 1 == 0:
                more[u, v] += size[t]
        least[v] = held + made[v] if writes[v] == SEPARATE else max(held, held_after - made[v] + kept[v])
        if writes[v] == OVER_ALL:
            least[v] = max(held, held_after)
    return least, more


@compiled
def last_readings(
    reach: Reach, waiting: Rows, size: IntArray, maker: IntArray, made: IntArray, writes: IntArray
) -> Int:
    """Return what is held at least while some tensor is read for the last time.

    By then all its readers have run or are running, and so have their ancestors; of what these made, all is live that
    an op reads which comes after every one of the readers. Where the last reader may write over what dies, its output
    is left out.

    Args:
        reach: What comes before and after each op.
        waiting: Readers of each tensor, ascending; n stands for what reads a tensor that stays.
        size: Bytes of each tensor. Shape (m,).
        maker: Op that makes it. Shape (m,).
        made: Bytes that each op makes. Shape (n,).
        writes: Where each op writes. Shape (n,).
    """
    before, after = reach
    start, reader = waiting
    n, words = after.shape
    done, later = np.empty(words, np.int64), np.empty(words, np.int64)
    most = np.int64(0)
    for t in range(size.size if n <= MAX_PAIRED_OPS else 0):
        first, end = start[t], start[t + 1]
        if end - first < 2 or reader[end - 1] == n:  # `least_held` covers those with one reader
            continue
        shared = np.int64(0)
        for w in range(words):
            done[w], later[w] = 0, -1
        for p in range(first, end):
            v = reader[p]
            if writes[v] != SEPARATE:
                shared = max(shared, made[v])
            for w in range(words):
                done[w] |= before[v, w]
                own = np.int64(1) << (v & 63) if w == v >> 6 else np.int64(0)
                later[w] &= after[v, w] & ~own
        held = size[t] - shared
        for s in range(size.size):
            u = maker[s]
            if s == t or (u >= 0 and (done[u >> 6] >> (u & 63)) & 1 == 0):
                continue
            for p in range(start[s], start[s + 1]):
                r = reader[p]
                if r == n or (later[r >> 6] >> (r & 63)) & 1:
                    held += size[s]
                    break
        most = max(most, held)
    return most


@compiled
def closings(
    reach: Reach, waiting: Rows, size: IntArray, kept: IntArray, writes: IntArray
) -> tuple[IntArray, IntArray]:
    """Describe the deaths of tensors, for `set_bounds.least_until_a_death`.

    Args:
        reach: What comes before and after each op.
        waiting: Readers of each tensor, ascending; n stands for what reads a tensor that stays.
        size: Bytes of each tensor. Shape (m,).
        kept: Bytes that live on after each op. Shape (n,).
        writes: Where each op writes. Shape (n,).

    Returns:
        For each tensor that takes room and dies, the ops that have run once it is dead, as bitsets, shape (d, words);
        and what its last reader may write over what dies, shape (d,). Both are empty if there are too many ops.
    """
    before = reach[0]
    start, reader = waiting
    n, words = before.shape
    run, spared = np.zeros((size.size, words), np.int64), np.zeros(size.size, np.int64)
    count = 0
    for t in range(size.size if n <= MAX_PAIRED_OPS else 0):
        if size[t] == 0 or start[t] == start[t + 1] or reader[start[t + 1] - 1] == n:
            continue
        for p in range(start[t], start[t + 1]):
            v = reader[p]
            if writes[v] != SEPARATE:
                spared[count] = max(spared[count], kept[v])
            for w in range(words):
                run[count, w] |= before[v, w]
        count += 1
    return run[:count].copy(), spared[:count].copy()
