"""Live activation bytes over time, of one or several orders: as data, as a page and as a picture."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.memory.peak import MemoryProfile
from respect_core.report.palette import GRID, INK, LIMIT, MUTED
from respect_core.tables.files import write_atomically

ENDINGS: Final = (".html", ".svg")

_KIB: Final = 1024
_COLOURS: Final = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
_WIDTH, _HEIGHT = 900, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 20, 64, 52


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One order."""

    name: str
    graph: DnnGraph
    """What the order is an order of."""
    profile: MemoryProfile

    @property
    def caption(self) -> str:
        """Its name and peak."""
        return f"{self.name}: peak {self.profile.peak_bytes:,} bytes"


def check_plot_path(path: Path) -> None:
    """Refuse a file name that does not say what to write.

    Raises:
        BadInputError: It ends neither in .html nor in .svg.
    """
    if path.suffix.lower() not in ENDINGS:
        raise BadInputError(f"{path}: a plot is a page or a picture, its name ends in {' or '.join(ENDINGS)}")


def write_profile_plot(path: Path, title: str, curves: Sequence[Curve], on_chip_bytes: int | None = None) -> None:
    """Draw what is held at every step: a page with a figure to look into, or a picture, by the ending of the name.

    Args:
        path: The file, which is replaced if it exists; the page fetches nothing from anywhere.
        title: What is shown.
        curves: The orders, at least one.
        on_chip_bytes: Drawn as a limit, if it is given and within reach.

    Raises:
        BadInputError: The name ends in something else.
        UnwritableError: The file cannot be written.
    """
    check_plot_path(path)
    top = max(curve.profile.peak_bytes for curve in curves)
    limit = on_chip_bytes if on_chip_bytes is not None and on_chip_bytes <= 2 * top else None
    text = _svg(title, curves, limit) if path.suffix.lower() == ".svg" else _page(title, curves, limit)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", errors="backslashreplace"))


# -- page -------------------------------------------------------------------------------------------------------------


def profile_figure(curves: Sequence[Curve], limit: int | None) -> dict[str, Any]:
    """Return a Plotly specification: steps on one axis, KiB on the other, the op of each step where one points."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": curve.caption,
            "line": {"shape": "hv", "color": _COLOURS[i % len(_COLOURS)], "width": 2},
            "x": list(range(len(curve.profile.order) + 1)),
            "y": [size / _KIB for size in (*curve.profile.step_bytes.tolist(), curve.profile.step_bytes[-1].item())],
            "text": [html.escape(curve.graph.op_names[v]) for v in (*curve.profile.order, curve.profile.order[-1])],
            "hovertemplate": "%{text}<br>step %{x}: %{y:.1f} KiB<extra></extra>",
        }
        for i, curve in enumerate(curves)
    ]
    shapes, notes = [], []
    if limit is not None:
        text = {"text": _limit_text(limit), "showarrow": False, "font": {"color": LIMIT}}
        notes.append({**text, "xref": "paper", "x": 1, "xanchor": "right", "y": limit / _KIB, "yanchor": "bottom"})
        line = {"color": LIMIT, "dash": "dash", "width": 1}
        shapes.append(
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit / _KIB, "y1": limit / _KIB, "line": line}
        )
    axis = {"gridcolor": GRID, "zeroline": False}
    layout = {
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "font": {"color": INK},
        "legend": {"orientation": "h", "y": 1.08, "yanchor": "bottom"},
        "margin": {"t": 40},
        "xaxis": {**axis, "title": {"text": "step"}},
        "yaxis": {**axis, "title": {"text": "live activations (KiB)"}, "rangemode": "tozero"},
        "shapes": shapes,
        "annotations": notes,
    }
    return {"data": traces, "layout": layout}


def _page(title: str, curves: Sequence[Curve], limit: int | None) -> str:
    from plotly.offline import get_plotlyjs

    figure = json.dumps(profile_figure(curves, limit), allow_nan=False)
    figure = figure.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    rows = "".join(f"<li>{html.escape(curve.caption)}</li>" for curve in curves)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "script-src 'unsafe-inline'; img-src data: blob:\">",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title>",
            "<style>body{font-family:system-ui,sans-serif;margin:1rem}#profile{width:100%;height:75vh}</style></head>",
            f"<body><h1>{html.escape(title)}</h1><ul>{rows}</ul>",
            f'<div id="profile" role="img" aria-label="{html.escape(title)}: live activations over time"></div>',
            f'<script type="application/json" id="figure">{figure}</script>',
            f"<script>{get_plotlyjs()}</script>",
            "<script>const figure=JSON.parse(document.getElementById('figure').textContent);"
            "Plotly.newPlot('profile',figure.data,figure.layout,{responsive:true,displaylogo:false});</script>",
            "</body></html>",
            "",
        ]
    )


# -- picture ----------------------------------------------------------------------------------------------------------


def _svg(title: str, curves: Sequence[Curve], limit: int | None) -> str:
    steps = max(len(curve.profile.order) for curve in curves)
    top = max(1, limit or 0, *(curve.profile.peak_bytes for curve in curves))
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(step: float) -> str:
        return f"{_LEFT + width * step / steps:.1f}"

    def y(size: float) -> str:
        return f"{_TOP + height * (1 - size / top):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="13" fill="{INK}" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="22" font-size="16">{html.escape(title)}</text>',
    ]
    for tick in _ticks(top / _KIB):
        size = tick * _KIB
        parts.append(f'<path d="M{_LEFT} {y(size)}H{_WIDTH - _RIGHT}" stroke="{GRID}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y(size)}" dy="4" text-anchor="end">{tick:g}</text>')
    below = _HEIGHT - _BOTTOM + 20
    parts += [f'<text x="{x(step)}" y="{below}" text-anchor="middle">{step:g}</text>' for step in _ticks(steps)]
    middle = _TOP + height / 2
    parts.append(f'<text x="{_LEFT + width / 2}" y="{_HEIGHT - 10}" text-anchor="middle" fill="{MUTED}">step</text>')
    parts.append(
        f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle" fill="{MUTED}">'
        "live activations (KiB)</text>"
    )
    if limit is not None:
        parts.append(f'<path d="M{_LEFT} {y(limit)}H{_WIDTH - _RIGHT}" stroke="{LIMIT}" stroke-dasharray="5 4"/>')
        parts.append(
            f'<text x="{_WIDTH - _RIGHT}" y="{y(limit)}" dy="-4" text-anchor="end" fill="{LIMIT}">'
            f"{_limit_text(limit)}</text>"
        )
    for i, curve in enumerate(curves):
        colour = _COLOURS[i % len(_COLOURS)]
        held = curve.profile.step_bytes.tolist()
        path = "".join(f"V{y(size)}H{x(step + 1)}" for step, size in enumerate(held))
        parts.append(f'<path d="M{x(0)} {y(held[0])}{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        at = _LEFT + i * width // len(curves)
        parts.append(f'<rect x="{at}" y="36" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{at + 20}" y="42">{html.escape(curve.caption)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _limit_text(limit: int) -> str:
    return f"{limit / _KIB:g} KiB on chip"


def _ticks(top: float) -> list[float]:
    """Return at most six round numbers from 0 to the top."""
    step = 10.0 ** math.floor(math.log10(top / 5)) if top > 0 else 1.0
    step *= next(factor for factor in (1, 2, 5, 10) if top / (factor * step) <= 5)
    return [i * step for i in range(math.floor(top / step) + 1)]
