"""The report's section on what was really run: job folders timed on this host's processor or on devices."""

from __future__ import annotations

import statistics
from typing import Any, Final

from respect_core.report.data import Row, Rows, plain_rows
from respect_core.report.html_parts import MISSING, Cell, TableRow, esc, table

CPU_RUNNER: Final = "litert"
"""The runner that needs no Edge TPU: it runs segments in the LiteRT interpreter on the host's processor."""

_CPU_NOTE: Final = (
    "Measured on the processor of this host: every segment ran in the LiteRT interpreter, one thread a stage. No Edge "
    "TPU was involved, so these times say nothing about one, and they must not be compared with the simulated ones; "
    "they show that the segments chain and compute what the uncut model computes."
)
_KEY: Final = ("runner", "device", "model", "num_stages", "objective", "solver")


def measured_section(benchmarks: Rows) -> str:
    """Return a section for every runner that measured something; nothing where none did.

    Args:
        benchmarks: Rows of the table `benchmarks`; simulated ones are left out.
    """
    found: dict[str, dict[tuple[Any, ...], list[Row]]] = {}
    for row in plain_rows(benchmarks):
        if not row["is_simulated"]:
            runs = found.setdefault(str(row["runner"]), {})
            runs.setdefault(tuple(row[name] for name in _KEY), []).append(row)
    return "\n".join(_section(runner, runs) for runner, runs in sorted(found.items()))


def _section(runner: str, runs: dict[tuple[Any, ...], list[Row]]) -> str:
    on_cpu = runner == CPU_RUNNER
    where = "on this host’s processor" if on_cpu else "on devices"
    note = _CPU_NOTE if on_cpu else "Measured on Edge TPUs."
    rows = [_run(key, runs[key]) for key in sorted(runs)]
    return (
        f"<section><h2>Measured {where} ({esc(runner)})</h2>"
        f'<p class="note">{note}</p>'
        + table(
            f"Measured {'on the processor, no Edge TPU' if on_cpu else 'on devices'}: runner {runner}",
            "Model",
            ["K", "solver", "objective", "items", "ms between items", "items a second", "median latency, ms", "device"],
            rows,
        )
        + "</section>"
    )


def _run(key: tuple[Any, ...], rows: list[Row]) -> TableRow:
    _, device, model, num_stages, objective, solver = key
    intervals = [row["interval_us"] for row in rows if row["mode"] == "pipelined" and row["interval_us"] is not None]
    latencies = [row["latency_us"] for row in rows if row["mode"] == "latency"]
    period = statistics.fmean(intervals) if intervals else None
    cells = [
        Cell(text=str(num_stages)),
        Cell(text=str(solver)),
        Cell(text=str(objective)),
        Cell(text=str(sum(row["mode"] == "pipelined" for row in rows)), title=str(rows[0]["versions"])),
        Cell(text=MISSING if period is None else f"{period / 1000:.3f}"),
        Cell(text=f"{1e6 / period:,.0f}" if period else MISSING),
        Cell(text=f"{statistics.median(latencies) / 1000:.3f}" if latencies else MISSING),
        Cell(text=str(device), title=str(rows[0]["host"])),
    ]
    return TableRow(head=str(model), cells=cells)
