"""The report's section on segments: the files of split models, verified and, where a compiler was at hand, compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from respect_core.report.data import Row, Rows, plain_rows
from respect_core.report.html_parts import MISSING, Cell, TableRow, mib_text, table
from respect_core.tables.segments import COMPILED, NOT_RUN

_NOTE = (
    "TFLite models cut into one file a stage; parameters and peak of activations are those of the largest. Verified: "
    "the chained segments give bit for bit the outputs of the whole model in the LiteRT interpreter. Pipeline: "
    "pycoral’s runner can take the files as they are. Unsupported: ops that the Edge TPU leaves to the processor by "
    "the published rules."
)


def segments_section(segments: Rows) -> str:
    """Return the section, or a note that there are no such rows.

    Args:
        segments: Rows of the table `segments`.
    """
    splits: dict[tuple[Any, ...], list[Row]] = {}
    for row in plain_rows(segments):
        key = tuple(row[name] for name in ("model_ops", "model", "num_stages", "objective", "device", "solver"))
        splits.setdefault(key, []).append(row)
    if not splits:
        return '<section><h2>Segments</h2><p class="absent">No model was split in this run.</p></section>'
    return "\n".join(
        [
            "<section><h2>Segments</h2>",
            f'<p class="note">{_NOTE}</p>',
            table(
                "Files of split models",
                "Model",
                [
                    "ops", "K", "objective", "solver", "files", "MiB", "parameters, MiB", "activations, MiB",
                    "verified", "pipeline", "unsupported", "compiler",
                ],
                [_split(*key, rows=splits[key]) for key in sorted(splits)],
            ),
            "</section>",
        ]
    )  # fmt: skip


def _split(
    model_ops: int, model: str, num_stages: int, objective: str, device: str, solver: str, *, rows: Sequence[Row]
) -> TableRow:
    verified = sum(bool(row["is_verified"]) for row in rows)
    kernels = {str(row["kernel_mode"]) for row in rows if row["kernel_mode"]}
    peaks = [row["peak_activation_bytes"] for row in rows if row["peak_activation_bytes"] is not None]
    methods = {str(row["order_method"] or "order of the file") for row in rows}
    unsupported = sum(int(row["unsupported_ops"]) for row in rows)
    cells = [
        Cell(text=str(model_ops)),
        Cell(text=str(num_stages)),
        Cell(text=objective, title=f"device {device}"),
        Cell(text=solver),
        Cell(text=str(len(rows)), title=", ".join(str(row["file_name"]) for row in rows)),
        Cell(text=mib_text(sum(row["file_bytes"] for row in rows))),
        Cell(text=mib_text(max(row["param_bytes"] for row in rows))),
        Cell(text=mib_text(max(peaks)) if peaks else MISSING, title=", ".join(sorted(methods))),
        Cell(text=f"{verified} of {len(rows)}", title=", ".join(sorted(kernels)), is_strong=verified == len(rows)),
        Cell(text="yes" if all(row["fits_pycoral"] for row in rows) else "no"),
        Cell(text=str(unsupported)),
        _compiler(rows),
    ]
    return TableRow(head=model, cells=cells)


def _compiler(rows: Sequence[Row]) -> Cell:
    statuses = Counter(str(row["compiler_status"]) for row in rows)
    messages = "; ".join(str(row["message"]) for row in rows if row["message"])
    if set(statuses) == {NOT_RUN}:
        return Cell(text="not run", title=messages or "no edgetpu_compiler on the PATH")
    version = next((str(row["compiler_version"]) for row in rows if row["compiler_version"]), "")
    parts = [f"{count} {status.replace('_', ' ')}" for status, count in sorted(statuses.items())]
    return Cell(text=", ".join(parts), title=messages or version, is_strong=set(statuses) == {COMPILED})
