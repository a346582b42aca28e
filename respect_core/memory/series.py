"""Divide and conquer: where every order passes through the same set of ops, what comes before and after are separate.

A down-set is passed by every order exactly if each of its ops comes before each other op. Cut nodes, which all paths
pass through, give such sets (the ops up to one of them); so does any place where all open ends feed all that follows.
Tensors may live across such a place and are then held throughout the sections that they skip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import UNKNOWN, IntArray
from respect_core.memory.live import LiveTensors, rows
from respect_core.solve.downsets import Int, closures, lowest_bit, num_words


@dataclass(frozen=True, eq=False, kw_only=True)
class Section:
    """Ops that are ordered among themselves, whatever the order of the others."""

    ops: IntArray
    """Ascending positions in the topological order that the sections were found in. Shape (n,)."""
    live: LiveTensors
    """Its tensors; op i is ``ops[i]``."""
    across: int
    """Bytes of tensors that live through the whole section without being read or made in it."""


def forced_sizes(parents: tuple[tuple[int, ...], ...], order: IntArray) -> IntArray:
    """Return the sizes of all sets that every order passes through, 0 and n included, ascending.

    Args:
        parents: What each op must come after.
        order: Any topological order; the sets are its prefixes.
    """
    n = order.size
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    start, parent = rows([[int(position[u]) for u in parents[v]] for v in order])
    before, _ = closures(start, parent, num_words(n))
    return np.array(_forced_sizes(before), dtype=np.int64)


@compiled
def _forced_sizes(before: IntArray) -> IntArray:
    n, words = before.shape
    forced = np.empty(n + 1, np.int64)
    count = np.int64(1)
    forced[0] = n
    smallest = np.int64(n)  # leading ops that all ops from here on come after
    for v in range(n - 1, -1, -1):
        leading: Int = np.int64(0)
        for w in range(words):
            missing = ~before[v, w]
            if missing != 0:
                leading = 64 * w + lowest_bit(missing)
                break
            leading = 64 * (w + 1)
        smallest = min(smallest, leading)
        if smallest >= v:
            forced[count] = v
            count += 1
    return forced[:count][::-1].copy()


def sections(live: LiveTensors, order: IntArray, sizes: IntArray) -> list[Section]:
    """Split the ops where every order passes; sections of one op are left out.

    Args:
        live: All tensors.
        order: The topological order that ``sizes`` were found with.
        sizes: From `forced_sizes`.
    """
    n = order.size
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    section_of: list[int] = np.repeat(np.arange(sizes.size - 1), np.diff(sizes))[position].tolist()
    size: list[int] = live.size.tolist()
    made_by: list[int] = live.maker.tolist()
    to_the_end: list[int] = live.stays.tolist()
    last_section = sizes.size - 2
    touched: list[list[tuple[int, bool]]] = [[] for _ in range(sizes.size - 1)]
    across = [0] * sizes.size
    for t, readers in enumerate(live.readers):
        maker = made_by[t]
        places = [section_of[v] for v in readers]
        mine = sorted({*places, section_of[maker]} if maker != UNKNOWN else set(places))
        stays = bool(to_the_end[t])
        if not (mine or stays):
            continue
        begin = mine[0] if maker != UNKNOWN else 0
        end = last_section if stays else mine[-1]
        across[begin] += size[t]
        across[end + 1] -= size[t]
        for s in mine:
            touched[s].append((t, stays or (bool(places) and s < max(places))))
    held = np.cumsum(across)
    out = []
    for s, tensors in enumerate(touched):
        if sizes[s + 1] - sizes[s] < 2:
            continue
        ops = np.arange(sizes[s], sizes[s + 1])
        local = {int(order[i]): i - int(sizes[s]) for i in ops.tolist()}
        ids = np.array([t for t, _ in tensors], dtype=np.int64)
        part = LiveTensors(
            size=live.size[ids],
            maker=np.array([local.get(made_by[t], UNKNOWN) for t, _ in tensors], dtype=np.int64),
            stays=np.array([stays for _, stays in tensors], dtype=np.int64),
            readers=tuple(tuple(sorted(local[v] for v in live.readers[t] if v in local)) for t in ids.tolist()),
            writes=live.writes[order[ops]],
            parents=tuple(tuple(sorted(local[u] for u in live.parents[order[i]] if u in local)) for i in ops),
        )
        out.append(Section(ops=ops, live=part, across=int(held[s] - live.size[ids].sum())))
    return out
