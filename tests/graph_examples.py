"""Graphs of whole networks."""

from __future__ import annotations

from pathlib import Path

from respect_core.graph import DnnGraph
from respect_core.sources.small_network import SmallNetwork, small_network
from respect_core.sources.tflite import content_of


def small_network_graph() -> DnnGraph:
    """Return the op graph of the project's own small network, on small images."""
    return content_of(Path("small.tflite"), small_network(SmallNetwork(image_size=16))).graph
