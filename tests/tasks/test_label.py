"""Labels in batches: equal to CP-SAT and to solving one by one; what a limit cuts short is no label."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError, QualityError
from respect_core.graph import DnnGraph
from respect_core.solve import label_batches, labelling
from respect_core.solve.exact import ExactSolver
from respect_core.solve.labelling import LabelConfig, label_tables
from respect_core.solve.orders import BestOrderSolver
from respect_core.solve.protocol import Problem, SolveOptions
from respect_core.sources.synthetic import SyntheticSpec, generate_graph
from respect_core.sources.synthetic_batch import generate_tables
from respect_core.tables.domain_checks import label_checks
from respect_core.tables.graph_rows import GraphTables, graphs_to_tables
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.labels import LABEL_TIMINGS, LABELS
from tasks import label
from tasks.generate import GraphSet, make_graphs
from tasks.home import Home
from tasks.label import LabelSet, make_labels, read_shard
from tasks.quality import audit
from tasks.shards import accept, publish_shards
from tests.strategies import graphs

VALUES = ["graph_id", "num_stages", "objective", "status", "canonical", "stage_of", "peak_param_bytes",
          "communication_bytes", "lower_bound", "gap", "baseline_peak_param_bytes",
          "baseline_communication_bytes"]  # fmt: skip


def one_by_one(tables: GraphTables, config: LabelConfig) -> list[dict[str, object]]:
    rows, _ = labelling.label_graphs(labelling.tables_to_graphs(tables), config)
    return LABELS.table(rows).select(VALUES).to_pylist()


@pytest.mark.parametrize("family", ["paper", "local", "wide"])
def test_batches_equal_cp_sat_in_value_and_vector(family: str) -> None:
    tables = generate_tables(SyntheticSpec(family=family, num_ops=20, seed=11), range(12))
    labels, timings = label_tables(tables, LabelConfig())
    assert labels.num_rows == timings.num_rows == 36
    assert labels.select(VALUES).to_pylist() == one_by_one(tables, LabelConfig(solver="ilp"))
    assert set(labels["solver"].to_pylist()) == {"exact"}
    assert set(labels["solver_version"].to_pylist()) == {ExactSolver.version}
    assert audit(LABELS, labels, lambda table: label_checks(table, tables, timings)).passed
    assert audit(LABEL_TIMINGS, timings).passed
    assert pc.min(timings["solve_seconds"]).as_py() > 0


@settings(max_examples=12)
@given(st.lists(graphs(min_ops=1, max_ops=9), min_size=1, max_size=3), st.data())
def test_any_graphs_are_labelled_like_one_by_one(drawn: list[DnnGraph], data: st.DataObject) -> None:
    from dataclasses import replace

    named = [replace(graph, name=f"g{number}") for number, graph in enumerate(drawn)]
    most = min(graph.num_ops for graph in named)
    chosen = data.draw(st.lists(st.integers(1, most), min_size=1, max_size=3, unique=True))
    tables = graphs_to_tables(named)
    config = LabelConfig(num_stages=tuple(chosen))
    labels, timings = label_tables(tables, config)
    assert labels.select(VALUES).to_pylist() == one_by_one(tables, config)
    assert timings.num_rows == len(named) * len(chosen)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(4, 64), st.sampled_from(["local", "wide"]))
def test_the_baseline_is_that_of_the_best_simple_order(index: int, num_ops: int, family: str) -> None:
    spec = SyntheticSpec(family=family, num_ops=num_ops, seed=2)
    graph = generate_graph(spec, index)
    solved = label_batches._solve(
        label_batches.flatten_graphs(generate_tables(spec, [index])), np.array([0]), np.array([2, 4])
    )
    for column, num_stages in enumerate((2, 4)):
        expected = BestOrderSolver().solve(Problem.of(graph, num_stages), SolveOptions())
        assert expected.value == tuple(solved.numbers[2:, column, 0])


def test_what_does_not_fit_a_batch_is_solved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = SyntheticSpec(family="paper", num_ops=70, seed=1), SyntheticSpec(family="paper", num_ops=30, seed=1)
    both = [generate_graph(large, 0), *(generate_graph(small, index) for index in range(4)), generate_graph(large, 1)]
    tables = graphs_to_tables(both, "paper")
    seen: list[str] = []
    honest = labelling.label_graphs

    def watched(left: object, config: LabelConfig) -> object:
        listed = list(left)  # type: ignore[call-overload]
        seen.extend(graph.name for graph in listed)
        return honest(listed, config)

    monkeypatch.setattr(labelling, "label_graphs", watched)
    labels, _ = label_tables(tables, LabelConfig())
    assert labels.num_rows == 18
    assert sorted(seen) == sorted(graph.name for graph in both if graph.num_ops == 70)
    monkeypatch.setattr(label_batches, "MAX_SETS", 8)
    again, _ = label_tables(tables, LabelConfig())
    assert len(set(seen)) > 2
    assert again.select(VALUES).equals(labels.select(VALUES))


def test_more_stages_than_ops_are_refused() -> None:
    tables = generate_tables(SyntheticSpec(family="local", num_ops=4, seed=0), range(3))
    with pytest.raises(BadInputError):
        label_tables(tables, LabelConfig(num_stages=(5,)))
    for odd in ((), (4, 4), (0,)):
        with pytest.raises(BadInputError, match="stages"):
            LabelConfig(num_stages=odd)


@pytest.mark.parametrize("solver", ["exact", "ilp"])
def test_what_a_deadline_cuts_short_has_a_timing_and_no_label(solver: str) -> None:
    tables = generate_tables(SyntheticSpec(family="paper", num_ops=90, seed=0), range(2))
    labels, timings = label_tables(tables, LabelConfig(solver=solver, time_limit_s=0.0))
    assert labels.num_rows < timings.num_rows == 6
    assert set(labels["status"].to_pylist()) <= {"optimal"}


# -- shards ----------------------------------------------------------------------------------------------------


@pytest.fixture
def labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Home, LabelSet]:
    """Published graphs in three shards, and the labels they will have."""
    monkeypatch.setattr("tasks.publishing.create_markdown_artifact", lambda *_, **__: None)
    home = Home(path=tmp_path / "home")
    graphs = GraphSet(spec=SyntheticSpec(family="paper", num_ops=30, seed=1), num_graphs=10, shard_graphs=4)
    for shard in range(3):
        accept(graphs.sharded, make_graphs(home, graphs, shard))
    publish_shards(home, graphs.sharded, dict(graphs.facts), graphs.rows(10))
    return home, LabelSet(graphs=graphs, config=LabelConfig(num_stages=(4, 5)))


def test_a_shard_reads_its_own_graphs_out_of_the_whole_file(labels: tuple[Home, LabelSet]) -> None:
    home, work = labels
    for shard in range(3):
        indices = work.graphs.indices(shard)
        expected = generate_tables(work.graphs.spec, indices)
        found = read_shard(home, work.graphs, shard)
        assert found.graphs.equals(expected.graphs)
        assert found.ops.equals(expected.ops)
        assert found.tensors.equals(expected.tensors)


def test_shards_are_published_together(labels: tuple[Home, LabelSet]) -> None:
    home, work = labels
    for shard in (1, 2, 0):
        accept(work.sharded, make_labels(home, work, shard))
    publish_shards(home, work.sharded, work.facts, {LABEL_TIMINGS.name: 20})
    found = home.dataset(LABELS).read(work.partition)
    whole, _ = label_tables(generate_tables(work.graphs.spec, range(10)), work.config)
    assert found.equals(whole)
    ids = home.dataset(GRAPHS).read(work.graphs.partition)["graph_id"].to_pylist()
    assert found["graph_id"].to_pylist() == [name for name in ids for _ in range(2)]


def test_a_wrong_label_is_named_and_its_shard_moved_aside(
    labels: tuple[Home, LabelSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = labels

    def dishonest(tables: GraphTables, config: LabelConfig) -> object:
        found, timings = label_tables(tables, config)
        rows = found.to_pylist()
        rows[3]["communication_bytes"] += 1
        return LABELS.table(rows), timings

    with monkeypatch.context() as patch:
        patch.setattr(label, "label_tables", dishonest)
        with pytest.raises(QualityError, match=r"communication_recomputed.*paper-30-s1-0000005.*rejected"):
            accept(work.sharded, make_labels(home, work, 1))
    assert not work.sharded.is_finished(home, 1)
    accept(work.sharded, make_labels(home, work, 1))
    assert work.sharded.is_finished(home, 1)
