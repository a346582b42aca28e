"""The README stays true: its examples are read, its folders exist, its commands and names are the program's."""

from __future__ import annotations

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from flows.cli import app
from respect_core.constraints import NAMED, load_constraints
from respect_core.objective import OBJECTIVES
from respect_core.solve.registry import solver_names
from respect_core.sources.catalog import IMAGENET_MODELS
from respect_core.sources.graph_json import graph_from_json, graph_to_json
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
JSON_BLOCKS = re.findall(r"```json\n(.*?)```", README, re.S)


def test_the_graph_example_is_read_and_round_trips() -> None:
    graph = graph_from_json(JSON_BLOCKS[0])
    assert (graph.name, graph.num_ops, graph.num_tensors) == ("tiny", 2, 3)
    assert graph_to_json(graph_from_json(graph_to_json(graph))) == graph_to_json(graph)


def test_the_constraints_example_is_read(tmp_path: Path) -> None:
    content = json.loads(JSON_BLOCKS[1])
    ops = [{"name": name, "kind": "conv2d", "param_bytes": 1} for name in "abc"]
    graph = graph_from_json(json.dumps({"name": "abc", "ops": ops, "tensors": []}))
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(content))
    found = load_constraints(path, graph)
    assert found.pins and found.same_stage and found.different_stages and found.implications


def test_the_folder_map_names_every_package_and_nothing_else() -> None:
    rows = re.findall(r"^\| `([\w/]+)/` \|", README, re.M)
    for folder in rows:
        assert (ROOT / folder).is_dir(), f"the README lists {folder}/, which is not there"
    packages = {
        str(path.parent.relative_to(ROOT))
        for top in ("respect_core", "hardware_runners", "tasks", "flows")
        for path in (ROOT / top).rglob("__init__.py")
    }
    inside_others = {"respect_core/tables/domain_checks", *(name for name in packages if "hardware_runners/" in name)}
    assert packages - inside_others <= set(rows), f"not in the folder map: {packages - inside_others - set(rows)}"


def test_no_placeholder_is_left_and_the_results_name_every_model() -> None:
    results = README.split("## Results")[1].split("\n## ")[0]
    for model in IMAGENET_MODELS:
        assert f"| {model} |" in results
    assert not re.search(r"\bRESULTS\b|\bTBD\b", README)


def test_make_targets_and_solvers_and_objectives_are_the_programs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)
    for name in (*solver_names(), *OBJECTIVES, *NAMED):
        assert f"`{name}`" in README or f"|{name}" in README or f"{name}|" in README, name


def test_every_command_has_help_and_is_known() -> None:
    for command in re.findall(r"`respect (\w+)", README):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0, command
