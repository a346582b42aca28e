"""The DARTS ImageNet network's first normal cell, in the mobile setting.

Liu, Simonyan and Yang, "DARTS: Differentiable Architecture Search" (ICLR 2019), genotype DARTS_V2: 14 cells from 48
channels on 224 x 224 images. Two stems halve the image to 56 x 56 and then 28 x 28, both with 48 channels; the first
cell reads both.

What is assumed: the cell is counted from its two preprocessed states, 28 x 28 x 48 each, with float values (4 bytes):
the least peak is then 6 tensors of 150 528 bytes, which is the published 903 KB. Ops are those that a converter to
TFLite leaves, batch norms folded into convolutions, the ReLU in front of each separable or dilated convolution an op of
its own (it reads a state that others read too), all others folded. They lie in breadth-first order, as in the SwiftNet
file of the same authors' tool chain; the order of the file behind the published 1656 KB is not known.
"""

from __future__ import annotations

from typing import Final

from respect_core.graph import DnnGraph
from respect_core.sources.conv_builder import ConvBuilder

NAME: Final = "DARTS-normal"

CHANNELS: Final = 48

NORMAL: Final = (
    (("sep_conv_3x3", 0), ("sep_conv_3x3", 1)),
    (("sep_conv_3x3", 0), ("sep_conv_3x3", 1)),
    (("sep_conv_3x3", 1), ("skip_connect", 0)),
    (("skip_connect", 0), ("dil_conv_3x3", 2)),
)
"""For each node the two ops that it adds up, with the state each reads: 0 and 1 are the inputs, 2 the first node."""


def darts_normal_cell() -> DnnGraph:
    """Build the cell as a graph of its own whose inputs are the two preprocessed states: 33 ops."""
    shape = (28, 28, CHANNELS)
    net = ConvBuilder(4, [("state0", shape), ("state1", shape)])
    states = [-1, -2]
    for node, pair in enumerate(NORMAL, start=2):
        ends = [_op(net, f"node{node}/{'ab'[i]}", kind, states[source]) for i, (kind, source) in enumerate(pair)]
        states.append(net.add(f"node{node}/add", ends))
    net.concat("concat", states[2:])
    return net.graph(NAME, "tflite", breadth_first=True)


def _op(net: ConvBuilder, name: str, kind: str, source: int) -> int:
    """Add one of the genotype's ops; a separable convolution is applied twice, a dilated one once."""
    if kind == "skip_connect":
        return source
    at = source
    for time in range(2 if kind == "sep_conv_3x3" else 1):
        if time == 0:
            at = net.add_op(f"{name}/relu", "activation", [at], net.shape(at))
        at = net.depthwise(f"{name}/depthwise{time}", at)
        at = net.conv(f"{name}/pointwise{time}", at, CHANNELS)
    return at
