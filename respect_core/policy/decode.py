"""Decoding one graph of any size without torch: what a schedule is made with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from respect_core.errors import InvalidScheduleError
from respect_core.graph import DnnGraph, FloatArray, IntArray
from respect_core.policy.config import PointerConfig
from respect_core.policy.decode_loops import Matrix, greedy_rows, read_in_order
from respect_core.policy.encoding import NUM_FEATURES, NUM_SHARES, Float32Array, node_features, row_edges, row_order
from respect_core.policy.scoring import BudgetPath
from respect_core.solve.split_loops import smallest_peak

MOST_BUDGETS: Final = 8
"""Decodes of a small graph."""

OPS_DECODED: Final = 2000
"""About how many ops all decodes of a large graph take together: it bounds their time."""

_NORM_EPSILON = 1e-5

_LARGEST = 2**15 - 1
_MOST_EXPONENT = 60
_NO_BUDGET = -1


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
        shapes["budget.weight"] = (h, NUM_SHARES)
    return shapes


class Budgets:
    """The memory budgets of one problem's decodes, one after the other.

    First the settings' multiples of the lower bound max(ceil(total / K), largest op), then budgets between the bound
    and the best peak so far, at most `MOST_BUDGETS` in all; on large graphs fewer, as each takes time in proportion.
    """

    def __init__(self, param_bytes: IntArray, num_stages: int, slacks: Sequence[float]) -> None:
        total = int(param_bytes.sum())
        self._bound = max(-(-total // num_stages), int(param_bytes.max()))
        self._slacks, self._path = slacks, BudgetPath(self._bound)
        self.most = max(len(slacks), min(MOST_BUDGETS, OPS_DECODED // param_bytes.size))

    def next(self, step: int, peak: int | None) -> int | None:
        """Return the budget of decode ``step`` in bytes, None where no more is worth it, for the best peak so far."""
        if step >= self.most or (peak is not None and peak <= self._bound):
            return None
        if step < len(self._slacks):
            return int(self._bound * self._slacks[step])
        return self._path.next(step, peak)


class Factor(NamedTuple):
    """A matrix as the compiled loops take it: transposed, and times a scale."""

    matrix: Matrix
    """Shape (inputs, outputs)."""
    scale: np.float32

    @classmethod
    def of(cls, weight: Float32Array) -> Factor:
        """Take a weight (outputs, inputs) in half its bytes where that changes no number.

        Weights that are whole multiples, of at most 16 bits, of one power of two are kept as these multiples: the
        recurrent matrix, which is read once an op, then fits the cache next to a processor.
        """
        exponent = whole_exponent(weight)
        multiples = np.ldexp(weight, exponent)
        if abs(exponent) <= _MOST_EXPONENT and np.all(multiples == np.rint(multiples)):
            return cls(np.ascontiguousarray(multiples.T.astype(np.int16)), np.float32(2.0**-exponent))
        return cls(np.ascontiguousarray(weight.T), np.float32(1))


def whole_exponent(weight: Float32Array) -> int:
    """Return the largest e with all of |weight| at most 32767 / 2^e; 0 for zeros."""
    largest = float(np.abs(weight).max(initial=0))
    return math.floor(math.log2(_LARGEST / largest)) if largest > 0 else 0


class _Attention(NamedTuple):
    """One of the decoder's attentions; its ops are projected beforehand."""

    query: Matrix
    """Shape (H, H), transposed."""
    scale: np.float32
    bias: Float32Array
    """Shape (H,)."""
    v: Float32Array
    """Shape (H,)."""

    @classmethod
    def of(cls, w: Mapping[str, Float32Array], name: str) -> _Attention:
        return cls(*Factor.of(w[f"{name}.query.weight"]), w[f"{name}.query.bias"], w[f"{name}.v"])


class _InputGates(NamedTuple):
    """A cell's share of its gates straight from the features: embedding, norm and product in one.

    The norm's input is linear in the features x: with z = (x, 1), centred over the embedding, it is C z. Its variance
    is z' (C' C / E) z, so the gates are W (gain * C) z / deviation + W shift + biases.
    """

    product: Float32Array
    """W (gain * C), transposed. Shape (16, 4H)."""
    constant: Float32Array
    """W shift + biases. Shape (4H,)."""

    @classmethod
    def of(cls, w: Mapping[str, Float32Array], cell: str, suffix: str) -> _InputGates:
        weight = w[f"{cell}.weight_ih{suffix}"].astype(np.float64)
        product = (weight * w["embed_norm.weight"]) @ _centred(w)  # (4H, E) @ (E, 16)
        constant = weight @ w["embed_norm.bias"] + w[f"{cell}.bias_ih{suffix}"] + w[f"{cell}.bias_hh{suffix}"]
        return cls(np.ascontiguousarray(product.T, dtype=np.float32), constant.astype(np.float32))

    def of_rows(self, scaled: Float32Array) -> Float32Array:
        """Return the share of every row (n, 4H) for its z / deviation (n, 16)."""
        gates: Float32Array = scaled @ self.product
        gates += self.constant
        return gates


class PointerDecoder:
    """The pointer network's forward pass for one graph, looking at allowed ops only.

    Ops that are not ready (or do not fit) have weight 0 in the masked attention of `pointer.PointerNetwork`, so leaving
    them out gives the same order up to float32 rounding, in time that grows with the width of the graph, not its size.
    """

    def __init__(self, config: PointerConfig, weights: Mapping[str, Float32Array]) -> None:
        """Take weights as named and shaped by `weight_shapes`."""
        self.config = config
        w = {name: np.ascontiguousarray(weights[name], dtype=np.float32) for name in weight_shapes(config)}
        centred = _centred(w)
        self._variance = centred.T @ centred / config.embed_size  # (16, E) @ (E, 16)
        self._encoder_gates, self._decoder_gates = _InputGates.of(w, "encoder", "_l0"), _InputGates.of(w, "decoder", "")
        start = w["decoder.weight_ih"] @ w["start"] + w["decoder.bias_ih"] + w["decoder.bias_hh"]
        self._start_gates: Float32Array = start
        self._encoder, self._decoder = Factor.of(w["encoder.weight_hh_l0"]), Factor.of(w["decoder.weight_hh"])
        self._gain, self._shift = w["encoder_norm.weight"], w["encoder_norm.bias"]
        attentions = ("glimpse", "pointer")
        self._refs = [(w[f"{name}.ref.weight"].T.copy(), w[f"{name}.ref.bias"]) for name in attentions]
        self._glimpse, self._pointer = (_Attention.of(w, name) for name in attentions)
        size = config.hidden_size
        self._budget = w["budget.weight"].T.copy() if config.knows_budget else np.empty((0, size), dtype=np.float32)

    def orders(self, graph: DnnGraph, num_stages: int) -> list[IntArray]:
        """Return the distinct greedy orders of a graph, one for each budget (one at all without budgets).

        A greedy order takes the likeliest op at every step, of those that are ready and fit.

        Returns:
            Topological orders of shape (n,).

        Raises:
            InvalidScheduleError: A decoded order is not topological.
        """
        scaled = self._scaled(graph)
        read, hidden, cell = self._read(scaled)
        glimpse_refs, pointer_refs = (read @ weight + bias for weight, bias in self._refs)  # (n, H) @ (H, H)
        input_gates = self._decoder_gates.of_rows(scaled)
        child_start, child = _children(graph)
        param_bytes = graph.param_bytes[row_order(graph)]
        orders: dict[bytes, IntArray] = {}
        budgets = Budgets(param_bytes, num_stages, self.config.slacks)
        decoder, glimpse, pointer = self._decoder, self._glimpse, self._pointer
        step, peak = 0, None
        while (budget := budgets.next(step, peak) if self.config.knows_budget else _NO_BUDGET) is not None:
            rows = greedy_rows(
                child_start, child, param_bytes, budget, self._start_gates, input_gates, glimpse_refs,
                pointer_refs, hidden.copy(), cell.copy(), decoder.matrix, decoder.scale,
                glimpse.query, glimpse.scale, glimpse.bias, glimpse.v,
                pointer.query, pointer.scale, pointer.bias, pointer.v, self._budget,
            )  # fmt: skip
            order: IntArray = row_order(graph)[rows]
            if not graph.is_topological(order):
                raise InvalidScheduleError(f"the policy's order of graph {graph.name!r} is not a topological one")
            orders.setdefault(order.tobytes(), order)
            if not self.config.knows_budget:
                break
            found = order_peak(param_bytes, rows, num_stages)
            step, peak = step + 1, found if peak is None else min(peak, found)
        return list(orders.values())

    def _scaled(self, graph: DnnGraph) -> Float32Array:
        """Return every row's features and 1, divided by the deviation of its embedding. Shape (n, 16)."""
        z = np.ones((graph.num_ops, NUM_FEATURES + 1))
        z[:, :-1] = node_features(graph)
        variance = np.einsum("ij,ij->i", z @ self._variance, z)
        scaled: Float32Array = (z / np.sqrt(np.maximum(variance, 0) + _NORM_EPSILON)[:, None]).astype(np.float32)
        return scaled

    def _read(self, scaled: Float32Array) -> tuple[Float32Array, Float32Array, Float32Array]:
        """Run the encoder; returns its normed states (n, H), and its last hidden and cell state (H,)."""
        read = np.empty((len(scaled), self.config.hidden_size), dtype=np.float32)
        cell = read_in_order(self._encoder_gates.of_rows(scaled), *self._encoder, read)
        last = read[-1].copy()
        read -= read.mean(axis=1, keepdims=True)
        read /= np.sqrt((read * read).mean(axis=1, keepdims=True) + _NORM_EPSILON)
        read *= self._gain
        read += self._shift
        return read, last, cell


def order_peak(param_bytes: IntArray, order: IntArray, num_stages: int) -> int:
    """Return the peak memory of the optimal contiguous split of an order (n,) into K stages, in bytes."""
    prefix = np.zeros(order.size + 1, dtype=np.int64)
    np.cumsum(param_bytes[order], out=prefix[1:])
    return int(smallest_peak(prefix, num_stages))


def _centred(w: Mapping[str, Float32Array]) -> FloatArray:
    """Return the embedding's weight and bias side by side, less their mean over the embedding. Shape (E, 16)."""
    joined = np.concatenate([w["embed.weight"], w["embed.bias"][:, None]], axis=1).astype(np.float64)
    out: FloatArray = joined - joined.mean(axis=0)
    return out


def _children(graph: DnnGraph) -> tuple[IntArray, IntArray]:
    """Return where the readers of each row start (n + 1,), and the readers' rows."""
    edges = row_edges(graph)
    start = np.zeros(graph.num_ops + 1, dtype=np.int64)
    np.cumsum(np.bincount(edges[:, 0], minlength=graph.num_ops), out=start[1:])
    return start, edges[np.argsort(edges[:, 0], kind="stable"), 1]
