"""Time to a proven optimum of all components: `exact` against CP-SAT, in one run on the same machine.

    python -m tests.benchmarks.exact_vs_ilp [--objective throughput] [--models ResNet50 ...] [--stages 4 5 6]

CP-SAT gets one worker; its seconds are those of its searches, without building models. `exact` is timed from the
problem to its result, warm, as the median of several runs.
"""

from __future__ import annotations

import argparse
import math
import statistics

from respect_core.objective import OBJECTIVES
from respect_core.solve.exact import ExactSolver
from respect_core.solve.ilp import IlpSolver
from respect_core.solve.protocol import Problem, SolveOptions, Solver, SolveResult
from respect_core.solve.warm_up import warm_up
from respect_core.sources.catalog import IMAGENET_MODELS, load_model

BASELINES = {
    "prefix": lambda: IlpSolver("prefix", hint=False, load_windows=False),
    "assignment": lambda: IlpSolver("assignment", hint=False, load_windows=False),
    "prefix+": lambda: IlpSolver("prefix"),
    "assignment+": lambda: IlpSolver("assignment"),
}
"""Formulations of CP-SAT: one boolean for "in a stage <= k" or for "in stage k"; with +, it starts from the best
order's split and the stages of every op are first narrowed by the loads around it (part of its time)."""


def main() -> None:
    args = _arguments()
    rows = []
    print(f"{'model':20} {'K':>2} {'exact ms':>9}  " + "  ".join(f"{name:>18} s" for name in args.baselines), "  ratio")
    for name in args.models:
        graph = load_model(name)
        for num_stages in args.stages:
            problem = Problem.of(graph, num_stages, args.objective)
            exact, seconds = _median(ExactSolver(), problem, args.time_limit, args.repeats)
            found = {b: _median(BASELINES[b](), problem, args.time_limit, args.ilp_repeats) for b in args.baselines}
            agree = all(r.value == exact.value for r, _ in found.values() if r.status == "optimal")
            proven = {base: s for base, (r, s) in found.items() if r.status == "optimal"}
            slowest = min(proven.values(), default=args.time_limit)
            rows.append((exact.status == "optimal" and agree, seconds, slowest, {b: s for b, (_, s) in found.items()}))
            cells = "  ".join(f"{s:16.3f} {'s' if b in proven else 's*'}" for b, (_, s) in found.items())
            state = exact.status if agree else "VALUES DIFFER"
            ratio = f"{slowest / seconds:8.0f}x"
            print(f"{name:20} {num_stages:2} {1e3 * seconds:9.2f}  {cells}  {ratio}  {state}", flush=True)
    times = [row[1] for row in rows]
    proven_cases = sum(row[0] for row in rows)
    print(f"proven and equal in {proven_cases} of {len(rows)} cases (* not proven in {args.time_limit:g} s)")
    print(f"exact: median {1e3 * statistics.median(times):.2f} ms, slowest {1e3 * max(times):.2f} ms, "
          f"under 2 ms in {sum(t < 0.002 for t in times)} of {len(times)}")  # fmt: skip
    print(f"ratio to the fastest formulation of each case, geometric mean: {_mean([r[2] / r[1] for r in rows]):.0f}x")
    for base in args.baselines:
        print(f"ratio to {base}, geometric mean: {_mean([row[3][base] / row[1] for row in rows]):.0f}x")


def _median(solver: Solver, problem: Problem, time_limit_s: float, repeats: int) -> tuple[SolveResult, float]:
    """Return the first result and the median seconds of several runs; a run that fills the limit is not repeated."""
    options = SolveOptions(time_limit_s=time_limit_s)
    warm_up(solver, problem)
    solver.solve(problem, options) if isinstance(solver, ExactSolver) else None
    results = [solver.solve(problem, options)]
    while len(results) < repeats and results[0].status == "optimal":
        results.append(solver.solve(problem, options))
    return results[0], statistics.median(result.solve_seconds for result in results)


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(IMAGENET_MODELS), metavar="MODEL")
    parser.add_argument("--stages", nargs="+", type=int, default=[4, 5, 6], metavar="K")
    parser.add_argument("--objective", choices=OBJECTIVES, default="peak-memory")
    parser.add_argument("--baselines", nargs="+", choices=BASELINES, default=["prefix", "prefix+"])
    parser.add_argument("--repeats", type=int, default=5, help="runs of exact")
    parser.add_argument("--ilp-repeats", type=int, default=1, help="runs of CP-SAT")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for each run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
