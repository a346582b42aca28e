"""The folder `datasets`: its snippets run, its cards agree with the data, and there is no Python in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from respect_core.sources import synthetic
from respect_core.sources.catalog import EXTRA_MODELS, IMAGENET_MODELS, int8_models, load_model

ROOT = Path(__file__).resolve().parents[3]
DATASETS = ROOT / "datasets"
SNIPPETS = re.findall(r"```python\n(.*?)```", (DATASETS / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize(
    ("library", "shown"),
    [("duckdb", "param_bytes"), ("pandas", "conv_7b"), ("pyarrow", "177 Ascending `op_index` of the ops")],
)
def test_a_snippet_runs(
    library: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(library)
    (snippet,) = [text for text in SNIPPETS if f"import {library}" in text]
    monkeypatch.chdir(ROOT)
    exec(compile(snippet, f"datasets/README.md ({library})", "exec"), {})
    assert shown in capsys.readouterr().out


def test_every_snippet_is_run() -> None:
    assert len(SNIPPETS) == 3


def test_duckdb_sees_the_published_sizes() -> None:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql(f"""
        select graph_id, count(*), sum(param_bytes) from '{DATASETS}/imagenet/ops.parquet'
        where not ends_with(graph_id, '-notop') group by all
    """).fetchall()
    assert {name: (ops, size) for name, ops, size in found} == {
        name: (load_model(name).num_ops, int(load_model(name).param_bytes.sum()))
        for name in IMAGENET_MODELS + EXTRA_MODELS
    }


def test_the_card_of_the_models_agrees_with_the_data() -> None:
    card = (DATASETS / "cards" / "imagenet.md").read_text(encoding="utf-8")
    for name in IMAGENET_MODELS + EXTRA_MODELS:
        graph, notop = load_model(name), load_model(f"{name}-notop")
        row = [name, graph.num_ops, graph.max_in_degree, graph.depth, graph.param_bytes.sum(), graph.macs.sum()]
        row += [notop.num_ops, notop.param_bytes.sum()]
        assert f"| {' | '.join(map(str, row))} |\n" in card
    for name in int8_models():
        graph = load_model(name)
        row = [name, graph.num_ops, graph.max_in_degree, graph.depth, graph.param_bytes.sum(), graph.macs.sum()]
        assert f"| {' | '.join(map(str, row))} |\n" in card
    for link in re.findall(r"\]\((.*?)\)", card):
        assert (DATASETS / "cards" / link).is_file()


def test_the_card_of_synthetic_graphs_agrees_with_the_generator() -> None:
    card = (DATASETS / "cards" / "synthetic.md").read_text(encoding="utf-8")
    assert all(f"| `{family}` |" in card for family in synthetic.FAMILIES)
    assert f"{synthetic.FEWEST_LEVELS}-{synthetic.MOST_LEVELS} ops" in card
    assert f"the previous {synthetic.WINDOW} " in card
    assert f"MACs: {synthetic.MACS_PER_BYTE} for each" in card
    assert f"after {synthetic.MOST_DRAWS:,}".replace(",", " ") in card


def test_it_is_data_only() -> None:
    committed = [DATASETS / "README.md", *(DATASETS / "cards").rglob("*"), *(DATASETS / "imagenet").rglob("*")]
    assert {path.suffix for path in committed if path.is_file()} == {".md", ".parquet"}
    assert not list(DATASETS.glob("*.py"))
