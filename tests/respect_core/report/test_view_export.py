"""The exports have the form that Model Explorer documents and that its loader asks for."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given

from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.report.view_data import safe_text
from respect_core.report.view_export import FILLS, model_explorer_graph, model_explorer_stages
from tests.respect_core.report.view_input import five_ops, hostile_graph, schedule_for
from tests.strategies import graphs

NODE_FIELDS = {"id", "label", "namespace", "attrs", "incomingEdges", "outputsMetadata", "style"}
"""Those of Model Explorer's `GraphNode` that are used."""


def nodes_of(text: str) -> dict[str, dict[str, Any]]:
    """Check a graph collection against the documented types; return its nodes by their id."""
    content = json.loads(text)
    assert set(content) == {"label", "graphs"} and isinstance(content["label"], str)
    (graph,) = content["graphs"]
    assert set(graph) == {"id", "nodes"} and isinstance(graph["id"], str)
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert len(nodes) == len(graph["nodes"])
    for node in nodes.values():
        assert {"id", "label", "namespace"} <= set(node) <= NODE_FIELDS
        assert all(isinstance(node[key], str) for key in ("id", "label", "namespace"))
        for item in node["outputsMetadata"]:
            assert set(item) == {"id", "attrs"}
        for pair in [*node.get("attrs", []), *(pair for item in node["outputsMetadata"] for pair in item["attrs"])]:
            assert set(pair) == {"key", "value"} and all(isinstance(part, str) for part in pair.values())
        assert set(node.get("style", {})) <= {"backgroundColor"}
        slots = [edge["targetNodeInputId"] for edge in node["incomingEdges"]]
        assert slots == [str(i) for i in range(len(slots))]
        for edge in node["incomingEdges"]:
            assert set(edge) == {"sourceNodeId", "sourceNodeOutputId", "targetNodeInputId"}
            outputs = {item["id"] for item in nodes[edge["sourceNodeId"]]["outputsMetadata"]}
            assert edge["sourceNodeOutputId"] in outputs, "an edge leaves an output that the node has"
    return nodes


def tensor_name(nodes: dict[str, dict[str, Any]], edge: dict[str, str]) -> str:
    items = {item["id"]: item for item in nodes[edge["sourceNodeId"]]["outputsMetadata"]}
    name = next(pair["value"] for pair in items[edge["sourceNodeOutputId"]]["attrs"] if pair["key"] == "tensor_name")
    assert isinstance(name, str)
    return name


@given(graphs(max_ops=10))
def test_every_op_and_every_read_is_there(graph: DnnGraph) -> None:
    schedule = schedule_for(graph, min(3, graph.num_ops))
    nodes = nodes_of(model_explorer_graph(graph, schedule))
    for v in range(graph.num_ops):
        node = nodes[str(v)]
        assert node["namespace"] == f"stage {schedule.stage_of[v]}"
        read = Counter(tensor_name(nodes, edge) for edge in node["incomingEdges"])
        assert read == Counter(
            graph.tensor_names[t] for t, readers in enumerate(graph.tensor_consumers) if v in readers
        )
    outputs = [t for t in range(graph.num_tensors) if graph.tensor_is_output[t] and graph.tensor_producer[t] != UNKNOWN]
    ends = nodes["graph outputs"]["incomingEdges"] if outputs else []
    assert Counter(tensor_name(nodes, edge) for edge in ends) == Counter(graph.tensor_names[t] for t in outputs)


@given(graphs(max_ops=10))
def test_stages_are_keyed_by_tensor(graph: DnnGraph) -> None:
    schedule = schedule_for(graph, min(3, graph.num_ops))
    content = json.loads(model_explorer_stages(graph, schedule))
    assert set(content) == {"results", "hideInAggregatedStatsTable", "hideInChildrenStatsTable"}
    made = {name: p for name, p in zip(graph.tensor_names, graph.tensor_producer.tolist(), strict=True) if p != UNKNOWN}
    assert set(content["results"]) == set(made)
    for name, result in content["results"].items():
        stage = schedule.stage_of[made[name]]
        assert result == {"value": stage, "bgColor": FILLS[stage % len(FILLS)]}


def test_facts_of_an_op_are_texts() -> None:
    nodes = nodes_of(model_explorer_graph(five_ops()))
    attributes = {pair["key"]: pair["value"] for pair in nodes["1"]["attrs"]}
    assert attributes == {
        "name": "stem/conv;stem/bias", "param_bytes": "9437184", "macs": "81000000", "compiled_bytes": "9500000",
    }  # fmt: skip
    assert nodes["1"]["namespace"] == "" and nodes["1"]["label"] == "conv2d"


def test_hostile_names_survive() -> None:
    graph = hostile_graph()
    nodes = nodes_of(model_explorer_graph(graph, schedule_for(graph, 2)))
    assert {pair["value"] for pair in nodes["2"]["attrs"]} >= {safe_text(graph.op_names[2])}
