"""The report's section on graphs unlike those that the policy was trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from respect_core.report.data import Row, Rows, plain_rows
from respect_core.report.dots import Spec, base_layout, label
from respect_core.report.figures import Chart
from respect_core.report.html_parts import MISSING, Cell, TableRow, esc, percent_text, table
from respect_core.report.palette import Style
from respect_core.report.sections import Page
from respect_core.tables.generalisation import FIT_ORDERS, GREEDY, METHODS, POLICY, SIMPLE_ORDERS

STYLES: Final[Mapping[str, Style]] = {
    GREEDY: Style(colour="#E69F00", symbol="diamond"),
    POLICY: Style(colour="#D55E00", symbol="star"),
    FIT_ORDERS: Style(colour="#009E73", symbol="cross"),
    SIMPLE_ORDERS: Style(colour="#0072B2", symbol="square"),
}

SMALLEST_PERCENT: Final = 0.01
"""Lower end of the logarithmic axis: where gaps up to this are drawn."""

_ABOUT: Final = (
    "How far from the optimal peak memory the policy in use stays on graphs that differ from its training’s in one "
    "thing at a time; the weights that come with the program saw 12 to 60 ops, K = 2 to 8 and the usual weights only. "
    "Fit orders make as many starts as the policy with the same set moves, without the network. "
    f"Logarithmic axes: mean gaps of {SMALLEST_PERCENT:g} % and less lie at the bottom."
)

_AXIS: Final = "mean gap (%)"

_Point = tuple[str, str]
_Found = Mapping[tuple[str, str, str], Row]


def add_generalisation(page: Page, generalisation: Rows) -> None:
    """Add plots and a table of the generalisation test, or say that there is none.

    Args:
        page: Where to add them.
        generalisation: Rows of the table `generalisation`.
    """
    rows = sorted(plain_rows(generalisation), key=lambda row: int(row["point"]))
    page.add("<section><h2>Generalisation of the policy</h2>")
    if not rows:
        page.add('<p class="absent">No generalisation test of a policy is in this run.</p></section>')
        return
    found = {(str(row["changed"]), str(row["value"]), str(row["method"])): row for row in rows}
    sweeps: dict[str, list[str]] = {}
    for changed, value, _ in found:
        values = sweeps.setdefault(changed, [])
        if value not in values:
            values.append(value)
    names = sorted(sweeps, key=lambda name: (not name.startswith("ops"), "K" not in name, name))
    methods = [method for method in METHODS if any(method == found_for for _, _, found_for in found)]
    points = [(name, value) for name in names for value in sweeps[name]]
    highest = 1.5 * max(1.0, *(100 * float(row["mean_gap"]) for row in rows))  # the same axis in every panel
    page.add(
        f'<p class="note">{esc(_ABOUT)} {esc(_proofs(points, found))}</p>',
        _legend(methods),
        page.panels([_chart(name, sweeps[name], methods, found, highest) for name in names], filtered=False),
        "<h3>Mean (worst) gap at every point</h3>",
        table(
            "Gap of the peak memory to the optimum or its lower bound",
            "Changed",
            ["to", "graphs", "proven", *methods],
            [_table_row(point, methods, found) for point in points],
        ),
        "</section>",
    )


def _proofs(points: Sequence[_Point], found: _Found) -> str:
    """Say what gaps count to, and how many optima are proven."""
    firsts = [next(row for (changed, value, _), row in found.items() if (changed, value) == point) for point in points]
    graphs, proven = (sum(int(row[name]) for row in firsts) for name in ("num_graphs", "num_proven"))
    policies = ", ".join(dict.fromkeys(str(row["policy"]) for row in firsts))
    return (
        f"Optima that are not proven count by their lower bounds, so that gaps are at most as large as shown: {proven} "
        f"of {graphs} are proven; hollow marks: not all of the point. Policy: {policies}."
    )


def _legend(methods: Sequence[str]) -> str:
    return f'<p class="note">{" &emsp; ".join(f"{STYLES[name].swatch} {esc(name)}" for name in methods)}</p>'


def _chart(changed: str, values: Sequence[str], methods: Sequence[str], found: _Found, highest: float) -> Chart:
    traces = [_line(changed, values, method, found) for method in methods]
    layout = base_layout(
        {"title": label(changed), "type": "category", "showgrid": False},
        {"title": _AXIS, "type": "log", "dtick": 1, "range": [math.log10(0.7 * SMALLEST_PERCENT), math.log10(highest)]},
    )
    return Chart(
        title=f"Gap by {changed}",
        description=f"Mean gap of every method by {changed}, on a logarithmic scale; the table has the numbers.",
        spec={"data": traces, "layout": layout},
        height_px=300,
    )


def _line(changed: str, values: Sequence[str], method: str, found: _Found) -> Spec:
    known = [(value, found[changed, value, method]) for value in values if (changed, value, method) in found]
    style = STYLES[method]
    symbols = [style.symbol + ("" if row["num_proven"] == row["num_graphs"] else "-open") for _, row in known]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label(method),
        "x": [label(value) for value, _ in known],
        "y": [max(100 * float(row["mean_gap"]), SMALLEST_PERCENT) for _, row in known],
        "text": [
            f"<b>{label(method)}</b><br>{label(changed)}: {label(value)}<br>mean "
            f"{label(percent_text(row['mean_gap']))}, worst {label(percent_text(row['worst_gap']))}<br>"
            f"{row['num_proven']} of {row['num_graphs']} optima proven"
            for value, row in known
        ],
        "line": {"color": style.colour, "width": 1.5},
        "marker": {"size": 9, "color": style.colour, "symbol": symbols},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _table_row(point: _Point, methods: Sequence[str], found: _Found) -> TableRow:
    rows = {method: found[(*point, method)] for method in methods if (*point, method) in found}
    some = next(iter(rows.values()))
    smallest = min(float(row["mean_gap"]) for row in rows.values())
    cells = [Cell(text=point[1]), Cell(text=str(some["num_graphs"])), Cell(text=str(some["num_proven"]))]
    for method in methods:
        row = rows.get(method)
        if row is None:
            cells.append(Cell(text=MISSING))
            continue
        text = f"{percent_text(row['mean_gap'])} ({percent_text(row['worst_gap'])})"
        cells.append(Cell(text=text, is_strong=float(row["mean_gap"]) == smallest))
    return TableRow(head=point[0], cells=cells)
