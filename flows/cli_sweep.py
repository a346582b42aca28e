"""The command `respect sweep`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from flows.options import HomeOption, JsonOption, SizeOption, print_json, reporting
from respect_core.policy.variants import VARIANTS, chosen_variants

if TYPE_CHECKING:
    from flows.sweep import SweepResult


_NAMES = ", ".join(variant.name for variant in VARIANTS)


@reporting
def sweep(
    size: SizeOption = "smoke",
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=100, help="Training seeds of each variant.")] = 3,
    variant: Annotated[
        list[str] | None, typer.Option("--variant", help=f"Repeatable, all if left out: {_NAMES}.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the training graphs.")] = 0,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Compare variants of the policy's training, several seeds each, on the frozen validation sets."""
    from tasks.home import Home
    from tasks.sizes import get_size

    chosen, names = get_size(size).name, [one.name for one in chosen_variants(variant or [])]
    at = Home.at(home)
    at.prepare_environment()
    from flows.sweep import sweep as run

    result = run(chosen, seeds, names, seed, str(at.path))
    if json:
        print_json(asdict(result))
        return
    how = "reused" if result.published.reused else "published"
    typer.echo(f"{result.published.table}: {result.published.rows} rows {how} as {result.published.partition}")
    _print_table(result)


def _print_table(result: SweepResult) -> None:
    from tasks.sweep_summary import summary_markdown

    text = summary_markdown(result.summary)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        typer.echo(f"\n{text}")
