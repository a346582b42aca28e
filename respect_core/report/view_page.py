"""The view of a graph and its schedule: one HTML file that needs no network."""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from respect_core.device import DeviceProfile
from respect_core.errors import UnwritableError
from respect_core.graph import DnnGraph
from respect_core.report.html_parts import esc, percent_text
from respect_core.report.view_data import bytes_short, graph_data, safe_text
from respect_core.report.view_layout import lay_out
from respect_core.report.view_loads import boundary_tensors, stage_loads
from respect_core.report.view_schedule import ShownSchedule
from respect_core.report.view_sections import boundary_table, colour_class, headline, load_bars, stage_table

_POLICY_OF_THE_PAGE: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Content security policy: whatever a name in the graph says, the browser fetches nothing."""

_MARK: Final = '<meta name="generator" content="respect view">'

_HINT: Final = (
    "Drag to move, turn the wheel to zoom (with Shift: to scroll), click an op for its facts. With the keyboard: "
    "arrows go from op to op, + and − zoom, 0 fits, / searches. The strip on the right is the whole graph."
)


@dataclass(frozen=True, kw_only=True)
class View:
    """What one page shows."""

    graph: DnnGraph
    profile: DeviceProfile
    """Constants for the modelled times."""
    schedule: ShownSchedule | None = None
    """Colours the graph; without it there are no stages."""


def build_view(view: View) -> str:
    """Build the page as one HTML document; the same input gives the same text."""
    graph, schedule, profile = view.graph, view.schedule, view.profile
    loads = stage_loads(graph, schedule.stage_of, schedule.num_stages, profile) if schedule else ()
    crossing = boundary_tensors(graph, schedule.stage_of, profile) if schedule else ()
    layout = lay_out(graph, schedule.stage_of, schedule.num_stages) if schedule else lay_out(graph)
    data = graph_data(graph, profile, layout, schedule, loads, crossing)
    title = safe_text(graph.name)
    parts = []
    if loads:
        parts += ["<section><h2>Stage loads</h2>", headline(loads, profile), load_bars(loads), "</section>"]
    parts.append(_graph_section(view))
    if loads:
        parts += ["<section><h2>Boundaries</h2>", boundary_table(graph, crossing), "</section>"]
        parts += ["<section><h2>Stages in numbers</h2>", stage_table(loads, profile), _parts_note(), "</section>"]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            _MARK,
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY_OF_THE_PAGE}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{esc(title)}</title>",
            f"<style>{_asset('page.css')}{_asset('view.css')}</style>",
            "</head>",
            "<body>",
            '<a class="skip" href="#graph">To the graph</a>',
            f'<header class="top"><h1>{esc(title)}</h1><p class="lead">{_lead(view)}</p></header>',
            '<main id="content">',
            *parts,
            "</main>",
            f'<script type="application/json" id="view-data">{_json(data)}</script>',
            f"<script>{_asset('view_graph.js')}</script>",
            f"<script>{_asset('view.js')}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def write_view(path: str | Path, view: View) -> Path:
    """Write `build_view` to a file, whole or not at all.

    Raises:
        UnwritableError: The file cannot be written.
    """
    return write_whole(path, build_view(view))


def write_whole(path: str | Path, text: str) -> Path:
    """Write a text file under a temporary name and rename it.

    Raises:
        UnwritableError: The file cannot be written.
    """
    path = Path(path)
    staging = path.parent / f".{secrets.token_hex(8)}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging.write_text(text, encoding="utf-8")
        staging.replace(path)
    except OSError as error:
        raise UnwritableError(f"{path} cannot be written ({error.strerror})") from error
    finally:
        with contextlib.suppress(OSError):
            staging.unlink()
    return path


def is_view(path: Path) -> bool:
    """Tell whether a file is a page that `write_view` wrote."""
    try:
        with path.open("rb") as file:
            return _MARK.encode() in file.read(1024)
    except OSError:
        return False


def _lead(view: View) -> str:
    graph, schedule = view.graph, view.schedule
    size = bytes_short(int(graph.param_bytes.sum()))
    words = [
        f"{graph.num_ops} op{'s' if graph.num_ops != 1 else ''}",
        f"{size} of parameters",
        f"{int(graph.macs.sum()) / 1e6:,.0f} million MACs",
    ]
    if schedule is None:
        words.append("no schedule: give one with --schedule, or let one be found with --stages")
        return esc(" · ".join(words))
    words.append(f"{schedule.num_stages} stage{'s' if schedule.num_stages != 1 else ''}")
    if schedule.objective:
        words.append(f"objective {schedule.objective}")
    if schedule.solver:
        words.append(f"solver {schedule.solver}")
    if schedule.status:
        gap = f", gap {percent_text(schedule.gap)}" if schedule.gap else ""
        words.append(f"{schedule.status}{gap}")
    return esc(safe_text(" · ".join(words)))


def _graph_section(view: View) -> str:
    schedule = view.schedule
    jumps = ""
    if schedule is not None:
        buttons = "".join(
            f'<button type="button" class="stage" data-stage="{k}" aria-label="Stage {k}">'
            f'<span class="dot {colour_class(k)}"></span>{k}</button>'
            for k in range(schedule.num_stages)
        )
        jumps = f'<div class="stages" role="group" aria-label="Go to a stage"><span>Stage</span>{buttons}</div>'
    name = esc(safe_text(view.graph.name))
    return (
        "<section><h2>Graph</h2>"
        '<noscript><p class="absent">The graph needs JavaScript; all else is readable without it.</p></noscript>'
        '<div class="tools"><form id="search" role="search"><input type="search" id="query" autocomplete="off" '
        'spellcheck="false" placeholder="Search ops by name or kind" aria-label="Search ops by name or kind">'
        '<button type="button" id="previous" title="Previous match" aria-label="Previous match">↑</button>'
        '<button type="submit" id="next" title="Next match" aria-label="Next match">↓</button>'
        '<output id="matches"></output></form>'
        '<div class="zoom" role="group" aria-label="Zoom"><button type="button" id="zoom-out" title="Zoom out" '
        'aria-label="Zoom out">−</button><output id="scale">100 %</output><button type="button" id="zoom-in" '
        'title="Zoom in" aria-label="Zoom in">+</button><button type="button" id="zoom-fit">Fit</button></div>'
        f"{jumps}</div>"
        '<div class="workspace"><div class="view" id="view"><svg id="graph" tabindex="0" role="application" '
        f'aria-label="Graph of {name}" aria-describedby="hint facts"></svg><div class="overlay" aria-hidden="true">'
        '</div><canvas id="strip" aria-hidden="true" title="The whole graph; click to go there"></canvas></div>'
        '<aside id="facts" aria-live="polite" aria-label="Facts about an op"><p class="note">Click an op, or press an '
        "arrow key in the graph.</p></aside></div>"
        f'<p class="note" id="hint">{_HINT}</p></section>'
    )


def _parts_note() -> str:
    return (
        '<p class="note">Time = fixed cost + compute + streaming − hidden + transfer. Compiled: bytes the ops would '
        "take on the chip (parameters where that is not known). Streamed: what finds no room there and is sent again "
        "on every inference. In and out go through the host; a tensor is sent once, and received once by each stage "
        "that reads it.</p>"
    )


def _asset(name: str) -> str:
    return (resources.files("respect_core.report") / name).read_text(encoding="utf-8")


def _json(data: object) -> str:
    """Write JSON that cannot end the script element that holds it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
