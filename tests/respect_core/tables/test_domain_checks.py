from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from hardware_runners.job import GRAPH_FILE, write_job
from hardware_runners.protocol import TimingPlan, open_runner
from hardware_runners.simulated import profile_constants
from respect_core.device import load_profile
from respect_core.errors import BadInputError
from respect_core.objective import evaluate
from respect_core.schedule import first_violation
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.graph_json import graph_to_json
from respect_core.tables.benchmarks import BENCHMARKS
from respect_core.tables.domain_checks import (
    DomainColumns,
    benchmark_checks,
    flatten_graphs,
    graph_checks,
    label_checks,
    op_checks,
    schedule_checks,
    sweep_checks,
    tensor_checks,
    training_checks,
    validation_checks,
)
from respect_core.tables.domain_checks import labels as labels_module
from respect_core.tables.graph_rows import GraphTables, tables_to_graphs
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.labels import LABEL_TIMINGS, LABELS
from respect_core.tables.ops import OPS
from respect_core.tables.schedules import SCHEDULES
from respect_core.tables.sweeps import SWEEPS
from respect_core.tables.tensors import TENSORS
from respect_core.tables.training import TRAINING
from respect_core.tables.validation import VALIDATION
from tests.respect_core.tables.table_data import (
    Row,
    benchmark_rows,
    broken,
    graph_tables,
    label_rows,
    renamed,
    schedule_rows,
    small_graph,
    small_graphs,
    spoiled,
    timing_rows,
    training_rows,
)
from tests.strategies import graphs as drawn_graphs
from tests.strategies import stage_vectors

Change = dict[str, Any] | Callable[[Row], Row]

GRAPHS_OF = small_graphs()
TABLES = graph_tables(GRAPHS_OF)
LABEL_ROWS = label_rows(GRAPHS_OF)
SCHEDULE_ROWS = schedule_rows(GRAPHS_OF)


def complaints_of(columns: DomainColumns) -> dict[str, list[int]]:
    return {name: rows for name, column in columns.columns.items() if (rows := broken(column))}


# -- graphs, ops, tensors ----------------------------------------------------------------------------------------------


@given(st.lists(drawn_graphs(max_ops=7), min_size=1, max_size=4))
def test_legal_graphs_break_no_rule(drawn: list[Any]) -> None:
    tables = graph_tables(renamed(drawn))
    assert complaints_of(graph_checks(tables)) == {}
    assert complaints_of(op_checks(tables.ops, tables.graphs)) == {}
    assert complaints_of(tensor_checks(tables.tensors, tables.graphs)) == {}


@given(st.lists(drawn_graphs(max_ops=6), min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_row_order_of_the_tables_does_not_matter(drawn: list[Any], random: Any) -> None:
    tables = graph_tables(renamed(drawn))

    def shuffled(table: pa.Table) -> pa.Table:
        rows = list(range(table.num_rows))
        random.shuffle(rows)
        return table.take(pa.array(rows, type=pa.int64()))

    mixed = GraphTables(graphs=shuffled(tables.graphs), ops=shuffled(tables.ops), tensors=shuffled(tables.tensors))
    assert complaints_of(graph_checks(mixed)) == {}


@pytest.mark.parametrize(
    ("column", "rule"),
    [
        ("num_ops", "num_ops_recounted"),
        ("num_tensors", "num_tensors_recounted"),
        ("num_edges", "num_edges_recounted"),
        ("max_in_degree", "max_in_degree_recounted"),
        ("param_bytes", "param_bytes_recounted"),
        ("macs", "macs_recounted"),
        ("tensor_bytes", "tensor_bytes_recounted"),
        ("depth", "depth_recounted"),
    ],
)
def test_a_wrong_count_of_a_graph_is_found(column: str, rule: str) -> None:
    graphs = spoiled(GRAPHS, TABLES.graphs, 1, lambda row: {column: row[column] + 1})
    found = complaints_of(graph_checks(GraphTables(graphs=graphs, ops=TABLES.ops, tensors=TABLES.tensors)))
    assert found == {rule: [1]}


@pytest.mark.parametrize("lost", ["ops", "tensors"])
def test_a_lost_child_row_is_found(lost: str) -> None:
    children = {"ops": TABLES.ops, "tensors": TABLES.tensors}
    children[lost] = children[lost].slice(0, children[lost].num_rows - 1)
    found = complaints_of(graph_checks(GraphTables(graphs=TABLES.graphs, **children)))
    assert found[f"num_{lost}_recounted"] == [2]


def test_a_cycle_is_found() -> None:
    last = TABLES.tensors.num_rows - 1
    tensors = spoiled(TENSORS, TABLES.tensors, last, {"consumers": [0]})  # the last op feeds the first
    found = complaints_of(graph_checks(GraphTables(graphs=TABLES.graphs, ops=TABLES.ops, tensors=tensors)))
    assert found["acyclic"] == [2]


@given(drawn_graphs(min_ops=2, max_ops=7), st.data())
def test_cycles_and_self_loops_are_told_from_legal_edges(graph: Any, data: Any) -> None:
    tables = graph_tables({"g0": next(iter(renamed([graph]).values()))})
    made = [i for i, row in enumerate(tables.tensors.to_pylist()) if row["producer"] is not None]
    if not made:
        return
    row = data.draw(st.sampled_from(made))
    reader = data.draw(st.integers(0, graph.num_ops - 1))
    tensors = spoiled(TENSORS, tables.tensors, row, lambda r: {"consumers": sorted({*r["consumers"], reader})})
    changed = GraphTables(graphs=tables.graphs, ops=tables.ops, tensors=tensors)
    try:
        list(tables_to_graphs(changed))
        legal = True
    except BadInputError:
        legal = False
    acyclic = not broken(graph_checks(changed).columns["acyclic"])
    assert acyclic == legal


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"graph_id": "nobody"}, "graph_known"),
        ({"op_index": 6}, "op_index_in_graph"),
        ({"op_name": "op1"}, "op_name_unique"),
        ({"op_name": ""}, "op_name_not_empty"),
    ],
)
def test_a_wrong_op_is_found(change: Row, rule: str) -> None:
    ops = spoiled(OPS, TABLES.ops, 2, change)
    assert 2 in complaints_of(op_checks(ops, TABLES.graphs))[rule]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"graph_id": "nobody"}, "graph_known"),
        ({"tensor_index": 7}, "tensor_index_in_graph"),
        ({"tensor_name": "t0"}, "tensor_name_unique"),
        ({"tensor_name": ""}, "tensor_name_not_empty"),
        ({"producer": 6}, "producer_in_graph"),
        ({"producer": -1}, "producer_in_graph"),
        ({"consumers": [6]}, "consumers_in_graph"),
        ({"consumers": [-1, 2]}, "consumers_in_graph"),
        ({"consumers": [None, 2]}, "consumers_in_graph"),
        ({"consumers": [3, 2]}, "consumers_ascending"),
        ({"consumers": [2, 2]}, "consumers_ascending"),
        ({"consumers": [1]}, "not_its_own_reader"),
    ],
)
def test_a_wrong_tensor_is_found(change: Row, rule: str) -> None:
    tensors = spoiled(TENSORS, TABLES.tensors, 2, change)  # row 2 is tensor t1 of op1
    assert 2 in complaints_of(tensor_checks(tensors, TABLES.graphs))[rule]


# -- labels ------------------------------------------------------------------------------------------------------------


def test_brute_force_labels_break_no_rule() -> None:
    labels = LABELS.table(LABEL_ROWS)
    assert complaints_of(label_checks(labels, TABLES, LABEL_TIMINGS.table(timing_rows(LABEL_ROWS)))) == {}


@settings(max_examples=40)
@given(st.lists(drawn_graphs(max_ops=5), min_size=1, max_size=3), st.sampled_from([1, 7, 4_000_000]))
def test_labels_of_any_graph_break_no_rule(drawn: list[Any], chunk: int) -> None:
    graphs = renamed(drawn)
    labels = LABELS.table(label_rows(graphs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels_module, "_CHUNK", chunk)
        assert complaints_of(label_checks(labels, graph_tables(graphs))) == {}


@given(drawn_graphs(min_ops=1, max_ops=7), st.data())
def test_recomputed_numbers_are_those_of_evaluate(graph: Any, data: Any) -> None:
    """Any stage vector: legality, peak and communication agree with the one function that computes them."""
    num_stages = data.draw(st.integers(1, graph.num_ops))
    stages = data.draw(
        st.one_of(
            stage_vectors(graph, num_stages),
            st.lists(st.integers(-1, num_stages), min_size=graph.num_ops - 1, max_size=graph.num_ops + 1),
        )
    )
    graphs = renamed([graph])
    template = LABEL_ROWS[0]
    legal = first_violation(graph, stages, num_stages) is None
    peak, communication = 0, 0
    if legal:
        numbers = evaluate(graph, stages, num_stages, load_profile("usb3"))
        peak, communication = numbers.peak_param_bytes, numbers.communication_bytes
    row = {**template, "graph_id": "g0", "num_stages": num_stages, "stage_of": stages}
    row |= {"peak_param_bytes": peak, "communication_bytes": communication}
    found = complaints_of(label_checks(LABELS.table([row]), graph_tables(graphs)))
    about_schedule = {"stage_of_has_every_op", "stages_in_range", "every_stage_used", "stages_monotone"}
    assert bool(about_schedule & set(found)) == (not legal)
    if legal:
        assert not {"peak_recomputed", "communication_recomputed"} & set(found)


def three_stage_row(rows: list[Row]) -> int:
    return next(i for i, row in enumerate(rows) if row["num_stages"] == 3 and row["graph_id"] == "g1")


def with_gap(bound: int) -> Callable[[Row], Row]:
    def change(row: Row) -> Row:
        return {
            "status": "feasible",
            "canonical": False,
            "lower_bound": bound,
            "gap": (row["peak_param_bytes"] - bound) / bound,
        }

    return change


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({"graph_id": "nobody"}, {"graph_known"}),
        (lambda r: {"stage_of": r["stage_of"][:-1]}, {"stage_of_has_every_op"}),
        (lambda r: {"stage_of": [3, *r["stage_of"][1:]]}, {"stages_in_range"}),
        (lambda r: {"stage_of": [-1, *r["stage_of"][1:]]}, {"stages_in_range"}),
        ({"stage_of": [0, 0, 0, 0, 0, 0]}, {"every_stage_used", "peak_recomputed"}),
        (lambda r: {"stage_of": r["stage_of"][::-1]}, {"stages_monotone", "peak_recomputed"}),
        (
            lambda r: {k: r[k] - 1 for k in ("peak_param_bytes", "lower_bound")},
            {"peak_recomputed"},
        ),
        (lambda r: {"communication_bytes": r["communication_bytes"] - 1}, {"communication_recomputed"}),
        (
            lambda r: {"status": "feasible", "canonical": False, **dict.fromkeys(["lower_bound", "gap"])},
            set(),
        ),
        (with_gap(1), set()),
        (lambda r: with_gap(1)(r) | {"gap": 0.5}, {"gap_follows_from_bound"}),
        (lambda r: with_gap(1)(r) | {"gap": None}, {"gap_follows_from_bound"}),
        (lambda r: with_gap(1)(r) | {"status": "optimal"}, {"optimal_is_proven"}),
        (lambda r: with_gap(1)(r) | {"canonical": True}, {"canonical_is_optimal"}),
        (lambda r: {"lower_bound": None}, {"gap_follows_from_bound", "optimal_is_proven"}),
        (
            lambda r: with_gap(r["baseline_peak_param_bytes"] + 1)(r),
            {"bound_not_above_value", "baseline_not_below_bound"},
        ),
        (
            lambda r: {"baseline_peak_param_bytes": r["peak_param_bytes"] - 1},
            {"optimal_not_worse_than_baseline", "baseline_not_below_bound"},
        ),
        (
            lambda r: {
                "baseline_peak_param_bytes": r["peak_param_bytes"],
                "baseline_communication_bytes": r["communication_bytes"] - 1,
            },
            {"optimal_not_worse_than_baseline"},
        ),
    ],
)
def test_a_wrong_label_is_found(change: Change, rules: set[str]) -> None:
    row = three_stage_row(LABEL_ROWS)
    labels = spoiled(LABELS, LABELS.table(LABEL_ROWS), row, change)
    found = complaints_of(label_checks(labels, TABLES))
    assert set(found) == rules
    assert all(rows == [row] for rows in found.values())


def test_more_stages_than_ops_is_no_legal_label() -> None:
    row = {**LABEL_ROWS[0], "num_stages": 2**30}
    assert "every_stage_used" in complaints_of(label_checks(LABELS.table([row]), TABLES))


def test_a_label_without_its_timing_is_found() -> None:
    timings = LABEL_TIMINGS.table(timing_rows(LABEL_ROWS)[:-1])
    labels = LABELS.table(LABEL_ROWS)
    assert complaints_of(label_checks(labels, TABLES, timings)) == {"timed": [labels.num_rows - 1]}


def test_flat_graphs_drop_what_their_tables_should_not_hold() -> None:
    tensors = spoiled(TENSORS, TABLES.tensors, 2, {"consumers": [-3, 99], "producer": 77})
    flat = flatten_graphs(GraphTables(graphs=TABLES.graphs, ops=TABLES.ops, tensors=tensors))
    assert flat.num_graphs == 3
    assert flat.producer[2] == -1
    assert not np.any(flat.read_tensor == 2)


# -- schedules ---------------------------------------------------------------------------------------------------------


def schedule_row(solver: str, objective: str = "peak-memory") -> int:
    wanted = ("g1", objective, solver)
    table = SCHEDULES.table(SCHEDULE_ROWS).to_pylist()
    return next(i for i, r in enumerate(table) if (r["model"], r["objective"], r["solver"]) == wanted)


@pytest.mark.parametrize("objectives", [("peak-memory", "throughput"), ("weighted",)])
def test_right_schedules_break_no_rule(objectives: tuple[str, ...]) -> None:
    table = SCHEDULES.table(schedule_rows(GRAPHS_OF, objectives))
    assert complaints_of(schedule_checks(table, GRAPHS_OF)) == {}


@pytest.mark.parametrize(
    ("solver", "change", "rule", "says"),
    [
        ("brute", {"model": "nobody"}, "legal", "there is no graph 'nobody'"),
        ("brute", {"num_ops": 7}, "legal", "num_ops is 7"),
        ("brute", {"stage_of": [0] * 6}, "legal", "stage 1 has no op"),
        ("brute", {"device": "abacus"}, "legal", "abacus"),
        ("brute", {"num_stages": 9}, "legal", "9 stages"),
        ("brute", {"status": "timeout"}, "schedule_where_status_says", "stage_of is not null"),
        ("order-dfs", {"latency_us": None}, "schedule_where_status_says", "latency_us is null"),
        ("order-dfs", lambda r: {"crossings": r["crossings"] + 1}, "numbers_recomputed", "crossings"),
        ("order-dfs", lambda r: {"latency_us": r["latency_us"] + 0.001}, "numbers_recomputed", "latency_us"),
        ("order-dfs", lambda r: {"time_us": r["time_us"][::-1]}, "numbers_recomputed", "time_us"),
        ("order-dfs", lambda r: {"lower_bound": 1e9}, "bound_not_above_value", "above the value"),
        ("order-dfs", {"gap": 0.5}, "gap_follows_from_bound", "should be None"),
        ("brute", {"gap": 0.5}, "gap_follows_from_bound", "should be 0.0"),
        ("order-dfs", {"canonical": True}, "optimal_is_proven", "the status is feasible"),
        ("order-dfs", {"status": "optimal"}, "optimal_is_proven", "bound None"),
        ("order-dfs", lambda r: {"gap_to_best": r["gap_to_best"] + 0.1}, "gap_to_best_recomputed", "should be"),
        ("brute", lambda r: {"lower_bound": 1e9}, "not_below_proven_bound", "of brute"),
        ("brute", {"status": "infeasible"}, "infeasible_not_contradicted", "found a schedule"),
    ],
)
@pytest.mark.parametrize("objective", ["peak-memory", "throughput"])
def test_a_wrong_schedule_is_found(solver: str, change: Change, rule: str, says: str, objective: str) -> None:
    row = schedule_row(solver, objective)
    table = spoiled(SCHEDULES, SCHEDULES.table(SCHEDULE_ROWS), row, change)
    columns = schedule_checks(table, GRAPHS_OF).columns
    assert row in broken(columns[rule])
    assert says in columns[rule][row].as_py()


def test_an_optimum_that_another_solver_beats_is_found() -> None:
    graph = GRAPHS_OF["g1"]
    rows = schedule_rows({"g1": graph}, ["peak-memory"])
    worse = max(rows, key=lambda r: r["peak_param_bytes"])
    best = next(r for r in rows if r["solver"] == "brute")
    assert worse["peak_param_bytes"] > best["peak_param_bytes"]
    worse |= {"status": "optimal", "lower_bound": float(worse["peak_param_bytes"]), "gap": 0.0}
    found = complaints_of(schedule_checks(SCHEDULES.table(rows), {"g1": graph}))
    assert {"optimal_not_beaten", "not_below_proven_bound"} <= set(found)
    assert len(found["optimal_not_beaten"]) == 1


def test_two_canonical_vectors_of_one_problem_are_found() -> None:
    graph = GRAPHS_OF["g0"]
    rows = schedule_rows({"g0": graph}, ["peak-memory"])
    brute = next(r for r in rows if r["solver"] == "brute")
    other = next(r for r in rows if r["stage_of"] != brute["stage_of"])
    other["canonical"] = True
    found = complaints_of(schedule_checks(SCHEDULES.table(rows), {"g0": graph}))
    assert len(found["canonical_agrees"]) == 2


def test_rows_without_a_schedule_are_judged_too() -> None:
    """A timeout keeps its bound; an infeasible row is right where nobody finds a schedule."""
    graph = GRAPHS_OF["g0"]
    brute = next(r for r in schedule_rows({"g0": graph}, ["peak-memory"]) if r["solver"] == "brute")
    nothing = dict.fromkeys(
        name
        for name in brute
        if name.endswith(("_bytes", "_us")) or name in ("stage_of", "crossings", "gap", "gap_to_best", "lower_bound")
    )
    timeout = {**brute, **nothing, "solver": "slow", "status": "timeout", "canonical": False, "lower_bound": 1.0}
    assert complaints_of(schedule_checks(SCHEDULES.table([brute, timeout]), {"g0": graph})) == {}
    infeasible = {**timeout, "status": "infeasible", "lower_bound": None}
    assert complaints_of(schedule_checks(SCHEDULES.table([infeasible]), {"g0": graph})) == {}
    found = complaints_of(schedule_checks(SCHEDULES.table([brute, infeasible]), {"g0": graph}))
    assert set(found) == {"infeasible_not_contradicted"}


# -- benchmarks and training -------------------------------------------------------------------------------------------


def test_right_timings_break_no_rule() -> None:
    assert complaints_of(benchmark_checks(BENCHMARKS.table(benchmark_rows()))) == {}
    assert complaints_of(training_checks(TRAINING.table(training_rows()))) == {}


@pytest.mark.parametrize(
    ("row", "change", "rule"),
    [
        (1, {"is_simulated": False}, "simulated_is_marked"),
        (1, {"runner": "coral"}, "simulated_is_marked"),
        (3, {"item": 4}, "items_contiguous"),
        (0, {"interval_us": 10.0}, "interval_but_for_first"),
        (1, {"interval_us": None}, "interval_but_for_first"),
        (1, {"latency_us": 0.0}, "latency_positive"),
        (1, {"interval_us": 9.0}, "latency_mode_not_overlapping"),
        (5, {"interval_us": 11.0}, "pipelined_interval_within_latency"),
    ],
)
def test_a_wrong_timing_is_found(row: int, change: Row, rule: str) -> None:
    table = spoiled(BENCHMARKS, BENCHMARKS.table(benchmark_rows()), row, change)
    assert row in complaints_of(benchmark_checks(table))[rule]


@settings(max_examples=20)
@given(drawn_graphs(min_ops=2, max_ops=6), st.data())
def test_timings_of_the_simulated_runner_break_no_rule(graph: Any, data: Any) -> None:
    num_stages = data.draw(st.integers(1, graph.num_ops))
    stage_of = BestOrderSolver().solve(Problem.of(graph, num_stages), SolveOptions()).stage_of
    with tempfile.TemporaryDirectory() as folder, open_runner("simulated") as runner:
        job = write_job(
            Path(folder) / "job",
            model="drawn",
            num_stages=num_stages,
            objective="peak-memory",
            solver="best-order",
            stage_of=stage_of,
            profile=profile_constants(load_profile("usb3")),
            files={GRAPH_FILE: graph_to_json(graph).encode()},
        )
        table = BENCHMARKS.table(runner.time(job, TimingPlan(repeats=4, items=6)).rows(job))
    assert table.num_rows == 10
    assert complaints_of(benchmark_checks(table)) == {}


def test_a_real_device_may_be_late() -> None:
    rows = [{**row, "runner": "coral", "is_simulated": False} for row in benchmark_rows(["pipelined"])]
    rows[2]["interval_us"] = 25.0
    assert complaints_of(benchmark_checks(BENCHMARKS.table(rows))) == {}


def test_a_hole_in_the_epochs_is_found() -> None:
    table = spoiled(TRAINING, TRAINING.table(training_rows()), 2, {"epoch": 4})
    assert complaints_of(training_checks(table)) == {"epochs_contiguous": [2]}


# -- the container -----------------------------------------------------------------------------------------------------


def test_domain_columns_check_themselves() -> None:
    with pytest.raises(BadInputError, match="'x' is of type int64"):
        DomainColumns(columns={"x": pa.array([1])})
    with pytest.raises(BadInputError, match="different lengths"):
        DomainColumns(columns={"x": pa.array([True]), "y": pa.array([True, False])})


@pytest.mark.parametrize(
    ("change", "is_good"),
    [
        ({}, True),
        ({"energy_source": None}, False),
        ({"energy_window_us": None}, False),
        ({"mode": "latency", "interval_us": 10.0}, False),
    ],
)
def test_energy_has_a_source_and_a_window_and_a_full_pipeline(change: dict[str, Any], is_good: bool) -> None:
    energy = {"energy_uj_per_inference": 5.0, "energy_window_us": 1e6, "energy_source": "rapl"}
    rows = [{**row, **energy} for row in benchmark_rows(["pipelined"])]
    rows[1] = {**rows[1], **change}
    assert ("energy_whole_or_none" not in complaints_of(benchmark_checks(BENCHMARKS.table(rows)))) == is_good


def test_checks_of_empty_tables_find_nothing() -> None:
    empty = GraphTables(graphs=GRAPHS.table([]), ops=OPS.table([]), tensors=TENSORS.table([]))
    assert complaints_of(graph_checks(empty)) == {}
    assert complaints_of(op_checks(empty.ops, empty.graphs)) == {}
    assert complaints_of(tensor_checks(empty.tensors, empty.graphs)) == {}
    assert complaints_of(label_checks(LABELS.table([]), empty)) == {}
    assert complaints_of(schedule_checks(SCHEDULES.table([]), {})) == {}
    assert complaints_of(benchmark_checks(BENCHMARKS.table([]))) == {}
    assert complaints_of(training_checks(TRAINING.table([]))) == {}
    assert complaints_of(validation_checks(VALIDATION.table([]))) == {}
    assert complaints_of(sweep_checks(SWEEPS.table([]))) == {}


def test_a_larger_graph_has_the_depth_that_is_stored() -> None:
    graph = small_graph("deep", seed=9, num_ops=60)
    tables = graph_tables({"deep": graph})
    assert complaints_of(graph_checks(tables)) == {}
    assert not math.isnan(graph.depth)
