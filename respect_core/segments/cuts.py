"""Splits by hand: the ops at which a new stage starts, in the order of the file."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from respect_core.errors import BadInputError
from respect_core.graph import DnnGraph
from respect_core.json_text import shown
from respect_core.schedule import first_violation
from respect_core.solve.protocol import Problem, SolveOptions, SolveResult, Stopwatch, result_of


def cut_names(values: Sequence[str], graph: DnnGraph) -> tuple[str, ...]:
    """Return the op names of a list of names separated by commas; a name that holds a comma itself is found too.

    Args:
        values: Texts such as ``a,b`` or ``a, b``.
        graph: The graph whose ops they name.

    Raises:
        BadInputError: There is nothing before, between or after commas.
    """
    known = set(graph.op_names)
    names: list[str] = []
    for value in values:
        parts = [value] if value in known else value.split(",")
        names += [part if part in known else part.strip() for part in parts]
        if not all(names):
            raise BadInputError(f"the cuts {value!r} lack the name of an op: give them as a,b,...")
    return tuple(names)


def stages_of_cuts(graph: DnnGraph, cuts: Sequence[str]) -> tuple[int, ...]:
    """Start a new stage at each of the named ops: everything from it on, in the order of the file, is in that stage.

    Args:
        graph: The graph of a TFLite file: its ops are in the order of the file, which is a topological one.
        cuts: Names of K - 1 ops, in the order of the file.

    Returns:
        The stage of every op, in 0..K-1: as legal as precedence and non-empty stages go. Shape (n,).

    Raises:
        BadInputError: An op does not exist, is the first of all, comes twice or before the one named before it.
    """
    index = {name: v for v, name in enumerate(graph.op_names)}
    starts: list[int] = []
    for name in cuts:
        if name not in index:
            close = get_close_matches(name, graph.op_names, n=3, cutoff=0.5)
            hint = f", did you mean {' or '.join(map(shown, close))}?" if close else ""
            raise BadInputError(
                f"{graph.name!r} has no op {shown(name)} to cut at{hint} (ops are called after their first output)"
            )
        start = index[name]
        if start == 0:
            raise BadInputError(f"a cut at op {shown(name)}, the first of {graph.name!r}, leaves stage 0 without ops")
        if starts and start <= starts[-1]:
            before = graph.op_names[starts[-1]]
            why = "is named twice" if start == starts[-1] else f"comes before op {shown(before)} in the file"
            raise BadInputError(f"op {shown(name)} {why}: cuts are ops in the order of the file, each once")
        starts.append(start)
    return tuple(sum(v >= start for start in starts) for v in range(graph.num_ops))


class CutsSolver:
    """The user's cuts as a solver; it knows neither objective nor constraints."""

    name = "cuts"
    version = "1"

    def __init__(self, cuts: Sequence[str]) -> None:
        self._cuts = tuple(cuts)

    def solve(self, problem: Problem, options: SolveOptions) -> SolveResult:
        """Return the schedule of the cuts, or `timeout` with the reason where it breaks the problem's constraints.

        Raises:
            BadInputError: As `stages_of_cuts`, or the cuts make another number of stages than the problem has.
        """
        watch = Stopwatch(options.time_limit_s)
        stage_of = stages_of_cuts(problem.graph, self._cuts)
        if problem.num_stages != len(self._cuts) + 1:
            raise BadInputError(f"{len(self._cuts)} cuts make {len(self._cuts) + 1} stages, not {problem.num_stages}")
        broken = first_violation(problem.graph, stage_of, problem.num_stages, problem.constraints)
        return result_of(
            self,
            problem,
            None if broken else stage_of,
            status="timeout" if broken else "feasible",
            solve_seconds=watch.seconds,
            message=broken or "",
        )
