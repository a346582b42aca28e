"""SwiftNet HPD: the network found by neural architecture search on which SERENITY reports its SwiftNet cells.

Zhang, Yang, Xu, Li and others, "SwiftNet" (visual wake words: person or not, 224 x 224 RGB, 8-bit). The three cells are
irregularly wired; ops are numbered as in the TFLite file that was published of it, whose order is the order of the
file.
"""

from __future__ import annotations

from typing import Final

from respect_core.graph import DnnGraph
from respect_core.sources.conv_builder import ConvBuilder

NAME: Final = "SwiftNet-HPD"

CELLS: Final = {"A": range(5, 33), "B": range(34, 57), "C": range(58, 82)}
"""The ops of each cell: from its first convolution to the addition that ends it."""

# Each entry is one op: its kind, the ops whose outputs it reads, and for a (1x1) convolution its output channels.
_WIRING: Final = {
    "A": """
        conv 4 32; concat 4,5; conv 5 32; conv 4 32; concat 4,8; conv 5 32; conv 6 32; concat 10,11; concat 4,8,10,11;
        conv 12 32; concat 5,14; concat 11,14; conv 15 32; conv 13 32; concat 7,11,17,18; depthwise 11; conv 20 32;
        depthwise 17; conv 22 32; depthwise 16; conv 24 32; depthwise 9; conv 26 32; conv 19 32;
        concat 21,23,25,27,28; conv 4 48; conv 29 48; add 30,31
    """,
    "B": """
        conv 33 48; conv 33 48; conv 33 48; conv 33 48; conv 33 80; depthwise 34; depthwise 34; conv 39 48;
        concat 34,41; concat 34,41; conv 42 48; depthwise 43; conv 40 48; concat 46,35; conv 47 48; conv 35 48;
        concat 33,34,41,36; conv 50 48; conv 51 48; conv 45 48; concat 37,44,48,52,49,53; conv 54 80; add 38,55
    """,
    "C": """
        conv 57 64; conv 57 76; depthwise 58; conv 58 64; depthwise 58; conv 58 64; depthwise 58; depthwise 58;
        conv 60 64; concat 57,66; concat 58,66; conv 67 64; depthwise 68; depthwise 61; depthwise 61; conv 62 64;
        conv 71 64; conv 72 64; conv 70 64; conv 64 64; conv 65 64; concat 69,73,74,63,75,76,77,78; conv 79 76;
        add 59,80
    """,
}


def swiftnet_graph() -> DnnGraph:
    """Build the whole network: 85 ops, all bytes as in its 8-bit TFLite file."""
    net = ConvBuilder(1, [("input", (224, 224, 3))])
    net.add_op("split", "split", [-1], (224, 224, 3), param_bytes=4)
    net.conv("stem/conv", 0, 16, kernel=7, stride=4)
    net.depthwise("stem/depthwise", 1)
    net.conv("stem/pointwise", 2, 32)
    net.pool("stem/pool", 3, "max_pool", 2)
    _add_cell(net, "A")
    net.pool("pool_A", 32, "max_pool", 2)
    _add_cell(net, "B")
    net.pool("pool_B", 56, "max_pool", 2)
    _add_cell(net, "C")
    net.pool("head/pool", 81, "average_pool", 7)
    net.dense("head/logits", 82, 2)
    net.add_op("head/softmax", "softmax", [83], (1, 1, 2))
    return net.graph(NAME, "tflite")


def _add_cell(net: ConvBuilder, cell: str) -> None:
    for number, entry in enumerate(_WIRING[cell].split(";"), start=CELLS[cell].start):
        kind, reads, *channels = entry.split()
        name, sources = f"cell_{cell}/{kind}_{number}", [int(s) for s in reads.split(",")]
        if kind == "conv":
            net.conv(name, sources[0], int(channels[0]))
        elif kind == "depthwise":
            net.depthwise(name, sources[0])
        elif kind == "concat":
            net.concat(name, sources)
        else:
            net.add(name, sources)
