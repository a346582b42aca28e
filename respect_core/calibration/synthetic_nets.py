"""The synthetic nets of published measurements: five equal layers, remade from their names."""

from __future__ import annotations

import itertools
import json
import re
from typing import Final

from respect_core.calibration.facts import Layer, StageFacts
from respect_core.device import MIB
from respect_core.errors import BadInputError
from respect_core.sources.tflite_costs import compiled_bytes_of, macs_of

SYNTHETIC: Final = re.compile(r"synthetic_(CONV|FC)_(\d+)")
"""Names of these nets: their kind, and the filters or units of a layer."""


def synthetic_layers(kind: str, size: int) -> list[tuple[StageFacts, float, float]]:
    """Return the five equal layers of a synthetic net: each as a stage of its own, with its input and output in MiB.

    `CONV`: 3x3 convolutions with ``size`` filters on 64 x 64 pixels, 3 channels at first; `FC`: dense layers of
    ``size`` units between 64 inputs and 10 outputs.
    """
    shapes: list[tuple[int, ...]]
    if kind == "CONV":
        shapes = [(size, 3, 3, channels) for channels in (3, size, size, size, size)]
        values, op = 64 * 64, "conv2d"
    else:
        widths = (64, size, size, size, size, 10)
        shapes = [(after, before) for before, after in itertools.pairwise(widths)]
        values, op = 1, "fully_connected"
    out = []
    for shape in shapes:
        received, sent = values * shape[-1] / MIB, values * shape[0] / MIB
        layer = Layer(compiled_mib=compiled_bytes_of(op, shape, "INT8") / MIB, activation_mib=received + sent)
        facts = StageFacts(
            input_mib=received, output_mib=sent, gmac=macs_of(op, shape, (values, shape[0])) / 1e9, layers=(layer,)
        )
        out.append((facts, received, sent))
    return out


def cut_layers(layers: list[tuple[StageFacts, float, float]], text: str, num_stages: int) -> tuple[StageFacts, ...]:
    """Cut layers into stages.

    Args:
        layers: As `synthetic_layers` returns them.
        text: The K + 1 bounds as a JSON list, from 0 to the number of layers; empty for one stage.
        num_stages: K.

    Raises:
        BadInputError: The bounds are not such a list.
    """
    try:
        cuts = [int(cut) for cut in json.loads(text)] if text else [0, len(layers)]
    except (ValueError, TypeError):
        cuts = []
    if len(cuts) != num_stages + 1 or cuts != sorted(set(cuts)) or cuts[0] != 0 or cuts[-1] != len(layers):
        raise BadInputError(f"seg_cuts_layers is {text!r}, expected {num_stages + 1} bounds from 0 to {len(layers)}")
    return tuple(
        StageFacts(
            input_mib=layers[first][1],
            output_mib=layers[end - 1][2],
            gmac=sum(facts.gmac for facts, _, _ in layers[first:end]),
            layers=tuple(layer for facts, _, _ in layers[first:end] for layer in facts.layers),
        )
        for first, end in itertools.pairwise(cuts)
    )
