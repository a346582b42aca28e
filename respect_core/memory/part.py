"""A part of a network as a graph of its own, counted with its own inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph, IntArray

_RANGE = re.compile(r"(\d+)-(\d+)")


def op_range(text: str, graph: DnnGraph) -> range:
    """Read a range of ops such as ``5-32``, both ends included.

    Raises:
        BadInputError: It is not written so, is empty, or the graph has no such ops.
    """
    match = _RANGE.fullmatch(text.strip())
    if not match:
        raise BadInputError(f"ops {text!r} are not a range; write the first and the last op, such as 5-32")
    first, last = int(match[1]), int(match[2])
    if not first <= last < graph.num_ops:
        raise BadInputError(
            f"ops {text!r} are no range of graph {graph.name!r}, whose ops are 0-{graph.num_ops - 1}, first <= last"
        )
    return range(first, last + 1)


def subgraph(graph: DnnGraph, ops: Sequence[int] | IntArray) -> DnnGraph:
    """Cut some ops out of a graph.

    Tensors made by other ops and read here become graph inputs; tensors made here and read by others become graph
    outputs, beside those that are graph outputs anyway. Op i of the part is the i-th of ``ops`` in ascending order.

    Args:
        graph: The whole network.
        ops: Indices of the ops to keep, at least one.

    Raises:
        BadInputError: No ops, one twice, or one that does not exist.
    """
    chosen = np.sort(np.asarray(ops, dtype=np.int64))
    if chosen.ndim != 1 or chosen.size == 0 or np.unique(chosen).size < chosen.size:
        raise BadInputError(f"graph {graph.name!r}: a part of it needs at least one op, and each once")
    if chosen[0] < 0 or chosen[-1] >= graph.num_ops:
        outside = int(chosen[0] if chosen[0] < 0 else chosen[-1])
        raise BadInputError(f"graph {graph.name!r}: there is no op {outside}, its ops are 0..{graph.num_ops - 1}")
    local = {int(v): i for i, v in enumerate(chosen)}
    kept, producers, consumers, is_output = [], [], [], []
    for t, (producer, readers) in enumerate(zip(graph.tensor_producer.tolist(), graph.tensor_consumers, strict=True)):
        inside = tuple(local[v] for v in readers if v in local)
        if not inside and producer not in local:
            continue
        kept.append(t)
        producers.append(local.get(producer, -1))
        consumers.append(inside)
        is_output.append(producer in local and (bool(graph.tensor_is_output[t]) or len(inside) < len(readers)))
    name = f"{graph.name}[{chosen[0]}-{chosen[-1]}]"
    return DnnGraph(
        name=name,
        source=graph.source,
        op_names=tuple(graph.op_names[v] for v in chosen),
        op_kinds=tuple(graph.op_kinds[v] for v in chosen),
        param_bytes=graph.param_bytes[chosen],
        macs=graph.macs[chosen],
        compiled_bytes=graph.compiled_bytes[chosen],
        always_streamed_bytes=graph.always_streamed_bytes[chosen],
        op_time_us=graph.op_time_us[chosen],
        tensor_names=tuple(graph.tensor_names[t] for t in kept),
        tensor_bytes=graph.tensor_bytes[np.array(kept, dtype=np.int64)],
        tensor_producer=np.array(producers, dtype=np.int64),
        tensor_consumers=tuple(consumers),
        tensor_is_output=np.array(is_output, dtype=np.bool_),
    )
