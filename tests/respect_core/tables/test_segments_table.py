from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hardware_runners.compiling.log import STATUSES
from respect_core.schedule import first_violation
from respect_core.tables.domain_checks import segment_checks
from respect_core.tables.segments import COMPILER_STATUSES, SEGMENTS
from tests.respect_core.tables.segment_rows import Row, segment_rows
from tests.respect_core.tables.table_data import broken, renamed, small_graph, spoiled
from tests.strategies import graphs as drawn_graphs
from tests.strategies import stage_vectors

GRAPH = small_graph("g", seed=3, num_ops=8)
TABLE = SEGMENTS.table([row for count in (2, 3) for row in segment_rows(GRAPH, count)])
FIRST_OF_3 = 2
"""Row of stage 0 of 3; the rows of the split of two stages come first."""


def found(table: pa.Table, **options: Any) -> dict[str, list[int]]:
    columns = segment_checks(table, {"g": GRAPH}, **options).columns
    return {name: broken(column) for name, column in columns.items() if broken(column)}


def test_right_segments_pass() -> None:
    assert found(TABLE) == {}


def test_the_statuses_are_those_of_the_compiler() -> None:
    assert COMPILER_STATUSES == STATUSES


@given(st.data())
def test_segments_of_any_legal_schedule_pass(data: st.DataObject) -> None:
    graph = renamed([data.draw(drawn_graphs(min_ops=2))])["g0"]
    num_stages = data.draw(st.integers(1, graph.num_ops))
    stage_of = data.draw(stage_vectors(graph, num_stages))
    assume(first_violation(graph, stage_of, num_stages) is None)
    table = SEGMENTS.table(segment_rows(graph, num_stages, stage_of))
    columns = segment_checks(table, {"g0": graph}).columns
    assert {name: column.to_pylist() for name, column in columns.items() if broken(column)} == {}
    assert sum(table["num_ops"].to_pylist()) == graph.num_ops
    assert sum(table["param_bytes"].to_pylist()) == graph.param_bytes.sum()


@pytest.mark.parametrize(
    ("row", "change", "rule"),
    [
        (0, {"stage": 4}, "stages_complete"),
        (0, {"peak_activation_bytes": 1}, "graph_recomputed"),
        (0, lambda r: {"ops": r["ops"][::-1]}, "graph_recomputed"),
        (0, {"num_stages": 5}, "stages_complete"),
        (0, {"model_ops": 7}, "stages_complete"),
        (2, {"num_ops": 99}, "ops_partition_the_model"),
        (2, lambda r: {"ops": r["ops"][1:], "num_ops": r["num_ops"] - 1}, "ops_partition_the_model"),
        (2, lambda r: {"ops": [r["ops"][0], *r["ops"]], "num_ops": r["num_ops"] + 1}, "ops_partition_the_model"),
        (2, {"ops": [8], "num_ops": 1}, "ops_partition_the_model"),
        (2, {"unsupported_ops": 9}, "ops_partition_the_model"),
        (1, {"file_name": "g_segment_0_of_2.tflite"}, "file_is_named"),
        (1, {"file_name": "g.tflite"}, "file_is_named"),
        (1, {"sha256": "AB"}, "file_is_named"),
        (1, lambda _: {"sha256": TABLE["sha256"][0].as_py()}, "files_distinct"),
        (1, {"is_verified": False}, "verified"),
        (1, {"is_verified": False, "kernel_mode": None}, "verified"),
        (1, {"kernel_mode": None}, "verified"),
        (1, {"storage_bytes": 10**7}, "storage_within_file"),
        (1, {"fits_pycoral": True, "input_names": ["elsewhere"]}, "inputs_come_from_before"),
        (1, lambda r: {"output_names": [*r["output_names"], r["output_names"][0]]}, "inputs_come_from_before"),
        (3, lambda r: {"param_bytes": r["param_bytes"] + 1}, "graph_recomputed"),
        (3, lambda r: {"input_bytes": r["input_bytes"] + 1}, "graph_recomputed"),
        (3, lambda r: {"output_bytes": r["output_bytes"] - 1}, "graph_recomputed"),
        (3, {"input_names": []}, "graph_recomputed"),
        (3, lambda r: {"output_names": r["output_names"][1:]}, "graph_recomputed"),
        (3, lambda r: {"input_names": [*r["input_names"], "t7"]}, "graph_recomputed"),
        (3, {"output_names": ["no tensor"]}, "graph_recomputed"),
        (0, {"on_chip_bytes": None}, "compiler_facts_where_it_ran"),
        (0, {"compiler_version": None}, "compiler_facts_where_it_ran"),
        (0, {"compiler_status": "not_run"}, "compiler_facts_where_it_ran"),
        (1, {"message": ""}, "compiler_facts_where_it_ran"),
        (4, {"cpu_ops": 0}, "compiler_facts_where_it_ran"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_found(row: int, change: Row | Callable[[Row], Row], rule: str) -> None:
    complaints = found(spoiled(SEGMENTS, TABLE, row, change))
    assert row in complaints[rule]


def test_a_missing_stage_is_told_to_every_row_of_its_split() -> None:
    assert found(TABLE.slice(0, 4))["stages_complete"] == [2, 3]


def test_unverified_segments_may_be_allowed() -> None:
    table = spoiled(SEGMENTS, TABLE, FIRST_OF_3, {"is_verified": False, "kernel_mode": None})
    assert found(table) == {"verified": [FIRST_OF_3]}
    assert found(table, must_be_verified=False) == {}


def test_what_needs_the_graph_is_not_judged_without_it() -> None:
    table = spoiled(SEGMENTS, TABLE, 3, {"param_bytes": 1})
    assert all(not broken(column) for column in segment_checks(table).columns.values())
    assert "graph_recomputed" in found(table)
