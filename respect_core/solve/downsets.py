"""Down-sets (ideals) of a partial order as bitsets: the words and loops that every search over them shares.

A bitset is one or more int64 words, bit b of word w standing for element 64 w + b. All loops treat the words as plain
64-bit patterns, so that the sign bit is an element like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from respect_core.compiled import compiled
from respect_core.graph import IntArray

WORD = 64

Int: TypeAlias = Any
"""A whole number of compiled code: an int64, which Python code may give as an int."""


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Find the index of the lowest set bit of an int64 word that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


def num_words(num_elements: int) -> int:
    """Words that a bitset of this many elements needs, at least 1."""
    return max(1, -(-num_elements // WORD))


def bitset(elements: IntArray, words: int) -> IntArray:
    """Return the set of these elements. Shape (words,)."""
    out = np.zeros(words, dtype=np.int64)
    np.bitwise_or.at(out, elements >> 6, np.left_shift(np.int64(1), elements & 63))
    return out


def bitsets(members: Sequence[Sequence[int]], words: int) -> IntArray:
    """Return a set for each sequence of elements. Shape (sequences, words)."""
    out = np.zeros((len(members), words), dtype=np.int64)
    row = np.array([i for i, elements in enumerate(members) for _ in elements], dtype=np.int64)
    element = np.array([x for elements in members for x in elements], dtype=np.int64)
    np.bitwise_or.at(out, (row, element >> 6), np.left_shift(np.int64(1), element & 63))
    return out


@compiled
def byte_table(values: IntArray, table: IntArray) -> None:
    """Fill ``table[b, x]`` with the sum of the values of the elements that byte b with pattern x holds.

    Args:
        values: One number an element. Shape (n,).
        table: Written to. Shape (at least n / 8 rounded up, 256).
    """
    n = values.size
    for byte in range((n + 7) // 8):
        table[byte, 0] = 0
        for bit in range(8):
            at = 8 * byte + bit
            value = values[at] if at < n else 0
            half = 1 << bit
            for pattern in range(half):
                table[byte, half + pattern] = table[byte, pattern] + value


@compiled
def word_sum(word: Int, table: IntArray, first_byte: Int, num_bytes: Int) -> Int:
    """Sum the values of one word's elements with the rows of a `byte_table` from ``first_byte`` on."""
    total = 0
    for byte in range(num_bytes):
        total += table[first_byte + byte, (word >> (8 * byte)) & 255]
    return total


@compiled
def closures_of_word(parents: IntArray, before: IntArray, after: IntArray) -> None:
    """Fill in the ancestors and descendants of up to 64 elements, each one's own bit included.

    Args:
        parents: Bits of the parents of every element, acyclic. Shape (n,).
        before: Written to. Shape (n,).
        after: Written to. Shape (n,).
    """
    n = parents.size
    one = np.int64(1)
    done = np.int64(0)
    order = np.empty(n, np.int64)
    found = 0
    while found < n:
        for v in range(n):
            bit = one << v
            if done & bit == 0 and parents[v] & ~done == 0:
                done |= bit
                order[found] = v
                found += 1
                closure = bit
                rest = parents[v]
                while rest != 0:
                    closure |= before[lowest_bit(rest)]
                    rest &= rest - 1
                before[v] = closure
    for v in range(n):
        after[v] = one << v
    for at in range(n - 1, -1, -1):
        v = order[at]
        rest = parents[v]
        while rest != 0:
            after[lowest_bit(rest)] |= after[v]
            rest &= rest - 1


@compiled
def closures(parent_start: IntArray, parent: IntArray, words: Int) -> tuple[IntArray, IntArray]:
    """Return the ancestors and descendants of elements numbered in topological order, each one's own bit included.

    Args:
        parent_start: Where the parents of each element start in ``parent``. Shape (n + 1,).
        parent: Parents, all smaller than their child.
        words: Words of a bitset.

    Returns:
        Two arrays of bitsets, each of shape (n, words).
    """
    n = parent_start.size - 1
    before = np.zeros((n, words), np.int64)
    after = np.zeros((n, words), np.int64)
    for v in range(n):
        before[v, v >> 6] |= np.int64(1) << (v & 63)
        for p in range(parent_start[v], parent_start[v + 1]):
            u = parent[p]
            for w in range((u >> 6) + 1):
                before[v, w] |= before[u, w]
    for v in range(n - 1, -1, -1):
        after[v, v >> 6] |= np.int64(1) << (v & 63)
        for p in range(parent_start[v], parent_start[v + 1]):
            u = parent[p]
            for w in range(v >> 6, words):
                after[u, w] |= after[v, w]
    return before, after


@compiled
def closure_sums(sets: IntArray, values: IntArray) -> IntArray:
    """Sum the values over each bitset.

    Args:
        sets: Shape (n, words).
        values: Several numbers an element. Shape (columns, elements).

    Returns:
        Shape (columns, n).
    """
    n, words = sets.shape
    out = np.zeros((values.shape[0], n), np.int64)
    table = np.zeros((8 * words, 256), np.int64)
    for c in range(values.shape[0]):
        byte_table(values[c], table)
        for v in range(n):
            total = 0
            for w in range(words):
                if sets[v, w] != 0:
                    total += word_sum(sets[v, w], table, 8 * w, 8)
            out[c, v] = total
    return out


@compiled
def restricted(before: IntArray, after: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Return the closures within a subset of elements, numbered by their place in ``chosen``.

    Args:
        before: Ancestors of all elements. Shape (n, words).
        after: Descendants of all elements. Shape (n, words).
        chosen: The elements of the subset. Shape (u,).

    Returns:
        Two arrays of bitsets, each of shape (u, words for u elements).
    """
    u = chosen.size
    words = max(1, (u + 63) // 64)
    down = np.zeros((u, words), np.int64)
    up = np.zeros((u, words), np.int64)
    for i in range(u):
        v = chosen[i]
        for j in range(u):
            x = chosen[j]
            if (before[v, x >> 6] >> (x & 63)) & 1:
                down[i, j >> 6] |= np.int64(1) << (j & 63)
                up[j, i >> 6] |= np.int64(1) << (i & 63)
    return down, up


Cuts = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]
"""Tensors that may cross a down-set: maker (-1: always inside), readers as bitsets, whether some reader is always
outside, weight; and the largest sum of the crossing weights plus each column's sum, and of those weights alone."""


@compiled
def _cut_is_allowed(chosen: IntArray, free: IntArray, taken: IntArray, cuts: Cuts) -> bool:
    """Whether the tensors that already are sure to cross leave every limit intact."""
    maker, readers, leaves, weight, limits = cuts
    crossing = 0
    for t in range(maker.size):
        v = maker[t]
        if v >= 0 and (chosen[v >> 6] >> (v & 63)) & 1 == 0:
            continue
        if leaves[t]:
            crossing += weight[t]
            continue
        for w in range(chosen.size):
            if readers[t, w] & ~(chosen[w] | free[w]) != 0:
                crossing += weight[t]
                break
    for c in range(taken.size):
        if taken[c] + crossing > limits[c]:
            return False
    return bool(crossing <= limits[taken.size])


LISTED, TOO_MANY, STOPPED = 0, 1, 2
"""How `list_window` ended."""

_CHECK_EVERY = 4096


@compiled
def list_window(
    down: IntArray,
    up: IntArray,
    values: IntArray,
    lowest: IntArray,
    highest: IntArray,
    cuts: Cuts,
    max_sets: Int,
    stop: IntArray,
) -> tuple[Int, IntArray]:
    """List all down-sets whose sums lie within a window for every column of values; each exactly once.

    The lowest undecided element is taken in or left out, with all that this implies; a branch ends where the sums can
    no longer come to lie in the window. Elements should be numbered so that low ones decide much.

    Args:
        down: Ancestors within the u elements, own bit included. Shape (u, words).
        up: Descendants, likewise. Shape (u, words).
        values: Non-negative numbers of the elements. Shape (columns, u).
        lowest: Smallest sums allowed. Shape (columns,).
        highest: Largest sums allowed. Shape (columns,).
        cuts: Limits of what crosses a set; with an empty list of tensors there are none.
        max_sets: Give up beyond this many.
        stop: Give up once ``stop[0]`` is not 0; it is looked at now and then.

    Returns:
        `LISTED`, `TOO_MANY` or `STOPPED`, and the bitsets found so far, shape (number, words).
    """
    columns, u = values.shape
    words = down.shape[1]
    found = np.empty((min(256, max_sets), words), np.int64)
    count = 0
    table = np.zeros((columns, 8 * words, 256), np.int64)
    taken = np.zeros((u + 2, columns), np.int64)
    left = np.zeros((u + 2, columns), np.int64)
    chosen = np.zeros((u + 2, words), np.int64)
    free = np.zeros((u + 2, words), np.int64)
    added = np.zeros(columns, np.int64)
    dropped = np.zeros(columns, np.int64)
    for c in range(columns):
        byte_table(values[c], table[c])
        left[0, c] = values[c].sum()
        if left[0, c] < lowest[c] or highest[c] < 0:
            return LISTED, found[:0]
    for v in range(u):
        free[0, v >> 6] |= np.int64(1) << (v & 63)
    depth = 1
    steps = 0
    while depth > 0:
        d = depth - 1
        v = -1
        for w in range(words):
            if free[d, w] != 0:
                v = 64 * w + lowest_bit(free[d, w])
                break
        if v < 0:
            if cuts[0].size > 0 and not _cut_is_allowed(chosen[d], free[d], taken[d], cuts):
                depth -= 1
                continue
            if count == found.shape[0]:
                if count >= max_sets:
                    return TOO_MANY, found
                larger = np.empty((min(4 * count, max_sets), words), np.int64)
                larger[:count] = found
                found = larger
            found[count] = chosen[d]
            count += 1
            depth -= 1
            continue
        if cuts[0].size > 0 and not _cut_is_allowed(chosen[d], free[d], taken[d], cuts):
            depth -= 1
            continue
        steps += 1
        if steps % _CHECK_EVERY == 0 and stop[0] != 0:
            return STOPPED, found[:count]
        can_take, can_drop = True, True
        for c in range(columns):
            added[c] = 0
            dropped[c] = 0
            for w in range(words):
                inside = down[v, w] & free[d, w]
                if inside != 0:
                    added[c] += word_sum(inside, table[c], 8 * w, 8)
                inside = up[v, w] & free[d, w]
                if inside != 0:
                    dropped[c] += word_sum(inside, table[c], 8 * w, 8)
            can_take = can_take and taken[d, c] + added[c] <= highest[c]
            can_drop = can_drop and taken[d, c] + left[d, c] - dropped[c] >= lowest[c]
        if can_take and can_drop:
            for w in range(words):
                chosen[depth, w] = chosen[d, w] | (down[v, w] & free[d, w])
                free[depth, w] = free[d, w] & ~down[v, w]
                free[d, w] &= ~up[v, w]
            for c in range(columns):
                taken[depth, c] = taken[d, c] + added[c]
                left[depth, c] = left[d, c] - added[c]
                left[d, c] -= dropped[c]
            depth += 1
        elif can_take:
            for w in range(words):
                chosen[d, w] |= down[v, w] & free[d, w]
                free[d, w] &= ~down[v, w]
            for c in range(columns):
                taken[d, c] += added[c]
                left[d, c] -= added[c]
        elif can_drop:
            for w in range(words):
                free[d, w] &= ~up[v, w]
            for c in range(columns):
                left[d, c] -= dropped[c]
        else:
            depth -= 1
    return LISTED, found[:count]


@compiled
def moved_bits(sets: IntArray, bit_of: IntArray, words: Int) -> IntArray:
    """Renumber the elements of bitsets: bit i becomes bit ``bit_of[i]`` of a set of ``words`` words."""
    count, old_words = sets.shape
    u = bit_of.size
    table = np.zeros((8 * old_words, 256, words), np.int64)
    for byte in range((u + 7) // 8):
        for bit in range(min(8, u - 8 * byte)):
            target = bit_of[8 * byte + bit]
            half = 1 << bit
            for pattern in range(half):
                for w in range(words):
                    table[byte, half + pattern, w] = table[byte, pattern, w]
                table[byte, half + pattern, target >> 6] |= np.int64(1) << (target & 63)
    out = np.zeros((count, words), np.int64)
    num_bytes = (u + 7) // 8
    for i in range(count):
        for byte in range(num_bytes):
            pattern = (sets[i, byte >> 3] >> (8 * (byte & 7))) & 255
            if pattern != 0:
                for w in range(words):
                    out[i, w] |= table[byte, pattern, w]
    return out
