"""Small pieces of HTML: escaped text, numbers for reading, tables that scroll in their own box."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from respect_core.device import MIB
from respect_core.report.statistics import Estimate

MISSING = "–"


def esc(text: object) -> str:
    """Escape text for HTML content and quoted attributes."""
    return html.escape(str(text), quote=True)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell: its text, what hovering tells, and whether to stress it."""

    text: str
    title: str = ""
    is_strong: bool = False

    @property
    def html(self) -> str:
        """The cell as a ``td``."""
        title = f' title="{esc(self.title)}"' if self.title else ""
        text = f"<strong>{esc(self.text)}</strong>" if self.is_strong else esc(self.text)
        return f"<td{title}>{text}</td>"


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One row: what it is about, and its cells."""

    head: str
    cells: Sequence[Cell]
    mark: str = ""
    """Safe HTML put before the head, a swatch for instance."""


def table(caption: str, corner: str, heads: Sequence[str], rows: Sequence[TableRow]) -> str:
    """Build a table with caption and header cells, in a box that scrolls where it is too wide.

    The box can take the keyboard's focus, so that it can be scrolled without a mouse.
    """
    head = "".join(f'<th scope="col">{esc(text)}</th>' for text in (corner, *heads))
    body = "\n".join(
        f'<tr><th scope="row">{row.mark}{esc(row.head)}</th>{"".join(cell.html for cell in row.cells)}</tr>'
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{esc(caption)}" tabindex="0"><table>\n'
        f"<caption><span>{esc(caption)}</span></caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def seconds_text(seconds: float | None) -> str:
    """Write a duration in seconds with three digits."""
    if seconds is None:
        return MISSING
    if seconds < 0.0005:
        return "< 0.001"
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


def percent_text(fraction: float | None) -> str:
    """Write a fraction as a percentage; exactly 0 is told apart from what only rounds to it."""
    if fraction is None:
        return MISSING
    if fraction == 0:
        return "0 %"
    return "< 0.01 %" if abs(fraction) < 0.00005 else f"{100 * fraction:.2f} %"


def mib_text(num_bytes: float | None) -> str:
    """Write bytes in MiB."""
    return MISSING if num_bytes is None else f"{num_bytes / MIB:.2f}"


def bytes_text(num_bytes: float | None) -> str:
    """Write bytes in full, in groups of three digits that do not break."""
    return MISSING if num_bytes is None else f"{int(num_bytes):,}".replace(",", "\u202f")


def interval_text(estimate: Estimate | None, *, percent: bool) -> str:
    """Write a mean with its interval."""
    if estimate is None:
        return MISSING

    def number(value: float) -> str:
        return f"{100 * value:.2f}" if percent else f"{value:.2f}"

    unit = " %" if percent else "×"
    if estimate.low is None or estimate.high is None:
        return number(estimate.mean) + unit
    return f"{number(estimate.mean)}{unit} [{number(estimate.low)}, {number(estimate.high)}]"
