"""Every table by name; ``python -m respect_core.tables.catalogue --cards FOLDER`` writes their cards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.files import write_atomically
from respect_core.tables.generalisation import GENERALISATION
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.labels import LABEL_TIMINGS, LABELS
from respect_core.tables.memory import MEMORY
from respect_core.tables.ops import OPS
from respect_core.tables.robustness import ROBUSTNESS
from respect_core.tables.schedules import SCHEDULES
from respect_core.tables.segments import SEGMENTS
from respect_core.tables.sweeps import SWEEPS
from respect_core.tables.table import TableSchema
from respect_core.tables.tensors import TENSORS
from respect_core.tables.training import TRAINING
from respect_core.tables.validation import VALIDATION

TABLES: Final[dict[str, TableSchema]] = {
    schema.name: schema
    for schema in (
        GRAPHS,
        OPS,
        TENSORS,
        LABELS,
        LABEL_TIMINGS,
        SCHEDULES,
        ROBUSTNESS,
        SEGMENTS,
        MEMORY,
        BENCHMARKS,
        TRAINING,
        VALIDATION,
        SWEEPS,
        GENERALISATION,
    )
}


def write_cards(folder: Path) -> list[Path]:
    """Write every table's card as ``TABLE.md`` into ``folder`` and return the files.

    Raises:
        UnwritableError: The folder cannot be written.
    """
    return [_write_card(schema, folder / f"{name}.md") for name, schema in TABLES.items()]


def _write_card(schema: TableSchema, path: Path) -> Path:
    card = schema.card()
    write_atomically(path, lambda temporary: temporary.write_text(card, encoding="utf-8"))
    return path


def main() -> None:
    """Write the cards where the command line says."""
    parser = argparse.ArgumentParser(prog="python -m respect_core.tables.catalogue", description=main.__doc__)
    parser.add_argument("--cards", type=Path, required=True, metavar="FOLDER", help="folder of the cards")
    write_cards(parser.parse_args().cards)


if __name__ == "__main__":
    main()
