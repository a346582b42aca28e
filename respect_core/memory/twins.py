"""Twins: ops that any order can exchange without changing a byte, so that one order of theirs is enough."""

from __future__ import annotations

from respect_core.graph import UNKNOWN
from respect_core.memory.live import LiveTensors


def with_twins_in_order(live: LiveTensors) -> list[tuple[int, ...]]:
    """Return what must run before each op, if in addition twins run in the order of their numbers.

    Twins read the same tensors, come after the same ops, write in the same way, and make tensors of the same bytes for
    the same readers. Exchanging them turns any order into one of the same peak, so that some best order obeys the
    addition.
    """
    inputs: list[list[int]] = [[] for _ in range(live.num_ops)]
    outputs: list[list[tuple[int, tuple[int, ...], int]]] = [[] for _ in range(live.num_ops)]
    for t, (size, maker, stays) in enumerate(
        zip(live.size.tolist(), live.maker.tolist(), live.stays.tolist(), strict=True)
    ):
        if maker != UNKNOWN:
            outputs[maker].append((size, live.readers[t], stays))
        for v in live.readers[t]:
            inputs[v].append(t)
    last_twin: dict[tuple[object, ...], int] = {}
    out = []
    for v, parents in enumerate(live.parents):
        looks = (tuple(inputs[v]), parents, int(live.writes[v]), tuple(sorted(outputs[v])))
        twin = last_twin.get(looks)
        out.append(parents if twin is None else (*parents, twin))
        last_twin[looks] = v
    return out
