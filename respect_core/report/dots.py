"""Dots by model and solver, and what all figures share: layout, markers, safe labels."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from respect_core.report.data import Case
from respect_core.report.palette import BAND, GRID, INK, LIMIT, MUTED, Style

Spec = dict[str, Any]
Value = Callable[[Case, str], float | None]
Spread = Callable[[Case, str], tuple[float, float] | None]

_ROW_PX: Final = 46
_FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"


def label(text: str) -> str:
    """Make a name safe for Plotly, which reads a little HTML in its labels."""
    return html.escape(text, quote=False)


def base_layout(x: Spec, y: Spec, **more: Any) -> Spec:
    """Return the layout that all figures share; an axis takes its ``title`` as plain text."""
    axis = {"gridcolor": GRID, "zeroline": False, "linecolor": GRID, "automargin": True, "title": {"standoff": 8}}
    return {
        "font": {"family": _FONT, "size": 12, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 14, "t": 10, "b": 8},
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": GRID, "font": {"color": INK, "size": 12}},
        "hovermode": "closest",
        "modebar": {"bgcolor": "rgba(255,255,255,0.85)", "color": MUTED, "activecolor": INK},
        "showlegend": False,
        "xaxis": _merged(axis, x),
        "yaxis": _merged(axis, y),
        **more,
    }


def _merged(base: Spec, extra: Spec) -> Spec:
    out = {**base, **extra}
    if "title" in extra:
        out["title"] = {**base["title"], "text": extra["title"]}
    return out


def dot_panel(
    models: Sequence[str],
    num_stages: int,
    solvers: Sequence[str],
    styles: Mapping[str, Style],
    value: Value,
    *,
    axis: str,
    shown: str,
    line: float | None = None,
    line_text: str = "",
    from_zero: bool = True,
    spread: Spread | None = None,
) -> Spec:
    """Draw one dot a model and solver: models as rows, the value along x.

    Args:
        models: Rows from top to bottom.
        num_stages: Number of stages of this panel.
        solvers: One trace each; within a row they are set apart a little, so that equal values stay visible.
        styles: Colour and symbol of every solver.
        value: The value of a case and solver, None where there is none.
        axis: Title of the x axis.
        shown: Plotly format of the value in the hover text, unit included.
        line: Where to draw a limit, if anywhere.
        line_text: What the limit is.
        from_zero: Start the axis at 0; else where the values and the limit do.
        spread: The range of a case and solver, drawn as a line through the dot; None where there is none.

    Returns:
        The specification; solvers without any value have an empty trace, so that filters still find them.
    """
    count = len(models)
    traces = []
    values = [] if line is None else [line]
    for place, solver in enumerate(solvers):
        shift = (place - (len(solvers) - 1) / 2) * (0.72 / max(len(solvers), 1))
        points = [
            (found, count - 1 - row - shift, model)
            for row, model in enumerate(models)
            if (found := value(Case(model=model, num_stages=num_stages), solver)) is not None
        ]
        values += [x for x, _, _ in points]
        trace: Spec = {
            "type": "scatter",
            "mode": "markers",
            "name": label(solver),
            "x": [x for x, _, _ in points],
            "y": [y for _, y, _ in points],
            "text": [label(model) for _, _, model in points],
            "marker": marker(styles[solver]),
            "hovertemplate": f"<b>%{{text}}</b>, K = {num_stages}<br>{label(solver)}: {shown}<extra></extra>",
        }
        if spread is not None:
            ranges = [spread(Case(model=model, num_stages=num_stages), solver) or (x, x) for x, _, model in points]
            values += [end for ends in ranges for end in ends]
            trace["error_x"] = _error_bars([x for x, _, _ in points], ranges, styles[solver])
        traces.append(trace)
    smallest, largest = min([*values, *([0.0] if from_zero else [])], default=0.0), max(values, default=1.0)
    room = (largest - smallest) * 0.05 or 0.1
    bands = [_band(count - 1 - row) for row in range(0, count, 2)]
    limit = [] if line is None else [_limit(line)]
    notes = [] if line is None or not line_text else [_limit_note(line, line_text)]
    top = 22 if notes else 10
    layout = base_layout(
        {"title": axis, "range": [smallest - room, largest + room], "nticks": 6},
        {
            "tickvals": [count - 1 - row for row in range(count)],
            "ticktext": [label(model) for model in models],
            "range": [-0.6, count - 0.4],
            "showgrid": False,
            "fixedrange": True,
        },
        shapes=bands + limit,
        annotations=notes,
        margin={"l": 8, "r": 14, "t": top, "b": 8},
    )
    return {"data": traces, "layout": layout}


def _error_bars(values: Sequence[float], ranges: Sequence[tuple[float, float]], style: Style) -> Spec:
    """Return lines from the low to the high end of each range, also where the value lies outside of it."""
    return {
        "type": "data", "symmetric": False, "color": style.colour, "thickness": 1.2, "width": 0,
        "array": [high - x for x, (_, high) in zip(values, ranges, strict=True)],
        "arrayminus": [x - low for x, (low, _) in zip(values, ranges, strict=True)],
    }  # fmt: skip


def marker(style: Style, size: int = 8) -> Spec:
    """Return a solver's dot."""
    return {"color": style.colour, "symbol": style.symbol, "size": size, "line": {"color": "#ffffff", "width": 0.8}}


def _band(at: int) -> Spec:
    return {
        "type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": at - 0.5, "y1": at + 0.5,
        "fillcolor": BAND, "line": {"width": 0}, "layer": "below",
    }  # fmt: skip


def _limit(at: float) -> Spec:
    return {
        "type": "line", "yref": "paper", "x0": at, "x1": at, "y0": 0, "y1": 1,
        "line": {"color": LIMIT, "width": 1.5, "dash": "dash"},
    }  # fmt: skip


def _limit_note(at: float, text: str) -> Spec:
    return {
        "x": at, "y": 1, "xref": "x", "yref": "paper", "yanchor": "bottom", "showarrow": False, "text": text,
        "font": {"color": LIMIT, "size": 11},
    }  # fmt: skip


def panel_height(num_models: int) -> int:
    """Height of a dot panel in pixels."""
    return 84 + _ROW_PX * max(num_models, 1)
