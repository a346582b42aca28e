"""What `respect split` prints: the stages, the tensors between them, and the JSON object of the same facts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.options import printable
from hardware_runners.compiler import CompiledSegment, Compiler
from respect_core.device import MIB
from respect_core.report.view_loads import StageLoad, boundary_tensors, stage_loads
from respect_core.solve.protocol import result_row
from respect_core.solve.recommend import Candidate, Recommendation
from tasks.split import Split

MOST_TENSORS = 40
"""Boundary tensors that the table for people lists; all of them are in the JSON object."""


def split_facts(
    split: Split,
    row: Mapping[str, Any],
    out: Path,
    compiler: Compiler | None,
    recommendation: Recommendation | None,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Return the keys of ``respect schedule --json``, which ``row`` holds, and what a split adds to them."""
    check = split.verification
    return {
        **row,
        "file": str(split.model.path),
        "out": str(out),
        "order_method": split.memory.method,
        "segments": _segments(split),
        "boundary_tensors": _boundary(split),
        "suits_pipeline": split.pipeline_fault is None,
        "pipeline_fault": split.pipeline_fault,
        "verification": None
        if check is None
        else {
            "identical": True,
            "items": check.num_items,
            "runs": check.num_runs,
            "tensors": check.num_tensors,
            "bytes": check.num_bytes,
            "stateful": check.is_stateful,
            "kernels": check.kernels,
            "runtime": check.runtime,
            "seconds": check.seconds,
        },
        "compiler": None if compiler is None else {"path": str(compiler.path), "version": compiler.version},
        "recommendation": None
        if recommendation is None
        else {
            "num_stages": recommendation.num_stages,
            "why": recommendation.why,
            "candidates": [_candidate(c) for c in recommendation.candidates],
        },
        "notes": list(notes),
    }


def _loads(split: Split) -> tuple[StageLoad, ...]:
    stage_of = split.result.stage_of or ()
    return stage_loads(split.model.graph, stage_of, split.problem.num_stages, split.problem.profile)


def _segments(split: Split) -> list[dict[str, Any]]:
    names = split.model.graph.op_names
    done_of = {done.stage: done for done in split.compiled}
    return [
        {
            "stage": segment.stage,
            "file": segment.file_name,
            "bytes": len(segment.content),
            "sha256": hashlib.sha256(segment.content).hexdigest(),
            "num_ops": len(segment.ops),
            "peak_activation_bytes": peak_bytes,
            "first_op": names[segment.ops[0]],
            "inputs": list(segment.inputs),
            "outputs": list(segment.outputs),
            "param_bytes": load.param_bytes,
            "streamed_bytes": load.streamed_bytes,
            "time_us": load.time_ns / 1000,
            "compute_us": load.compute_ns / 1000,
            "streaming_us": load.streaming_ns / 1000,
            "transfer_us": load.transfer_ns / 1000,
            "compiled": _compiled(done_of.get(segment.stage)),
        }
        for segment, load, peak_bytes in zip(split.segments, _loads(split), split.memory.peak_bytes, strict=True)
    ]


def _compiled(done: CompiledSegment | None) -> dict[str, Any] | None:
    if done is None:
        return None
    return {
        "status": done.status,
        "file": None if done.output is None else done.output.name,
        "log": done.log.name,
        "on_chip_bytes": done.facts.on_chip_bytes,
        "off_chip_bytes": done.facts.off_chip_bytes,
        "edge_tpu_ops": done.facts.edge_tpu_ops,
        "cpu_ops": done.facts.cpu_ops,
        "tries": done.tries,
        "seconds": done.seconds,
        "message": done.message,
    }


def _boundary(split: Split) -> list[dict[str, Any]]:
    graph = split.model.graph
    tensors = boundary_tensors(graph, split.result.stage_of or (), split.problem.profile)
    return [
        {
            "name": graph.tensor_names[tensor.tensor],
            "bytes": tensor.num_bytes,
            "made_in": tensor.made_in,
            "read_in": list(tensor.read_in),
            "cost_us": tensor.cost_ns / 1000,
        }
        for tensor in tensors
    ]


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "num_stages": candidate.num_stages,
        "status": candidate.status,
        "bottleneck_us": None if candidate.bottleneck_ns is None else candidate.bottleneck_ns / 1000,
        "period_us": None if candidate.period_ns is None else candidate.period_ns / 1000,
        "per_second": candidate.per_second,
        "per_second_and_tpu": candidate.per_second_and_tpu,
        "peak_param_bytes": candidate.peak_param_bytes,
        "streamed_bytes": candidate.streamed_bytes,
        "message": candidate.message,
    }


# -- for people -------------------------------------------------------------------------------------------------------


def print_split(split: Split, out: Path, recommendation: Recommendation | None, notes: Sequence[str]) -> None:
    """Print the same as tables."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    if recommendation is not None:
        console.print(_candidate_table(recommendation))
        console.print(printable(f"recommended: {recommendation.why}"))
        console.print()
    row = result_row(split.problem, split.result)
    console.print(
        printable(
            f"{row['model']}: {row['num_ops']} ops over {counted(row['num_stages'], 'stage')}, {row['objective']}, "
            f"{row['device']}, solver {row['solver']}: {row['status']}"
        )
    )
    console.print(_stage_table(split))
    tensors = _boundary(split)
    if tensors:
        console.print(_tensor_table(tensors))
    console.print(
        f"predicted: one item every {row['bottleneck_us'] / 1000:.2f} ms, latency {row['latency_us'] / 1000:.2f} ms"
    )
    console.print(_verified(split))
    for note in notes:
        console.print(printable(f"note: {note}"))
    console.print(printable(f"written to {out}:"), soft_wrap=True)
    for segment in split.segments:
        console.print(printable(f"  {segment.file_name}"), soft_wrap=True)


def _verified(split: Split) -> str:
    check = split.verification
    if check is None:
        return "not verified (--no-verify)"
    state = ", once more after a reset of the state" if check.is_stateful else ""
    return (
        f"verified: {counted(check.num_tensors, 'tensor')} of {counted(check.num_items, 'item')} bit-identical to the "
        f"model's{state} "
        f"({check.runtime}, {check.kernels}, {check.seconds:.2f} s)"
    )


def counted(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number} {what}{'s' * (number != 1)}"


def _table(*headings: str, left: Sequence[str] = ()) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        is_left = heading in left
        table.add_column(heading, justify="left" if is_left else "right", overflow="fold" if is_left else "ellipsis")
    return table


def _stage_table(split: Split) -> Any:
    headings = ["stage", "ops", "parameters", "8 MiB", "streamed", "activations", "time"]
    if split.compiled:
        headings += ["on chip", "off chip", "CPU ops"]
    table = _table(*headings)
    done_of = {done.stage: done for done in split.compiled}
    for segment, load, peak_bytes in zip(split.segments, _loads(split), split.memory.peak_bytes, strict=True):
        cells = [
            str(segment.stage),
            str(len(segment.ops)),
            f"{load.param_bytes / MIB:.3f} MiB",
            f"{load.param_bytes / (8 * MIB):.0%}",
            f"{load.streamed_bytes / MIB:.2f} MiB",
            f"{peak_bytes / MIB:.3f} MiB",
            f"{load.time_ns / 1e6:.2f} ms",
        ]
        if split.compiled:
            cells += _compiled_cells(done_of[segment.stage])
        table.add_row(*cells)
    return table


def _compiled_cells(done: CompiledSegment) -> list[str]:
    if not done.ok:
        return [done.status, "", ""]
    sizes = [done.facts.on_chip_bytes, done.facts.off_chip_bytes]
    cpu = done.facts.cpu_ops
    return [*("?" if size is None else f"{size / MIB:.2f} MiB" for size in sizes), "?" if cpu is None else str(cpu)]


def _tensor_table(tensors: Sequence[dict[str, Any]]) -> Any:
    table = _table("from", "to", "size", "cost", "tensor between stages", left=("tensor between stages",))
    for tensor in tensors[:MOST_TENSORS]:
        table.add_row(
            str(tensor["made_in"]),
            ", ".join(map(str, tensor["read_in"])),
            f"{tensor['bytes'] / 1024:.1f} KiB",
            f"{tensor['cost_us'] / 1000:.2f} ms",
            printable(tensor["name"]),
        )
    if len(tensors) > MOST_TENSORS:
        rest = tensors[MOST_TENSORS:]
        total, cost = sum(t["bytes"] for t in rest), sum(t["cost_us"] for t in rest)
        table.add_row("", "", f"{total / 1024:.1f} KiB", f"{cost / 1000:.2f} ms", f"{len(rest)} more (--json has all)")
    return table


def _candidate_table(recommendation: Recommendation) -> Any:
    table = _table("TPUs", "time an item", "items/s", "a TPU", "peak memory", "streamed", "", left=("",))
    for c in recommendation.candidates:
        mark = "<- best" if c.num_stages == recommendation.num_stages else ""
        if c.period_ns is None:
            table.add_row(str(c.num_stages), c.status, "", "", "", "", mark)
            continue
        table.add_row(
            str(c.num_stages),
            f"{c.period_ns / 1e6:.2f} ms",
            f"{c.per_second or 0:.1f}",
            f"{c.per_second_and_tpu or 0:.1f}",
            f"{(c.peak_param_bytes or 0) / MIB:.3f} MiB",
            f"{(c.streamed_bytes or 0) / MIB:.2f} MiB",
            mark,
        )
    return table
