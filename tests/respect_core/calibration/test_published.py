"""Tables of published measurements: what each row becomes, and what a wrong table is refused for."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from respect_core.calibration.model import streamed
from respect_core.calibration.published import COLUMNS, read_measurements
from respect_core.calibration.synthetic_nets import synthetic_layers
from respect_core.device_constants import load_known_profile
from respect_core.errors import InputFileError
from respect_core.sources.catalog import load_model
from respect_core.sources.graph_json import graph_to_json
from tests.conftest import SHARED

ROW = {
    "row_id": "A1", "source": "someone results.csv", "model": "VGG16", "host_link": "x86, USB3.0", "method": "single",
    "metric": "latency", "n_stages": "1", "latency_ms": "296",
}  # fmt: skip


def write(path: Path, *rows: dict[str, str]) -> Path:
    columns = list(dict.fromkeys([*COLUMNS, *(key for row in rows for key in row)]))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.shared
def test_every_timing_row_of_the_published_table_is_used() -> None:
    found = read_measurements(SHARED / "data" / "measurements.csv")
    assert len(found.used) == 250 and not found.skipped
    assert len({row.row for row in found.used}) == 248  # two rows have a latency and a throughput
    assert Counter(row.link for row in found.used) == {"pcie": 246, "usb3": 4}
    assert {row.source for row in found.used if not row.is_link_stated} == {"Jorgitou98/EdgeTPU-QuantRL-Evaluation"}


@pytest.mark.shared
def test_layers_remade_from_names_are_those_of_the_table() -> None:
    """Compiled bytes, MACs, inputs and outputs of every segment, and the streamed bytes that the compiler reported."""
    path = SHARED / "data" / "measurements.csv"
    rows = {row["row_id"]: row for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())}
    constants = load_known_profile("pcie").values()
    checked = 0
    for found in read_measurements(path).used:
        if not found.family.startswith("synthetic"):
            continue
        published = rows[found.row]
        for key, values in (
            ("seg_compiled_bytes", [stage.compiled_mib * 2**20 for stage in found.stages]),
            ("seg_in_bytes", [stage.input_mib * 2**20 for stage in found.stages]),
            ("seg_out_bytes", [stage.output_mib * 2**20 for stage in found.stages]),
        ):
            assert values == pytest.approx([float(x) for x in published[key].strip("[]").split(",")], abs=0.5), key
        assert found.reported_spill_mib is not None
        for stage, spilled in zip(found.stages, found.reported_spill_mib, strict=True):
            assert streamed(stage, constants).spilled_mib == pytest.approx(spilled, rel=0.02, abs=0.03)
        checked += 1
    assert checked == 238


def test_a_row_says_what_it_is(tmp_path: Path) -> None:
    pipeline = ROW | {
        "row_id": "A2", "model": "ResNet-152", "host_link": "", "method": "edgetpu_compiler --num_segments",
        "metric": "latency & pipeline fps (threads)", "n_stages": "4", "latency_ms": "93.5", "throughput_fps": "38.9",
    }  # fmt: skip
    batch = ROW | {
        "row_id": "A3", "model": "synthetic_FC_500", "metric": "ms per inference, batch 50", "n_stages": "2",
        "method": "manual", "seg_cuts_layers": "[0, 2, 5]", "note": "python queue", "seg_off_chip_MiB": "[0.0, 0.0]",
        "latency_ms": "0.46",
    }  # fmt: skip
    found = read_measurements(write(tmp_path / "m.csv", ROW, pipeline, batch)).used
    assert [row.measured for row in found] == ["latency", "latency", "period", "period"]
    assert [row.link for row in found] == ["usb3", "pcie", "pcie", "usb3"]
    assert [row.is_link_stated for row in found] == [True, False, False, True]
    assert [row.host_threads for row in found] == [False, True, True, True]
    assert found[2].time_ms == pytest.approx(1000 / 38.9) and len(found[2].stages) == 4
    assert found[3].batch == 50 and found[3].reported_spill_mib == (0.0, 0.0)
    assert [len(stage.layers) for stage in found[3].stages] == [2, 3]
    assert found[0].stages[0].compiled_mib == pytest.approx(132.0, abs=0.1)


def test_a_user_gives_the_graphs_of_other_models(tmp_path: Path) -> None:
    mine = ROW | {"model": "mine"}
    path = write(tmp_path / "m.csv", mine, ROW | {"model": "Xception", "row_id": "A2", "input": "299"})
    found = read_measurements(path)
    assert [(row.row, "--graphs" in row.why) for row in found.skipped] == [("A1", True)]
    assert found.used[0].facts_from == "op graph (Xception-int8)"
    graph = load_model("ResNet50-int8")
    (tmp_path / "mine.json").write_text(graph_to_json(graph))
    given = read_measurements(path, tmp_path)
    assert not given.skipped and given.used[0].facts_from == "graph given by the user"
    assert given.used[0].stages[0].gmac == pytest.approx(graph.macs.sum() / 1e9)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"metric": "per-segment cold invoke ms"}, "no steady time"),
        ({"n_stages": ""}, "n_stages is not given"),
        ({"latency_ms": ""}, "neither latency_ms nor throughput_fps"),
        ({"n_stages": "3", "method": "manual cut"}, "where 'manual cut' cuts the op graph is not known"),
        ({"model": "synthetic_FC_80", "n_stages": "2", "seg_cuts_layers": "[0, 6, 5]"}, "seg_cuts_layers"),
        ({"model": "synthetic_FC_80", "n_stages": "2", "seg_cuts_layers": "oops"}, "expected 3 bounds from 0 to 5"),
        ({"model": "Xception", "input": "224"}, "Xception-int8 does not take images of 224 pixels"),
        ({"model": "ResNet-50 V1", "n_stages": "900", "method": "edgetpu_compiler"}, "900"),
    ],
)
def test_an_unusable_row_is_skipped_with_the_reason(tmp_path: Path, change: dict[str, str], why: str) -> None:
    found = read_measurements(write(tmp_path / "m.csv", ROW | change))
    assert not found.used and why in found.skipped[0].why


def test_rows_of_sizes_alone_are_not_timings(tmp_path: Path) -> None:
    found = read_measurements(write(tmp_path / "m.csv", ROW | {"role": "segment_bytes"}))
    assert not found.used and not found.skipped


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("row_id,source\n1,2\n", "lacks the column 'model'"),
        ("", "lacks the column 'row_id'"),
        (",".join(COLUMNS) + "\n1,2\n", "line 2 does not have as many fields"),
        (",".join(COLUMNS) + "\nA,s,VGG16,,single,latency,1,fast\n", "row A: latency_ms is 'fast'"),
        (",".join(COLUMNS) + "\nA,s,VGG16,,single,latency,1,-3\n", "row A: latency_ms is '-3'"),
        (",".join(COLUMNS) + "\nA,s,VGG16,,single,latency,1,nan\n", "expected a positive number"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str | bytes, why: str) -> None:
    path = tmp_path / "m.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputFileError, match=why):
        read_measurements(path)
    with pytest.raises(InputFileError, match="cannot be read"):
        read_measurements(tmp_path / "missing.csv")


def test_synthetic_layers_by_hand() -> None:
    """Five dense layers of 100 units: 64 inputs, 10 outputs, 49 360 compiled bytes."""
    layers = synthetic_layers("FC", 100)
    assert len(layers) == 5
    assert sum(facts.compiled_mib for facts, _, _ in layers) * 2**20 == pytest.approx(49_360)
    assert sum(facts.gmac for facts, _, _ in layers) * 1e9 == pytest.approx(37_400)
