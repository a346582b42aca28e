"""A graph and its schedule as the JSON that Model Explorer (google-ai-edge/model-explorer) opens.

Two of its documented forms are written: a graph collection, `{label, graphs: [{id, nodes: [...]}]}` with the fields of
its `graph_builder.py`, and custom node data, `{results: {key: {value, bgColor}}}` with those of `node_data_builder.py`.
Numbers of attributes are texts there, and a node's output tensor is named by the attribute `tensor_name`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.report.view_data import safe_text
from respect_core.report.view_schedule import ShownSchedule

FILLS: Final = ("#b3d4e8", "#f8e0b2", "#b3e1d4", "#f0d5e4", "#cbe7f8", "#f3cfb2", "#dcd3bb", "#d6c9e4")
"""Light fills of stages, on which Model Explorer's dark labels can be read; further stages begin again."""

_INPUTS: Final = "graph inputs"
_OUTPUTS: Final = "graph outputs"


def model_explorer_graph(graph: DnnGraph, schedule: ShownSchedule | None = None) -> str:
    """Write the graph as a collection for Model Explorer; with a schedule, each stage is a layer of its own.

    Nodes are named by the index of their op. Graph inputs and outputs are nodes of their own, outside the stages.
    """
    incoming: list[list[dict[str, str]]] = [[] for _ in range(graph.num_ops)]
    outgoing: list[list[int]] = [[] for _ in range(graph.num_ops)]
    for t, producer in enumerate(graph.tensor_producer.tolist()):
        if producer != UNKNOWN:
            outgoing[producer].append(t)
    slot = {t: str(i) for made in outgoing for i, t in enumerate(made)}
    inputs = [t for t, producer in enumerate(graph.tensor_producer.tolist()) if producer == UNKNOWN]
    slot |= {t: str(i) for i, t in enumerate(inputs)}
    for t, readers in enumerate(graph.tensor_consumers):
        producer = int(graph.tensor_producer[t])
        source = _INPUTS if producer == UNKNOWN else str(producer)
        for v in readers:
            edge = {"sourceNodeId": source, "sourceNodeOutputId": slot[t], "targetNodeInputId": str(len(incoming[v]))}
            incoming[v].append(edge)
    nodes = [_op_node(graph, v, schedule, incoming[v], outgoing[v]) for v in range(graph.num_ops)]
    if inputs:
        nodes.insert(0, _node(_INPUTS, "GraphInputs", [], _metadata(graph, inputs)))
    ends = [
        {"sourceNodeId": str(graph.tensor_producer[t]), "sourceNodeOutputId": slot[t], "targetNodeInputId": str(i)}
        for i, t in enumerate(t for made in outgoing for t in made if graph.tensor_is_output[t])
    ]
    if ends:
        nodes.append(_node(_OUTPUTS, "GraphOutputs", ends, []))
    name = safe_text(graph.name)
    return _text({"label": name, "graphs": [{"id": name, "nodes": nodes}]})


def model_explorer_stages(graph: DnnGraph, schedule: ShownSchedule) -> str:
    """Write the stages as node data for Model Explorer, by the names of the output tensors.

    Model Explorer lays it over the graph of `model_explorer_graph`, or over the model's own TFLite file, whose tensors
    have the same names. Ops without an output tensor are left out.
    """
    results: dict[str, Any] = {}
    for t, producer in enumerate(graph.tensor_producer.tolist()):
        if producer != UNKNOWN:
            stage = schedule.stage_of[producer]
            results[safe_text(graph.tensor_names[t])] = {"value": stage, "bgColor": FILLS[stage % len(FILLS)]}
    # A stage is a number but no quantity: sums and means of it say nothing.
    return _text({"results": results, "hideInAggregatedStatsTable": True, "hideInChildrenStatsTable": True})


def _op_node(
    graph: DnnGraph, v: int, schedule: ShownSchedule | None, incoming: list[dict[str, str]], outgoing: list[int]
) -> dict[str, Any]:
    facts = {"name": safe_text(graph.op_names[v]), "param_bytes": int(graph.param_bytes[v]), "macs": int(graph.macs[v])}
    if graph.compiled_bytes[v] != UNKNOWN:
        facts["compiled_bytes"] = int(graph.compiled_bytes[v])
    node = _node(str(v), safe_text(graph.op_kinds[v]), incoming, _metadata(graph, outgoing))
    if schedule is not None:
        stage = schedule.stage_of[v]
        facts["stage"] = stage
        node["namespace"] = f"stage {stage}"
        node["style"] = {"backgroundColor": FILLS[stage % len(FILLS)]}
    node["attrs"] = _attributes(facts)
    return node


def _node(identity: str, label: str, incoming: list[dict[str, str]], outputs: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": identity, "label": label, "namespace": "", "incomingEdges": incoming, "outputsMetadata": outputs}


def _metadata(graph: DnnGraph, tensors: list[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": str(i),
            "attrs": _attributes(
                {"tensor_name": safe_text(graph.tensor_names[t]), "bytes": int(graph.tensor_bytes[t])}
            ),
        }
        for i, t in enumerate(tensors)
    ]


def _attributes(facts: dict[str, Any]) -> list[dict[str, str]]:
    return [{"key": key, "value": str(value)} for key, value in facts.items()]


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
