"""The order of ops inside their layers: sweeps that put everything at the mean place of its neighbours."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import Final

_SWEEPS: Final = 16
_MOST_JOINS: Final = 20_000
"""Most joins of neighbouring layers whose crossings are counted after every sweep."""


@dataclass(kw_only=True)
class Layers:
    """Members of layers and their neighbours in the layers above and below; grows while it is built."""

    rows: list[list[int]]
    """Members of every layer from left to right."""
    layer: list[int]
    """Layer of every member, by its index."""
    above: list[list[int]]
    below: list[list[int]]

    @classmethod
    def empty(cls, num_layers: int) -> Layers:
        """Return so many layers without members."""
        return cls(rows=[[] for _ in range(num_layers)], layer=[], above=[], below=[])

    def add(self, member: int, at: int) -> None:
        """Put a member at the right end of a layer."""
        while len(self.layer) <= member:
            self.layer.append(0)
            self.above.append([])
            self.below.append([])
        self.layer[member] = at
        self.rows[at].append(member)

    def join(self, upper: int, lower: int) -> None:
        """Make two members of adjacent layers neighbours."""
        self.below[upper].append(lower)
        self.above[lower].append(upper)

    def crossings(self) -> int:
        """Count the pairs of joins that cross."""
        total = 0
        position = self.positions()
        for row in self.rows:
            seen: list[int] = []
            for i in row:
                ends = sorted(position[j] for j in self.below[i])
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    def positions(self) -> list[int]:
        """Return the place of every member in its layer."""
        position = [0] * len(self.layer)
        for row in self.rows:
            for place, i in enumerate(row):
                position[i] = place
        return position


def order_layers(layers: Layers) -> None:
    """Reorder the members of every layer so that few joins cross.

    Starts from a walk that keeps branches together, then sweeps down and up: every layer is sorted by the mean place
    of its members' neighbours in the layer just passed (the barycentre heuristic of Sugiyama, Tagawa and Toda, 1981);
    the best order seen is kept.
    """
    _keep_branches_together(layers)
    counted = sum(map(len, layers.below)) <= _MOST_JOINS
    best = layers.crossings() if counted else -1
    kept = [row[:] for row in layers.rows]
    for sweep in range(_SWEEPS if counted else 4):
        if best == 0:
            break
        _sweep(layers, down=sweep % 2 == 0)
        found = layers.crossings() if counted else -1
        if found < best or not counted:
            best, kept = found, [row[:] for row in layers.rows]
    layers.rows[:] = kept


def _keep_branches_together(layers: Layers) -> None:
    """Order every layer as a depth-first walk from the top meets its members."""
    rows: list[list[int]] = [[] for _ in layers.rows]
    seen = [False] * len(layers.layer)
    for row in layers.rows:
        for start in row:
            waiting = [start]
            while waiting:
                i = waiting.pop()
                if not seen[i]:
                    seen[i] = True
                    rows[layers.layer[i]].append(i)
                    waiting += reversed(layers.below[i])
    layers.rows[:] = rows


def _sweep(layers: Layers, *, down: bool) -> None:
    position = layers.positions()
    near = layers.above if down else layers.below
    for row in layers.rows if down else reversed(layers.rows):
        mean = {
            i: sum(position[j] for j in near[i]) / len(near[i]) if near[i] else float(place)
            for place, i in enumerate(row)
        }
        row.sort(key=mean.__getitem__)
        for place, i in enumerate(row):
            position[i] = place
