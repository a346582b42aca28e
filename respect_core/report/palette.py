"""Colours and symbols that tell solvers apart, also without colour vision (Okabe and Ito's palette)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

INK: Final = "#1f2933"
MUTED: Final = "#5b6673"
GRID: Final = "#dde3ea"
BAND: Final = "#f5f7fa"
LIMIT: Final = "#b3261e"

_SHAPES: Final = {
    "circle": '<circle cx="6" cy="6" r="4.5"/>',
    "square": '<rect x="1.8" y="1.8" width="8.4" height="8.4"/>',
    "diamond": '<path d="M6 .8 11.2 6 6 11.2 .8 6z"/>',
    "triangle-up": '<path d="M6 1 11.2 10.5H.8z"/>',
    "triangle-down": '<path d="M6 11 .8 1.5h10.4z"/>',
    "x": '<path d="M3 1 6 4 9 1l2 2-3 3 3 3-2 2-3-3-3 3-2-2 3-3-3-3z"/>',
    "star": '<path d="m6 .5 1.6 3.7 4 .3-3 2.7.9 3.9L6 9l-3.500 2.100.9-3.900-3-2.700 4-.3z"/>',
    "cross": '<path d="M4.200 1h3.600v3.200H11v3.600H7.800V11H4.200V7.800H1V4.200h3.200z"/>',
}


@dataclass(frozen=True, kw_only=True)
class Style:
    """How one solver is drawn."""

    colour: str
    symbol: str

    @property
    def swatch(self) -> str:
        """The symbol as inline SVG, for a legend in HTML."""
        return (
            f'<svg class="swatch" viewBox="0 0 12 12" aria-hidden="true" fill="{self.colour}">'
            f"{_SHAPES[self.symbol]}</svg>"
        )


_KNOWN: Final = {
    "exact": Style(colour="#0072B2", symbol="circle"),
    "ilp": Style(colour="#0072B2", symbol="circle"),
    "auto": Style(colour="#0072B2", symbol="circle"),
    "policy": Style(colour="#D55E00", symbol="star"),
    "compiler-rule": Style(colour="#222222", symbol="square"),
    "order-dfs": Style(colour="#009E73", symbol="diamond"),
    "order-file": Style(colour="#E69F00", symbol="triangle-up"),
    "order-kahn": Style(colour="#56B4E9", symbol="triangle-down"),
    "random-orders": Style(colour="#CC79A7", symbol="x"),
    "robust-max": Style(colour="#7A4FA3", symbol="diamond"),
    "robust-p90": Style(colour="#7A4FA3", symbol="triangle-up"),
    "local-search": Style(colour="#009E73", symbol="cross"),
    "profiling": Style(colour="#D55E00", symbol="diamond"),
    "balanced": Style(colour="#8C6D1F", symbol="square"),
    "peak-memory optimum": Style(colour="#56B4E9", symbol="square"),
}
_SPARE: Final = tuple(
    Style(colour=colour, symbol=symbol)
    for symbol in ("cross", "diamond", "triangle-up", "circle", "x")
    for colour in ("#8C6D1F", "#7A4FA3", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
)


def styles_for(names: Iterable[str]) -> dict[str, Style]:
    """Give every solver (or ``solver, objective``) a style; no two of them alike while there are enough."""
    out: dict[str, Style] = {}
    taken: set[Style] = set()
    spare = iter(_SPARE * 20)
    for name in names:
        style = _KNOWN.get(name) or _KNOWN.get(name.partition(",")[0])
        if style is None or style in taken:
            style = next((s for s in spare if s not in taken), _SPARE[0])
        out[name] = style
        taken.add(style)
    return out
