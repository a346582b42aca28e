"""The report's section on activation memory: orders of the ops inside one device, beside the published figures."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final

from respect_core.report.data import Row, Rows, plain_rows
from respect_core.report.html_parts import MISSING, Cell, TableRow, seconds_text, table

PUBLISHED_KB: Final[Mapping[str, tuple[int, int, int]]] = {
    "DARTS-normal": (1656, 903, 753),
    "SwiftNet-HPD-A": (552, 251, 226),
    "SwiftNet-HPD-B": (194, 82, 72),
    "SwiftNet-HPD-C": (70, 33, 20),
    "RandWire-CIFAR10-A": (645, 459, 459),
    "RandWire-CIFAR10-B": (330, 260, 260),
    "RandWire-CIFAR100-A": (605, 359, 359),
    "RandWire-CIFAR100-B": (350, 280, 280),
    "RandWire-CIFAR100-C": (160, 115, 115),
}
"""Peaks that SERENITY reports in decimal KB: TensorFlow Lite, dynamic programming, and that with rewriting."""

_KB: Final = 1000

_NOTE: Final = (
    "Largest sum of live activations over the order of the ops inside one device: the order of the file, the best "
    "order, and the best order of the rewritten network, whose partial results are summed up in place. Concatenations "
    "write over inputs that die there. Decimal KB; bold: proven optimal for the ops as they are, or as rewritten. "
    "Beside them what SERENITY reports for its networks, of which SwiftNet is the published file; the RandWire cells "
    "are other draws of the same family."
)

_Key = tuple[str, str, bool]


def memory_section(memory: Rows) -> str:
    """Return the section, or a note that there are no such rows.

    Args:
        memory: Rows of the table `memory`.
    """
    rows = [row for row in plain_rows(memory) if row["part"] == "all"]
    if not rows:
        return (
            '<section><h2>Activation memory</h2><p class="absent">No orders of ops for least activation memory are in '
            "this run.</p></section>"
        )
    found = {(str(r["model"]), str(r["concat"]), bool(r["may_rewrite"])): r for r in rows}
    names = list(dict.fromkeys(str(row["model"]) for row in rows))
    first = [name for name in PUBLISHED_KB if name in names]
    names = [*first, *(name for name in names if name not in first)]
    return "\n".join(
        [
            "<section><h2>Activation memory</h2>",
            f'<p class="note">{_NOTE}</p>',
            table(
                "Peak of live activations, KB",
                "Network",
                [
                    "ops",
                    "file order",
                    "best order",
                    "rewritten",
                    "separate concat",
                    "less",
                    "less, rewritten",
                    "published: file",
                    "order",
                    "rewritten",
                    "s",
                ],
                [_peaks(name, found) for name in names],
            ),
            f'<p class="note">{_means(found)}</p>',
            table(
                "Off-chip traffic of activations, KB",
                "Network",
                ["on chip", "file order", "best order", "rewritten", "less"],
                [_traffic(name, found) for name in names if (name, "in-place", False) in found],
            ),
            "</section>",
        ]
    )


def _peaks(name: str, found: Mapping[_Key, Row]) -> TableRow:
    plain, rewritten = found.get((name, "in-place", False)), found.get((name, "in-place", True))
    separate = found.get((name, "separate", False))
    told = PUBLISHED_KB.get(name)
    some = plain or rewritten or separate or {}
    seconds = [float(row["solve_seconds"]) for row in (plain,) if row is not None]
    cells = [
        Cell(text=str(some.get("num_ops", MISSING))),
        Cell(text=_kb(some.get("file_order_peak_bytes") if plain or rewritten else None)),
        _peak(plain),
        _peak(rewritten),
        _peak(separate),
        Cell(text=_less(plain)),
        Cell(text=_less(rewritten)),
        *(Cell(text=str(told[i]) if told else MISSING) for i in range(3)),
        Cell(text=seconds_text(seconds[0]) if seconds else MISSING),
    ]
    return TableRow(head=name, cells=cells)


def _peak(row: Row | None) -> Cell:
    if row is None:
        return Cell(text=MISSING)
    rewritten = row["rewritten_concats"]
    title = f"{row['peak_bytes']:,} bytes, {row['status']}" + (f", {rewritten} rewritten" if rewritten else "")
    return Cell(text=_kb(row["peak_bytes"]), title=title, is_strong=row["status"] == "optimal")


def _traffic(name: str, found: Mapping[_Key, Row]) -> TableRow:
    plain, rewritten = found[name, "in-place", False], found.get((name, "in-place", True))
    before, after = plain["file_order_traffic_bytes"], plain["traffic_bytes"]
    less = f"{before / after:.2f}×" if after else "all" if before else "none to save"
    cells = [
        _kb(plain["on_chip_bytes"]),
        _kb(before),
        _kb(after),
        _kb(rewritten["traffic_bytes"] if rewritten is not None else None),
        less,
    ]
    return TableRow(head=name, cells=[Cell(text=text) for text in cells])


def _means(found: Mapping[_Key, Row]) -> str:
    """Say how much less is needed on average, for the networks with published figures."""
    parts = []
    for may_rewrite, what, index in ((False, "by ordering", 1), (True, "with rewriting", 2)):
        ours = [_ratio(found[name, "in-place", may_rewrite]) for name in PUBLISHED_KB if _has(found, name, may_rewrite)]
        known = [ratio for ratio in ours if ratio is not None]
        theirs = [figures[0] / figures[index] for figures in PUBLISHED_KB.values()]
        if known:
            told = f"published for nine: {statistics.geometric_mean(theirs):.2f}×"
            parts.append(f"{what} {statistics.geometric_mean(known):.2f}× ({told})")
    count = sum(_has(found, name, False) for name in PUBLISHED_KB)
    return f"Geometric mean of the reduction over {count} networks: {'; '.join(parts) or MISSING}."


def _has(found: Mapping[_Key, Row], name: str, may_rewrite: bool) -> bool:
    return (name, "in-place", may_rewrite) in found


def _ratio(row: Row) -> float | None:
    return row["file_order_peak_bytes"] / row["peak_bytes"] if row["peak_bytes"] else None


def _less(row: Row | None) -> str:
    ratio = None if row is None else _ratio(row)
    return MISSING if ratio is None else f"{ratio:.2f}×"


def _kb(size: int | None) -> str:
    return MISSING if size is None else f"{size / _KB:,.1f}"
