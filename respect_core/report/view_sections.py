"""The parts of the view that are readable without scripts: loads of the stages as bars, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from respect_core.device import DeviceProfile
from respect_core.graph import DnnGraph
from respect_core.report.data import ON_CHIP_BYTES
from respect_core.report.html_parts import bytes_text, esc
from respect_core.report.view_data import bytes_short, ms_short, safe_text
from respect_core.report.view_loads import BoundaryTensor, StageLoad

NUM_COLOURS: Final = 8
"""Colours of stages that the style sheet knows; further stages begin again."""

_PARTS: Final = (
    ("compute", "compute"),
    ("streaming", "streaming that compute does not hide"),
    ("transfer", "transfer"),
    ("overhead", "fixed cost"),
)


def headline(loads: Sequence[StageLoad], profile: DeviceProfile) -> str:
    """Say in a sentence or two where the time and the memory go."""
    slowest = max(loads, key=lambda load: load.time_ns)
    fullest = max(loads, key=lambda load: load.param_bytes)
    rate = f" ({1e9 / slowest.time_ns:,.0f} inferences a second)" if slowest.time_ns else ""
    streamed = sum(load.streamed_bytes for load in loads)
    streams = (
        f"{bytes_short(streamed)} of parameters are streamed on every inference."
        if streamed
        else "All parameters stay on the chips."
    )
    return (
        f'<p class="note">Modelled for {esc(safe_text(profile.name))}, no device was involved. Bottleneck: stage '
        f"{slowest.stage} with {ms_short(slowest.time_ns)}{rate}; latency "
        f"{ms_short(sum(load.time_ns for load in loads))}; peak parameter memory {bytes_short(fullest.param_bytes)} in "
        f"stage {fullest.stage}. {streams}</p>"
    )


def load_bars(loads: Sequence[StageLoad]) -> str:
    """Draw every stage's memory against the 8 MiB of a chip, and its modelled time in parts."""
    most = max(ON_CHIP_BYTES * 1.06, max(load.param_bytes for load in loads) * 1.02)
    slowest = max(1, *(load.time_ns for load in loads))
    memory = "".join(_memory_row(load, most) for load in loads)
    time = "".join(_time_row(load, slowest) for load in loads)
    legend = "".join(f'<li><span class="part {name}"></span>{text}</li>' for name, text in _PARTS)
    return (
        '<div class="panels">'
        "<figure><figcaption>Parameters of every stage (line: 8 MiB on chip)</figcaption>"
        f'<ol class="bars" tabindex="0" role="group" aria-label="Parameters of every stage">{memory}</ol></figure>'
        "<figure><figcaption>Modelled time of every stage</figcaption>"
        f'<ol class="bars" tabindex="0" role="group" aria-label="Modelled time of every stage">{time}</ol>'
        f'<ul class="legend">{legend}</ul></figure>'
        "</div>"
    )


def colour_class(stage: int) -> str:
    """Return the class that gives an element the colour of a stage."""
    return f"s{stage % NUM_COLOURS}"


def _memory_row(load: StageLoad, most: float) -> str:
    over = load.param_bytes > ON_CHIP_BYTES
    what = f"Stage {load.stage}: {load.param_bytes:,} bytes of parameters{', more than 8 MiB' if over else ''}"
    if load.streamed_bytes:
        what += f"; modelled: {bytes_short(load.streamed_bytes)} streamed on every inference"
    return (
        f'<li title="{esc(what)}">{_stage_button(load.stage)}'
        f'<span class="track"><span class="fill {colour_class(load.stage)}{" over" if over else ""}" '
        f'style="width:{_percent(load.param_bytes / most)}"></span>'
        f'<span class="limit" style="left:{_percent(ON_CHIP_BYTES / most)}"></span></span>'
        f'<span class="value">{bytes_short(load.param_bytes)}{" ▲" if over else ""}</span></li>'
    )


def _time_row(load: StageLoad, slowest: int) -> str:
    seen = load.streaming_ns - load.hidden_ns
    values = {
        "compute": load.compute_ns,
        "streaming": seen,
        "transfer": load.transfer_ns,
        "overhead": load.overhead_ns,
    }
    bars = "".join(
        f'<span class="part {name}" style="width:{_percent(value / slowest)}"></span>'
        for name, value in values.items()
        if value
    )
    told = ", ".join(f"{text} {ms_short(values[name])}" for name, text in _PARTS)
    strong = load.time_ns == slowest
    value = f"<strong>{ms_short(load.time_ns)}</strong>" if strong else ms_short(load.time_ns)
    return (
        f'<li title="{esc(f"Stage {load.stage}: {told}")}">{_stage_button(load.stage)}'
        f'<span class="track">{bars}</span><span class="value">{value}</span></li>'
    )


def stage_table(loads: Sequence[StageLoad], profile: DeviceProfile) -> str:
    """Every number of every stage, with the parts of its modelled time."""
    heads = (
        "ops", "million MACs", "parameters", "compiled", "streamed", "in", "out", "compute", "streaming", "hidden",
        "transfer", "fixed", "time",
    )  # fmt: skip
    rows = []
    for load in loads:
        times = (load.compute_ns, load.streaming_ns, load.hidden_ns, load.transfer_ns, load.overhead_ns, load.time_ns)
        cells = [
            str(load.num_ops),
            f"{load.macs / 1e6:,.1f}",
            *(bytes_short(n) for n in (load.param_bytes, load.resident_bytes, load.streamed_bytes)),
            *(bytes_short(n) for n in (load.input_bytes, load.output_bytes)),
            *(f"{ns / 1e6:.3f}" for ns in times),
        ]
        rows.append([_stage_button(load.stage), *map(esc, cells)])
    caption = f"Stages in numbers; streamed bytes and times (in ms) are modelled for {safe_text(profile.name)}"
    return _table(caption, ("Stage", *heads), rows)


def boundary_table(graph: DnnGraph, tensors: Sequence[BoundaryTensor]) -> str:
    """List the tensors that cross boundaries, with their maker, their readers' stages and their modelled cost."""
    rows = [
        [
            _op_button(graph.tensor_names[b.tensor], b.producer),
            bytes_text(b.num_bytes),
            _op_button(graph.op_names[b.producer], b.producer),
            str(b.made_in),
            ", ".join(map(str, b.read_in)),
            f"{b.cost_ns / 1e6:.3f}",
        ]
        for b in tensors
    ]
    total = sum(b.cost_ns for b in tensors)
    caption = f"Tensors that cross a boundary: {len(tensors)}, modelled cost of sending and receiving {ms_short(total)}"
    return _table(caption, ("Tensor", "bytes", "made by", "in stage", "read in stages", "cost ms"), rows)


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Build a table of safe HTML cells in a box that scrolls; the first cell of a row is its head."""
    head = "".join(f'<th scope="col">{esc(text)}</th>' for text in heads)
    body = "\n".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return (
        f'<div class="scroll tall" role="region" aria-label="{esc(caption)}" tabindex="0"><table>\n'
        f"<caption><span>{esc(caption)}</span></caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
        "</table></div>"
    )


def _stage_button(stage: int) -> str:
    return (
        f'<button type="button" class="stage" data-stage="{stage}" title="Show stage {stage} in the graph">'
        f'<span class="dot {colour_class(stage)}"></span>Stage {stage}</button>'
    )


def _op_button(text: str, op: int) -> str:
    shown = esc(safe_text(text))
    return f'<button type="button" class="jump" data-op="{op}" title="{shown}">{shown}</button>'


def _percent(fraction: float) -> str:
    return f"{100 * min(1.0, fraction):.2f}%"
