"""Shards of generated graphs: equal to graphs made one by one, checked before they count, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respect_core.errors import BadInputError, QualityError
from respect_core.sources.synthetic import FAMILIES, SyntheticSpec, generate_graph
from respect_core.sources.synthetic_batch import generate_tables
from respect_core.tables.compaction import compact
from respect_core.tables.graph_rows import GraphTables, graphs_to_tables
from respect_core.tables.graphs import GRAPHS
from respect_core.tables.ops import OPS
from respect_core.tables.table import TableSchema
from respect_core.tables.tensors import TENSORS
from tasks import generate
from tasks.generate import GRAPH_SCHEMAS, GraphSet, make_graphs
from tasks.home import Home
from tasks.shards import accept, publish_shards

SPEC = SyntheticSpec(family="paper", num_ops=12, seed=5)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home whose artifacts go nowhere: there is no flow run here."""
    monkeypatch.setattr("tasks.publishing.create_markdown_artifact", lambda *_, **__: None)
    return Home(path=tmp_path / "home")


def graph_set(num_graphs: int = 10, shard_graphs: int = 4) -> GraphSet:
    return GraphSet(spec=SPEC, num_graphs=num_graphs, shard_graphs=shard_graphs)


def publish(home: Home, graphs: GraphSet) -> None:
    publish_shards(home, graphs.sharded, dict(graphs.facts), graphs.rows(graphs.num_graphs))


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


@settings(max_examples=25)
@given(
    st.sampled_from(FAMILIES),
    st.integers(10, 40),
    st.integers(0, 2**32 - 1),
    st.lists(st.one_of(st.integers(0, 50), st.integers(9_999_990, 10_000_010)), min_size=1, max_size=6, unique=True),
)
def test_tables_of_a_batch_equal_those_of_single_graphs(
    family: str, num_ops: int, seed: int, indices: list[int]
) -> None:
    spec = SyntheticSpec(family=family, num_ops=num_ops, seed=seed)
    batch = generate_tables(spec, indices)
    single = graphs_to_tables((generate_graph(spec, index) for index in indices), family)
    for name in GraphTables.__annotations__:
        assert getattr(batch, name).equals(getattr(single, name), check_metadata=True)


def test_graphs_of_one_op_have_no_readers() -> None:
    spec = SyntheticSpec(family="local", num_ops=1, seed=0)
    assert generate_tables(spec, range(3)).tensors.equals(
        graphs_to_tables((generate_graph(spec, index) for index in range(3)), "local").tensors
    )


def test_a_batch_of_nothing_and_an_undrawable_graph_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInputError, match="without the number of any"):
        generate_tables(SPEC, [])
    monkeypatch.setattr("respect_core.sources.synthetic_batch.MOST_DRAWS", 0)
    with pytest.raises(BadInputError, match="paper-12-s5-0000003"):
        generate_tables(SPEC, [3])


def test_shards_become_one_file_with_the_rows_of_single_graphs(home: Home) -> None:
    graphs = graph_set()
    for shard in (2, 0, 1):
        report = accept(graphs.sharded, make_graphs(home, graphs, shard))
        assert report.shard == shard and all(audit.passed for audit in report.audits)
        assert graphs.sharded.is_finished(home, shard)
    publish(home, graphs)
    expected = graphs_to_tables((generate_graph(SPEC, index) for index in range(10)), "paper")
    for schema in GRAPH_SCHEMAS:
        dataset = home.dataset(schema)
        assert len(dataset.partition(graphs.partition).parts) == 1
        assert dataset.read(graphs.partition).equals(getattr(expected, schema.name))
        dataset.verify()
        assert not list((home.path / "staging" / schema.name).iterdir())


def test_a_missing_shard_stops_publishing(home: Home) -> None:
    graphs = graph_set()
    make_graphs(home, graphs, 0)
    make_graphs(home, graphs, 2)
    with pytest.raises(QualityError, match=r"parts.complete.*\[1\]"):
        publish(home, graphs)
    assert home.dataset(GRAPHS).partitions() == {}
    make_graphs(home, graphs, 1)
    publish(home, graphs)
    assert home.dataset(GRAPHS).partition(graphs.partition).rows == 10


def spoil_ops(made: GraphTables) -> GraphTables:
    first = pc.equal(made.ops["op_index"], 0)
    changed = pc.if_else(first, pa.scalar(-1, pa.int64()), made.ops["param_bytes"])
    at = made.ops.column_names.index("param_bytes")
    return GraphTables(
        graphs=made.graphs, ops=made.ops.set_column(at, OPS.arrow.field(at), changed), tensors=made.tensors
    )


def lose_a_graph(made: GraphTables) -> GraphTables:
    lost = made.graphs["graph_id"][-1]
    return GraphTables(**{n: getattr(made, n).filter(pc.not_equal(getattr(made, n)["graph_id"], lost))
                          for n in ("graphs", "ops", "tensors")})  # fmt: skip


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (spoil_ops, "param_bytes.in_range is broken by 4 rows (graph_id paper-12-s5-0000000, op_index 0"),
        (lose_a_graph, "found 3 rows, expected 4"),
        (
            lambda _: generate_tables(SPEC, range(4, 8)),
            "graph_of_this_shard is broken by 4 rows (graph_id paper-12-s5-0000004",
        ),
        (lambda made: GraphTables(graphs=made.graphs, ops=made.ops, tensors=TENSORS.table([])), "not_empty"),
    ],
)
def test_a_shard_that_fails_its_audit_is_named_moved_aside_and_done_again(
    home: Home, monkeypatch: pytest.MonkeyPatch, spoil: Any, told: str
) -> None:
    graphs = graph_set()
    make_graphs(home, graphs, 1)
    with monkeypatch.context() as patch:
        patch.setattr(generate, "generate_tables", lambda *given: spoil(generate_tables(*given)))
        with pytest.raises(QualityError) as caught:
            accept(graphs.sharded, make_graphs(home, graphs, 0))
    assert told in str(caught.value)
    assert "rejected" in str(caught.value.kept_at)
    for schema in GRAPH_SCHEMAS:
        kept = list((home.path / "rejected" / schema.name).rglob("part-00000.parquet"))
        assert len(kept) == 1
    assert not graphs.sharded.is_finished(home, 0)
    assert graphs.sharded.is_finished(home, 1)
    for shard in (0, 2):
        accept(graphs.sharded, make_graphs(home, graphs, shard))
    publish(home, graphs)
    assert home.dataset(OPS).partition(graphs.partition).rows == 120


def test_parts_of_other_settings_do_not_count(home: Home) -> None:
    graphs = graph_set()
    make_graphs(home, graphs, 0)
    staged = graphs.sharded.staging(home, GRAPHS)
    other = home.dataset(GRAPHS).stage(staged.folder.name, "another fingerprint")
    assert staged.finished(0) and not other.finished(0)


def parts_of(tmp_path: Path, counts: list[int]) -> tuple[TableSchema, list[Path], pa.Table]:
    rows = [
        {"graph_id": "g", "op_index": i, "op_name": f"o{i}", "kind": "conv2d", "param_bytes": i, "macs": 0,
         "compiled_bytes": None, "always_streamed_bytes": 0, "time_us": None}
        for i in range(sum(counts))
    ]  # fmt: skip
    table = OPS.table(rows)
    staging = Home(path=tmp_path).dataset(OPS).stage("parts", "f")
    starts = [sum(counts[:i]) for i in range(len(counts))]
    pairs = enumerate(zip(starts, counts, strict=True))
    return OPS, [staging.write(i, table.slice(start, count)).path for i, (start, count) in pairs], table


@pytest.mark.parametrize("counts", [[5], [3, 4, 5], [10, 1, 1, 20], [1] * 9, [0, 3], [7, 0]])
@pytest.mark.parametrize("group_rows", [4, 10_000])
def test_compaction_keeps_the_rows_and_cuts_row_groups(
    tmp_path: Path, counts: list[int], group_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("respect_core.tables.compaction.ROW_GROUP_ROWS", group_rows)
    schema, parts, table = parts_of(tmp_path, counts)
    target = Home(path=tmp_path).dataset(schema).stage("whole", "f")
    compact(parts, target)
    (path,) = target.parts()
    assert target.read().equals(table)
    footer = pq.read_metadata(path)
    groups = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    assert all(rows == group_rows for rows in groups[:-1]) and groups[-1] <= group_rows
    before = path.read_bytes(), path.stat().st_mtime_ns
    compact(parts, target)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_compaction_starts_a_new_file_where_one_is_full_and_drops_what_is_no_part(tmp_path: Path) -> None:
    schema, parts, table = parts_of(tmp_path, [4, 4, 4])
    target = Home(path=tmp_path).dataset(schema).stage("whole", "f")
    target.write(7, table)
    target.write(0, table.slice(0, 2))
    (target.folder / ".half.tmp").write_bytes(b"x")
    compact(parts, target, file_bytes=parts[0].stat().st_size + 1)
    assert [pq.read_metadata(path).num_rows for path in target.parts()] == [8, 4]
    assert target.read().equals(table)
    assert sorted(path.name for path in target.folder.iterdir()) == ["part-00000.parquet", "part-00001.parquet"]
