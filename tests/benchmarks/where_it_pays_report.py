"""Tables and the plot of the study of equal time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.where_it_pays_methods import METHODS
from tests.benchmarks.where_it_pays_statistics import Mean, percent, renew, table, write

NAME = "where_it_pays"

Cells = Sequence[dict[str, Any]]


def print_cell(cell: dict[str, Any]) -> None:
    """Print the gaps of one family under one objective."""
    print(
        f"{cell['objective']}, {cell['family']}: {cell['problems']} problems, first component proven in "
        f"{cell['first_component_proven']}, all in {cell['proven']}"
    )
    heads = ["gap in %", *(f"{ms:g} ms" for ms in cell["budgets_ms"])]
    print("\n".join(table(heads, [[m, *map(_gap, cell["gaps"][m])] for m in METHODS])))
    print("best: " + "; ".join(" ".join(METHODS[m] for m in names) for names in cell["best"]), flush=True)


def write_report(folder: Path, cells: Cells) -> None:
    """Write the results as JSON, draw them, and renew the page's tables."""
    rounded = json.loads(json.dumps(cells), parse_float=lambda text: float(f"{float(text):.4g}"))
    text = "[\n" + ",\n".join(json.dumps(cell) for cell in rounded) + "\n]\n"
    write(folder / f"{NAME}.json", text)
    _plot(cells, folder / f"{NAME}.svg")
    budgets = cells[0]["budgets_ms"]
    heads = ["objective", "graphs", "problems (unproven)", *(f"{ms:g} ms" for ms in budgets)]
    renew(
        folder / f"{NAME}.md",
        {
            "best": table(heads, [[*_labels(c), *map(_letters, c["best"])] for c in cells], text_columns=2),
            "learning": table(heads, [[*_labels(c), *map(_difference, c["learning"])] for c in cells], text_columns=2),
            "gaps": _gap_table(cells),
            "proofs": table(
                heads,
                [[*_labels(c), *(f"{share:.0%}" for share in c["proven_in_time"])] for c in cells],
                text_columns=2,
            ),
        },
    )


def _labels(cell: dict[str, Any]) -> list[str]:
    unproven = cell["problems"] - cell["first_component_proven"]
    return [cell["objective"], cell["family"], f"{cell['problems']} ({unproven})"]


def _letters(names: Sequence[str]) -> str:
    return " ".join(METHODS[name] for name in names)


def _difference(row: dict[str, Any]) -> str:
    """Return how much learning lowers the mean gap, in points, bold where it is significant either way."""
    gain = Mean(mean=-row["mean"], low=-row["high"], high=-row["low"]).scaled(100)
    if gain.mean == gain.low == gain.high == 0:
        return "0"
    text = f"{gain.mean:+.3f} ({gain.low:+.3f}..{gain.high:+.3f})"
    against = f"{METHODS[row['learned']]} - {METHODS[row['other']]}"
    return f"{against}: **{text}**" if gain.low > 0 or gain.high < 0 else f"{against}: {text}"


def _gap(row: dict[str, float]) -> str:
    return percent(Mean(**row))


def _gap_table(cells: Cells) -> list[str]:
    rows = []
    for cell in cells:
        for at in (0, 2, 4):
            if at < len(cell["budgets_ms"]):
                gaps = [_gap(cell["gaps"][m][at]) for m in METHODS]
                rows.append([cell["objective"], cell["family"], f"{cell['budgets_ms'][at]:g}", *gaps])
    return table(["objective", "graphs", "ms", *METHODS], rows, text_columns=2)


def _plot(cells: Cells, path: Path) -> None:
    """Draw the mean gap against the time: a row an objective, a column a family, a line a method."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"], mpl.rcParams["svg.fonttype"] = NAME, "none"
    objectives = list(dict.fromkeys(c["objective"] for c in cells))
    families = list(dict.fromkeys(c["family"] for c in cells))
    figure, grid = plt.subplots(
        len(objectives), len(families), figsize=(2.6 * len(families), 2.5 * len(objectives)), squeeze=False,
        sharex=True, layout="constrained",
    )  # fmt: skip
    shown = {(c["objective"], c["family"]): c for c in cells}
    for i, objective in enumerate(objectives):
        for j, family in enumerate(families):
            axes, cell = grid[i][j], shown.get((objective, family))
            axes.set_title(f"{objective}\n{family}", fontsize=8)
            axes.tick_params(labelsize=7)
            if cell is None:
                axes.set_axis_off()
                continue
            for number, method in enumerate(METHODS):
                gaps, ms = cell["gaps"][method], cell["budgets_ms"]
                style = {"color": f"C{number}", "lw": 1.2, "ls": "-" if "+" in method or method == "exact" else "--"}
                axes.plot(ms, [100 * g["mean"] for g in gaps], label=f"{method} ({METHODS[method]})", **style)
                low, high = ([100 * g[side] for g in gaps] for side in ("low", "high"))
                axes.fill_between(ms, low, high, color=f"C{number}", alpha=0.12, lw=0)
            axes.set_xscale("log")
            axes.set_yscale("symlog", linthresh=0.01)
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
            axes.set_xlabel("processor time, ms" if i == len(objectives) - 1 else "", fontsize=8)
    figure.supylabel("mean gap of the first component, % (95 % confidence)", fontsize=9)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS), fontsize=8)
    temporary = path.with_name(f".{path.name}")
    figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)
    temporary.replace(path)
