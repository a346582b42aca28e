"""What the page's script draws: ops with their places, tensors, edges and stages as plain JSON values."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from respect_core.device import MIB, DeviceProfile
from respect_core.graph import UNKNOWN, DnnGraph
from respect_core.objective import time_terms
from respect_core.report.view_layout import OP_HEIGHT, OP_WIDTH, Layout
from respect_core.report.view_loads import BoundaryTensor, StageLoad
from respect_core.report.view_schedule import ShownSchedule

_NAME_ROOM: Final = 26
_KIND_ROOM: Final = 17
"""Characters of a name and a kind that fit into the box of an op."""


def graph_data(
    graph: DnnGraph,
    profile: DeviceProfile,
    layout: Layout,
    schedule: ShownSchedule | None,
    loads: Sequence[StageLoad],
    crossing: Sequence[BoundaryTensor],
) -> dict[str, Any]:
    """Collect what the script needs; ops, tensors and edges refer to each other by index."""
    compute_ns = time_terms(graph, profile).compute_ns
    shared = shared_prefix(graph.op_names)
    ops = [
        {
            "n": safe_text(name),
            "l": short_label(name, _NAME_ROOM, shared),
            "k": safe_text(graph.op_kinds[v]),
            "d": _second_line(graph, v),
            "s": schedule.stage_of[v] if schedule else None,
            "p": int(graph.param_bytes[v]),
            "m": int(graph.macs[v]),
            "c": None if graph.compiled_bytes[v] == UNKNOWN else int(graph.compiled_bytes[v]),
            "a": int(graph.always_streamed_bytes[v]),
            "t": int(compute_ns[v]),
            "measured": not math.isnan(graph.op_time_us[v]),
            "x": layout.x[v],
            "y": layout.y[v],
            "layer": layout.layer[v],
        }
        for v, name in enumerate(graph.op_names)
    ]
    tensors = [
        {
            "n": safe_text(name),
            "b": int(graph.tensor_bytes[t]),
            "p": None if graph.tensor_producer[t] == UNKNOWN else int(graph.tensor_producer[t]),
            "c": list(graph.tensor_consumers[t]),
            "o": bool(graph.tensor_is_output[t]),
        }
        for t, name in enumerate(graph.tensor_names)
    ]
    edges = [
        [u, v, [round(number) for point in route for number in point]]
        for (u, v), route in zip(graph.edges.tolist(), layout.routes, strict=True)
    ]
    return {
        "ops": ops,
        "tensors": tensors,
        "edges": edges,
        "width": layout.width,
        "height": layout.height,
        "opWidth": OP_WIDTH,
        "opHeight": OP_HEIGHT,
        "device": safe_text(profile.name),
        "stages": [_stage(load, band) for load, band in zip(loads, layout.bands, strict=True)] if schedule else [],
        "boundaries": [_boundary(crossing, d) for d in range(len(loads) - 1)],
    }


def shared_prefix(names: Sequence[str]) -> str:
    """Return the leading path, up to a ``/``, that more than half of the names begin with.

    >>> shared_prefix(["net/a/x", "net/a/y", "net/b", "out"])
    'net/'
    """
    prefix = ""
    while True:
        longer = Counter(
            prefix + name[len(prefix) :].partition("/")[0] + "/"
            for name in names
            if name.startswith(prefix) and "/" in name[len(prefix) :].partition(";")[0]
        )
        best, count = longer.most_common(1)[0] if longer else ("", 0)
        if 2 * count <= len(names) or count < 2:
            return prefix
        prefix = best


def short_label(name: str, room: int, shared: str = "") -> str:
    """Shorten a name to about ``room`` narrow characters, keeping the parts that tell ops apart.

    A converter joins the names of fused ops by ``;``: the first stands for all. The path ``shared`` in front is left
    out. Of what is still too long the first and last part of the path are kept, or both ends.

    >>> short_label("net/net/Conv2d_0/Relu6;net/Conv2d_0/bias", 20, "net/net/")
    'Conv2d_0/Relu6'
    >>> short_label("conv_pre1/bn/bn/activation", 24)
    'conv_pre1/…/activation'
    >>> short_label("a_very_long_name_of_an_op_indeed", 15)
    'a_very_…_indeed'
    """
    text = safe_text((name.removeprefix(shared) or name).partition(";")[0] or name)
    if _columns(text) <= room:
        return text
    parts = text.split("/")
    ends = f"{parts[0]}/…/{parts[-1]}"
    if len(parts) > 2 and _columns(ends) <= room:
        return ends
    head, tail = "", ""
    for front, back in zip(text, reversed(text), strict=True):
        if _columns(head + front + tail) + 1 > room:
            break
        head += front
        if _columns(head + back + tail) + 1 > room:
            break
        tail = back + tail
    return f"{head}…{tail}"


def safe_text(name: str) -> str:
    """Replace what cannot be shown or encoded: control characters, unpaired surrogates, marks that turn text around."""
    return "".join(
        character if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else "\ufffd"
        for character in name
    )


def bytes_short(num_bytes: int) -> str:
    """Write bytes in the unit that suits them."""
    if num_bytes < 1024:
        return f"{num_bytes} B"
    return f"{num_bytes / 1024:.1f} KiB" if num_bytes < MIB else f"{num_bytes / MIB:.2f} MiB"


def ms_short(nanoseconds: int) -> str:
    """Write nanoseconds in milliseconds with three digits after the point."""
    return f"{nanoseconds / 1e6:.3f} ms"


def _columns(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def _second_line(graph: DnnGraph, v: int) -> str:
    kind = short_label(graph.op_kinds[v], _KIND_ROOM)
    size = int(graph.param_bytes[v])
    return f"{kind} · {bytes_short(size)}" if size else kind


def _stage(load: StageLoad, band: tuple[float, float]) -> dict[str, Any]:
    ops = f"{load.num_ops} op{'s' if load.num_ops != 1 else ''}"
    return {
        "label": f"Stage {load.stage}",
        "facts": f"{ops} · {bytes_short(load.param_bytes)} · {ms_short(load.time_ns)}",
        "top": band[0],
        "bottom": band[1],
    }


def _boundary(crossing: Sequence[BoundaryTensor], d: int) -> str:
    """Say what crosses the boundary between stages d and d + 1."""
    over = [b for b in crossing if b.made_in <= d < b.read_in[-1]]
    tensors = f"{len(over)} tensor{'s' if len(over) != 1 else ''}"
    return f"{tensors} · {bytes_short(sum(b.num_bytes for b in over))}"
