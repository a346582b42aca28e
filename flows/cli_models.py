"""What `respect models` does: list the known models, build TFLite files of them, and split all of them."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.options import HomeOption, JsonOption, SeedOption, SizeOption, print_json, reporting

if TYPE_CHECKING:
    from tasks.models import BuildResult

models_app = typer.Typer(
    name="models", help="Known models: list them, build TFLite files of them, split all.", no_args_is_help=True
)

OutOption = Annotated[
    Path | None, typer.Option("--out", help="Folder of the files.", show_default="`models` of the home folder")
]


@models_app.command("list")
@reporting
def list_models(out: OutOption = None, home: HomeOption = None, json: JsonOption = False) -> None:
    """List the known models: what their graphs come from, ops, bytes, and whether the TFLite file is built."""
    rows = _rows(out or _models_folder(home))
    if json:
        print_json({"models": rows})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("model", "source"):
        table.add_column(heading)
    for heading in ("ops", "parameters", "file"):
        table.add_column(heading, justify="right")
    for row in rows:
        file = {None: "", False: "not built", True: f"{row['file_bytes'] or 0:,} B"}[row["is_built"]]
        table.add_row(row["model"], row["source"], str(row["num_ops"]), f"{row['param_bytes']:,} B", file)
    Console(markup=False, highlight=False, emoji=False).print(table)


@models_app.command()
@reporting
def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="ResNet50-int8 or ResNet50, ..., small-int8; without it, all."),
    ] = None,
    out: OutOption = None,
    anew: Annotated[bool, typer.Option("--anew", help="Build also what is there already.")] = False,
    graphs: Annotated[
        Path | None,
        typer.Option("--graphs", help="Also write the op graphs of all int8 models as tables into this folder."),
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Build int8 TFLite files of known models: random weights, the same bytes on every run.

    All but small-int8 need the extra `tensorflow`, up to 8 GB of memory and up to a minute each.
    """
    from respect_core.sources.catalog import int8_models
    from respect_core.sources.model_folder import int8_name

    wanted = list(dict.fromkeys(map(int8_name, names or int8_models())))
    if graphs is not None and set(wanted) != set(int8_models()):
        raise typer.BadParameter("the tables hold all models: give no NAME", param_hint="--graphs")
    results = _build(out or _models_folder(home), wanted, anew)
    if graphs is not None:
        from respect_core.sources.keras_models import write_int8_graphs

        write_int8_graphs(graphs, [result.path for result in results])
    if json:
        print_json({"models": [_entry(result) for result in results], "graphs": str(graphs) if graphs else None})
        return
    for result in results:
        typer.echo(f"{result.path}: {result.model.num_ops} ops, {result.model.bytes:,} B")


@models_app.command("split")
@reporting
def split_models(
    size: SizeOption = "smoke", seed: SeedOption = 0, home: HomeOption = None, json: JsonOption = False
) -> None:
    """Split the models for K = 4, 5, 6, verify and record the segments (builds the models if they are missing)."""
    from flows.cli_flows import run_split

    run_split(size, seed, home, json)


def _models_folder(home: Path | None) -> Path:
    from tasks.home import Home

    return Home.at(home).models


def _build(folder: Path, names: list[str], anew: bool) -> list[BuildResult]:
    """Build with a bar on stderr: the models that are done, which one is being built, and for how long."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from tasks.models import build_models

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    results = []
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(names))
        begun = time.perf_counter()

        def starting(name: str) -> None:
            nonlocal begun
            begun = time.perf_counter()
            progress.update(bar, description=name)

        for result in build_models(folder, names, anew=anew, starting=starting, say=console.print):
            how = "was there" if result.was_there else f"built in {time.perf_counter() - begun:.1f} s"
            console.print(f"{result.model.name}: {how}")
            results.append(result)
            progress.advance(bar)
    return results


def _entry(result: BuildResult) -> dict[str, Any]:
    return {**asdict(result.model), "path": str(result.path), "was_there": result.was_there}


def _rows(folder: Path) -> list[dict[str, Any]]:
    from respect_core.sources.catalog import int8_models, known_models, load_model
    from respect_core.sources.model_folder import ModelFolder

    built = ModelFolder(folder)
    rows = []
    for name in known_models():
        graph = load_model(name)
        has_file = name in int8_models()
        model = built.find(name, thoroughly=False) if has_file else None
        rows.append(
            {
                "model": name,
                "source": graph.source,
                "num_ops": graph.num_ops,
                "param_bytes": int(graph.param_bytes.sum()),
                "is_built": model is not None if has_file else None,
                "file_bytes": model.bytes if model else None,
                "sha256": model.sha256 if model else None,
                "path": str(built.file(name)) if model else None,
            }
        )
    return rows
