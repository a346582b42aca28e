"""The command `respect order`: its options; what it does is in `flows.cli_order` and waits until it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.options import HomeOption, JsonOption, SeedOption, SizeOption, reporting


@reporting
def order(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A known model, a network of the papers (SwiftNet-HPD-A, ...), a TFLite file or graph in JSON; "
            "without it, all of the table `memory`."
        ),
    ] = None,
    ops: Annotated[
        str | None, typer.Option("--ops", help="A part: first and last op, both included, such as 5-32.")
    ] = None,
    concat: Annotated[
        str, typer.Option("--concat", help="in-place: a concatenation writes over inputs that die there; or separate.")
    ] = "in-place",
    elementwise: Annotated[
        str, typer.Option("--elementwise", help="in-place: an elementwise op writes over an input that dies.")
    ] = "separate",
    inputs: Annotated[
        str, typer.Option("--inputs", help="counted, or streamed: graph inputs take no room.")
    ] = "counted",
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Take concatenations apart where that lowers the peak.")
    ] = False,
    solver: Annotated[str, typer.Option("--solver", help="memory-order (exact) or serenity.")] = "memory-order",
    time_limit: Annotated[float, typer.Option("--time-limit", min=0, help="Deadline in seconds.")] = 60.0,
    on_chip: Annotated[
        float, typer.Option("--on-chip", min=0, max=2**40, help="On-chip memory in KiB, for the off-chip traffic.")
    ] = 256.0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="TFLite file to write in the new order.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Live activations over time: a page .html or a picture .svg.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Run the model and the new file, which must agree.")
    ] = True,
    size: SizeOption = "smoke",
    seed: SeedOption = 0,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Order the ops of one model for the smallest activation memory; without MODEL, fill the table `memory`."""
    if model is None:
        if ops is not None or out is not None or plot is not None:
            raise typer.BadParameter("needed with --ops, --out and --plot", param_hint="MODEL")
        from flows.cli_flows import run_order

        run_order(size, seed, home, json)
        return
    from flows.cli_order import OrderRequest, order_model

    request = OrderRequest(
        model=model,
        ops=ops,
        concat=concat,
        elementwise=elementwise,
        inputs=inputs,
        rewrite=rewrite,
        solver=solver,
        time_limit=time_limit,
        seed=seed,
        on_chip_kib=on_chip,
        out=out,
        plot=plot,
        verify=verify,
    )
    order_model(request, json)
