"""What `respect order MODEL` does: the order of the ops with the smallest peak of activation memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flows.options import print_json, printable
from flows.order_text import order_facts, print_order
from respect_core.errors import BadInputError, UnknownNameError
from respect_core.graph import DnnGraph
from respect_core.memory.part import op_range, subgraph
from respect_core.memory.rules import MemoryRules
from respect_core.solve.protocol import SolveOptions
from respect_core.sources.catalog import known_models, resolve_model
from respect_core.sources.memory_networks import load_memory_network, memory_networks

if TYPE_CHECKING:
    from respect_core.memory.rewrite_search import RewriteOptions
    from respect_core.memory.study import OrderStudy
    from respect_core.segments.model_file import TfliteModel

INPUTS: Final = ("counted", "streamed")

TFLITE_ENDINGS: Final = frozenset({".tflite", ".lite"})


@dataclass(frozen=True, kw_only=True)
class OrderRequest:
    """The options of the command, as given.

    Raises:
        BadInputError: Options that do not go together, or a value that is not allowed.
    """

    model: str
    ops: str | None = None
    concat: str = "in-place"
    elementwise: str = "separate"
    inputs: str = "counted"
    rewrite: bool = False
    solver: str = "memory-order"
    time_limit: float = 60.0
    seed: int = 0
    on_chip_kib: float = 256.0
    out: Path | None = None
    plot: Path | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if not math.isfinite(self.on_chip_kib):
            raise BadInputError(f"on-chip memory is {self.on_chip_kib} KiB, a finite number of at least 0 is needed")
        if self.inputs not in INPUTS:
            raise BadInputError(f"inputs is {self.inputs!r}, choose from {', '.join(INPUTS)}")
        if self.out is not None and self.ops is not None:
            raise BadInputError(
                "--out writes the whole file and --ops takes a part of it: leave out one of them (the order of a part "
                "does not say how the rest runs; `respect split --cuts` makes a file of a part)"
            )
        if self.out is not None and not _is_tflite(self.model):
            raise BadInputError(f"--out writes a TFLite file in a new order, {self.model!r} is none")
        if self.out is not None and not _is_tflite(self.out.name):
            endings = " or ".join(sorted(TFLITE_ENDINGS))
            raise BadInputError(f"--out {self.out}: the name of a TFLite file ends in {endings}")
        if self.out is not None and self.out.resolve() == Path(self.model).resolve():
            raise BadInputError(f"--out {self.out} is the model itself: choose another file")

    @property
    def rules(self) -> MemoryRules:
        """What counts."""
        return MemoryRules(
            concat=self.concat,  # type: ignore[arg-type]
            elementwise=self.elementwise,  # type: ignore[arg-type]
            count_inputs=self.inputs == "counted",
        )

    @property
    def on_chip_bytes(self) -> int:
        """Room for activations, for the traffic."""
        return int(self.on_chip_kib * 1024)


def order_model(request: OrderRequest, as_json: bool) -> None:
    """Order one network, write what was asked for and print what came of it."""
    from respect_core.memory.profile_plot import check_plot_path
    from respect_core.memory.study import open_order_solver, study_order

    rules, solver = request.rules, open_order_solver(request.solver)
    if request.plot is not None:
        check_plot_path(request.plot)
    whole, file = resolve_network(request.model)
    ops = range(whole.num_ops) if request.ops is None else op_range(request.ops, whole)
    network = whole if request.ops is None else subgraph(whole, ops)
    rewriting, notes = _rewriting(request, file) if request.rewrite else (None, [])
    with _telling(not as_json, network):
        study = study_order(
            network,
            rules,
            SolveOptions(time_limit_s=request.time_limit, seed=request.seed),
            solver=solver,
            rewriting=rewriting,
            on_chip_bytes=request.on_chip_bytes,
        )
    if study.rewriting is not None and study.rewriting.rewritten is None:
        found = study.rewriting.num_possible
        notes.append("rewriting does not lower the peak" if found else "there is no concatenation to take apart")
    written = None
    if request.out is not None and file is not None:
        from tasks.memory_file import write_ordered

        written = write_ordered(file, study, request.out, verify=request.verify, seed=request.seed)
    if request.plot is not None:
        _plot(request, study)
    asked = {
        "model": request.model,
        "ops": request.ops,
        "inputs": request.inputs,
        "plot": None if request.plot is None else str(request.plot),
        "notes": notes,
    }
    facts = order_facts(asked, study, ops, written)
    if as_json:
        print_json(facts)
    else:
        print_order(study, facts)


def resolve_network(name: str) -> tuple[DnnGraph, TfliteModel | None]:
    """Return the graph that a user means, and its file if it is a TFLite file.

    Raises:
        UnknownNameError: It is no known model, no network of `memory_networks` and no path.
        InputFileError: The file cannot be read as what its name ends in.
    """
    if name in memory_networks():
        return load_memory_network(name), None
    if _is_tflite(name):
        from respect_core.segments.model_file import open_model

        file = open_model(name)
        return file.graph, file
    try:
        return resolve_model(name), None
    except UnknownNameError as error:
        ways = "or the path of a graph in JSON (.json) or of a TFLite file (.tflite, .lite)"
        raise UnknownNameError("model", name, (*memory_networks(), *known_models(), ways)) from error


def _is_tflite(name: str) -> bool:
    return Path(name).suffix.lower() in TFLITE_ENDINGS


def _rewriting(request: OrderRequest, file: TfliteModel | None) -> tuple[RewriteOptions, list[str]]:
    """Return what may be rewritten, and what the user should know about it."""
    from respect_core.memory.rewrite_search import RewriteOptions

    if file is None:
        return RewriteOptions(), ["the costs of rewriting only: concatenations are taken to join channels"]
    from respect_core.memory.rewrite_facts import NOT_BIT_EQUAL, beside_joints, concat_layout, is_quantised, refusals

    for_file = request.out is not None
    if for_file:
        from tasks.memory_file import check_rewritable

        check_rewritable(file)
    refused = refusals(file, for_file=for_file)
    how = RewriteOptions(
        accumulation="add" if for_file else "fused", refused=frozenset(refused), layout=concat_layout(file)
    )
    near = beside_joints(file)
    notes = [f"op {name!r} stays as it is: {why}" for name, why in refused.items() if name in near]
    if is_quantised(file):
        notes.append(f"the costs only, no file can be written: {NOT_BIT_EQUAL}")
    elif not for_file:
        notes.append("partial results are counted as summed up in place; a file sums them up by ADD (see with --out)")
    return how, notes


def _telling(enabled: bool, network: DnnGraph) -> Any:
    """Show on a terminal, on stderr, that the search is going on."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not enabled or not console.is_terminal:
        return nullcontext()
    return console.status(printable(f"ordering {network.num_ops} ops of {network.name}"))


def _plot(request: OrderRequest, study: OrderStudy) -> None:
    from respect_core.memory.peak import memory_profile
    from respect_core.memory.profile_plot import Curve, write_profile_plot

    if request.plot is None:
        return
    rules, rewritten = study.result.rules, " and rewriting" if study.num_rewritten else ""
    curves = [
        Curve(name="order of the file", graph=study.network, profile=memory_profile(study.network, None, rules)),
        Curve(
            name=f"{study.result.solver}{rewritten}",
            graph=study.ordered,
            profile=memory_profile(study.ordered, study.result.order, rules),
        ),
    ]
    write_profile_plot(request.plot, f"Live activations of {study.network.name}", curves, study.on_chip_bytes)
