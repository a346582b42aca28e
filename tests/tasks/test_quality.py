from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from respect_core.errors import CorruptDatasetError, QualityError
from respect_core.graph import DnnGraph
from respect_core.tables.catalogue import TABLES
from respect_core.tables.domain_checks import (
    DomainColumns,
    benchmark_checks,
    generalisation_checks,
    graph_checks,
    label_checks,
    memory_checks,
    op_checks,
    robustness_checks,
    schedule_checks,
    segment_checks,
    sweep_checks,
    tensor_checks,
    training_checks,
    validation_checks,
)
from respect_core.tables.graph_rows import GraphTables
from respect_core.tables.labels import LABELS
from respect_core.tables.table import Column, TableSchema, count, flag, items, text
from tasks.audit_report import AuditReport
from tasks.home import Home
from tasks.publishing import Checks, Published, publish_all, refuse
from tasks.quality import audit, suite_for
from tests.respect_core.tables.table_data import Row, small_graphs, spoiled, valid_tables

SCHEMA = TableSchema(
    name="things",
    version=1,
    doc="Things for tests.",
    key=("name", "number"),
    columns=(
        text("name", "A name."),
        count("number", "A number.", maximum=9),
        text("colour", "A colour.", allowed=("red", "blue"), nullable=True),
        Column(name="share", type=pa.float64(), doc="A share.", minimum=0, maximum=1, nullable=True),
        flag("is_new", "New or not."),
        items("sizes", pa.int16(), "Sizes.", nullable=True),
        items("weights", pa.float64(), "Weights.", nullable=True),
        Column(name="seed", type=pa.int64(), doc="A seed.", minimum=0),
    ),
)


def thing(number: int, /, **changes: Any) -> Row:
    return {
        "name": "a", "number": number, "colour": "red", "share": 0.5, "is_new": True,
        "sizes": [1, 2], "weights": [0.5], "seed": 2**60, **changes,
    }  # fmt: skip


def things(*changed: Row) -> pa.Table:
    """Five right rows with nulls and empty lists, of which the last are changed."""
    rows = [
        thing(0, colour=None, share=None, sizes=None, weights=None),
        thing(1, sizes=[], weights=[]),
        thing(2, colour="blue", share=1.0),
        *changed,
    ]
    return SCHEMA.table(rows)


def failed_rules(report: AuditReport) -> dict[str, int]:
    return {failure.rule: failure.count for failure in report.failures}


# -- schema rules ------------------------------------------------------------------------------------------------------


def test_right_rows_pass_every_rule() -> None:
    report = audit(SCHEMA, things(thing(3)))
    assert report.passed, report.lines
    assert report.rows == 4
    assert {"table.columns", "table.not_empty", "key.unique", "number.in_range", "sizes.smallest_in_range"} <= set(
        report.rules
    )
    assert len(set(report.rules)) == len(report.rules)
    assert report.seconds > 0


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"name": None}, "name.not_null"),
        ({"number": None}, "number.not_null"),
        ({"number": -1}, "number.in_range"),
        ({"number": 10}, "number.in_range"),
        ({"colour": "green"}, "colour.allowed"),
        ({"share": -0.1}, "share.in_range"),
        ({"share": 1.5}, "share.in_range"),
        ({"share": float("nan")}, "share.finite"),
        ({"is_new": None}, "is_new.not_null"),
        ({"sizes": [3, -1]}, "sizes.smallest_in_range"),
        ({"sizes": [3, None]}, "sizes.entries_not_null"),
        ({"weights": [float("nan")]}, "weights.finite"),
        ({"weights": [float("inf")]}, "weights.finite"),
        ({"weights": [-0.5, 1.0]}, "weights.smallest_in_range"),
        ({"seed": -1}, "seed.in_range"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(change: Row, rule: str) -> None:
    report = audit(SCHEMA, things(thing(3, **change), thing(4)))
    assert failed_rules(report) == {rule: 1}
    assert report.unchecked == ()
    failure = report.failures[0]
    assert failure.column == rule.split(".", maxsplit=1)[0]
    column, value = next(iter(change.items()))
    example = failure.examples[0]
    if column not in SCHEMA.key:
        assert example.startswith(f"name a, number 3: {column} is ")
    if isinstance(value, str | int) and not isinstance(value, bool):
        assert str(value) in example
    assert report.lines[0].startswith(f"rule {rule} is broken by 1 row (name ")
    with pytest.raises(QualityError, match=f"'things' .*rule {re.escape(rule)} is broken by 1 row") as caught:
        refuse([report], ["/kept"])
    assert caught.value.failures == report.lines and caught.value.kept_at == "/kept"


def test_infinite_numbers_are_found_by_range_and_by_finiteness() -> None:
    assert failed_rules(audit(SCHEMA, things(thing(3, share=float("inf"))))) == {"share.in_range": 1, "share.finite": 1}


def test_the_largest_entry_of_a_list_has_a_range_too() -> None:
    schema = TableSchema(
        name="t", version=1, doc="T.", key=("k",),
        columns=(count("k", "K."), Column(name="l", type=pa.list_(pa.int64()), doc="L.", maximum=5)),
    )  # fmt: skip
    table = schema.table([{"k": 0, "l": [-7, 5]}, {"k": 1, "l": [6, 0]}, {"k": 2, "l": []}])
    report = audit(schema, table)
    assert failed_rules(report) == {"l.largest_in_range": 1}
    assert report.failures[0].examples == ("k 1: l is [6, 0]",)


@pytest.mark.parametrize("key", [("name", "number"), ("number",)])
def test_two_rows_of_one_key_are_found(key: tuple[str, ...]) -> None:
    schema = TableSchema(name="things", version=1, doc="T.", key=key, columns=SCHEMA.columns)
    report = audit(schema, schema.table([thing(1), thing(2), thing(2)]))
    assert failed_rules(report) == {"key.unique": 2}
    assert "number 2" in report.failures[0].examples[0]


def test_only_a_few_examples_are_shown() -> None:
    rows = [thing(i % 10, name=str(i), seed=-i - 1) for i in range(50)]
    report = audit(SCHEMA, SCHEMA.table(rows))
    assert failed_rules(report) == {"seed.in_range": 50}
    assert len(report.failures[0].examples) == 3


@pytest.mark.parametrize("name", sorted(TABLES))
def test_an_empty_table_fails(name: str) -> None:
    report = audit(TABLES[name], TABLES[name].table([]), lambda _: DomainColumns(columns={}))
    assert failed_rules(report) == {"table.not_empty": 0}
    assert report.failures[0].examples == ("found 0, expected at least one row",)


def test_a_missing_column_is_told_from_a_broken_rule() -> None:
    report = audit(SCHEMA, things().drop_columns(["colour", "sizes"]), lambda _: DomainColumns(columns={}))
    assert failed_rules(report) == {"table.columns": 0}
    assert "expected name, number, colour" in report.failures[0].examples[0]
    unchecked = {entry.rule: entry.why for entry in report.unchecked}
    assert unchecked["colour.allowed"] == "column colour is missing"
    assert unchecked["sizes.type"] == "column sizes is missing"
    assert unchecked["sizes.largest_in_range"] == "column sizes is missing"
    assert unchecked["domain"] == "the table's columns are not those of its schema"
    with pytest.raises(QualityError, match=r"rule colour\.allowed could not be checked \(column colour is missing\)"):
        refuse([report], [])


def test_a_further_column_and_another_order_fail() -> None:
    table = things()
    assert failed_rules(audit(SCHEMA, table.append_column("extra", pa.nulls(3)))) == {"table.columns": 0}
    turned = table.select(["number", "name", *SCHEMA.column_names[2:]])
    assert failed_rules(audit(SCHEMA, turned)) == {"table.columns": 0}


@pytest.mark.parametrize(
    ("column", "kind", "rules"),
    [
        ("number", pa.int64(), {"number.type"}),
        ("number", pa.float64(), {"number.type"}),
        ("share", pa.float32(), {"share.type"}),
        ("sizes", pa.list_(pa.int32()), {"sizes.entry_type"}),
    ],
)
def test_another_type_fails(column: str, kind: pa.DataType, rules: set[str]) -> None:
    table = things()
    at = table.column_names.index(column)
    report = audit(SCHEMA, table.set_column(at, pa.field(column, kind), table[column].cast(kind)))
    assert rules <= set(failed_rules(report)) | {entry.rule for entry in report.unchecked}
    assert not report.passed


def test_an_exception_inside_a_rule_is_no_finding() -> None:
    """Texts in a column of numbers cannot be compared with a range."""
    table = things()
    at = table.column_names.index("seed")
    report = audit(SCHEMA, table.set_column(at, "seed", pa.array(["x"] * table.num_rows)))
    assert "seed.type" in failed_rules(report)
    assert [entry.rule for entry in report.unchecked] == ["seed.in_range"]
    assert report.unchecked[0].why == "column seed is of a wrong type"


# -- domain rules ------------------------------------------------------------------------------------------------------


@cache
def graphs() -> dict[str, DnnGraph]:
    return small_graphs()


@cache
def tables() -> dict[str, pa.Table]:
    return valid_tables()


def domain_of(name: str) -> Callable[[pa.Table], DomainColumns]:
    """The domain checks of a table, its neighbours being right."""
    right = tables()

    def with_graphs(table: pa.Table) -> DomainColumns:
        parts = {key: right[key] for key in ("graphs", "ops", "tensors")}
        return graph_checks(GraphTables(**{**parts, "graphs": table}))

    def with_labels(table: pa.Table) -> DomainColumns:
        parts = {key: right[key] for key in ("graphs", "ops", "tensors")}
        return label_checks(table, GraphTables(**parts), right["label_timings"])

    return {
        "graphs": with_graphs,
        "ops": lambda table: op_checks(table, right["graphs"]),
        "tensors": lambda table: tensor_checks(table, right["graphs"]),
        "labels": with_labels,
        "label_timings": lambda table: DomainColumns(columns={}),
        "schedules": lambda table: schedule_checks(table, graphs()),
        "robustness": lambda table: robustness_checks(table, right["schedules"], graphs()),
        "segments": lambda table: segment_checks(table, graphs()),
        "memory": lambda table: memory_checks(table, graphs()),
        "benchmarks": benchmark_checks,
        "training": training_checks,
        "validation": validation_checks,
        "sweeps": sweep_checks,
        "generalisation": generalisation_checks,
    }[name]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_right_tables_pass_their_audit(name: str) -> None:
    report = audit(TABLES[name], tables()[name], domain_of(name))
    assert report.passed, report.lines


@pytest.mark.parametrize(
    ("name", "row", "change", "rule"),
    [
        ("graphs", 1, {"num_edges": 1}, "num_edges_recounted"),
        ("ops", 1, {"op_name": "op0"}, "op_name_unique"),
        ("tensors", 1, {"consumers": [99]}, "consumers_in_graph"),
        ("labels", 2, lambda r: {"stage_of": r["stage_of"][::-1]}, "stages_monotone"),
        ("labels", 2, lambda r: {"baseline_peak_param_bytes": 1}, "optimal_not_worse_than_baseline"),
        ("schedules", 0, {"gap": 0.25}, "gap_follows_from_bound"),
        ("robustness", 1, {"regret_p90": 9.0}, "regrets_follow"),
        ("robustness", 2, lambda r: {"bottleneck_us": [1.01 * t for t in r["bottleneck_us"]]}, "schedule_recomputed"),
        ("robustness", 3, {"scenario_seed": 2}, "same_devices"),
        ("segments", 1, {"param_bytes": 1}, "graph_recomputed"),
        ("memory", 1, lambda r: {"peak_bytes": r["peak_bytes"] + 1}, "bound_and_status_agree"),
        ("benchmarks", 1, {"is_simulated": False}, "simulated_is_marked"),
        ("training", 2, {"epoch": 5}, "epochs_contiguous"),
        ("validation", 0, {"set_name": "another"}, "sets_complete"),
        ("validation", 1, {"problems": 4}, "problems_constant"),
        ("sweeps", 0, {"set_name": "another"}, "sets_complete"),
        ("sweeps", 1, {"problems": 4}, "problems_constant"),
        ("generalisation", 1, {"num_proven": 5}, "proven_within_graphs"),
        ("generalisation", 2, {"worst_gap": 0.0}, "worst_gap_fits_mean"),
    ],
)
def test_a_broken_domain_rule_is_named_with_its_row(name: str, row: int, change: Any, rule: str) -> None:
    schema = TABLES[name]
    table = spoiled(schema, tables()[name], row, change)
    report = audit(schema, table, domain_of(name))
    assert rule in failed_rules(report)
    failure = next(f for f in report.failures if f.rule == rule)
    shown = table.slice(row, 1).to_pylist()[0]
    key = ", ".join(f"{part} {shown[part]}" for part in schema.key)
    assert any(example.startswith(key) for example in failure.examples)


def test_a_text_of_a_domain_column_is_shown() -> None:
    said = DomainColumns(columns={"legal": pa.array([None, "stage 1 has no op", None], type=pa.string())})
    report = audit(SCHEMA, things(), said)
    assert [failure.examples for failure in report.failures] == [("name a, number 1: stage 1 has no op",)]


def test_rules_that_do_not_apply_are_no_failures() -> None:
    said = DomainColumns(columns={"fine": pa.array([None, True, None])})
    assert audit(SCHEMA, things(), said).passed


@pytest.mark.parametrize(
    ("domain", "why"),
    [
        (lambda _: 1 // 0, "ZeroDivisionError: integer division or modulo by zero"),
        (DomainColumns(columns={"x": pa.array([True])}), "x has another length than the table"),
    ],
)
def test_domain_rules_that_cannot_be_computed_are_no_pass(domain: Any, why: str) -> None:
    report = audit(SCHEMA, things(), domain)
    assert not report.passed
    assert [(entry.rule, entry.why) for entry in report.unchecked] == [("domain", why)]


# -- suites and reports ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_column_has_expectations_in_the_suite(name: str) -> None:
    schema = TABLES[name]
    suite = suite_for(schema)
    about = {expectation.meta["rule"].split(".")[0] for expectation in suite.expectations}
    assert about == {"table", "key", *schema.column_names}
    assert suite.name == f"{name}-v{schema.version}"


def test_analytics_are_off_unless_the_user_wants_them() -> None:
    suite_for(SCHEMA)
    assert os.environ["GX_ANALYTICS_ENABLED"] == "false"


def test_a_report_is_plain_data_for_artifacts() -> None:
    report = audit(SCHEMA, things(thing(3, colour="a|b")).drop_columns(["seed"]))
    rows = report.summary_rows()
    assert json.loads(json.dumps(rows)) == rows
    assert all(type(value) in (str, int) for row in rows for value in row.values())
    results = {row["rule"]: row["result"] for row in rows}
    assert results["colour.allowed"] == "broken"
    assert results["seed.in_range"] == "could not be checked"
    assert results["name.not_null"] == "holds"
    text_of = report.markdown()
    assert "**Not published.**" in text_of
    assert "colour is a\\|b" in text_of
    assert "name.not_null" not in text_of
    assert "All hold." in audit(SCHEMA, things()).markdown()


def test_a_quality_error_survives_another_process() -> None:
    error = QualityError("things", ["rule a is broken"], "/kept")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.failures, again.kept_at) == (str(error), ("rule a is broken",), "/kept")


# -- publishing --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the artifacts that publishing leaves, which outside a flow run have nowhere to go."""
    texts: list[str] = []
    monkeypatch.setattr("tasks.publishing.create_markdown_artifact", lambda text, **_: texts.append(text))
    return texts


def publish_labels(home: Home) -> Published:
    checks: Checks = {"labels": lambda staged: domain_of("labels")(staged["labels"])}
    return publish_all(home, (LABELS,), "set=x", "f", {"seed": 0}, checks)[0]


def test_what_passes_is_published(tmp_path: Path, shown: list[str]) -> None:
    home = Home(path=tmp_path)
    staging = home.dataset(LABELS).stage("set=x", "f")
    table = tables()["labels"]
    staging.write(0, table.slice(0, 2))
    staging.write(1, table.slice(2))
    done = publish_labels(home)
    assert (done.rows, done.reused) == (table.num_rows, False)
    assert home.dataset(LABELS).read("set=x").equals(table)
    assert "All hold." in shown[0]
    again = publish_labels(home)
    assert again.digest == done.digest
    assert len(shown) == 1


def test_what_fails_is_kept_aside_and_not_published(tmp_path: Path, shown: list[str]) -> None:
    home = Home(path=tmp_path)
    dataset = home.dataset(LABELS)
    staging = dataset.stage("set=x", "f")
    staging.write(0, tables()["labels"])
    bad = spoiled(LABELS, tables()["labels"], 2, {"peak_param_bytes": 1, "graph_id": "g1", "num_stages": 6})
    staging.write(1, bad.slice(2, 1))
    with pytest.raises(QualityError, match="peak_recomputed") as caught:
        publish_labels(home)
    assert "graph_id g1, num_stages 6" in str(caught.value)
    assert caught.value.kept_at is not None
    kept = Path(caught.value.kept_at)
    assert str(kept) in str(caught.value)
    assert sorted(path.name for path in kept.iterdir()) == ["part-00000.parquet", "part-00001.parquet"]
    assert kept.parent == tmp_path / "rejected" / "labels"
    assert dataset.partitions() == {}
    assert not staging.folder.exists()
    assert "**Not published.**" in shown[0]
    dataset.verify()


def test_nothing_staged_is_an_empty_table(tmp_path: Path, shown: list[str]) -> None:
    home = Home(path=tmp_path)
    with pytest.raises(QualityError, match=r"rule table\.not_empty is broken by the table"):
        publish_labels(home)
    assert home.dataset(LABELS).partitions() == {}


def test_a_damaged_staged_part_is_named(tmp_path: Path) -> None:
    home = Home(path=tmp_path)
    path = home.dataset(LABELS).stage("set=x", "f").write(0, tables()["labels"]).path
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(bytes(content))
    with pytest.raises(CorruptDatasetError, match=r"part-00000\.parquet"):
        publish_labels(home)
    assert home.dataset(LABELS).partitions() == {}
