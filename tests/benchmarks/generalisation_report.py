"""Tables and the plot of the generalisation test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.where_it_pays_statistics import Mean, percent, renew, table, write

NAME = "generalisation"

Rows = Sequence[dict[str, Any]]


def print_row(row: dict[str, Any]) -> None:
    """Print one point of a sweep."""
    print(f"{row['sweep']} = {row['point']}: {row['graphs']} graphs, {row['unproven']} not proven")
    for name, gap in row["gaps"].items():
        print(f"  {name:26} gap {percent(Mean(**gap)):>26} %   median {row['median_ms'][name]:8.2f} ms")
    print(end="", flush=True)


def write_report(folder: Path, rows: Rows) -> None:
    """Write the results as JSON, draw them, and renew the page's tables."""
    rounded = json.loads(json.dumps(rows), parse_float=lambda text: float(f"{float(text):.4g}"))
    write(folder / f"{NAME}.json", "[\n" + ",\n".join(json.dumps(row) for row in rounded) + "\n]\n")
    _plot(rows, folder / f"{NAME}.svg")
    names = list(rows[0]["gaps"])
    gaps, times = [], []
    for row in rows:
        label = [row["sweep"], row["point"], f"{row['graphs']} ({row['unproven']})"]
        gaps.append([*label, *(percent(Mean(**row["gaps"][name])) for name in names)])
        if row["sweep"].startswith("ops"):
            times.append([*label[:2], *(f"{row['median_ms'][name]:.2f}" for name in names)])
    tables = {"gaps": table(["changed", "to", "graphs (unproven)", *names], gaps)}
    if times:
        tables["times"] = table(["changed", "to", *names], times)
    renew(folder / f"{NAME}.md", tables)


def _plot(rows: Rows, path: Path) -> None:
    """Draw the mean gap: axes a sweep, a line a method, hollow where not all optima are proven."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"], mpl.rcParams["svg.fonttype"] = NAME, "none"
    sweeps = list(dict.fromkeys(row["sweep"] for row in rows))
    columns = min(4, len(sweeps))
    height = -(-len(sweeps) // columns)
    figure, grid = plt.subplots(
        height, columns, figsize=(3.6 * columns, 3.0 * height + 0.5), squeeze=False, layout="constrained"
    )
    for axes in grid.flat[len(sweeps) :]:
        axes.set_axis_off()
    for sweep, axes in zip(sweeps, grid.flat, strict=False):
        mine = [row for row in rows if row["sweep"] == sweep]
        for number, name in enumerate(rows[0]["gaps"]):
            gaps = [Mean(**row["gaps"][name]).scaled(100) for row in mine]
            means = [gap.mean for gap in gaps]
            spread = [[g.mean - g.low for g in gaps], [g.high - g.mean for g in gaps]]
            colour = f"C{number}"
            axes.errorbar(range(len(mine)), means, spread, color=colour, lw=1.1, capsize=2, label=name)
            for x, row in enumerate(mine):
                face = "white" if row["unproven"] else colour
                axes.plot(x, means[x], "o", ms=4, color=colour, mfc=face)
        axes.set_title(sweep, fontsize=9)
        axes.set_xticks(range(len(mine)), [row["point"] for row in mine], fontsize=8)
        axes.set_yscale("symlog", linthresh=0.01)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    figure.supylabel("mean gap of the peak memory, % (95 % confidence); hollow: not all proven", fontsize=9)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    temporary = path.with_name(f".{path.name}")
    figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)
    temporary.replace(path)
