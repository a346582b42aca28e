"""Random topological orders, and random legal schedules that need not be contiguous in the order of the ops."""

from __future__ import annotations

import random

from respect_core.graph import DnnGraph


def random_order(graph: DnnGraph, rng: random.Random) -> list[int]:
    """Return a random topological order."""
    waiting = [len(parents) for parents in graph.parents]
    ready = [v for v, count in enumerate(waiting) if not count]
    order = []
    while ready:
        v = ready.pop(rng.randrange(len(ready)))
        order.append(v)
        for c in graph.children[v]:
            waiting[c] -= 1
            if not waiting[c]:
                ready.append(c)
    return order


def cut(order: list[int], num_stages: int, rng: random.Random) -> list[int]:
    """Return the stages of an order cut at random places: of random orders, any legal schedule can come."""
    cuts = sorted(rng.sample(range(1, len(order)), num_stages - 1))
    stage_of = [0] * len(order)
    for place, v in enumerate(order):
        stage_of[v] = sum(place >= at for at in cuts)
    return stage_of
