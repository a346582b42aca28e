"""What `respect order MODEL` prints: one JSON object, or lines for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from flows.options import printable

if TYPE_CHECKING:
    from respect_core.memory.study import OrderStudy
    from tasks.memory_file import OrderedFile

_SHOWN_OPS: Final = 100
"""Longest order that is printed for people."""


def order_facts(asked: dict[str, Any], study: OrderStudy, ops: range, written: OrderedFile | None) -> dict[str, Any]:
    """Return the JSON object of the command.

    ``order`` holds numbers of the model's ops; where something was rewritten, numbers of the rewritten network's ops.
    ``op_names`` are the names in the same order.

    Args:
        asked: `model`, `ops`, `inputs` and `plot` as the user gave them, and the `notes` for the user.
        study: What was found.
        ops: Ops of the model that the study is about.
        written: The file that was written, if one was.
    """
    result, rules = study.result, study.result.rules
    order = list(result.order) if study.num_rewritten else [ops[v] for v in result.order]
    return {
        "model": asked["model"],
        "ops": asked["ops"],
        "num_ops": study.network.num_ops,
        "rules": {
            "concat": rules.concat,
            "elementwise": rules.elementwise,
            "inputs": asked["inputs"],
        },
        "solver": result.solver,
        "solver_version": result.version,
        "status": result.status,
        "peak_bytes": result.peak_bytes,
        "file_order_peak_bytes": result.file_order_peak_bytes,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "solve_seconds": result.solve_seconds,
        "traffic": {
            "on_chip_bytes": study.on_chip_bytes,
            "bytes": study.traffic.total_bytes,
            "file_order_bytes": study.file_order_traffic.total_bytes,
        },
        "rewritten": _rewritten_facts(study),
        "out": None if written is None else _written_facts(written),
        "plot": asked["plot"],
        "notes": asked["notes"],
        "order": order,
        "op_names": [study.ordered.op_names[v] for v in result.order],
    }


def _rewritten_facts(study: OrderStudy) -> dict[str, Any] | None:
    found = study.rewriting
    if found is None:
        return None
    sites = found.rewritten.sites if found.rewritten is not None else ()
    return {
        "peak_bytes_without": found.base.peak_bytes,
        "status_without": found.base.status,
        "possible_concats": found.num_possible,
        "num_ops": study.ordered.num_ops,
        "accumulation": found.accumulation,
        "concats": [
            {"name": s.concat, "channel_wise": list(s.channel_wise), "kernel_wise": list(s.kernel_wise)} for s in sites
        ],
    }


def _written_facts(written: OrderedFile) -> dict[str, Any]:
    check = written.check
    return {
        "path": str(written.path),
        "bytes": written.num_bytes,
        "is_verified": check is not None,
        "is_bit_identical": None if check is None else check.is_bit_identical,
        "largest_error": None if check is None else check.largest_error,
        "tolerance": None if check is None else check.tolerance,
        "kernels": None if check is None else check.kernels,
    }


def print_order(study: OrderStudy, facts: dict[str, Any]) -> None:
    """Print a study for people; ``facts`` are those of `order_facts`."""
    result, rules = study.result, facts["rules"]
    part = f", ops {facts['ops']}" if facts["ops"] else ""
    lines = [
        f"{facts['model']}{part}: {study.network.num_ops} ops; concat {rules['concat']}, elementwise "
        f"{rules['elementwise']}, inputs {rules['inputs']}",
        f"  peak          {result.peak_bytes:>13,} bytes  {result.status} ({result.solver}, "
        f"{result.solve_seconds:.3f} s)",
        f"  order of file {result.file_order_peak_bytes:>13,} bytes"
        + (f"  {study.reduction:.2f} times as much" if study.reduction else ""),
        f"  lower bound   {result.lower_bound:>13,} bytes",
    ]
    if study.rewriting is not None:
        base = study.rewriting.base
        lines.append(
            f"  rewriting     {base.peak_bytes:>13,} bytes without it ({base.status}); {study.num_rewritten} of "
            f"{study.rewriting.num_possible} concatenations taken apart, {study.ordered.num_ops} ops"
        )
    lines.append(
        f"  traffic       {study.traffic.total_bytes:>13,} bytes with {study.on_chip_bytes / 1024:g} KiB on chip, "
        f"{study.file_order_traffic.total_bytes:,} in the order of the file"
    )
    if len(facts["order"]) <= _SHOWN_OPS:
        lines.append("  order         " + " ".join(map(str, facts["order"])))
    out = facts["out"]
    if out is not None:
        how = "not verified"
        if out["is_verified"]:
            how = (
                "bit-identical outputs"
                if out["is_bit_identical"]
                else f"outputs equal within {out['largest_error']:.1e} of {out['tolerance']:.0e}"
            )
        lines.append(f"{out['path']}: {out['bytes']:,} bytes, {how}")
    if facts["plot"] is not None:
        lines.append(f"{facts['plot']}: live activations over time")
    for line in lines:
        typer.echo(printable(line))
    for note in facts["notes"]:
        typer.echo(f"note: {printable(note)}", err=True)
