from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from respect_core.errors import BadInputError, CorruptDatasetError, UnwritableError
from respect_core.tables.dataset import Dataset
from respect_core.tables.files import check_writable, write_atomically
from respect_core.tables.table import TableSchema, count, items, real, text

SCHEMA = TableSchema(
    name="things",
    version=1,
    doc="Things for tests.",
    key=("name", "number"),
    columns=(
        text("name", "A name."),
        count("number", "A number."),
        real("weight", "A weight.", nullable=True),
        items("sizes", pa.int16(), "Sizes.", nullable=True),
    ),
)
OTHER = TableSchema(name="others", version=1, doc="Others.", key=("name",), columns=(text("name", "A name."),))

ROWS = [{"name": "a", "number": i, "weight": i / 2 or None, "sizes": [i, 2]} for i in range(5)]


def staged(home: Path, partition: str = "set=x", rows: Any = ROWS, fingerprint: str = "f1") -> tuple[Dataset, Any]:
    dataset = Dataset(home, SCHEMA)
    staging = dataset.stage(partition, fingerprint)
    staging.write(0, SCHEMA.table(rows[:3]))
    staging.write(1, SCHEMA.table(rows[3:]))
    return dataset, staging


def published(home: Path, partition: str = "set=x") -> Dataset:
    dataset, staging = staged(home, partition)
    dataset.publish(staging, {"seed": 0})
    return dataset


def snapshot(dataset: Dataset) -> dict[str, bytes]:
    """Everything a reader may see."""
    root = dataset.root
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def only_part(dataset: Dataset) -> Path:
    return sorted(dataset.data.rglob("*.parquet"))[0]


# -- round trip --------------------------------------------------------------------------------------------------------

values = st.fixed_dictionaries(
    {
        "name": st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
        "number": st.integers(-(2**31), 2**31 - 1),
        "weight": st.one_of(st.none(), st.floats(allow_nan=False)),
        "sizes": st.one_of(st.none(), st.lists(st.integers(-(2**15), 2**15 - 1), max_size=4)),
    }
)


@settings(max_examples=25)
@given(st.lists(st.lists(values, max_size=6), min_size=1, max_size=3))
def test_what_is_published_is_read_back(parts: list[list[dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset(Path(folder), SCHEMA)
        staging = dataset.stage("set=x", "f")
        tables = [SCHEMA.table(rows) for rows in parts]
        for index in reversed(range(len(tables))):
            staging.write(index, tables[index])
        staged_rows = staging.read()
        partition = dataset.publish(staging, {"seed": 3})
        again = Dataset(Path(folder), SCHEMA)
        assert again.partitions() == {"set=x": partition}
        assert again.read("set=x").equals(pa.concat_tables(tables))
        assert again.read("set=x").equals(staged_rows)
        assert again.read("set=x", ["number"]).column_names == ["number"]
        assert SCHEMA.matches(again.read("set=x").schema) is None
        assert partition.rows == sum(map(len, parts))
        assert not staging.folder.exists()
        again.verify()


def test_a_published_dataset_has_its_manifest_and_card_beside_the_data(tmp_path: Path) -> None:
    dataset = published(tmp_path)
    assert sorted(snapshot(dataset)) == [
        "README.md",
        "data/set=x/part-00000.parquet",
        "data/set=x/part-00001.parquet",
        "manifest.json",
    ]
    assert (dataset.root / "README.md").read_text(encoding="utf-8") == SCHEMA.card()
    manifest = json.loads((dataset.root / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["partitions"][0]["facts"] == {"seed": 0}
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(only_part(dataset).stat().st_mode) == 0o666 & ~mask


def test_the_digest_depends_on_content_alone(tmp_path: Path) -> None:
    one, other = (published(tmp_path / name).partition("set=x") for name in "ab")
    assert one.digest == other.digest
    dataset, staging = staged(tmp_path / "c", rows=[{**row, "number": 7} for row in ROWS])
    assert dataset.publish(staging, {}).digest != one.digest


def test_a_partition_is_published_once(tmp_path: Path) -> None:
    published(tmp_path)
    dataset, staging = staged(tmp_path)
    before = snapshot(dataset)
    with pytest.raises(BadInputError, match="'set=x' is published already"):
        dataset.publish(staging, {})
    assert snapshot(dataset) == before


def test_nothing_to_publish_and_unknown_partitions_are_said(tmp_path: Path) -> None:
    dataset = Dataset(tmp_path, SCHEMA)
    with pytest.raises(BadInputError, match="has no part to publish"):
        dataset.publish(dataset.stage("set=x", "f"), {})
    with pytest.raises(BadInputError, match="has no partition 'set=y', published are: none"):
        dataset.read("set=y")


def test_readers_open_all_partitions_as_one_table_so_none_is_named_after_a_column(tmp_path: Path) -> None:
    for partition in ("set=x", "set=y"):
        dataset = published(tmp_path, partition)
    frame = pq.read_table(dataset.data).to_pandas()
    assert len(frame) == 2 * len(ROWS) and set(frame["set"]) == {"x", "y"}
    with pytest.raises(BadInputError, match="named after the column 'name' of table 'things'"):
        dataset.stage("name=x", "f")


def test_a_part_of_another_table_is_refused(tmp_path: Path) -> None:
    staging = Dataset(tmp_path, SCHEMA).stage("set=x", "f")
    with pytest.raises(BadInputError, match=r"'things' cannot be written: it holds table 'others'"):
        staging.write(0, OTHER.table([{"name": "a"}]))
    with pytest.raises(BadInputError, match="non-nullable"):
        staging.write(0, SCHEMA.table([{**ROWS[0], "name": None}]))
    assert staging.parts() == []


# -- resuming ----------------------------------------------------------------------------------------------------------


def test_finished_parts_are_resumed_and_those_of_other_settings_are_not(tmp_path: Path) -> None:
    staged(tmp_path)
    dataset = Dataset(tmp_path, SCHEMA)
    same = dataset.stage("set=x", "f1").finished(0)
    assert same is not None
    assert (same.rows, same.reused) == (3, True)
    staging = dataset.stage("set=x", "f2")
    assert staging.finished(0) is None
    staging.write(0, SCHEMA.table(ROWS))
    assert staging.read().num_rows == len(ROWS)
    partition = dataset.publish(staging, {})
    assert [part.file for part in partition.parts] == ["set=x/part-00000.parquet"]
    dataset.verify()


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", None])
def test_a_damaged_staged_part_is_written_again(tmp_path: Path, content: bytes | None) -> None:
    _, staging = staged(tmp_path)
    path = staging.part_path(0)
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    assert staging.finished(0) is None
    assert staging.parts() == [staging.part_path(1)]


def test_a_staged_part_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    _, staging = staged(tmp_path)
    path = staging.part_path(0)
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)
    path.write_bytes(bytes(content))
    with pytest.raises(CorruptDatasetError, match=r"part-00000\.parquet cannot be read"):
        staging.read()


def test_opening_the_staging_folder_leaves_the_writes_of_others_alone(tmp_path: Path) -> None:
    dataset, staging = staged(tmp_path)

    def open_again(temporary: Path) -> None:
        temporary.write_bytes(b"half")
        dataset.stage("set=x", "f1")
        assert temporary.exists()

    write_atomically(staging.folder / "other.bin", open_again)


# -- kills -------------------------------------------------------------------------------------------------------------

FORKS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
"""Python 3.12 and later warn of forks beside Arrow's threads; Arrow guards its own."""


def _die_at(step: int, die: Callable[[], None], patch: pytest.MonkeyPatch) -> list[int]:
    """Call ``die`` before the ``step``-th rename, replace, unlink or flush; returns the counter of such calls."""
    counter = [0]

    def guarded(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if counter[0] == step:
                die()
            counter[0] += 1
            return function(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink"):
        patch.setattr(Path, name, guarded(getattr(Path, name)))
    patch.setattr(os, "fsync", guarded(os.fsync))
    return counter


def _publish_and_die(home: Path, step: int) -> None:
    dataset = Dataset(home, SCHEMA)
    staging = dataset.stage("set=y", "f1")
    with pytest.MonkeyPatch.context() as patch:
        _die_at(step, lambda: os._exit(9), patch)
        dataset.publish(staging, {})


def _steps_of_publish(home: Path) -> int:
    published(home)
    dataset, staging = staged(home, "set=y")
    with pytest.MonkeyPatch.context() as patch:
        counter = _die_at(-1, lambda: None, patch)
        dataset.publish(staging, {})
    return counter[0]


def _check_recovered(home: Path) -> str:
    """A new run sees whole published partitions, resumes what is staged, and can publish it."""
    dataset = Dataset(home, SCHEMA)
    dataset.verify()
    assert dataset.read("set=x").num_rows == len(ROWS)
    if "set=y" in dataset.partitions():
        dataset.recover()
        outcome = "published"
    else:
        staging = dataset.stage("set=y", "f1")
        assert not (dataset.data / "set=y").exists()
        assert all(staging.finished(index) is not None for index in range(2))
        dataset.publish(staging, {})
        outcome = "resumed"
    assert dataset.read("set=y").num_rows == len(ROWS)
    dataset.verify()
    assert not (dataset.root / "publishing.json").exists()
    assert not list(dataset.data.rglob("*.tmp"))
    return outcome


@FORKS
def test_a_kill_at_any_step_of_publish_loses_nothing(tmp_path: Path) -> None:
    steps = _steps_of_publish(tmp_path / "count")
    assert steps >= 8
    fork = multiprocessing.get_context("fork")
    outcomes = set()
    for step in range(steps):
        home = tmp_path / f"at-{step}"
        published(home)
        staged(home, "set=y")
        child = fork.Process(target=_publish_and_die, args=(home, step))
        child.start()
        child.join(60)
        assert child.exitcode == 9
        outcomes.add(_check_recovered(home))
    assert outcomes == {"published", "resumed"}


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_an_error_at_any_step_of_publish_is_undone_at_once(tmp_path: Path, error: BaseException) -> None:
    steps = _steps_of_publish(tmp_path / "count")
    expected = UnwritableError if isinstance(error, OSError) else KeyboardInterrupt

    failed = 0

    def die() -> None:
        raise error

    for step in range(steps):
        home = tmp_path / f"at-{step}"
        published(home)
        dataset, staging = staged(home, "set=y")
        before = snapshot(dataset)
        with pytest.MonkeyPatch.context() as patch:
            _die_once_at(step, die, patch)
            try:
                dataset.publish(staging, {})
            except expected:
                failed += 1
            else:  # tidying up may fail in silence
                assert "set=y" in dataset.partitions()
        if "set=y" not in dataset.partitions():
            assert snapshot(dataset) == before
        _check_recovered(home)
    assert failed > steps / 2


def _die_once_at(step: int, die: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def once() -> None:
        if not done:
            done.append(step)
            die()

    _die_at(step, once, patch)


def test_a_killed_publish_of_another_partition_does_not_stop_this_one(tmp_path: Path) -> None:
    dataset, staging = staged(tmp_path, "set=a")
    dead = staged(tmp_path, "set=b")[1]
    dataset.data.mkdir(parents=True)
    (dataset.root / "publishing.json").write_text('{"partition": "set=b"}', encoding="utf-8")
    dead.folder.rename(dataset.data / "set=b")
    dataset.publish(staging, {})
    assert list(dataset.partitions()) == ["set=a"]
    assert [path.name for path in dataset.data.iterdir()] == ["set=a"]
    assert dataset.stage("set=b", "f1").finished(1) is not None


def test_recovery_keeps_what_another_run_stages_meanwhile(tmp_path: Path) -> None:
    dataset, staging = staged(tmp_path)
    dataset.data.mkdir(parents=True)
    shutil.copytree(staging.folder, dataset.data / "set=x")
    (dataset.root / "publishing.json").write_text('{"partition": "set=x"}', encoding="utf-8")
    dataset.recover()
    assert not (dataset.data / "set=x").exists()
    assert len(staging.parts()) == 2


# -- damage ------------------------------------------------------------------------------------------------------------


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[6] ^= 0xFF
    path.write_bytes(bytes(content))


def not_parquet(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def add_foreign(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path.with_name("part-00009.parquet"))


def add_foreign_folder(path: Path) -> None:
    (path.parents[1] / "set=z").mkdir()
    (path.parents[1] / "set=z" / "notes.txt").write_text("mine", encoding="utf-8")


def other_table(path: Path) -> None:
    pq.write_table(OTHER.table([{"name": "a"}]), path)


@pytest.mark.parametrize(
    ("damage", "named", "why"),
    [
        (truncate, "part-00000.parquet", "bytes"),
        (flip_a_byte, "part-00000.parquet", "was changed after it was published"),
        (not_parquet, "part-00000.parquet", "not a readable Parquet file"),
        (other_table, "part-00000.parquet", "bytes"),
        (Path.unlink, "part-00000.parquet", "is missing"),
        (add_foreign, "part-00009.parquet", "foreign file"),
        (add_foreign_folder, "notes.txt", "foreign file"),
    ],
)
def test_damage_is_named_and_nothing_is_overwritten(
    tmp_path: Path, damage: Callable[[Path], None], named: str, why: str
) -> None:
    dataset = published(tmp_path)
    _, staging = staged(tmp_path, "set=y")
    damage(only_part(dataset))
    before = snapshot(dataset)
    with pytest.raises(CorruptDatasetError, match=why) as verified:
        dataset.verify()
    assert named in str(verified.value)
    with pytest.raises(CorruptDatasetError, match=why):
        dataset.publish(staging, {})
    assert snapshot(dataset) == before
    assert len(staging.parts()) == 2
    if named == "part-00000.parquet" and damage is not flip_a_byte:
        with pytest.raises(CorruptDatasetError, match=why):
            dataset.read("set=x")


def test_a_foreign_file_of_the_same_size_is_told_by_its_schema(tmp_path: Path) -> None:
    dataset = published(tmp_path)
    path = only_part(dataset)
    other_table(path)
    manifest = json.loads((dataset.root / "manifest.json").read_text(encoding="utf-8"))
    manifest["partitions"][0]["parts"][0]["bytes"] = path.stat().st_size
    (dataset.root / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(CorruptDatasetError, match="does not belong to table 'things': it holds table 'others'"):
        dataset.read("set=x")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"\xff", b'{"format": 1}', b'{"format": 1, "table": "others", "partitions": []}',
     b'{"format": 2, "table": "things", "partitions": []}',
     b'{"format": 1, "table": "things", "partitions": [{"name": "x"}]}'],
)  # fmt: skip
def test_a_damaged_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    dataset = published(tmp_path)
    _, staging = staged(tmp_path, "set=y")
    (dataset.root / "manifest.json").write_bytes(content)
    before = snapshot(dataset)
    with pytest.raises(CorruptDatasetError, match="manifest"):
        dataset.read("set=x")
    with pytest.raises(CorruptDatasetError, match="manifest"):
        dataset.publish(staging, {})
    assert snapshot(dataset) == before


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{}"])
def test_a_damaged_journal_is_named(tmp_path: Path, content: bytes) -> None:
    dataset = published(tmp_path)
    (dataset.root / "publishing.json").write_bytes(content)
    with pytest.raises(CorruptDatasetError, match=r"publishing\.json is damaged"):
        dataset.stage("set=y", "f")


def test_rejected_parts_are_kept_under_names_of_their_own(tmp_path: Path) -> None:
    kept = []
    for _ in range(3):
        dataset, staging = staged(tmp_path)
        kept.append(dataset.reject(staging))
        if len(kept) == 2:
            shutil.rmtree(kept[0])
    assert [path.name for path in kept] == ["set=x-1", "set=x-2", "set=x-1"]
    assert sorted(path.name for path in kept[2].iterdir()) == ["part-00000.parquet", "part-00001.parquet"]
    assert dataset.partitions() == {}


# -- disks that refuse -------------------------------------------------------------------------------------------------


def test_a_full_disk_while_staging_is_said_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = published(tmp_path)
    staging = dataset.stage("set=y", "f1")
    before = snapshot(dataset)

    def full(table: pa.Table, where: Path, **_: Any) -> None:
        where.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(UnwritableError, match=r"No space left on device.*free space or choose --home") as caught:
        staging.write(0, SCHEMA.table(ROWS))
    assert "part-00000.parquet" in str(caught.value)
    assert list(staging.folder.iterdir()) == []
    assert snapshot(dataset) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_really_full_device_is_said(tmp_path: Path) -> None:
    def write(temporary: Path) -> None:
        temporary.symlink_to("/dev/full")
        with temporary.open("wb") as file:
            file.write(b"x" * 100)

    with pytest.raises(UnwritableError, match="No space left"):
        write_atomically(tmp_path / "x", write)
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    home = tmp_path / "file" / "home"
    with pytest.raises(UnwritableError, match="cannot be written"):
        check_writable(home)
    with pytest.raises(UnwritableError, match="cannot be written"):
        Dataset(home, SCHEMA).stage("set=x", "f")
    _, staging = staged(tmp_path / "fine")
    with pytest.raises(UnwritableError, match="cannot be written"):
        Dataset(home, SCHEMA).publish(staging, {})
    assert len(staging.parts()) == 2
    check_writable(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []


# -- several processes -------------------------------------------------------------------------------------------------


def _publish_some(home: Path, name: str, how_many: int, start: Any) -> None:
    start.wait()
    for number in range(how_many):
        dataset, staging = staged(home, f"set={name}{number}")
        dataset.publish(staging, {"by": name})
        dataset.verify()


@FORKS
def test_two_processes_publish_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start = context.Event()
    children = [context.Process(target=_publish_some, args=(tmp_path, name, 8, start)) for name in "ab"]
    for child in children:
        child.start()
    start.set()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0]
    dataset = Dataset(tmp_path, SCHEMA)
    assert sorted(dataset.partitions()) == sorted(f"set={name}{i}" for name in "ab" for i in range(8))
    dataset.verify()
    assert all(dataset.read(name).num_rows == len(ROWS) for name in dataset.partitions())
