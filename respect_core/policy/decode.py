"""Decoding one graph of any size with NumPy alone: what a schedule is made with, without torch."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from respect_core.errors import InvalidScheduleError
from respect_core.graph import DnnGraph, FloatArray, IntArray
from respect_core.policy.config import PointerConfig
from respect_core.policy.encoding import NUM_FEATURES, Float32Array, node_features, row_edges, row_order

_NORM_EPSILON = 1e-5


def weight_shapes(config: PointerConfig) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every weight of a pointer network of these sizes."""
    e, h = config.embed_size, config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "start": (e,),
        "embed.weight": (e, NUM_FEATURES),
        "embed.bias": (e,),
        "embed_norm.weight": (e,),
        "embed_norm.bias": (e,),
        "encoder_norm.weight": (h,),
        "encoder_norm.bias": (h,),
    }
    for cell, suffix in (("encoder", "_l0"), ("decoder", "")):
        shapes[f"{cell}.weight_ih{suffix}"] = (4 * h, e)
        shapes[f"{cell}.weight_hh{suffix}"] = (4 * h, h)
        shapes[f"{cell}.bias_ih{suffix}"] = (4 * h,)
        shapes[f"{cell}.bias_hh{suffix}"] = (4 * h,)
    for attention in ("glimpse", "pointer"):
        shapes[f"{attention}.v"] = (h,)
        for layer in ("query", "ref"):
            shapes[f"{attention}.{layer}.weight"] = (h, h)
            shapes[f"{attention}.{layer}.bias"] = (h,)
    if config.knows_budget:
        shapes["budget.weight"] = (h, 2)
    return shapes


def stage_budgets(graph: DnnGraph, num_stages: int, slacks: Sequence[float]) -> list[int]:
    """Return slack times the lower bound max(ceil(total / K), largest op) for every slack, in bytes, distinct."""
    total = int(graph.param_bytes.sum())
    bound = max(-(-total // num_stages), int(graph.param_bytes.max()))
    return list(dict.fromkeys(int(bound * slack) for slack in slacks))


class _Read(NamedTuple):
    """What the encoder leaves for the decoder."""

    input_gates: Float32Array
    """Shape (n, 4H)."""
    glimpse_refs: Float32Array
    """Shape (n, H)."""
    pointer_refs: Float32Array
    """Shape (n, H)."""
    hidden: Float32Array
    """Shape (H,)."""
    cell: Float32Array
    """Shape (H,)."""


class PointerDecoder:
    """The pointer network's forward pass for one graph, looking at allowed ops only.

    Ops that are not ready (or do not fit) have weight 0 in the masked attention of `pointer.PointerNetwork`, so leaving
    them out gives the same order up to float32 rounding, in time that grows with the width of the graph, not its size.
    """

    def __init__(self, config: PointerConfig, weights: Mapping[str, Float32Array]) -> None:
        """Take weights as named and shaped by `weight_shapes`."""
        self.config = config
        self._w = {name: np.ascontiguousarray(weights[name], dtype=np.float32) for name in weight_shapes(config)}
        self._bias = {cell: self._sum_of_biases(cell, suffix) for cell, suffix in (("encoder", "_l0"), ("decoder", ""))}

    def orders(self, graph: DnnGraph, num_stages: int) -> list[IntArray]:
        """Return the distinct greedy orders of a graph, one for each budget (one at all without budgets).

        A greedy order takes the likeliest op at every step, of those that are ready and fit.

        Returns:
            Topological orders of shape (n,).

        Raises:
            InvalidScheduleError: A decoded order is not topological (the weights hold NaN, say).
        """
        read = self._read(graph)
        budgets: list[int | None] = [*stage_budgets(graph, num_stages, self.config.slacks)] or [None]
        orders: dict[bytes, IntArray] = {}
        for budget in budgets:
            order: IntArray = row_order(graph)[self._greedy_rows(graph, read, budget)]
            if not graph.is_topological(order):
                raise InvalidScheduleError(f"the policy's order of graph {graph.name!r} is not a topological one")
            orders.setdefault(order.tobytes(), order)
        return list(orders.values())

    def _read(self, graph: DnnGraph) -> _Read:
        w = self._w
        embedded = self._normed(node_features(graph) @ w["embed.weight"].T + w["embed.bias"], "embed_norm")  # (n, E)
        read, hidden, cell = self._encode(embedded)
        read = self._normed(read, "encoder_norm")  # (n, H)
        return _Read(
            input_gates=embedded @ w["decoder.weight_ih"].T + self._bias["decoder"],
            glimpse_refs=read @ w["glimpse.ref.weight"].T + w["glimpse.ref.bias"],
            pointer_refs=read @ w["pointer.ref.weight"].T + w["pointer.ref.bias"],
            hidden=hidden,
            cell=cell,
        )

    def _greedy_rows(self, graph: DnnGraph, read: _Read, budget: int | None) -> IntArray:
        w, n = self._w, graph.num_ops
        hidden, cell = read.hidden, read.cell
        gates = w["decoder.weight_ih"] @ w["start"] + self._bias["decoder"]  # (4H,)
        param_bytes = graph.param_bytes[row_order(graph)].tolist()
        children: list[list[int]] = [[] for _ in range(n)]
        waiting = [0] * n
        for i, j in row_edges(graph).tolist():
            children[i].append(j)
            waiting[j] += 1
        ready = [i for i in range(n) if not waiting[i]]
        rows = np.empty(n, dtype=np.int64)
        filled = 0
        for step in range(n):
            hidden, cell = _lstm(gates + w["decoder.weight_hh"] @ hidden, cell)
            allowed = ready
            if budget is not None:
                allowed = [i for i in ready if filled + param_bytes[i] <= budget] or ready
            chosen = allowed[0]
            if len(allowed) > 1:  # a single op needs no attention
                loads = None
                if budget is not None:
                    own = np.array([param_bytes[i] for i in allowed], dtype=np.float64)
                    loads = np.stack([own, own + filled], axis=1) / max(1, budget)  # (r, 2)
                chosen = allowed[self._point(hidden, read.glimpse_refs[allowed], read.pointer_refs[allowed], loads)]
            rows[step] = chosen
            if budget is not None:
                filled = filled + param_bytes[chosen]
                if filled > budget:  # it opens the next stage
                    filled = param_bytes[chosen]
            gates = read.input_gates[chosen]
            ready.remove(chosen)
            for j in children[chosen]:
                waiting[j] -= 1
                if not waiting[j]:
                    bisect.insort(ready, j)  # sorted: equal scores go to the smallest row, as in the batched decode
        return rows

    def _encode(self, embedded: Float32Array) -> tuple[Float32Array, Float32Array, Float32Array]:
        """Run the encoder over (n, E); returns what it says after every op (n, H) and its last state."""
        h = self.config.hidden_size
        gates = embedded @ self._w["encoder.weight_ih_l0"].T + self._bias["encoder"]  # (n, 4H)
        recurrent = self._w["encoder.weight_hh_l0"]
        hidden, cell = np.zeros(h, dtype=np.float32), np.zeros(h, dtype=np.float32)
        read = np.empty((len(embedded), h), dtype=np.float32)
        for i, gate in enumerate(gates):
            hidden, cell = _lstm(gate + recurrent @ hidden, cell)
            read[i] = hidden
        return read, hidden, cell

    def _point(
        self,
        hidden: Float32Array,
        glimpse_refs: Float32Array,
        pointer_refs: Float32Array,
        loads: FloatArray | None,
    ) -> int:
        """Return the position of the likeliest of r ops, given their projected refs (r, H) and loads (r, 2)."""
        w = self._w
        query = w["glimpse.query.weight"] @ hidden + w["glimpse.query.bias"]
        scores = np.tanh(query + glimpse_refs) @ w["glimpse.v"]
        weights = np.exp(scores - scores.max())
        glimpse = (weights / weights.sum()) @ glimpse_refs  # (r,) @ (r, H) -> (H,)
        query = w["pointer.query.weight"] @ glimpse + w["pointer.query.bias"]
        if loads is not None:
            pointer_refs = pointer_refs + loads.astype(np.float32) @ w["budget.weight"].T  # (r, 2) @ (2, H) -> (r, H)
        scores = np.tanh(query + pointer_refs) @ w["pointer.v"]  # the clipping tanh keeps their order
        return int(scores.argmax())

    def _normed(self, rows: Float32Array, name: str) -> Float32Array:
        """Apply a layer norm to every row."""
        centred = rows - rows.mean(axis=1, keepdims=True)
        scale = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + _NORM_EPSILON)
        out: Float32Array = (centred / scale) * self._w[f"{name}.weight"] + self._w[f"{name}.bias"]
        return out

    def _sum_of_biases(self, cell: str, suffix: str) -> Float32Array:
        total: Float32Array = self._w[f"{cell}.bias_ih{suffix}"] + self._w[f"{cell}.bias_hh{suffix}"]
        return total


def _lstm(gates: Float32Array, cell: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return the next hidden and cell state for the summed gates (4H,) in the order enter, forget, new, leave."""
    h = cell.size
    half = np.tanh(0.5 * gates)  # sigmoid(x) = (1 + tanh(x / 2)) / 2 never overflows
    enter, forget, leave = 0.5 + 0.5 * half[:h], 0.5 + 0.5 * half[h : 2 * h], 0.5 + 0.5 * half[3 * h :]
    cell = forget * cell + enter * np.tanh(gates[2 * h : 3 * h])
    return leave * np.tanh(cell), cell
