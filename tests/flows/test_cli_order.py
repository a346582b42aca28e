"""`respect order` as a user and a script see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from flows.cli import app
from respect_core.memory.peak import peak_bytes
from respect_core.sources.graph_json import graph_to_json
from respect_core.sources.tflite import read_tflite
from tests.conftest import SHARED
from tests.float_models import FloatModel
from tests.memory_graphs import graph_of
from tests.tflite_models import SMALL_CNN, write_model

RUNNER = CliRunner()
SWIFTNET = SHARED / "data" / "models" / "swiftnet_hpd_uint8.lite"

KEYS = {
    "model", "ops", "num_ops", "rules", "solver", "solver_version", "status", "peak_bytes", "file_order_peak_bytes",
    "lower_bound", "gap", "solve_seconds", "traffic", "rewritten", "out", "plot", "notes", "order", "op_names",
}  # fmt: skip


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: object) -> Any:
    return RUNNER.invoke(app, ["order", *map(str, args)])


def facts_of(*args: object) -> dict[str, Any]:
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    facts: dict[str, Any] = json.loads(result.stdout)
    assert set(facts) == KEYS
    return facts


def error_of(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 2, result.stdout
    assert isinstance(result.exception, SystemExit)
    return " ".join(result.stderr.split())


def cell(name: str = "net.tflite") -> Path:
    """A float network whose peak is where two joined tensors are convolved."""
    net = FloatModel(np.random.default_rng(0))
    image = net.given(2, "image")
    parts = [net.conv(image, 12, activation=1) for _ in range(4)]
    path = Path(name)
    path.write_bytes(write_model(net.model(net.conv(net.concat(*parts, name="joined"), 2, kernel=3, name="out"))))
    return path


@pytest.mark.shared
@pytest.mark.parametrize(
    ("ops", "concat", "peak", "file_order"),
    [
        ("5-32", "in-place", 250_880, 351_232),
        ("34-56", "in-place", 81_536, 128_576),
        ("58-81", "in-place", 32_536, 35_868),
        ("5-32", "separate", 275_968, 351_232),
        ("34-56", "separate", 122_304, 147_392),
        ("58-81", "separate", 53_900, 53_900),
        (None, "in-place", 301_056, 351_232),
        (None, "separate", 301_056, 351_232),
    ],
)
def test_swiftnet(ops: str | None, concat: str, peak: int, file_order: int) -> None:
    facts = facts_of(SWIFTNET, "--concat", concat, *(("--ops", ops) if ops else ()))
    assert (facts["peak_bytes"], facts["file_order_peak_bytes"], facts["status"]) == (peak, file_order, "optimal")
    assert facts["lower_bound"] == peak
    assert facts["gap"] == 0
    first, last = map(int, ops.split("-")) if ops else (0, 84)
    assert sorted(facts["order"]) == list(range(first, last + 1))
    names = read_tflite(SWIFTNET).op_names
    assert facts["op_names"] == [names[v] for v in facts["order"]]
    assert facts["solve_seconds"] < 10


@pytest.mark.shared
def test_a_quantised_file_is_reordered_bit_identically_and_not_rewritten() -> None:
    facts = facts_of(SWIFTNET, "--out", "new.lite")
    assert facts["out"]["is_bit_identical"] is True
    again = facts_of("new.lite")
    assert again["peak_bytes"] == again["file_order_peak_bytes"] == facts["peak_bytes"] == 301_056
    said = error_of(SWIFTNET, "--rewrite", "--out", "other.lite")
    assert "does not join FLOAT32 tensors; rewriting an 8-bit model would not be bit-equal" in said
    assert not Path("other.lite").exists()
    costs = facts_of(SWIFTNET, "--rewrite", "--ops", "34-56")
    assert costs["peak_bytes"] < 72_128 < costs["rewritten"]["peak_bytes_without"] == 81_536
    assert any("no file can be written: rewriting an 8-bit model" in note for note in costs["notes"])


def test_a_float_file_is_rewritten_and_computes_the_same() -> None:
    costs = facts_of(cell(), "--rewrite")
    assert costs["rewritten"]["accumulation"] == "fused"
    assert [site["name"] for site in costs["rewritten"]["concats"]] == ["joined"]
    assert costs["rewritten"]["concats"][0]["channel_wise"] == ["out"]
    facts = facts_of("net.tflite", "--rewrite", "--out", "new.tflite")
    assert facts["rewritten"]["accumulation"] == "add"
    assert costs["peak_bytes"] <= facts["peak_bytes"] < facts["rewritten"]["peak_bytes_without"]
    assert facts["out"]["is_verified"]
    assert facts["out"]["largest_error"] <= facts["out"]["tolerance"] == 1e-4
    back = facts_of("new.tflite")
    assert back["file_order_peak_bytes"] == facts["peak_bytes"] == back["peak_bytes"]
    assert back["num_ops"] == len(facts["order"])
    assert "concat" not in read_tflite("new.tflite").op_kinds
    unverified = facts_of("net.tflite", "--rewrite", "--out", "new.tflite", "--no-verify")
    assert unverified["out"]["is_verified"] is False


def test_what_is_printed_for_people_and_drawn() -> None:
    result = run(cell(), "--rewrite", "--plot", "profile.svg", "--out", "new.tflite")
    assert result.exit_code == 0, result.stderr
    for said in ("peak", "order of file", "lower bound", "1 of 1 concatenations taken apart", "outputs equal within"):
        assert said in result.stdout
    picture = Path("profile.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg") and "order of the file: peak" in picture
    assert run("net.tflite", "--plot", "profile.html").exit_code == 0
    page = Path("profile.html").read_text(encoding="utf-8")
    assert "Plotly.newPlot" in page and 'http-equiv="Content-Security-Policy"' in page
    assert sorted(path.name for path in Path().iterdir()) == ["net.tflite", "new.tflite", "profile.html", "profile.svg"]


def test_rules_solvers_and_room() -> None:
    path = cell()
    streamed, counted = facts_of(path, "--inputs", "streamed"), facts_of(path)
    assert streamed["peak_bytes"] <= counted["peak_bytes"]
    assert streamed["rules"] == {"concat": "in-place", "elementwise": "separate", "inputs": "streamed"}
    serenity = facts_of(path, "--solver", "serenity")
    assert (serenity["solver"], serenity["peak_bytes"]) == ("serenity", counted["peak_bytes"])
    assert facts_of(path, "--on-chip", 0)["traffic"]["bytes"] > 0
    assert facts_of(path, "--on-chip", 1000)["traffic"] == {
        "on_chip_bytes": 1_024_000,
        "bytes": 0,
        "file_order_bytes": 0,
    }
    assert facts_of(path, "--time-limit", 0)["status"] in ("optimal", "feasible")


def test_known_models_and_networks_of_the_papers() -> None:
    assert facts_of("SwiftNet-HPD-C")["peak_bytes"] == 32_536
    assert facts_of("MobileNetV2")["status"] == "optimal"
    assert "SwiftNet-HPD-A" in error_of("SwiftNet-HPD-Z")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("--ops", "5"), "are not a range; write the first and the last op, such as 5-32"),
        (("--ops", "five-nine"), "are not a range"),
        (("--ops", "3-1"), "first <= last"),
        (("--ops", "0-99"), "whose ops are 0-4"),
        (("--ops", "-1-3"), "are not a range"),
        (("--concat", "inplace"), "concat is 'inplace', choose from in-place, separate"),
        (("--elementwise", "no"), "elementwise is 'no'"),
        (("--inputs", "no"), "inputs is 'no', choose from counted, streamed"),
        (("--solver", "exact"), "choose from memory-order, serenity"),
        (("--plot", "p.png"), "its name ends in .html or .svg"),
        (("--time-limit", "-1"), "--time-limit"),
        (("--on-chip", "-1"), "--on-chip"),
        (("--on-chip", "nan"), "--on-chip"),
        (("--time-limit", "nan"), "--time-limit"),
        (("--time-limit", "inf"), "time limit is inf s, a finite number"),
        (("--ops", "0-2", "--out", "o.tflite"), "--ops takes a part of it"),
        (("--out", "net.tflite"), "is the model itself"),
        (("--out", "net.json"), "the name of a TFLite file ends in .lite or .tflite"),
        (("--ops", "5-4"), "are no range of graph"),
        (("--ops", "99-100"), "are no range of graph"),
        (("--ops=-1",), "write the first and the last op"),
        (("--out", "net.tflite/o.tflite", "--no-verify"), "cannot be written"),
        (("--plot", "net.tflite/o.svg"), "cannot be written"),
    ],
)
def test_bad_options(args: tuple[str, ...], why: str) -> None:
    Path("net.tflite").write_bytes(write_model(SMALL_CNN))
    said = error_of("net.tflite", *args)
    assert why in said
    assert [path.name for path in Path().iterdir()] == ["net.tflite"]


def test_bad_models() -> None:
    assert "No such file" in error_of("none.tflite")
    Path("odd.tflite").write_bytes(b"x" * 99)
    assert "is not a TFLite file" in error_of("odd.tflite")
    graph = json.loads(graph_to_json(graph_of([1, 2], [[], [0]])))
    graph["tensors"][1]["consumers"] = [graph["ops"][0]["name"]]
    Path("cyclic.json").write_text(json.dumps(graph), encoding="utf-8")
    assert "cycle" in error_of("cyclic.json")
    assert "writes a TFLite file in a new order, 'cyclic.json' is none" in error_of("cyclic.json", "--out", "o.tflite")
    assert run("--ops", "1-2").exit_code == 2


def written(graph: Any, name: str = "graph.json") -> str:
    Path(name).write_text(graph_to_json(graph), encoding="utf-8")
    return name


def test_extreme_graphs() -> None:
    chain = graph_of([3] * 2000, [[], *([v] for v in range(1999))])
    facts = facts_of(written(chain))
    assert (facts["peak_bytes"], facts["status"], facts["order"]) == (6, "optimal", list(range(2000)))
    lone = facts_of(written(graph_of([5, 7, 0], [[], [], []])), "--rewrite")
    assert (lone["peak_bytes"], lone["status"]) == (12, "optimal")
    wide = graph_of([4, *([1] * 400)], [[], *([[0]] * 400)])
    assert facts_of(written(wide))["peak_bytes"] == 404
    empty = facts_of(written(graph_of([0, 0], [[], [0]])))
    assert (empty["peak_bytes"], empty["gap"]) == (0, 0)
    several = graph_of([4, 2, 3], [[], [0], [0]], outputs=[0, 1, 2])
    assert facts_of(written(several))["peak_bytes"] == 9


def test_an_order_of_a_part_names_ops_of_the_whole() -> None:
    graph = graph_of([9, 1, 9, 1, 1], [[], [0], [], [2], [1, 3]])
    facts = facts_of(written(graph), "--ops", "1-4")
    assert sorted(facts["order"]) == [1, 2, 3, 4]
    assert facts["op_names"] == [f"op{v}" for v in facts["order"]]


def test_why_something_stays_is_said() -> None:
    net = FloatModel(np.random.default_rng(0))
    image = net.given(4)
    joined = net.concat(net.conv(image, 4), net.conv(image, 4))
    other = net.conv(net.conv(image, 8), 4, groups=2, name="elsewhere")
    Path("net.tflite").write_bytes(write_model(net.model(net.conv(joined, 4, groups=2, name="grouped"), other)))
    facts = facts_of("net.tflite", "--rewrite", "--out", "new.tflite")
    assert facts["rewritten"]["concats"] == []
    assert facts["out"]["is_bit_identical"] is True
    assert facts["notes"] == [
        "op 'grouped' stays as it is: it has groups: its filters take 4 of 8 channels",
        "there is no concatenation to take apart",
    ]
    assert facts_of("SwiftNet-HPD", "--rewrite")["notes"][-1] == "rewriting does not lower the peak"


@pytest.mark.shared
def test_segments_of_a_split_are_ordered() -> None:
    peaks = {}
    for how in ("file", "memory"):
        args = ["split", str(SWIFTNET), "--stages", "2", "--cuts", "maxpool_pre2/max_pooling2d/MaxPool", "--out", how]
        result = RUNNER.invoke(app, [*args, "--any-runner", "--no-compile", "--order", how, "--json"])
        assert result.exit_code == 0, result.stderr
        facts = json.loads(result.stdout)
        assert facts["verification"]["identical"] is True
        assert (facts["order_method"] is None) == (how == "file")
        peaks[how] = [segment["peak_activation_bytes"] for segment in facts["segments"]]
        files = [read_tflite(Path(how) / segment["file"]) for segment in facts["segments"]]
        assert [peak_bytes(graph) for graph in files] == peaks[how]
    assert peaks == {"file": [301_056, 351_232], "memory": [301_056, 250_880]}
    result = RUNNER.invoke(app, ["split", str(SWIFTNET), "--stages", "2", "--out", "x", "--order", "best"])
    assert result.exit_code == 2
    assert "order is 'best', choose from file, memory" in result.stderr
