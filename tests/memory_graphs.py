"""Graphs on which orders for least memory are tested: wide, random, and degenerate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from respect_core.graph import UNKNOWN, DnnGraph


def graph_of(
    sizes: Sequence[int],
    parents: Sequence[Sequence[int]],
    *,
    kinds: Sequence[str] | None = None,
    inputs: Sequence[tuple[int, Sequence[int]]] = (),
    outputs: Sequence[int] = (),
    name: str = "made",
) -> DnnGraph:
    """Build a graph of n ops with one output tensor each.

    Args:
        sizes: Bytes of each op's output.
        parents: Ops whose outputs each op reads.
        kinds: Kind of each op, `conv2d` unless given.
        inputs: Bytes and readers of each graph input.
        outputs: Ops whose outputs are graph outputs, beside those that nobody reads.
        name: Its name.
    """
    n = len(sizes)
    readers: list[list[int]] = [[] for _ in range(n)]
    for v, sources in enumerate(parents):
        for u in sources:
            readers[u].append(v)
    all_readers = [*readers, *(list(r) for _, r in inputs)]
    return DnnGraph(
        name=name, source="json",
        op_names=tuple(f"op{v}" for v in range(n)), op_kinds=tuple(kinds or ["conv2d"] * n),
        param_bytes=np.zeros(n, dtype=np.int64), macs=np.zeros(n, dtype=np.int64),
        compiled_bytes=np.full(n, UNKNOWN), always_streamed_bytes=np.zeros(n, dtype=np.int64),
        op_time_us=np.full(n, np.nan),
        tensor_names=tuple(f"t{t}" for t in range(len(all_readers))),
        tensor_bytes=np.array([*sizes, *(size for size, _ in inputs)], dtype=np.int64),
        tensor_producer=np.array([*range(n), *([UNKNOWN] * len(inputs))], dtype=np.int64),
        tensor_consumers=tuple(tuple(sorted(set(r))) for r in all_readers),
        tensor_is_output=np.array([v in outputs or not readers[v] for v in range(n)] + [False] * len(inputs)),
    )  # fmt: skip


def random_graph(num_ops: int, window: int, degree: int, seed: int, largest: int = 5000) -> DnnGraph:
    """Draw a graph whose ops have up to ``degree`` parents among the ``window`` ops before them (0: all of them)."""
    rng = np.random.default_rng([num_ops, window, degree, seed])
    parents = [[]] + [
        rng.choice(
            np.arange(max(0, v - window) if window else 0, v),
            min(int(rng.integers(1, degree + 1)), min(v, window) if window else v),
            replace=False,
        ).tolist()
        for v in range(1, num_ops)
    ]
    kinds = rng.choice(["conv2d", "concat", "add"], num_ops).tolist()
    sizes = rng.integers(0, largest + 1, num_ops).tolist()
    return graph_of(sizes, parents, kinds=kinds, inputs=[(int(rng.integers(0, largest)), [0])],
                    name=f"random-{num_ops}-{window}-{degree}-{seed}")  # fmt: skip


def read_on(graph: DnnGraph, size: int) -> DnnGraph:
    """Let a convolution whose output has so many bytes read the only graph output, as what follows a cell does."""
    (output,) = np.flatnonzero(graph.tensor_is_output).tolist()
    n = graph.num_ops
    readers = [*graph.tensor_consumers, ()]
    readers[output] = (*readers[output], n)
    return DnnGraph(
        name=f"{graph.name}, read on", source=graph.source,
        op_names=(*graph.op_names, "reader"), op_kinds=(*graph.op_kinds, "conv2d"),
        param_bytes=np.append(graph.param_bytes, 0), macs=np.append(graph.macs, 0),
        compiled_bytes=np.append(graph.compiled_bytes, UNKNOWN),
        always_streamed_bytes=np.append(graph.always_streamed_bytes, 0),
        op_time_us=np.append(graph.op_time_us, np.nan),
        tensor_names=(*graph.tensor_names, "read"), tensor_bytes=np.append(graph.tensor_bytes, size),
        tensor_producer=np.append(graph.tensor_producer, n), tensor_consumers=tuple(readers),
        tensor_is_output=np.append(np.zeros(graph.num_tensors, dtype=np.bool_), True),
    )  # fmt: skip
