from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from respect_core.errors import BadInputError, UnwritableError
from respect_core.graph import DnnGraph
from respect_core.sources.graph_json import graph_to_json
from respect_core.tables.catalogue import TABLES, write_cards
from respect_core.tables.graph_rows import GraphTables, tables_to_graphs
from respect_core.tables.table import TableSchema, count, text
from tests.respect_core.tables.table_data import graph_tables, renamed, valid_tables
from tests.strategies import graphs as drawn_graphs

CARDS = Path(__file__).resolve().parents[3] / "datasets" / "cards"


@pytest.mark.parametrize("name", sorted(TABLES))
def test_committed_cards_are_those_of_the_schemas(name: str) -> None:
    committed = (CARDS / f"{name}.md").read_text(encoding="utf-8")
    message = "run python -m respect_core.tables.catalogue --cards datasets/cards"
    assert committed == TABLES[name].card(), message


def test_the_command_writes_every_card(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "respect_core.tables.catalogue", "--cards", str(tmp_path / "cards")]
    subprocess.run(command, check=True)
    assert sorted(path.stem for path in (tmp_path / "cards").iterdir()) == sorted(TABLES)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UnwritableError, match="cannot be written"):
        write_cards(tmp_path / "file")


@pytest.mark.parametrize("name", sorted(TABLES))
def test_names_of_columns_carry_their_units(name: str) -> None:
    suffixes = {"byte": "_bytes", "µs": "_us", "s": ("_s", "_seconds"), "MAC": "macs"}
    for column in TABLES[name].columns:
        if column.unit in suffixes and column.name != "lower_bound":  # of whatever the objective is
            assert column.name.endswith(suffixes[column.unit]), column.name
        assert column.doc.endswith(".")


@pytest.mark.parametrize("name", sorted(TABLES))
def test_valid_tables_match_their_schema_and_round_trip_as_rows(name: str) -> None:
    schema, table = TABLES[name], valid_tables()[name]
    assert schema.matches(table.schema) is None
    assert table.num_rows > 0
    assert schema.table(reversed(table.to_pylist())).equals(table)


@given(st.lists(drawn_graphs(max_ops=6), min_size=1, max_size=4))
def test_graphs_survive_the_tables(drawn: list[Any]) -> None:
    graphs = renamed(drawn)
    again = {graph.name: graph for graph in tables_to_graphs(graph_tables(graphs))}
    assert set(again) == set(graphs)
    for name, graph in graphs.items():
        assert graph_to_json(again[name]) == graph_to_json(graph)


def test_graphs_with_lost_rows_are_named() -> None:
    tables = valid_tables()
    ops = tables["ops"].slice(1)
    lacking = GraphTables(graphs=tables["graphs"], ops=ops, tensors=tables["tensors"])
    with pytest.raises(BadInputError, match="graph 'g0' should have 6 ops"):
        list[DnnGraph](tables_to_graphs(lacking))


SCHEMA = TableSchema(name="t", version=2, doc="T.", key=("a",), columns=(text("a", "A."), count("b", "B.", maximum=9)))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"a": "x"}, "row 0: columns missing or unknown: b"),
        ({"a": "x", "b": 1, "c": 2}, "row 0: columns missing or unknown: c"),
        ({"a": "x", "b": "one"}, "a value does not fit its column"),
        ({"a": "x", "b": 2**31}, "a value does not fit its column"),
        ({"a": "x", "b": 1.5}, r"b is 1\.5, a whole number is needed"),
    ],
)
def test_rows_that_do_not_fit_are_refused(row: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        SCHEMA.table([row])


def test_rows_are_sorted_by_the_key() -> None:
    rows = [{"a": name, "b": 1} for name in "cab"]
    assert SCHEMA.table(rows)["a"].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (SCHEMA.arrow.remove_metadata(), "no table of this project wrote it"),
        (TABLES["graphs"].arrow, "it holds table 'graphs', expected 't'"),
        (SCHEMA.arrow.with_metadata({**SCHEMA.arrow.metadata, b"respect.schema_version": b"1"}), "schema version 1"),
        (SCHEMA.arrow.remove(1), r"its columns differ \(b\)"),
        (SCHEMA.arrow.append(pa.field("z", pa.int8())), r"its columns differ \(z\)"),
        (SCHEMA.arrow.set(1, pa.field("b", pa.float64())), "types or order"),
    ],
)
def test_a_foreign_schema_is_described(changed: pa.Schema, says: str) -> None:
    import re

    assert re.search(says, SCHEMA.matches(changed) or "")


def test_a_schema_checks_itself() -> None:
    with pytest.raises(BadInputError, match="two columns of one name"):
        TableSchema(name="t", version=1, doc="T.", key=("a",), columns=(text("a", "A."), text("a", "A.")))
    with pytest.raises(BadInputError, match="key column 'b' does not exist"):
        TableSchema(name="t", version=1, doc="T.", key=("b",), columns=(text("a", "A."),))


def test_the_card_tells_type_unit_and_range() -> None:
    assert "| `b` | int32 |  |  | >= 0 and <= 9 | B. |" in SCHEMA.card()
    assert "Schema version 2. Unique within a partition: `a`." in SCHEMA.card()
