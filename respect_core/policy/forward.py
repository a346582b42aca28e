"""The policy's forward pass for one graph, without torch: NumPy products and compiled sums along the edges."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from respect_core.compiled import compiled
from respect_core.graph import IntArray
from respect_core.policy.config import NetworkConfig
from respect_core.policy.features import NUM_FEATURES, Float32Array
from respect_core.solve.local_search_orders import NUM_COEFFICIENTS

NORM_EPSILON = 1e-5


def weight_shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every weight of a network of these sizes."""
    d = config.width
    shapes: dict[str, tuple[int, ...]] = {"embed.weight": (d, NUM_FEATURES), "embed.bias": (d,)}
    for i in range(config.rounds):
        layer = f"layers.{i}"
        shapes |= {
            f"{layer}.norm.weight": (d,),
            f"{layer}.norm.bias": (d,),
            f"{layer}.mix.weight": (d, 3 * d),
            f"{layer}.mix.bias": (d,),
            f"{layer}.all.weight": (d, d),
            f"{layer}.out.weight": (d, d),
            f"{layer}.out.bias": (d,),
        }
    shapes |= {"norm.weight": (d,), "norm.bias": (d,), "head.weight": (NUM_COEFFICIENTS, d)}
    return shapes | {"head.bias": (NUM_COEFFICIENTS,)}


class Forward:
    """A network's forward pass; time and space grow with the ops and edges of the graph."""

    def __init__(self, config: NetworkConfig, weights: Mapping[str, Float32Array]) -> None:
        """Take weights as named and shaped by `weight_shapes`."""
        self.config = config
        self._w = {name: np.ascontiguousarray(weights[name], dtype=np.float32) for name in weight_shapes(config)}
        self._t = {name: np.ascontiguousarray(w.T) for name, w in self._w.items() if w.ndim == 2}

    def coefficients(self, features: Float32Array, first: IntArray, near: IntArray) -> Float32Array:
        """Return the coefficients of every op's score.

        Args:
            features: `respect_core.policy.features.fill_features`. Shape (n, NUM_FEATURES).
            first: As in `respect_core.solve.local_search_graph.SearchGraph`.
            near: Likewise.

        Returns:
            Shape (n, NUM_COEFFICIENTS).
        """
        w, t, width = self._w, self._t, self.config.width
        h: Float32Array = features @ t["embed.weight"]
        h += w["embed.bias"]
        near_rows = np.empty((len(h), 3 * width), dtype=np.float32)
        for i in range(self.config.rounds):
            layer = f"layers.{i}"
            _norm_and_average(h, w[f"{layer}.norm.weight"], w[f"{layer}.norm.bias"], first, near, near_rows)
            everywhere = near_rows[:, :width].mean(axis=0) @ t[f"{layer}.all.weight"] + w[f"{layer}.mix.bias"]  # (d,)
            mixed = near_rows @ t[f"{layer}.mix.weight"]  # (n, 3d) @ (3d, d) -> (n, d)
            mixed += everywhere
            np.maximum(mixed, 0, out=mixed)
            h += mixed @ t[f"{layer}.out.weight"]
            h += w[f"{layer}.out.bias"]
        _normalise(h, w["norm.weight"], w["norm.bias"])
        out: Float32Array = h @ t["head.weight"] + w["head.bias"]
        return out


@compiled
def _normalise(rows: Float32Array, scale: Float32Array, shift: Float32Array) -> None:
    """Apply a layer norm to every row, in place."""
    n, d = rows.shape
    for v in range(n):
        mean = np.float32(0)
        for i in range(d):
            mean += rows[v, i]
        mean /= np.float32(d)
        spread = np.float32(0)
        for i in range(d):
            rows[v, i] -= mean
            spread += rows[v, i] * rows[v, i]
        factor = np.float32(1) / np.sqrt(spread / np.float32(d) + np.float32(NORM_EPSILON))
        for i in range(d):
            rows[v, i] = rows[v, i] * factor * scale[i] + shift[i]


@compiled
def _norm_and_average(
    rows: Float32Array, scale: Float32Array, shift: Float32Array, first: IntArray, near: IntArray, out: Float32Array
) -> None:
    """Write the layer norm of (n, d) rows, and its means over parents and over children, side by side into (n, 3d)."""
    n, d = rows.shape
    for v in range(n):
        mean = np.float32(0)
        for i in range(d):
            mean += rows[v, i]
        mean /= np.float32(d)
        spread = np.float32(0)
        for i in range(d):
            spread += (rows[v, i] - mean) * (rows[v, i] - mean)
        factor = np.float32(1) / np.sqrt(spread / np.float32(d) + np.float32(NORM_EPSILON))
        for i in range(d):
            out[v, i] = (rows[v, i] - mean) * factor * scale[i] + shift[i]
    for v in range(n):
        for side in range(2):
            at = (1 - side) * (n + 1) + v  # parents first
            base = (1 + side) * d
            for i in range(d):
                out[v, base + i] = np.float32(0)
            count = first[at + 1] - first[at]
            if count == 0:
                continue
            share = np.float32(1) / np.float32(count)
            for r in range(first[at], first[at + 1]):
                u = near[r]
                for i in range(d):
                    out[v, base + i] += share * out[u, i]
